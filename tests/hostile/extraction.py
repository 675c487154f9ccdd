"""Attack the extraction: openers that never close, nested and repeated, and any text, whole and in a stream.

Not here: how attacks are run and timed (`frame`).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.hostile.frame import FLOOR, Attack, attacks
from toolkit.extraction import Extraction, StreamExtractor, extract
from toolkit.extraction.syntaxes import load

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "array"}}}
TOOLS = [{"name": name, "parameters": SCHEMA} for name in ("f", "get_tide")] + [{"name": "g"}]
CORPORA = Path(__file__).parents[1] / "corpora"
# Texts that public reports, and attacks before, have shown to be slow.
NAMED = [
    "`", "``", "```", "```json\n{", "```\n", "{", "[", "(", '"', "\\", "\n", " ", "<", "\\n", "'", "&quot;",
    '{"name": "', '{"a": "x\n', 'f\n{"a": "x\n', '\n"name": "x', '<tool_call>{"name": "x', 'Action: f {"a": "x\n',
    'TOOL_CALL: f {"a": "x\n', 'tool: f\narguments: {"a": "x\n', 'f(a="x ', 'f(a="x " ; )', "f(", "[f(a=", "f(b=(",
    "<f><a>x</a>y", "<f><a>", "f\n<arg_key>a</arg_key>\n<arg_value>1", "<tool_call>f<arg_key>a", "<tool_response ",
    "<tool_response>", "tools.", "functions.", "</think>", "<think>", "<think>f(a=1)", "</think>f(a=1)\n", "f(a, b)\n",
    "tool: f\narguments:\n  a: 1\n", "---\ntool: f\n", "Action: f\n", "Thought: x\n", "Observation: x\n", "User: x\n",
    "✿FUNCTION✿f✿ARGS✿{}", "✿RESULT✿", "[TOOL_CALLS]", "f[ARGS]{", "[CALL_ID]", "<|channel|>", "<|start|>x",
    "<function=", "<invoke name=", "<function=f><parameter=", "<parameter=a>x", '"//', '"/*', "/*", "//\n", "#\"\n",
    '{"a":', '["', "{{", "'''", '"""', '<|"|>', "<escape>", "1,000,", "f(a=1,000", "x = ", "print(", "a=", "}", "]}",
    '{"name": "f", "arguments": {"a": 1}}\n', '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>\n',
    "f(a=1)\n", '{"a": 1}', "[1]", "<a>", "</a>", "a b ", "call:f{", "<|tool_call>call:f{a:", "|", "｜", "\u200b", "İ",
    "<|tool_call<f><a>x</a>y<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
    '<param name="a" value="', '{"f": "', "f {", "f: ", "- f\n", "  a: |\n", "For example: ", "> ", "\ud800",
]  # fmt: skip
# What may stand before a repeated piece: something that is never closed, and blanks without end.
HEADS = [
    "",
    "<tool_call>",
    "<think>",
    '{"name": "f", "arguments": {"a": "',
    "```json\n",
    "Action: f\n",
    "[f(b='",
    "<f>",
]
TAILS = ["", ")", "</tool_call>", '"}', "\n```\n", "</think>", "f(a=1)"]


def pieces() -> list[str]:
    """Return what every syntax of the tables begins with, whole and cut, with and without a body."""
    found: dict[str, None] = {}
    for one in load():
        opened = re.search(one.opener, one.example if one.example.startswith("<") else "\n" + one.example)
        opener = opened[0] if opened else one.example[:4]
        example = one.example
        for text in (opener, f'{opener}{{"a": "x', f'{opener}"', f"{opener} ", example, example[:-1]):
            found[text] = None
        for part in (3, 2):
            found[example[: len(example) // part]] = None
    return [*found, *NAMED]


def cases() -> list[dict[str, Any]]:
    """Return the corpora's cases."""
    return [json.loads(line) for path in sorted(CORPORA.glob("*.jsonl")) for line in path.open(encoding="utf-8")]


def read(text: str) -> Extraction:
    """Read a text as everybody does; every call has a place in it."""
    found = extract(text, TOOLS)
    assert (found.status == "called") == bool(found.calls)
    assert all(0 <= call.span[0] <= call.span[1] <= len(text) for call in found.calls)
    return found


def _repeated(head: str, unit: str, tail: str, run: Callable[[str], object] = read, **how: Any) -> Attack:
    name = f"{run.__name__} {head!r} + {unit!r} * n + {tail!r}"
    return Attack(name, lambda size: head + unit * max(1, size // len(unit)) + tail, run, **how)


def streamed(text: str) -> None:
    """Feed a text in chunks so large that each is looked at for a long while."""
    stream = StreamExtractor(TOOLS)
    for at in range(0, len(text), 3_000):
        stream.feed(text[at : at + 3_000])
    stream.close()


@attacks("extraction")
def every_piece(chance: random.Random) -> Iterator[Attack]:
    for piece in pieces():
        yield _repeated("", piece, "")


@attacks("extraction")
def pairs_of_pieces(chance: random.Random) -> Iterator[Attack]:
    every = pieces()
    while True:
        unit = "".join(chance.choices(every, k=chance.choice([1, 2, 2, 3])))
        yield _repeated(chance.choice(HEADS), unit, chance.choice(TAILS))


@attacks("extraction")
def streams_of_pieces(chance: random.Random) -> Iterator[Attack]:
    """Look ahead of the end again and again: looks become more with the text until their budget ends."""
    every = pieces()
    while True:
        unit = "".join(chance.choices(every, k=chance.choice([1, 2, 2, 3])))
        yield _repeated(
            chance.choice(HEADS), unit, chance.choice(TAILS), streamed, size=128_000, floor=FLOOR // 5, growth=4
        )


@attacks("extraction")
def long_blanks(chance: random.Random) -> Iterator[Attack]:
    every = pieces()
    for _ in range(200):
        head, fill = (
            chance.choice(every) + chance.choice(["", "=", ":", "("]),
            chance.choice([" ", "\n", "a", "_", "0"]),
        )
        yield _repeated(head, fill, chance.choice(TAILS))


@attacks("extraction")
def any_text(chance: random.Random) -> Iterator[Attack]:
    """Mutate real replies and generated calls: nothing raises, and a stream gives the same as the whole."""
    known, every = cases(), pieces()
    while True:
        case = chance.choice(known)
        text, tools = mutated(case["text"][:4000], chance, every), chance.choice([case["tools"], TOOLS, None])
        sizes = [chance.randint(1, chance.choice([2, 9, 80])) for _ in range(8)]
        yield Attack(repr((text, sizes)), lambda _, made=(text, tools, sizes): made, lambda made: in_a_stream(*made), 0)


def mutated(text: str, chance: random.Random, every: list[str]) -> str:
    """Return a text with a few pieces put in, cut out, doubled or moved."""
    for _ in range(chance.randint(0, 4)):
        at, end = sorted(chance.randint(0, len(text)) for _ in range(2))
        end = min(end, at + chance.choice([1, 5, 40, 400]))
        way = chance.randrange(5)
        if way == 0:
            text = text[:at] + chance.choice(every) + text[at:]
        elif way == 1:
            text = text[:at] + text[end:]
        elif way == 2:
            text = text[:end] + text[at:end] * chance.randint(1, 3) + text[end:]
        elif way == 3:
            text = text[:at] + chance.choice(every) + text[end:]
        else:
            text = text[at:] + chance.choice(["\n", "", " "]) + text[:at]
    return text


def in_a_stream(text: str, tools: Any, sizes: list[int]) -> None:
    """Feed a text in chunks; what was handed out early are the first calls of the whole."""
    stream, early, at, turn = StreamExtractor(tools), [], 0, 0
    while at < len(text):
        chunk = text[at : at + sizes[turn % len(sizes)]]
        early += [event.call for event in stream.feed(chunk) if event.call is not None]
        at, turn = at + len(chunk), turn + 1
    whole = extract(text, tools)
    assert stream.close() == whole, "the end of a stream is not the whole"
    if "</" in text or "/think" in text.lower() or "|>" in text or "response:" in text.lower():
        early = [] if any(one.reason == "in_thinking" for one in whole.rejected) else early  # see `StreamExtractor`
    pairs = [(call.tool_name, call.arguments) for call in whole.calls]
    given = [(call.tool_name, call.arguments) for call in early]
    assert given == pairs[: len(given)], f"handed out {given}, the whole has {pairs}"
