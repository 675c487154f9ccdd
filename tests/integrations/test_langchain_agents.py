"""What LangChain's users bring along: its messages wherever ours may stand, its tools as they are.

Source: langchain#33472 (a wrapper that answers with a ToolMessage), and the guides of langchain 1.x.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import pytest

import toolkit as tk

pytest.importorskip("langchain_core")

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool
from langchain_core.tools import Tool as OneTextTool
from langchain_core.tools import tool as langchain_tool


class Subclass(BaseTool):
    name: str = "mul"
    description: str = "Multiply."

    def _run(self, a: int) -> int:
        return a * 3


@langchain_tool
def mul(a: int) -> int:
    """Multiply."""
    return a * 3


@langchain_tool("mul")
async def later(a: int) -> int:
    """Multiply."""
    return a * 3


@langchain_tool("mul")
def configured(a: int, config: RunnableConfig) -> int:
    """Multiply."""
    return a * 3


@langchain_tool("mul")
def with_secret(a: int, secret: Annotated[str, InjectedToolArg] = "s") -> int:
    """Multiply."""
    return a * 3


@langchain_tool("mul")
def with_id(a: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Multiply."""
    assert tool_call_id == "c1"
    return str(a * 3)


@langchain_tool("mul", response_format="content_and_artifact")
def with_artifact(a: int):
    """Multiply."""
    return str(a * 3), [a]


def _plain(a: int) -> int:
    """Multiply."""
    return a * 3


TOOLS = [Subclass(), mul, later, configured, with_secret, with_id, with_artifact,
         StructuredTool.from_function(_plain, name="mul")]  # fmt: skip


def both_ways(make, question="go"):
    yield make().run(question)
    yield asyncio.run(make().arun(question))


@pytest.mark.parametrize("tool", TOOLS)
def test_its_tools_work_in_an_agent(tool):
    for trace in both_ways(lambda: tk.Agent(tk.ScriptedModel([tk.ToolCall("mul", {"a": 2}, "c1"), "six"]), [tool])):
        assert [(result.result, result.error) for result in trace.tool_results] == [("6", False)]


def test_its_tool_of_one_text_shows_that_text():
    tool = OneTextTool(name="shout", description="Shout.", func=str.upper)
    model = tk.ScriptedModel([tk.ToolCall("shout", {"tool_input": "hey"}), "done"])
    agent = tk.Agent(model, [tool])
    assert agent.tools[0].required == ["tool_input"]
    assert agent.run("go").tool_results[0].result == "HEY"


class Model(tk.AgentMiddleware):
    def __init__(self, form):
        self.form = form

    def wrap_model_call(self, request, handler):
        message = AIMessage("hey", id="m1", name="bot")
        whole = tk.ModelResponse([message])
        return {"message": message, "response": whole, "extended": tk.ExtendedModelResponse(whole)}[self.form]


@pytest.mark.parametrize("form", ["message", "response", "extended"])
def test_a_wrapper_may_give_its_assistant_message(form):
    for trace in both_ways(lambda: tk.Agent(tk.ScriptedModel(["never"]), middleware=[Model(form)])):
        said = trace.messages[-1]
        assert (said.text, said.meta["id"], said.name) == ("hey", "m1", "bot")


class Answers(tk.AgentMiddleware):
    """Answer a call with a ToolMessage, wherever one may be given."""

    def __init__(self, place):
        self.place = place

    def _message(self, known):
        return ToolMessage("bad luck", tool_call_id=known, status="error", id="t1")

    def after_model(self, state, runtime):
        calls = state["messages"][-1].tool_calls
        return {"messages": [self._message(calls[0].id)]} if self.place == "hook" and calls else None

    def wrap_tool_call(self, request, handler):
        if self.place == "wrapper":
            return self._message(request.tool_call["id"])
        return tk.Command(update={"messages": [self._message(request.tool_call["id"])]})


@pytest.mark.parametrize("place", ["hook", "wrapper", "command"])
def test_a_tool_message_keeps_its_id_its_status_and_gets_the_tools_name(place):
    def agent():
        model = tk.ScriptedModel([tk.ToolCall("mul", {"a": 2}, "c1"), "done"])
        return tk.Agent(model, [mul], middleware=[Answers(place)])

    for trace in both_ways(agent):
        [message] = [message for message in trace.messages if message.is_from("tool")]
        [result] = message.tool_call_results
        assert (message.meta["id"], result.error, result.origin.tool_name) == ("t1", True, "mul")
        assert "so: " + message.content == "so: bad luck"


class Forget(tk.AgentMiddleware):
    def before_model(self, state, runtime):
        return {"messages": [RemoveMessage(id="__remove_all__"), HumanMessage("other", id="h1")]}


def test_its_remove_message_removes():
    trace = tk.Agent(tk.ScriptedModel(["done"]), middleware=[Forget()]).run([SystemMessage("s"), HumanMessage("go")])
    assert [message.text for message in trace.messages] == ["other", "done"]


def test_its_history_is_a_history():
    call = {"name": "mul", "args": {"a": 2}, "id": "q"}
    history = [HumanMessage("go"), AIMessage("", tool_calls=[call]), ToolMessage("6", tool_call_id="q", status="error")]
    trace = tk.Agent(tk.ScriptedModel(["six"]), [mul]).run(history)
    assert [(r.origin.tool_name, r.error) for r in trace.tool_results] == [("mul", True)]
