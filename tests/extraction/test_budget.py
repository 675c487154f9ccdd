"""Reading any text costs work in proportion to its length, counted in steps of the budget and in calls of Python.

The texts come from the tables of syntaxes (`tests.hostile.extraction`); `python -m tests.hostile` times the same ones.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import random
import re
import re._constants as codes
import re._parser as parser
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

import toolkit.extraction
from tests.hostile.extraction import TOOLS, in_a_stream, pieces
from toolkit.extraction import StreamExtractor, budget, extract, python_calls
from toolkit.extraction.pipeline import finish, new_source
from toolkit.extraction.resolve import tool_index
from toolkit.extraction.syntaxes import load
from toolkit.extraction.walk import Walk

SIZE = 2_500
GROWTH = 2.3
PIECES = pieces()
PAIRS = ["".join(random.Random(number).choices(PIECES, k=2)) for number in range(60)]
CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'


def work(text: str) -> int:
    """Return the steps that reading a text takes, and a hundred for each call of a function beside."""
    source = new_source(text, tool_index(TOOLS), None)
    had, calls = source.budget.left, 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        finish(Walk(source, None).run(), source, ())
    finally:
        sys.setprofile(None)
    return had - source.budget.left + 100 * calls


@pytest.mark.parametrize("unit", [*PIECES, *PAIRS], ids=lambda unit: ascii(unit)[:60])
def test_twice_the_text_takes_twice_the_work(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_calls, "_LONGEST_EXPRESSION", 100)  # a small text must be long beside what bounds it
    work(unit)  # which compiles what is compiled once
    growth = []
    for size in (SIZE, 4 * SIZE):  # what has a bound of its own shows it at the larger size
        once, twice = (work(unit * (length // len(unit))) for length in (size, 2 * size))
        growth.append(twice / (once + 10_000))
        if growth[-1] <= GROWTH:
            return
    pytest.fail(f"{unit!r} repeated grows by {growth}")


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield every pattern of the package with where it stands."""
    for module in pkgutil.walk_packages(toolkit.extraction.__path__, "toolkit.extraction."):
        for name, value in vars(importlib.import_module(module.name)).items():
            yield from _patterns(f"{module.name.removeprefix('toolkit.extraction.')}.{name}", value)
    for syntax in load():
        yield f"{syntax.name} {syntax.opener}", re.compile(syntax.opener)
        yield from _patterns(f"closer of {syntax.name}", syntax.closer)


def _patterns(name: str, value: Any) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _patterns(f"{name}[{key!r}]", inner)
    elif hasattr(type(value), "__dataclass_fields__"):
        for field in type(value).__dataclass_fields__:
            yield from _patterns(f"{name}.{field}", getattr(value, field))


def _backtracking(tree: Any) -> Iterator[Any]:
    """Yield the repeats without end in a parsed pattern that give back what they took."""
    for code, value in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[1] > 500:
            yield value
        parts: list[Any] = []
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            parts = [value[2]]
        elif code is codes.BRANCH:
            parts = value[1]
        elif code is codes.SUBPATTERN:
            parts = [value[3]]
        elif code is codes.ATOMIC_GROUP:
            parts = [value]
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            parts = [value[1]]
        for part in parts:
            yield from _backtracking(part)


@pytest.mark.parametrize(
    ("name", "pattern"), list(patterns()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_no_pattern_goes_back_over_a_long_text(name: str, pattern: re.Pattern[str]) -> None:
    assert not list(_backtracking(parser.parse(pattern.pattern, pattern.flags)))


def _leads(tree: Any) -> bool:
    """Tell whether a pattern may begin with a repeat without end, which a search would try at each character."""
    for code, value in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            if value[1] > 500 or _leads(value[2]):
                return True
            if value[0] == 0:
                continue
        parts = value[1] if code is codes.BRANCH else [value[3]] if code is codes.SUBPATTERN else []
        return any(_leads(part) for part in parts)
    return False


CLOSERS = list(dict.fromkeys(one.closer for one in load() if one.closer))


@pytest.mark.parametrize("closer", CLOSERS, ids=lambda closer: closer.pattern)
def test_what_is_searched_for_begins_with_a_sign(closer: re.Pattern[str]) -> None:
    assert not _leads(parser.parse(closer.pattern, closer.flags))


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "x(' + " " * 100_000,
        "f(a=" * 25_000,
        "<function=f><parameter=" + " " * 100_000,
        "<function=" + " " * 100_000,
        "<invoke name=" + " " * 100_000,
        '{"name": "' * 15_000 + ")",
        "```json\n{" * 15_000,
        '<tool_call>{"name": "x' * 5_000 + "</tool_call>",
        'f\n{"a": "x\n' * 10_000,
        '\n"name": "x' * 10_000,
        'Action: f {"a": "x\n' * 6_000,
        'TOOL_CALL: f {"a": "x\n' * 6_000,
        'tool: f\narguments: {"a": "x\n' * 5_000,
        'f(a="x ' * 15_000 + '" ; )',
        "<f><a>x</a>y" * 10_000,
        "f\n<arg_key>a</arg_key>\n<arg_value>1" * 4_000,
        "`" * 100_000,
        "<tool_response " * 7_000,
        "Action: f\n" + " " * 100_000,
        '<tool_call>{"name": "' + "tools." * 20_000 + '"}</tool_call>',
        f"{CALL}</think>" * 2_000,
        f"<think>{CALL * 2_000}",
        "- f(a, b)\n- now()\n" * 6_000,
        "tool: f\narguments:\n  a: 1\n" * 4_000,
        "".join(f'<tool_call>{{"name": "get_tode_{n}", "arguments": {{}}}}</tool_call>' for n in range(2_000)),
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_texts_that_were_slow(text: str) -> None:
    start = time.process_time()
    extract(text, TOOLS)
    assert time.process_time() - start < 5  # they took minutes


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(
            f"<tool_call>\n{{'name': 'f', 'arguments': {{'a': {n}, 'b': 'x'}}}}\n</tool_call>" for n in range(1_500)
        ),
        "".join(f'TOOL_CALL: f {{"a": {n}}}\n' for n in range(1_900)),
        "[" + ", ".join(f"f(a={n}, b='x y')" for n in range(1_900)) + "]",
        "{'name': 'f', 'arguments': {'c': [" + ", ".join(f"{{'k': {n}}}" for n in range(8_000)) + "]}}",
        "<function=f>\n" + "<parameter=b>\n" + 'a < b and {c} [d] `e` "f"\n' * 8_000 + "</parameter>\n</function>",
        json.dumps({"name": "f", "arguments": {"b": 'say "x", {y}\n' * 20_000}}),
        "See (this), {that} and [these]: f is a tool, `g` too.\n" * 10_000 + CALL,
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_long_replies_stay_far_from_the_end_of_the_budget(text: str) -> None:
    source = new_source(text, tool_index(TOOLS), None)
    had, calls = source.budget.left, source.budget.calls
    found = finish(Walk(source, None).run(), source, ())
    assert found.status == "called"
    assert not found.rejected
    assert source.budget.left > had / 4
    assert 0 < source.budget.calls < calls


def test_the_end_of_the_budget_is_said_and_what_was_certain_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_BASE", 40_000)
    monkeypatch.setattr(budget, "_PER_CHARACTER", 0)
    text = CALL + "\n" + "{'a': " * 500 + CALL
    found = extract(text, TOOLS)
    assert [call.arguments for call in found.calls] == [{"a": 1}]
    [unread] = [one for one in found.rejected if one.reason == "budget"]
    assert unread.span[1] == len(text)
    assert found.text.endswith(text[unread.span[0] :])  # it is left for the user to read
    assert extract(text[len(CALL) :], TOOLS).status == "broken"


def test_a_stream_hands_out_no_more_calls_than_the_whole_may_hold() -> None:
    in_a_stream("g()\n" * 3_000 + CALL * 100, TOOLS, [4_000])
    in_a_stream(f"{CALL}\n" * 3_000, TOOLS, [20_000])
    in_a_stream("f(a=1)\n" * 3_000, TOOLS, [1_000])


def test_a_stream_stops_looking_ahead_when_looks_cost_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_BASE", 40_000)
    monkeypatch.setattr(budget, "_PER_CHARACTER", 0)
    stream = StreamExtractor(TOOLS)
    for char in "{'a': " * 500 + CALL:
        assert not any(event.call for event in stream.feed(char))
    assert stream.close().status == "broken"


@pytest.mark.parametrize(
    "text",
    [
        "✿FUNCTION✿f✿ARGS✿{}✿RESULT✿<function>l()>",
        "- f(a, b)\n- g()\nNone helps.",
        "```\nf(a=1)\n`mber=5)\n```",
        'g()\nf(a=1, b="x"/* y")\ng()f',
        '<tool_call>\n{"name": "f", "x": "</tool_call>' + CALL + '", "arguments": {"a": 1}}\n</tool_call>',
        '<tool_calls>[{"name": "f"", "arguments": {>{"a": "x"}},{"name": "f", "arguments": {"a": 2}}]</tool_calls>',
        "{'b': 'ear', '" + CALL + "x': 1}",
        '```json\n{"name": "f", "arguments": {"b"' + CALL + "\n```\n" + CALL + '": 1}}',
        f"<think>a<think>b</think>{CALL} <hm></think>",
        f"◁think▷ {CALL}hm◁/think▷",
        "<tool_call>f<arg_key>b</arg_key><arg_value>x <|tool_call|> </arg_value></tool_call>",
    ],
    ids=lambda text: ascii(text)[:40],
)
@pytest.mark.parametrize("size", [1, 2, 5, 13, 60])
def test_a_stream_hands_out_nothing_that_the_whole_has_not(text: str, size: int) -> None:
    in_a_stream(text, TOOLS, [size])


def test_schemas_and_names_that_never_end() -> None:
    endless = {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"a": endless}, "$defs": {"n": endless}}
    assert extract(CALL, [{"name": "f", "parameters": schema}]).calls[0].arguments == {"a": 1}
    assert extract("toolİ(a=1)", [{"name": "toolİ"}]).calls[0].tool_name == "toolİ"
    written = f'<tool_call>{{"name": "{"x" * 300}", "arguments": {{}}}}</tool_call>'
    assert [one.reason for one in extract(written, TOOLS).rejected] == ["no_name"]


def test_native_arguments_deeper_than_code_can_follow_are_noted() -> None:
    deep: dict[str, Any] = {}
    for _ in range(3_000):
        deep = {"a": deep}
    [call] = extract("", TOOLS, native_calls=[{"name": "f", "arguments": deep, "id": "1"}]).calls
    assert (call.arguments, call.notes, call.id) == ({}, ("too_deep",), "1")


@pytest.mark.parametrize("depth", [70, 199, 900])
def test_deep_texts_raise_nothing(depth: int) -> None:
    for opening, closing in (
        ('{"a":', "}"),
        ("[", "]"),
        ("(", ")"),
        ("dict(a=", ")"),
        ("{'a': ", "}"),
        ("<a>", "</a>"),
    ):
        inner = opening * depth + "1" + closing * depth
        for text in (
            inner,
            f"[f(a={inner})]",
            f'{{"name": "f", "arguments": {inner}}}',
            f"<tool_call>{inner}</tool_call>",
        ):
            json.dumps(extract(text, TOOLS).to_dict())
            json.dumps(extract(text[: len(text) // 2], TOOLS).to_dict())
