"""Values are read with the smallest repair, and what would change a meaning is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.extraction.lenient_json import mend, read_json
from toolkit.extraction.pipeline import new_source
from toolkit.extraction.resolve import tool_index


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": 1, } t', {"a": 1}, ("trailing_comma",)),
        ('{"a": "x "y" z", "b": 2}', {"a": 'x "y" z', "b": 2}, ("inner_quotes",)),
        ("{'a': True, 'b': None}", {"a": True, "b": None}, ("single_quotes", "py_literals")),
        ("{'a': 'St. Odo's Gate'}", {"a": "St. Odo's Gate"}, ("single_quotes", "inner_quotes")),
        ('{a: "x", b: [1, 2,]}', {"a": "x", "b": [1, 2]}, ("unquoted_keys", "trailing_comma")),
        ('{"a": 1.5\n"b": 2}', {"a": 1.5, "b": 2}, ("missing_comma",)),
        ('{"a": "x\ny"}', {"a": "x\ny"}, ("raw_control_char",)),
        (r'{"a\_b": "c\_d"}', {"a_b": "c_d"}, ("invalid_escape",)),
        (r'{"a": "\d+"}', {"a": r"\d+"}, ("invalid_escape",)),
        ('{"a": [1, 2}', {"a": [1, 2]}, ("missing_closers",)),
        ('{"a": {"b": "x"', {"a": {"b": "x"}}, ("missing_closers",)),
        ('{{"a": {"b": 1}}}', {"a": {"b": 1}}, ("doubled_braces",)),
        ('{"a": 1, // note\n "b": 2}', {"a": 1, "b": 2}, ("comments",)),
        ('{"code": "print({"a": "b"})"}', {"code": 'print({"a": "b"})'}, ("inner_quotes",)),
        (r"{\"a\": \"b\"}", {"a": "b"}, ("escaped_quotes",)),
        ('{"a": 1, "a": 2}', {"a": 2}, ("duplicate_keys",)),
        ("{“a”: “it’s”}", {"a": "it’s"}, ("smart_quotes",)),
        ('{"a": "\\ud83d\\ude00",}', {"a": "😀"}, ("trailing_comma",)),
        ('{"a": "say "no", then go"}', {"a": 'say "no", then go'}, ("inner_quotes",)),
        ('{"a": "Bob", "Al" said", "b": 1}', {"a": 'Bob", "Al" said', "b": 1}, ("inner_quotes",)),
        ("""{"a": ["5", 6 o'clock", "x"]}""", {"a": ["""5", 6 o'clock""", "x"]}, ("inner_quotes",)),
        ('{"a": "a "b] c" d"}', {"a": 'a "b] c" d'}, ("inner_quotes",)),
        ('{"a": "x" // see "http://x"\n, "b": 1}', {"a": "x", "b": 1}, ("comments",)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_repairs(text: str, value: Any, repairs: tuple[str, ...]) -> None:
    read = read_json(text, 0)
    assert (read.value, read.problem) == (value, None)
    assert set(repairs) <= set(read.repairs)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": "x', "truncated"),
        ('{"a": 1', "truncated"),
        ('{"a": tru', "truncated"),
        ('{"a":', "truncated"),
        ('{"a"', "truncated"),
        ('{"a": "b",', "truncated"),
        ('{"a": NaN}', "not_finite"),
        ('{"a": -Infinity}', "not_finite"),
        ('{"a": 1e999,}', "not_finite"),
        ('{"a": ...}', "placeholder"),
        ('{"a": <value>}', "placeholder"),
        ('{"a": city}', "bad_json"),
        ("{a, b}", "bad_json"),
        ('{"a": 1, b}', "bad_json"),
        ("{its arguments}", "placeholder"),
        ('{"name": function_name}', "placeholder"),
        ('{"a": [1.5, -1e999]}', "not_finite"),
        ("[" * 100, "too_deep"),
        ('{"a": ' + "9" * 5000 + "}", "bad_json"),
    ],
    ids=lambda value: value[:20],
)
def test_refusals(text: str, problem: str) -> None:
    assert read_json(text, 0).problem == problem


def test_strict_json_beyond_the_first_window() -> None:
    value = {"a": "x" * 10_000, "b": [{"c": "}" * 3_000}]}
    text = "see: " + json.dumps(value) + " tail"
    read = read_json(text, 5)
    assert (read.value, text[read.end :], read.repairs) == (value, " tail", ())


KEYS = st.text(max_size=100)  # the lenient reader looks no further than 200 characters ahead for a key
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_the_lenient_reader_agrees_with_the_strict_one(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    strict, lenient = read_json(text), mend(new_source(text, tool_index(None), None), 0)
    assert strict.value == value
    assert strict.end == len(text)
    if lenient.problem is None and "{{" not in text:
        assert set(lenient.repairs) <= {"inner_quotes", "raw_control_char"} or lenient.value == value


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="{}[]\"',:\\ab1 \n<>/#*.&;", max_size=40))
def test_never_raises_and_stays_in_bounds(text: str) -> None:
    read = read_json(text, 0)
    assert 0 <= read.end <= len(text) + 2
