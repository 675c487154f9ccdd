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
RUN_MEANS = {
    "one_step": "one call does it",
    "several": "several calls, none of which needs the result of another",
    "chain": "a call that depends on the result of an earlier one",
    "abstain": "nothing may be changed",
    "turns": "the user goes on after the agent's answer",
    "recover": "a tool refuses; find the way out, or say so",
    "state": "the final state of the world is looked at",
    "answer": "the final answer is looked at",
    "missing": "something is unknown at first, so the agent should ask",
    "declined": "the user says that something should not be done",
    "small_talk": "nothing is asked for",
    "demo": "easy ones, balanced over the domains, for the smallest models",
}
HEAD = """\
# Cases

What is asked, and what would be right. Written for this project, in four domains that each have their own tools.

Single requests lie here, whole runs of an agent in [`runs/`](runs) (see below). `tk.load_cases` takes a name
(`"travel"`, `"runs/travel"`), `"all"` for all single requests, `"demo"` for the easy ones of them, `"runs"`
for all whole runs, or the path of a file.

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
- A value that no call could give, since the tool's schema does not allow it, is an error when the file is loaded.

The counts below are written by `make_readme.py`.

"""
RUNS = """
## Whole runs

A whole run goes on until the agent answers, with tools that really run, in a world of its own: an invented traveller's
desk, house, lab or shop (`toolkit/worlds`). `tk.evaluate(recipes, "runs/home", run="agent")` plays them.

```json
{example}
```

- `world` names a world; `start` is laid over its usual start (`worlds/`). `tools` are names of its tools; left out,
  all of them.
- `turns` are what the user says next, each after the agent's answer.
- `expect.calls` must all be made, in any order, in whatever turn. Each stands for a call of its own; where several made
  calls could be the expected one, they are shared out as well as can be.
- `expect.further` says which other calls may be made: `"reads"` (the default) those of tools that only read, and those
  that were answered with an error, since they changed nothing; `"none"`; `"any"`.
- `expect.state` is the part of the final state that is looked at. Lists hold the expected items, no more and no less,
  in any order; what is not named may be anything; every value may be a matcher. Where the state alone counts, leave
  out `calls` and write `"further": "any"`.
- `expect.answer` is a value or matcher for the final answer.
- `expect.no_call` says that nothing may be called; with `"further": "reads"`, that nothing may be changed.
- `reference` is for the tests: `calls` and `answer` of a solution where these do not follow from `expect`. A test plays
  a solution of every case, and finds that doing nothing is wrong where something is expected.

A case may bring recorded results in place of a world,
`"results": [{{"name": "get_weather", "arguments": {{"city": "Oslo"}}, "result": {{"sky": "rain"}}}}]`,
with `"error"` in place of `"result"` for a refusal, and its tools described as above; a tool that does more than read
says so there with `"effect": "writes"`.

A world of your own is a class that takes a start and has `.tools` and `.state`:
`tk.evaluate(recipes, "mine.jsonl", run="agent", worlds={{"bank": Bank}})`. Functions of your own, which all runs share,
are given as `tools=[…]`.

All parts that a case asks about must be right; `calls_right`, `state_right` and `answer_right` are columns of the
result.

"""


def read(folder: Path = HERE) -> dict[str, list[dict[str, Any]]]:
    """Return the cases of each domain."""
    files = sorted(folder.glob("*.jsonl"))
    return {file.stem: [json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files}


def table(domains: dict[str, list[dict[str, Any]]], means: dict[str, str]) -> str:
    """Return the counts as a Markdown table: one row a tag, one column a domain."""
    counts = {name: Counter(tag for case in cases for tag in case["tags"]) for name, cases in domains.items()}
    rows = [("tag", "what it asks for", *domains, "all"), ("---", "---", *["--:"] * (len(domains) + 1))]
    for tag, meaning in means.items():
        numbers = [counts[name][tag] for name in domains]
        rows.append((f"`{tag}`", meaning, *numbers, sum(numbers)))
    totals = [len(cases) for cases in domains.values()]
    rows.append(("**all cases**", "", *totals, sum(totals)))
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


def shown(case: dict[str, Any], keys: tuple[str, ...]) -> str:
    """Return a case as JSON, with a new line before each of the keys."""
    text = json.dumps(case, ensure_ascii=False)
    for key in keys:
        text = text.replace(f', "{key}":', f',\n "{key}":')
    return text


def compose() -> str:
    """Return the text of README.md."""
    single, runs = read(), read(HERE / "runs")
    head = HEAD.format(example=shown(single["travel"][1], ("tools", "expect")))
    case = next(case for case in runs["home"] if {"chain", "recover"} <= set(case["tags"]))
    more = RUNS.format(example=shown(case, ("world", "tools", "expect", "state", "tags")))
    return head + table(single, MEANS) + more + table(runs, RUN_MEANS)


if __name__ == "__main__":
    (HERE / "README.md").write_text(compose(), encoding="utf-8")
