"""Every request holds each call with its one result behind it, whatever history, hooks and wrappers made of it.

Sources: dify#41846 (a call without a result), langchain#38352 and deepagents#270 (results without a call),
agent-native#2312 (one id twice in a turn), pydantic-ai#4430 and deepagents#2703 (unreadable arguments),
langchain#34159 (a limit that leaves calls open), deer-flow#4080.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.agents.builtin import HumanApproval, Summarization, ToolCallLimit
from toolkit.agents.pairs import paired
from toolkit.agents.state import REMOVE_ALL, RemoveMessage
from toolkit.messages import ChatRole, to_openai

M = tk.ChatMessage
IDS = st.sampled_from(["a", "b", "c", "d", None])
CALLS = st.builds(tk.ToolCall, st.sampled_from(["pay", "ghost"]), st.just({"amount": 1}), IDS)
RESULTS = st.lists(CALLS, min_size=1, max_size=3).map(
    lambda calls: M(ChatRole.TOOL, tuple(tk.ToolCallResult(f"of {call.id}", call) for call in calls))
)
TURNS = st.builds(lambda text, calls: M.from_assistant(text, tool_calls=calls), st.sampled_from(["", "hm"]),
                  st.lists(CALLS, max_size=4))  # fmt: skip
WORDS = st.sampled_from([M.from_user("hello"), M.from_system("be brief"), M.from_assistant("so")])
HISTORIES = st.lists(st.one_of(TURNS, RESULTS, WORDS), max_size=10)


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@given(HISTORIES)
def test_a_paired_history_is_one_that_servers_take_and_stays_as_it_is(faults, history):
    found = paired(history)
    assert faults(found) == []
    assert [a is b for a, b in zip(paired(found), found, strict=True)].count(False) == 0
    said = [message.text for message in history if message.role is not ChatRole.TOOL]
    assert [message.text for message in found if message.role is not ChatRole.TOOL] == said


@given(st.lists(st.lists(st.sampled_from("xyz"), unique=True, min_size=1), min_size=1, max_size=4))
def test_no_result_is_lost_that_answers_a_call(turns):
    history = []
    for number, ids in enumerate(turns):
        calls = [tk.ToolCall("pay", {}, f"{number}{one}") for one in ids]
        history += [M.from_assistant(tool_calls=calls), M.from_user("hm")]
        history += [M.from_tool(call.id, call) for call in reversed(calls)]
    results = [result for message in paired(history) for result in message.tool_call_results]
    assert [result.result for result in results] == [f"{n}{one}" for n, ids in enumerate(turns) for one in ids]
    assert not any(result.error for result in results)


class Shuffle(tk.AgentMiddleware):
    """Make something of the messages in a hook, or in a wrapper."""

    def __init__(self, where, order):
        self.where, self.order = where, order

    def _changed(self, messages):
        return [messages[0], *(messages[place % len(messages)] for place in self.order)]

    def before_model(self, state, runtime):
        if self.where == "hook":
            return {"messages": [RemoveMessage(REMOVE_ALL), *self._changed(state["messages"])]}
        return None

    def wrap_model_call(self, request, handler):
        if self.where == "wrapper":
            request = request.override(messages=tuple(self._changed(request.messages)))
        return handler(request)


@settings(max_examples=60)
@given(HISTORIES, st.sampled_from(["hook", "wrapper", "nowhere"]), st.lists(st.integers(0, 9), max_size=8))
def test_no_request_is_one_that_a_server_refuses(faults, history, where, order):
    model = tk.ScriptedModel([tk.ToolCall("pay", {"amount": 2}, "a"), "done"])
    tk.Agent(model, [pay], middleware=[Shuffle(where, order)]).run([M.from_user("go"), *history])
    for request in model.requests:
        assert faults(request["messages"]) == []


def wire(text):
    return tk.Reply("", raw={"invalid_tool_calls": [{"name": "pay", "id": "bad", "error": text}]})


GIVEN = [M.from_user("one"), M.from_assistant("so"), M.from_user("two")]
B, A = tk.ToolCall("pay", {"amount": 1}, "B"), tk.ToolCall("pay", {"amount": 1}, "A")
TWO = M.from_assistant(tool_calls=[tk.ToolCall("pay", {"amount": n}, "same") for n in (1, 2)])
AGENTS = {
    "agent-native#2312": ([TWO, "done"], [], "pay"),
    "dify#41846": (["Yes."], [], [GIVEN[0], M.from_assistant(tool_calls=[A]), M.from_user("are you there?")]),
    "langchain#38352": (
        ["ok"],
        [Summarization(tk.ScriptedModel(["They talked."], cycle=True), trigger=("messages", 6), keep=("messages", 4))],
        [*GIVEN, M.from_assistant(tool_calls=[B]), M.from_tool("of A", A), M.from_tool("of B", B), M.from_user("3")],
    ),
    "deepagents#270": (["ok"], [], [M.from_tool("of A", A), M.from_user("on")]),
    "pydantic-ai#4430": ([wire('{"amount": x'), tk.ToolCall("pay", {"amount": 1}), "done"], [], "pay"),
    "deepagents#2703": ([wire("cut off"), wire("cut off"), "done"], [], "pay"),
    "langchain#34159": ([TWO], [ToolCallLimit(run_limit=1, exit_behavior="end")], "pay"),
    "langchain#33787": ([A, "done"], [HumanApproval(ask=lambda call: {"amount": 5})], "pay"),
}  # fmt: skip


@pytest.mark.parametrize("source", AGENTS)
def test_what_was_reported(faults, source):
    lines, middleware, question = AGENTS[source]
    model = tk.ScriptedModel([*lines, "more"], cycle=True)
    agent = tk.Agent(model, [pay], arm="native", middleware=middleware)
    trace = agent.run(question)
    agent.run([*trace.messages, M.from_user("And now?")])
    assert [faults(request["messages"]) for request in model.requests] == [[]] * len(model.requests)
    shown = json.dumps([to_openai(message) for message in model.requests[-1]["messages"]])
    assert "invalid_calls" not in shown


@pytest.mark.parametrize("concurrent", [True, False])
def test_results_stand_in_the_order_of_the_calls(concurrent):
    """With "no-parallel" the refusal of the second call stood before the result of the first."""
    model = tk.ScriptedModel([TWO, "done"])
    trace = tk.Agent(model, [pay], tool_choice="no-parallel", concurrent=concurrent).run("pay")
    assert [(result.origin.id, result.error) for result in trace.tool_results] == [("same", False), ("same_1", True)]
