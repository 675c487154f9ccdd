"""Whatever stands in a call, a schema or a result, the outcome is a result or a ToolkitError."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.errors import ConfigError
from toolkit.tools import as_tool
from toolkit.tools.shown import safe_str, shown


class Mute:
    """Have neither text nor repr."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


def nested(levels: int, kind: type = list) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
ODD = {
    "600 lists": nested(600), "100000 lists": nested(100_000), "3000 dicts": nested(3_000, dict), "circle": CIRCLE,
    "400 digits": 10**400, "5000 digits": 10**5000, "infinite": 1e308 * 10, "nan": float("nan"), "complex": 3 + 4j,
    "int and None as keys": {1: 2, None: 3}, "bool as key": {True: 1, 1.5: 2}, "surrogate": "\ud800", "mute": Mute(),
    "mute inside": {"a": [Mute()]}, "bytes": b"\xff", "set": {1, 2}, "function": print, "generator": (i for i in "ab"),
    "brackets": "[" * 600 + "]" * 600, "İ": "İ", "class": int,
}  # fmt: skip
AGAIN = {"$ref": "#/$defs/a"}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"x": {}}},
    {"type": "object", "properties": {"x": {"type": "integer", "maximum": 9}}},
    {"type": "object", "properties": {"x": AGAIN}, "$defs": {"a": {"anyOf": [AGAIN, {"type": "null"}]}}},
    {"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}},
    {"type": "object", "properties": {"x": {"type": "array", "items": {"$ref": "#/properties/x"}}}},
    {"type": "object", "allOf": [{"$ref": "#"}]},
]  # fmt: skip
NUMBERS = st.integers() | st.floats() | st.complex_numbers()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.sampled_from(sorted(ODD)).map(lambda name: ODD[name]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text() | st.integers() | st.none() | st.booleans(), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def outcomes(value: Any) -> list[Any]:
    """Use a value in every place that a model or a tool may put one."""
    quiet = {"raise_on_failure": False}
    found: list[Any] = []
    for schema in SCHEMAS:
        invoker = tk.ToolInvoker([tk.Tool("t", "d", schema, lambda x=None: "ok")], **quiet)
        found.append(invoker.invoke(tk.ToolCall("t", {"x": value})).result)
    for call in (tk.ToolCall("t", value), tk.ToolCall(value, {}), tk.ToolCall("t", {1: value, None: value})):  # type: ignore[dict-item]
        message = tk.ChatMessage.from_assistant(tool_calls=[call, call])
        found += [m.tool_call_result for m in invoker.run(messages=[message])["tool_messages"]]
    for quote in (False, True):
        gives = tk.Tool("t", "d", SCHEMAS[0], lambda: value)
        found.append(
            tk.ToolInvoker([gives], convert_result_to_json_string=quote, **quiet).invoke(tk.ToolCall("t")).result
        )
    caller = tk.OpenAIFunctionCaller({"t": lambda x=None: value})
    asked = [tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("t", {"x": value})])]
    asked += [
        tk.ChatMessage.from_assistant(text, {"finish_reason": "tool_calls"}) for text in (shown(value), "[" * 9000)
    ]
    return [*found, *caller.run(asked)["function_replies"]]


def offered(value: Any) -> None:
    """Use a value in every place of a tool's description; a ConfigError may refuse it."""
    inner = {"type": "object", "properties": {"x": value}}
    schemas = [value, inner, {"properties": {"x": {"default": value}}}, {"type": value}, {"$ref": value}]
    things = [value, {"name": value}, {"function": value}, *({"name": "t", "parameters": one} for one in schemas)]
    for thing in things:
        with contextlib.suppress(ConfigError):
            as_tool(thing)
    for schema in schemas:
        with contextlib.suppress(ConfigError):
            tk.Tool("t", "d", schema)


@pytest.mark.parametrize("name", ODD)
def test_odd_values(name: str) -> None:
    assert all(text is not None for text in outcomes(ODD[name]))
    offered(ODD[name])


@settings(deadline=None, max_examples=50)
@given(VALUES)
def test_any_value(value: Any) -> None:
    assert all(text is not None for text in outcomes(value))
    offered(value)


def test_what_can_be_right_is_right() -> None:
    brackets = "[" * 600 + "]" * 600
    echo = tk.Tool("echoİ", "d", SCHEMAS[0], lambda x: x)
    for value, text in ((brackets, brackets), (10**400, str(10**400)), (nested(300), json.dumps(nested(300)))):
        result = tk.ToolInvoker([echo]).invoke(tk.ToolCall("echoİ", {"x": value}))
        assert (result.result, result.error) == (text, False)


def test_a_deep_argument_is_refused_before_the_schema_sees_it() -> None:
    with pytest.raises(tk.ToolArgumentsError, match="fewer levels of nesting"):
        tk.ToolInvoker([tk.Tool("t", "d", SCHEMAS[4], print)]).invoke(tk.ToolCall("t", {"x": nested(100_000)}))


@given(VALUES)
def test_a_value_can_be_shown(value: Any) -> None:
    assert len(shown(value)) <= 80
    assert isinstance(safe_str(value), str)


def test_a_thousand_faults_take_no_longer_than_the_first() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "integer"}}}}
    invoker = tk.ToolInvoker([tk.Tool("t", "d", schema, lambda x=None: "ok")], raise_on_failure=False)
    start = time.process_time()
    many = invoker.invoke(tk.ToolCall("t", {"x": ["a"] * 100_000}))
    strange = invoker.invoke(tk.ToolCall("t", {f"name{n}": 1 for n in range(20_000)}))
    assert time.process_time() - start < 2
    assert many.result == "Arguments of 't' do not fit: x[0]: expected integer, got \"a\". Nothing was run."
    assert strange.result.endswith("and 19992 more. Nothing was run.")
