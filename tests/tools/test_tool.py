"""A tool's schema says what the function says, whatever way it was written."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Annotated, Literal

import pydantic
import pytest

import toolkit as tk
from toolkit.errors import ConfigError, ToolInvocationError
from toolkit.tools import as_tools


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(pydantic.BaseModel):
    city: str
    title: str = "home"


def book(
    where: Place,
    when: dt.date,
    kind: Literal["bed", "desk"] = "bed",
    nights: Annotated[int, "how many nights"] = 1,
    extras: list[str] | None = None,
    colour: Colour = Colour.RED,
    *,
    _token: str = "",
) -> str:
    """Book a place.

    It is paid later.

    Args:
        where: the place to book
        kind: what to book

    Returns:
        a number.
    """
    return f"{where} {when} {kind} {nights} {extras} {colour} {_token}"


def test_types_defaults_and_words_survive_postponed_annotations():
    tool = tk.Tool.from_function(book)
    assert tool.name == "book"
    assert tool.description == "Book a place.\n\nIt is paid later."
    assert tool.required == ["where", "when"]
    properties = tool.properties
    assert properties["kind"] == {
        "type": "string", "enum": ["bed", "desk"], "default": "bed", "description": "what to book",
    }  # fmt: skip
    assert properties["nights"] == {"type": "integer", "default": 1, "description": "how many nights"}
    assert properties["extras"]["anyOf"][0] == {"type": "array", "items": {"type": "string"}}
    assert properties["colour"]["default"] == "red"
    assert properties["when"] == {"type": "string", "format": "date"}
    assert properties["where"]["description"] == "the place to book"
    assert "_token" in properties


def test_a_parameter_called_title_keeps_its_name():
    tool = tk.Tool.from_function(book)
    assert set(tool.parameters["$defs"]["Place"]["properties"]) == {"city", "title"}
    assert "title" not in tool.parameters


def test_types_defined_inside_a_function_are_found():
    class Local(pydantic.BaseModel):
        x: int

    def use(it: Local) -> int:
        return it.x

    def keep() -> type:  # the closure is what makes the name reachable
        return Local

    def use_closed(it: Local) -> int:
        return it.x + keep().__name__.__len__() + Local(x=1).x

    with pytest.raises(ConfigError, match="Local"):
        tk.Tool.from_function(use)
    assert tk.Tool.from_function(use_closed).required == ["it"]


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.\n\nArgs:\n    x: the number\n",
        "Do it.\n\nParameters\n----------\nx : int\n    the number\n",
        "Do it.\n\n:param x: the number\n",
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_every_docstring_style_is_read(docstring):
    def do(x: int) -> int:
        return x

    do.__doc__ = docstring
    tool = tk.Tool.from_function(do)
    assert tool.description == "Do it."
    assert tool.properties["x"] == {"type": "integer", "description": "the number"}


def test_an_explicit_schema_wins_over_the_signature():
    """Source: llm-ollama#69."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}

    def search(**kwargs: str) -> str:
        return str(kwargs)

    assert tk.Tool.from_function(search, parameters=schema).parameters == schema


def test_the_decorator_takes_options_and_leaves_the_function_callable():
    @tk.tool(name="plus", timeout_s=2, effect="writes")
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    assert (add.name, add.timeout_s, add.effect) == ("plus", 2, "writes")
    assert add(1) == 3
    assert add.invoke(a=1, b=1) == 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tk.Tool("", "", {}), "needs a name"),
        (lambda: tk.Tool("a", "", {"type": "array"}), "must have type 'object'"),
        (lambda: tk.Tool("a", "", {"type": "object", "properties": {"x": {"type": "strin"}}}), "no valid JSON Schema"),
        (lambda: tk.Tool("a", "", []), "must be a JSON Schema object"),
        (lambda: tk.Tool.from_function(lambda x: x), "Parameter 'x' of '<lambda>' has no type"),
        (lambda: tk.Tool.from_function(max), "'max' has no signature"),
        (lambda: as_tools(3), "Expected a list of tools, got 3"),
        (lambda: as_tools([3]), "3 is no tool"),
        (lambda: as_tools(book), "Put it in brackets"),
        (lambda: tk.Toolset([book, book]), "given more than once: 'book'"),
    ],
    ids=["no name", "array", "bad type", "no schema", "untyped", "builtin", "no list", "number", "bare tool", "twice"],
)
def test_mistakes_are_named(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


def test_a_tool_without_a_function_says_so():
    with pytest.raises(ToolInvocationError, match="has no function"):
        tk.Tool("show", "", {"type": "object"}).invoke()


def test_a_default_that_is_a_field_keeps_the_name_of_its_parameter():
    def add(a: int, b: int = pydantic.Field(4, ge=0, description="second")) -> int:
        return a + b

    tool = tk.Tool.from_function(add)
    second = {"type": "integer", "default": 4, "minimum": 0, "description": "second"}
    assert tool.parameters["properties"] == {"a": {"type": "integer"}, "b": second}
    assert tk.ToolInvoker([tool]).invoke(tk.ToolCall("add", {"a": 1})).result == "5"


@dataclasses.dataclass
class Address:
    street: str
    city: str = pydantic.Field("Oslo", alias="town")


def test_fields_of_nested_types_keep_their_names():
    def send(p_to: Address, model_x: int, _hidden: int = pydantic.Field(1, alias="seen")) -> str:
        return f"{p_to} {model_x} {_hidden}"

    tool = tk.Tool.from_function(send)
    assert list(tool.parameters["properties"]) == ["p_to", "model_x", "_hidden"]
    assert tool.parameters["required"] == ["p_to", "model_x"]
    assert list(tool.parameters["$defs"]["Address"]["properties"]) == ["street", "town"]
