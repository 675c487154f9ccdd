"""Python-like calls are read as models write them, and nothing is evaluated."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.extraction import python_calls
from toolkit.extraction.arithmetic import arithmetic
from toolkit.extraction.drafts import Body
from toolkit.extraction.pipeline import new_source
from toolkit.extraction.resolve import tool_index


def read_calls(text: str) -> Body:
    return python_calls.read_calls(new_source(text, tool_index(None), None), 0, "")


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[f(a=1), g.h(b='x')]", [("f", {"a": 1}), ("g.h", {"b": "x"})]),
        ("[f(a='it's', b=[1, (2, 3)], c={'k': None})]", [("f", {"a": "it's", "b": [1, [2, 3]], "c": {"k": None}})]),
        ("f(a=1); g(b=true);", [("f", {"a": 1}), ("g", {"b": True})]),
        ("f(a=1)\ng()", [("f", {"a": 1}), ("g", {})]),
        (r"[my\_f(a\_b=1)]", [("my_f", {"a_b": 1})]),
        ("[`f(a=1)`]", [("f", {"a": 1})]),
        ("""['f(a="x")']""", [("f", {"a": "x"})]),
        ("print(f(a=1))", [("f", {"a": 1})]),
        ("x = f(a=1)", [("f", {"a": 1})]),
        ("[f(a=dict(b=True, c=dict(d=None)), e=1)]", [("f", {"a": {"b": True, "c": {"d": None}}, "e": 1})]),
        ("[f(a=dict({'b': 1}, c=2), d=dict())]", [("f", {"a": {"b": 1, "c": 2}, "d": {}})]),
        ("[f(a=1,000, b=12,345,678, c=[1,000])]", [("f", {"a": 1000, "b": 12345678, "c": [1, 0]})]),
        ("[f(a=dictionary, b=dict(zip(x, y)))]", [("f", {"a": "dictionary", "b": "dict(zip(x, y))"})]),
        ('[f(a="say "no", then go", b=1)]', [("f", {"a": 'say "no", then go', "b": 1})]),
        ("[f(a={'': '', '\\x1f': None})]", [("f", {"a": {"": "", "\x1f": None}})]),
        ("[f(a=1/4, b=2*3, c=lambda x: x**2)]", [("f", {"a": 0.25, "b": 6, "c": "lambda x: x**2"})]),
        ("[f(a=new Map<String, Integer>(), b=c)]", [("f", {"a": "new Map<String, Integer>()", "b": "c"})]),
        ('[f(a="x\ny")]', [("f", {"a": "x\ny"})]),
        ("[f(from=1, class='b')]", [("f", {"from": 1, "class": "b"})]),
        ("[f(a='x'", [("f", {"a": "x"})]),
        ("[f(a=1], tail", [("f", {"a": 1})]),
        ("[[f(a=1)], [g()]]", [("f", {"a": 1}), ("g", {})]),
        ("[f(a: 1, b: 'x')]", [("f", {"a": 1, "b": "x"})]),
        ("f(a=g(1))", [("f", {"a": "g(1)"})]),
        ("f(a=__import__('os').system('x'))", [("f", {"a": "__import__('os').system('x')"})]),
        ("f(a=r'\\d', b=b'y')", [("f", {"a": "\\d", "b": "y"})]),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_calls(text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert [(call.name, call.arguments) for call in read_calls(text).drafts] == calls


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[f(a='x", "truncated"),
        ("[f(a=1", "truncated"),
        ("f(a=...)", "placeholder"),
        ("[f(a=?)]", "placeholder"),
        ("[note]", "bad_json"),
    ],
    ids=lambda value: value,
)
def test_refusals(text: str, problem: str) -> None:
    read = read_calls(text)
    assert (read.drafts, read.problem) == ([], problem)


LITERALS: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), LITERALS, min_size=1, max_size=3))
def test_what_python_writes_is_read_back(arguments: dict[str, Any]) -> None:
    written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    read = read_calls(f"[f({written})]")
    assert [call.arguments for call in read.drafts] == [arguments]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="fg()[]{}=,'\"\\ab1 \n.:;`*-+/", max_size=40))
def test_never_raises(text: str) -> None:
    assert 0 <= read_calls(text).end <= len(text) + 2


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/4", 0.25), ("-(2+3)*4", -20), ("2**10", 1024), ("7//2", 3), ("1e3", 1000.0), ("x+1", None), ("9**9**9", None),
     ("(-8)**0.5//2", None), ("1e308*10", None), ("999999999**64*999999999**64", None), ("1" * 99_999 + "x", None),
     ("1/0", None), ("", None), ("2 3", None), ("(" * 70 + "1" + ")" * 70, None)],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_arithmetic(text: str, value: float | None) -> None:
    assert arithmetic(text) == value


_PIECES = st.sampled_from(
    [
        "f(",
        "g.h(",
        ")",
        "[",
        "]",
        ", ",
        ",",
        ";",
        "\n",
        "a=",
        "b=",
        "c = ",
        "1",
        "-20",
        "007",
        "1.5",
        "1,000",
        "True",
        "null",
    ]
    + ["'x'", '"y"', "'it's'", "'", '"', "'x), f(a=1)'", "r'\\d'", "{'k': 1}", "[1, 'z']", " ", "x", "é", "<", "\\"]
)


@settings(max_examples=600, deadline=None)
@given(text=st.lists(_PIECES, max_size=24).map("".join))
def test_plain_arguments_are_read_as_by_the_careful_reader(text: str) -> None:
    quick = [read_calls(text), read_calls("f(a=1, " + text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_calls, "_PLAIN", re.compile(r"(?!)"))
        careful = [read_calls(text), read_calls("f(a=1, " + text)]
    assert quick == careful
