"""Tools of any library become ours, one at a time or in lists of any shape."""

import asyncio
import time
from typing import Annotated, Any

import pydantic
import pytest

import toolkit as tk
from toolkit.errors import ConfigError
from toolkit.tools import as_tool, as_tools, single_tools

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SPEC = {"name": "double", "description": "Double it.", "parameters": SCHEMA}


def double(a: int) -> int:
    """Double it."""
    return 2 * a


class Numbers(pydantic.BaseModel):
    a: int


class Invoked:
    name, description, args_schema = "double", "Double it.", Numbers

    def invoke(self, args: dict[str, Any]) -> int:
        return 2 * args["a"]


class AsyncInvoked:
    name, description, parameters = "double", "Double it.", SCHEMA

    async def ainvoke(self, args: dict[str, Any]) -> int:
        return 2 * args["a"]


class ByKeywords:  # as Haystack's tools are invoked
    name, description, parameters = "double", "Double it.", SCHEMA

    def invoke(self, **kwargs: Any) -> int:
        return 2 * kwargs["a"]


class Called:
    """Double it."""

    name = "double"

    def __call__(self, a: int) -> int:
        return 2 * a


class CoroutineOnly(AsyncInvoked):  # as LangChain's tools that have no function to call
    func, coroutine = None, double

    def invoke(self, args: dict[str, Any]) -> int:
        raise NotImplementedError


RUNNABLE = [tk.Tool.from_function(double), double, Invoked(), AsyncInvoked(), ByKeywords(), Called(), CoroutineOnly()]


@pytest.mark.parametrize("value", RUNNABLE, ids=lambda value: type(value).__name__)
def test_every_kind_is_shown_and_run_alike(value):
    tool = as_tool(value)
    assert (tool.name, tool.description, tool.required) == ("double", "Double it.", ["a"])
    assert tool.properties["a"]["type"] == "integer"
    call = tk.ToolCall("double", {"a": 4})
    assert tk.ToolInvoker([value]).invoke(call).result == "8"
    assert asyncio.run(tk.ToolInvoker([value]).ainvoke(call)).result == "8"


@pytest.mark.parametrize(
    "value",
    [SPEC, {"type": "function", "function": SPEC}, {**SPEC, "parameters": None, "input_schema": SCHEMA}],
    ids=["plain", "wrapper", "input_schema"],
)
def test_a_dict_is_a_tool_to_be_shown(value):
    assert as_tool(value).tool_spec == SPEC
    assert as_tool(value).function is None


def test_what_says_nothing_of_its_arguments_takes_any():
    class Open:
        name = "open"

        def __call__(self, **anything):
            return sorted(anything)

    class Untyped:
        name, description = "untyped", None

        def __call__(self, a):
            return a

    invoker = tk.ToolInvoker([Open(), Untyped()])
    assert invoker.invoke(tk.ToolCall("open", {"b": 1, "a": 2})).result == '["a", "b"]'
    assert invoker.invoke(tk.ToolCall("untyped", {"a": "x"})).result == "x"


def test_langchain_tools_are_read():
    tools = pytest.importorskip("langchain_core.tools")

    async def later(a: int) -> int:
        """Double it."""
        return 2 * a

    for tool in (tools.tool(double), tools.StructuredTool.from_function(coroutine=later, name="double")):
        assert as_tool(tool).required == ["a"]
        assert tk.ToolInvoker([tool]).invoke(tk.ToolCall("double", {"a": 4})).result == "8"


def test_an_argument_that_langchain_injects_is_not_shown():
    tools = pytest.importorskip("langchain_core.tools")

    @tools.tool
    def pay(amount: int, user: Annotated[str, tools.InjectedToolArg]) -> str:
        """Pay."""
        return f"{amount} {user}"

    assert list(as_tool(pay).properties) == ["amount"]


def test_lists_and_toolsets_are_taken_apart():
    def other(a: int) -> int:
        """Do otherwise."""
        return a

    groups = [tk.Toolset([double]), [SPEC | {"name": "b"}, (other,)], iter([SPEC | {"name": "c"}])]
    assert [tool.name for tool in as_tools(groups)] == ["double", "b", "other", "c"]
    assert as_tools(None) == as_tools([]) == as_tools([[], tk.Toolset()]) == []
    assert list(single_tools([SPEC, [double]])) == [SPEC, double]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "Expected a list of tools, got 3"),
        ([3], "3 is no tool. Give a Tool, a typed function"),
        (["weather"], "'weather' is no tool"),
        (double, "Put it in brackets"),
        (Invoked(), "Put it in brackets"),
        (SPEC, "Put it in brackets"),
        ([{"function": {"x": 1}}], "has no name"),
        ([type("Nameless", (), {"invoke": print})()], "an object with a .name"),
        ([type("Idle", (), {"name": "idle"})()], "'idle' can be neither invoked nor called"),
        ([Invoked], "is no tool"),
        ([double, [Invoked()]], "given more than once: 'double'"),
    ],
    ids=["number", "numbers", "text", "function", "object", "dict", "no spec", "nameless", "idle", "class", "twice"],
)
def test_what_is_no_tool_is_refused(value, words):
    with pytest.raises(ConfigError, match=words):
        as_tools(value)


def test_names_are_compared_in_time_that_grows_with_their_number():
    tools = [tk.Tool(f"t{n}", "", {"type": "object"}) for n in range(20_000)]
    start = time.process_time()
    assert len(as_tools([tools])) == 20_000
    assert time.process_time() - start < 2
