"""Compare `tk.extract` with other readers of tool calls: accuracy and throughput on the same texts, in one run.

    python benchmarks/extraction.py             # makes an environment for the peers once, then runs all readers
    python benchmarks/extraction.py --json out.json

The peers get the best of fair treatment: they are told the declared names, and undeclared names are dropped for them.
Ratios compare readers within this run; an absolute number of one day says nothing about one of another.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import subprocess
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "corpora" / "extraction_dev.jsonl"
PEERS = ["json-repair", "agent-tool-parser", "pydantic", "jsonschema-rs", "griffelib"]  # the last three are ours
NAMES = ("name", "tool", "tool_name", "function", "action", "function_name")
ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "tool_input", "kwargs", "params")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "note": {"type": "string"}}}
TOOLS = [{"name": name, "parameters": SCHEMA} for name in ("add", "search", "get_weather")]
ROUNDS = 5
Pairs = list[tuple[str, dict[str, Any]]]
Reader = Callable[[str, list[dict[str, Any]]], Pairs]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--json", type=Path, help="write the figures here as well")
    options.add_argument(
        "--environment", type=Path, default=ROOT / "runs" / "peers", help="where the peers are installed"
    )
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.inside:
        report(given.json)
        return
    python = given.environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(given.environment, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True)
    more = ["--json", str(given.json)] if given.json else []
    paths = {**os.environ, "PYTHONPATH": str(ROOT), "RUST_BACKTRACE": "0"}
    subprocess.run([python, __file__, "--inside", *more], check=True, env=paths, stderr=subprocess.DEVNULL)


def readers() -> dict[str, Reader]:
    """Return the readers that can be imported, ours first."""
    found: dict[str, Reader] = {}
    for name, make in {
        "toolkit": ours,
        "json_repair + adapter": json_repair_reader,
        "agent-tool-parser (rust)": lambda: agent_tool_parser("agent_tool_parser", accelerated=True),
        "agent-tool-parser (python)": lambda: agent_tool_parser("agent_tool_parser.parser"),
        "TOOL_CALL regex": lambda: line_regex,
        "first { to last }": lambda: first_to_last,
        "nothing": lambda: lambda text, tools: [],
    }.items():
        try:
            found[name] = make()
        except (ImportError, RuntimeError) as error:
            print(f"left out: {name} ({error})")
    return found


def ours() -> Reader:
    from toolkit.extraction import extract

    return lambda text, tools: [(call.tool_name, call.arguments) for call in extract(text, tools).calls]


def json_repair_reader() -> Reader:
    import json_repair

    def read(text: str, tools: list[dict[str, Any]]) -> Pairs:
        text = re.sub(r"(?s)^.*</think(?:ing)?>|<think>.*?</think>", "", text)
        fenced = re.search(r"(?s)```(?:json)?\s*(.*?)```", text)
        body = fenced[1] if fenced else text
        start = min((at for at in (body.find("{"), body.find("[")) if at >= 0), default=-1)
        return adapt(json_repair.loads(body[start:])) if start >= 0 else []

    return read


def agent_tool_parser(module: str, accelerated: bool = False) -> Reader:
    library = importlib.import_module(module)
    if accelerated and not library.ACCELERATED:
        raise RuntimeError("no compiled engine here")
    parsers: dict[tuple[str, ...], Any] = {}

    def read(text: str, tools: list[dict[str, Any]]) -> Pairs:
        names = tuple(tool["name"] for tool in tools)
        if names not in parsers:
            keys = {key for tool in tools for key in tool["parameters"].get("properties", {})}
            parser = library.ToolParser(
                tool_aliases={name: name for name in names}, param_aliases={key: key for key in keys},
                allowed_tools=set(names), strip_thinking=True,
            )  # fmt: skip
            parsers[names] = parser.try_parse_all if hasattr(parser, "try_parse_all") else parser.try_parse_many
        return [pair for call in parsers[names](text) or [] if (pair := as_pair(call))]

    return read


def as_pair(call: Any) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of a peer's call object, under whatever attributes it has."""
    name = next(
        (getattr(call, key) for key in ("name", "tool", "tool_name") if isinstance(getattr(call, key, None), str)), ""
    )
    arguments = next((getattr(call, key) for key in ("arguments", "args", "params") if hasattr(call, key)), {})
    return (name, dict(arguments)) if name else None


def line_regex(text: str, tools: list[dict[str, Any]]) -> Pairs:
    return [(found[1], json.loads(found[2])) for found in re.finditer(r"(?s)TOOL_CALL:\s*(\w+)\s*({.*?})", text)]


def first_to_last(text: str, tools: list[dict[str, Any]]) -> Pairs:
    start, end = text.find("{"), text.rfind("}")
    return adapt(json.loads(text[start : end + 1])) if 0 <= start < end else []


def adapt(value: Any) -> Pairs:
    """Find calls in decoded JSON, as a careful user of a JSON library would."""
    if isinstance(value, list):
        return [pair for item in value for pair in adapt(item)]
    if not isinstance(value, dict):
        return []
    for key in ("tool_calls", "function_call", "function"):
        if isinstance(value.get(key), (list, dict)):
            return adapt(value[key])
    name = next((value[key] for key in NAMES if isinstance(value.get(key), str)), None)
    if name is None:
        return []
    arguments = next((value[key] for key in ARGUMENTS if key in value), {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {}
    return [(name, arguments if isinstance(arguments, dict) else {})]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def accuracy(read: Reader) -> dict[str, float]:
    """Return the shares of right replies and of invented calls on the corpus."""
    cases = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    right = invented = negatives = 0
    for case in cases:
        names = {tool["name"] for tool in case["tools"]}
        found = attempt(read, case["text"], case["tools"])
        unknown = case["policy"] == "unknown_tool"
        got = [[name, arguments] for name, arguments in found if unknown or name in names]
        right += same(got, [[call["name"], call["arguments"]] for call in case["expected"]])
        negatives += case["kind"] == "negative"
        invented += case["kind"] == "negative" and bool(got)
    return {"right": right / len(cases), "n": len(cases), "invented": invented / negatives, "negatives": negatives}


def texts() -> dict[str, list[str]]:
    """Return the texts that are timed: 200 KB of prose, and 4 KB replies with one call each."""
    chance = random.Random(7)
    words = ["weather", "model", "answers", "a", "question", "about", "harbours,", "kilns", "and", "what", "it", "did"]

    def prose(length: int) -> str:
        pieces: list[str] = []
        size = 0
        while size < length:
            sentence = " ".join(chance.choices(words, k=chance.randint(6, 16))).capitalize()
            sign = chance.choice([". ", ". ", "? ", "! ", ".\n", ".\n\n", " (see below). ", " {like this}. ", " [1]. "])
            pieces.append(sentence + sign)
            size += len(pieces[-1])
        return "".join(pieces)[:length]

    call = '{"name": "add", "arguments": {"a": 3, "note": "a {brace} and \\"quotes\\""}}'
    line = 'TOOL_CALL: add {"a": 3, "note": "x"}'
    kinds = {
        "json": call,
        "tagged": f"<tool_call>\n{call}\n</tool_call>",
        "line": line,
        "python": "[add(a=3, note='x')]",
    }
    found = {"prose": [prose(200_000)]}
    for kind, written in kinds.items():
        found[f"replies-{kind}"] = [f"{prose(3_900)}.\n\n{written}\n" for _ in range(60)]
    return found


def seconds(read: Reader, group: list[str], limit: float = 4.0) -> float:
    """Return the least CPU time of one pass."""
    best = float("inf")
    spent = 0.0
    for _ in range(ROUNDS):
        start = time.process_time()
        for text in group:
            attempt(read, text, TOOLS)
        once = time.process_time() - start
        best, spent = min(best, once), spent + once
        if spent > limit:
            break
    return best


def report(path: Path | None) -> None:
    """Run all readers and print accuracy, throughput and ratios to ours."""
    all_readers, groups = readers(), texts()
    figures: dict[str, Any] = {}
    print(f"{'reader':28} {'right':>16} {'invented':>16}")
    for name, read in all_readers.items():
        figures[name] = accuracy(read)
        right, invented = figures[name]["right"], figures[name]["invented"]
        print(f"{name:28} {right:9.1%} of {figures[name]['n']:>3} {invented:9.1%} of {figures[name]['negatives']:>3}")
    for kind, group in groups.items():
        size = sum(map(len, group)) / 1e6
        print(f"\n{kind} ({len(group)} texts, {size:.1f} MB)")
        print(f"{'reader':28} {'MB/s':>9} {'texts/s':>10} {'calls':>6} {'time':>10}")
        base = 0.0
        for name, read in all_readers.items():
            if name == "nothing":
                continue
            cost = max(seconds(read, group), 1e-9)
            base = base or cost
            count = sum(len(attempt(read, text, TOOLS)) for text in group)
            figures[name][kind] = {"mb_s": size / cost, "texts_s": len(group) / cost, "calls": count}
            print(f"{name:28} {size / cost:9.1f} {len(group) / cost:10.0f} {count:6} {cost / base:9.2f}x")
    if path:
        path.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def attempt(read: Reader, text: str, tools: list[dict[str, Any]]) -> Pairs:
    """Return what a reader finds; one that raises, or whose native code panics, has found nothing."""
    try:
        return read(text, tools)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic in Rust is no Exception
        return []


if __name__ == "__main__":
    main()
