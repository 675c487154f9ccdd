"""Count the cases by domain and tag, and write README.md with the counts.

Run it from anywhere with `python data/cases/make_readme.py` after cases have changed; a test compares.
Not here: loading and scoring cases (`toolkit.evaluation`).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MEANS = {
    "plain": "one call, two tools to choose from",
    "choice": "one call, three to five tools to choose from",
    "parallel": "two to four calls in one reply",
    "optional": "arguments that may be left out: some given, some not",
    "nested": "objects or lists in the arguments",
    "context": "several messages; what is needed stands in an earlier one",
    "multilingual": "asked in another language than English",
    "abstain": "the right thing is no call, for one of these reasons:",
    "small_talk": "nothing is asked for",
    "out_of_scope": "no tool can do it, or general knowledge answers it",
    "about_tools": "a question about the tools themselves",
    "missing": "a required argument is unknown, so the model should ask",
    "answered": "the answer is already in the conversation",
    "declined": "the user says that nothing should be done",
    "demo": "easy ones, balanced over the domains, for `make demo`",
}
HEAD = """\
# Cases

What is asked, and what would be right. Written for this project, in four domains that each have their own tools.

One line of `NAME.jsonl` is one case; `NAME.tools.json` beside it holds the tools it may name.

```json
{example}
```

- `messages` end where the model's turn begins. A call in the history and its result are written as on OpenAI's wire.
- `tools` are names from the sidecar, or whole tools. A case offers two to five.
- `expect` is `{{"calls": [...]}}`, in any order, or `{{"no_call": true}}`.
- Expected values are plain JSON, compared without regard to case, runs of blanks, and `3` or `3.0`; or a matcher:
  `{{"$any_of": [A, B]}}`, `{{"$contains": "text"}}` (any case), `{{"$regex": "…"}}`,
  `{{"$approx": 3.2, "within": 0.01}}`, `{{"$any": true}}`, `{{"$optional": VALUE}}` (may be missing).
- An argument that is not listed is wrong unless it equals the default in the tool's schema.

The counts below are written by `make_readme.py`.

"""


def read() -> dict[str, list[dict[str, Any]]]:
    """Return the cases of each domain."""
    files = sorted(HERE.glob("*.jsonl"))
    return {file.stem: [json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files}


def table(domains: dict[str, list[dict[str, Any]]]) -> str:
    """Return the counts as a Markdown table: one row a tag, one column a domain."""
    counts = {name: Counter(tag for case in cases for tag in case["tags"]) for name, cases in domains.items()}
    rows = [("tag", "what it asks for", *domains, "all"), ("---", "---", *["--:"] * (len(domains) + 1))]
    for tag, meaning in MEANS.items():
        numbers = [counts[name][tag] for name in domains]
        rows.append((f"`{tag}`", meaning, *numbers, sum(numbers)))
    totals = [len(cases) for cases in domains.values()]
    rows.append(("**all cases**", "", *totals, sum(totals)))
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


def compose() -> str:
    """Return the text of README.md."""
    domains = read()
    example = json.dumps(domains["travel"][1], ensure_ascii=False).replace(', "tools"', ',\n "tools"')
    return HEAD.format(example=example.replace(', "expect"', ',\n "expect"')) + table(domains)


if __name__ == "__main__":
    (HERE / "README.md").write_text(compose(), encoding="utf-8")
