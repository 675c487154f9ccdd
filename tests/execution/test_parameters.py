"""Which parameters of a function a model is shown, and who fills the others: the state, the invoker, nobody."""

from __future__ import annotations

import dataclasses
import json
import operator
import typing
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol

import pytest

import toolkit as tk
from toolkit.agents.runtime import Runtime
from toolkit.agents.state import StateField
from toolkit.execution.turns import ResultChunk
from toolkit.tools.injected import CallId


class Listener(Protocol):
    def __call__(self, chunk: Any) -> None: ...


class Client:
    """Be of a type that no model can write."""


def invoke(tool, state=None, /, **arguments):
    return tk.ToolInvoker([tool], raise_on_failure=False).invoke(tk.ToolCall("t", arguments, "c7"), state=state)


# ------------------------------------------------------------------ callbacks and clients
NOT_FOR_MODELS = {
    "callable or none (haystack#10342)": Callable | None,
    "typed callable": Callable[[ResultChunk], None] | None,
    "old spelling": typing.Optional[typing.Callable[[str], str]],  # noqa: UP045
    "sync or async": Callable[[str], None] | Callable[[str], Awaitable[None]] | None,
    "bare": Callable,
    "protocol": Listener | None,
    "annotated": Annotated[Callable | None, "told of progress"],
    "client": Client | None,
}


@pytest.mark.parametrize("hint", NOT_FOR_MODELS.values(), ids=list(NOT_FOR_MODELS))
def test_a_parameter_no_model_can_write_is_left_out_if_it_has_a_default(hint):
    def t(town: str, streaming_callback=None) -> str:
        """Tell."""
        return f"{town}, {streaming_callback}"

    t.__annotations__["streaming_callback"] = hint
    tool = tk.Tool.from_function(t)
    assert (list(tool.properties), tool.required) == (["town"], ["town"])
    assert invoke(tool, town="Hull").result == "Hull, None"
    refused = invoke(tool, town="Hull", streaming_callback="print")
    assert refused.error
    assert "streaming_callback: expected" in refused.result
    heard = []
    invoker = tk.ToolInvoker([tool], streaming_callback=heard.append, enable_streaming_callback_passthrough=True)
    assert "append" in invoker.invoke(tk.ToolCall("t", {"town": "Hull"})).result


def test_a_required_parameter_no_model_can_write_is_refused():
    def t(town: str, listener: Callable) -> str:
        """Tell."""

    with pytest.raises(tk.ConfigError, match="Cannot make a JSON Schema for 't'"):
        tk.Tool.from_function(t)


# ------------------------------------------------------------------ parameters filled from the state
def lookup(query: str, user: str, depth: int = 1) -> str:
    """Look something up.

    Args:
        query: what to look for.
        user: who asks.
    """
    return f"{query} for {user}, {depth}"


def test_a_function_does_not_show_what_the_state_fills():
    """After haystack#9780 and haystack#9795: whatever the key is called."""
    tool = tk.Tool.from_function(lookup, inputs_from_state={"who": "user", "depth": "depth"})
    assert (list(tool.properties), tool.required) == (["query"], ["query"])
    assert "user" not in str(tool.tool_spec)
    assert tool("a", "b") == "a for b, 1"


@pytest.mark.parametrize("arm", ["native", "prompted", "constrained"])
def test_no_arm_shows_it_or_asks_for_it(arm):
    tool = tk.Tool.from_function(lookup, inputs_from_state={"who": "user"})
    line = '{"name": "lookup", "arguments": {"query": "tides"}}'
    lines = {"native": tk.ToolCall("lookup", {"query": "tides"}), "prompted": f"<tool_call>{line}</tool_call>"}
    model = tk.ScriptedModel([lines.get(arm, line), "done"])
    trace = tk.Agent(model, [tool], arm=arm, state_schema={"who": StateField()}).run("go", who="Ann")
    assert trace.tool_results[0].result == "tides for Ann, 1"
    assert '"user"' not in str(model.requests[0])


def test_a_schema_of_ones_own_does_not_require_it():
    schema = {"type": "object", "properties": {"query": {"type": "string"}, "user": {"type": "string"}}}
    schema["required"] = ["query", "user"]
    tool = tk.Tool("t", "d", schema, lookup, inputs_from_state={"who": "user"})
    assert tool.required == ["query"]
    assert schema["required"] == ["query", "user"]  # the caller's own
    state = tk.State({"who": {"type": str}}, {"who": "Ann"})
    assert invoke(tool, state, query="a").result == "a for Ann, 1"
    assert invoke(tool, state, query="a", user="Bo").result == "a for Bo, 1"  # the model wins, as in Haystack
    lacking = invoke(tool, tk.State({"who": {"type": str}}), query="a")
    assert "user: expected a value (the state has no 'who' yet)" in lacking.result


# ------------------------------------------------------------------ names of arguments that nobody has
@pytest.mark.parametrize("arm", ["native", "prompted"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"town": "Hull", "limt": 3}, "limt: expected 'limit', got an unknown name"),
        ({"town": "Hull", "limit": 2, "limt": 3}, "2 of Hull"),
        ({"town": "Hull", "zebra": 3}, "5 of Hull"),
        ({"town": "Hull", "limit": "2", "zebra": 3}, "2 of Hull"),
    ],
)
def test_an_agent_leaves_out_a_stranger_but_no_misspelt_name(given, said, arm):
    """As of the query of a REST call (fastmcp#380 of punkpeye): what is left out in silence is another question."""

    def tides(town: str, limit: int = 5) -> str:
        """List tides."""
        return f"{limit} of {town}"

    written = f"<tool_call>{json.dumps({'name': 'tides', 'arguments': given})}</tool_call>"
    model = tk.ScriptedModel([tk.ToolCall("tides", given) if arm == "native" else written, "done"])
    assert said in tk.Agent(model, [tides], arm=arm).run("go").tool_results[0].result


# ------------------------------------------------------------------ what a tool may ask for
C, S = typing.TypeVar("C"), typing.TypeVar("S")


class Marks:
    """Hold stand-ins for LangGraph's marks, which are known by name and library."""

    class InjectedState:
        field = None

    class ToolRuntime(typing.Generic[C, S]):
        pass

    InjectedState.__module__, ToolRuntime.__module__ = "langgraph.prebuilt.tool_node", "langchain.tools"

    @classmethod
    def of_field(cls, name):
        mark = cls.InjectedState()
        mark.field = name
        return mark


# what asks -> what of it names the call, and what the state's `spent`; None where it gives no such thing
ASKS = {
    "request": (tk.ToolCallRequest, lambda v: v.tool_call.id, lambda v: v.state["spent"]),
    "runtime": (Runtime, None, None),
    "state": (tk.State, None, lambda v: v.get("spent")),
    "id": (CallId, lambda v: v, None),
    "InjectedState": (Annotated[dict, Marks.InjectedState], None, lambda v: v["spent"]),
    "InjectedState()": (Annotated[dict, Marks.InjectedState()], None, lambda v: v["spent"]),
    "InjectedState(field)": (Annotated[int, Marks.of_field("spent")], None, lambda v: v),
    "ToolRuntime": (Marks.ToolRuntime, lambda v: v.tool_call_id, lambda v: v.state["spent"]),
    "ToolRuntime[…]": (Marks.ToolRuntime[None, dict], lambda v: v.tool_call_id, lambda v: v.state["spent"]),
    "optional": (Annotated[dict | None, Marks.InjectedState], None, lambda v: v["spent"]),
}


@pytest.mark.parametrize("ask", ASKS)
def test_a_tool_is_given_what_it_asks_for_and_no_model_sees_that(ask):
    """After langgraph#6241 and langgraph#1916, where such parameters were required of the model."""
    hint, call_id, spent = ASKS[ask]
    given = []

    def pay(amount: int, asked) -> str:
        """Pay."""
        given.append(asked)
        return "paid"

    pay.__annotations__["asked"] = hint
    tool = tk.Tool.from_function(pay)
    assert list(tool.properties) == ["amount"]
    model = tk.ScriptedModel([tk.ToolCall("pay", {"amount": 3}, "c7"), "done"])
    trace = tk.Agent(model, [tool], state_schema={"spent": StateField(operator.add, 0)}).run("go", spent=4)
    assert trace.tool_results[0].result == "paid"
    assert "asked" not in str(model.requests[0]["tools"])
    assert call_id is None or call_id(given[0]) == "c7"
    assert spent is None or spent(given[0]) == 4
    refused = tk.ToolInvoker([tool], raise_on_failure=False).invoke(tk.ToolCall("pay", {"amount": 3, "asked": "x"}))
    assert refused.error


@pytest.mark.parametrize("explicit", [False, True])
def test_langchains_mark_gives_the_id_so_that_a_command_is_valid(explicit):
    """After langchain#31688 (own schema and injection) and the many reports of Commands without a matching result."""
    tools = pytest.importorskip("langchain_core.tools")

    def pay(amount: int, tool_call_id) -> tk.Command:
        """Pay."""
        done = tk.ChatMessage.from_tool("paid", tk.ToolCall("pay", {}, tool_call_id))
        return tk.Command({"messages": [done], "spent": amount})

    pay.__annotations__["tool_call_id"] = Annotated[str, tools.InjectedToolCallId]
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    tool = tk.Tool("pay", "Pay.", schema, pay) if explicit else tk.Tool.from_function(pay)
    assert list(tool.properties) == ["amount"]
    calls = [tk.ToolCall("pay", {"amount": n}, f"c{n}") for n in (3, 4)]
    model = tk.ScriptedModel([tk.ChatMessage.from_assistant(tool_calls=calls), "done"])
    trace = tk.Agent(model, [tool], state_schema={"spent": StateField(operator.add, 0)}).run("go")
    assert trace.state["spent"] == 7
    assert [(result.origin.id, result.result) for result in trace.tool_results] == [("c3", "paid"), ("c4", "paid")]


@pytest.mark.parametrize("state", [None, tk.State({"spent": {"type": int}}, {"spent": 4})], ids=["none", "some"])
def test_an_invoker_alone_gives_the_id_and_the_state(state):
    def t(n: int, call: CallId, values: Annotated[dict, Marks.InjectedState]) -> str:
        """Tell."""
        return f"{call} {values.get('spent')}"

    t.__annotations__ |= {"values": Annotated[dict, Marks.InjectedState]}
    tool = tk.Tool.from_function(t)
    assert invoke(tool, state, n=1).result == f"c7 {state and 4}"
    out = tk.ToolInvoker([tool]).run(
        [tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("t", {"n": 1}, "c8")])], state
    )
    assert out["tool_messages"][0].tool_call_result.result == f"c8 {state and 4}"


def test_a_type_of_ones_own_with_such_a_name_is_the_models():
    @dataclasses.dataclass
    class ToolRuntime:
        hours: int

    def t(runtime: dict) -> str:
        """Tell."""
        return str(runtime.hours)

    t.__annotations__["runtime"] = ToolRuntime
    assert invoke(tk.Tool.from_function(t), runtime={"hours": 3}).result == "3"


# ------------------------------------------------------------------ chunks
def test_a_chunk_has_its_meta_in_haystacks_words():
    heard = []
    tool = tk.Tool.from_function(lambda: "noon", name="t", description="d")
    tk.ToolInvoker([tool], streaming_callback=heard.append).run(
        [tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("t", {}, "c7")])]
    )
    assert [chunk.meta for chunk in heard] == [
        {"tool_result": "noon", "tool_call": tk.ToolCall("t", {}, "c7")},
        {"finish_reason": "tool_call_results"},
    ]
