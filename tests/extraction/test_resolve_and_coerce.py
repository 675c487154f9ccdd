"""Names are matched by visible rules to one tool only; arguments are coerced only where nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

import toolkit as tk
from toolkit.errors import ConfigError
from toolkit.extraction.coerce import Coercion
from toolkit.extraction.resolve import clean, tool_index

INDEX = tool_index([{"name": name} for name in ("get_weather", "math.factorial", "a.run", "b.run", "findBook")])


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("get_weather", "get_weather"),
        ("functions.get_weather", "get_weather"),
        ("functions:get_weather:0", "get_weather"),
        ("default_api.get_weather", "get_weather"),
        ("`get_weather()`", "get_weather"),
        (r"get\_weather", "get_weather"),
        ("GetWeather", "get_weather"),
        ("get-weather", "get_weather"),
        ("math_factorial", "math.factorial"),
        ("factorial", "math.factorial"),
        ("my.module.get_weather", "get_weather"),
        ("find_book", "findBook"),
        ("run", None),
        ("weather", None),
        ("", None),
    ],
)
def test_names(written: str, name: str | None) -> None:
    tool = INDEX.resolve(written).tool
    assert (tool.name if tool else None) == name


def test_closest_names() -> None:
    assert INDEX.closest("get_wether") == ("get_weather",)


def test_a_changed_dict_is_read_anew() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    tools = [tool]
    assert tool_index(tools) is tool_index(tools)
    tool["name"] = "g"
    assert list(tool_index(tools).tools) == ["g"]
    tool["parameters"] = {"type": "object", "required": ["a"]}
    assert tool_index(tools).tools["g"].required == ("a",)


def test_clean_ends_on_any_text() -> None:
    assert clean("functions.functions.tools.x:1:2()") == "x"


@pytest.mark.parametrize(
    ("schema", "given", "wanted"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, 5.0, 5),
        ({"type": "integer"}, "5.5", "5.5"),
        ({"type": "integer"}, True, True),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, 3, 3),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "string"}, 22, "22"),
        ({"type": "string"}, None, None),
        ({"type": ["string", "null"]}, None, None),
        ({"type": "array", "items": {"type": "integer"}}, ["1", 2], [1, 2]),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": "1"}', {"n": 1}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "dict"}, {"x": "1"}, {"x": "1"}),
        ({"type": "float"}, "2", 2),
        ({"$ref": "#/$defs/n"}, "4", 4),
        ({}, "5", "5"),
    ],
    ids=str,
)
def test_coercion(schema: dict[str, Any], given: Any, wanted: Any) -> None:
    root = {"properties": {"x": schema}, "$defs": {"n": {"type": "integer"}}}
    read = Coercion(root).arguments({"x": given})["x"]
    assert (read, type(read)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("schema", "text", "wanted"),
    [
        ({"type": "string"}, "00420", "00420"),
        ({"type": "string"}, "null", "null"),
        ({"type": "integer"}, "17", 17),
        ({"type": "boolean"}, "True", True),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": "array"}, '["a"]', ["a"]),
        ({"type": "integer"}, "many", "many"),
        (None, "17", 17),
        (None, "plain", "plain"),
    ],
    ids=str,
)
def test_plain_text_takes_the_declared_type(schema: Any, text: str, wanted: Any) -> None:
    root = {"properties": {"x": schema}} if schema is not None else {}
    assert Coercion(root).untyped({"x": text}) == {"x": wanted}


@pytest.mark.parametrize(
    "given", [tk.Tool("f", "Do it.", {}), {"name": "f"}, "f", len], ids=["tool", "dict", "text", "function"]
)
def test_a_tool_without_brackets_is_one_clear_error(given: Any) -> None:
    with pytest.raises(ConfigError, match="Put it in brackets"):
        tk.extract("f()", tools=given)
