"""Hooks and their additions: error hooks, when, wrap_agent_call, names, async twins, jumps; regressions by issue."""

from __future__ import annotations

import asyncio

import pytest

import toolkit as tk
from toolkit.agents.plan import Plan
from toolkit.agents.state import StateField
from toolkit.errors import ConfigError, LimitError, UpdateError


class Log(tk.AgentMiddleware):
    def __init__(self, seen):
        self.seen = seen

    def before_agent(self, state, runtime):
        self.seen.append("before_agent")

    def after_agent(self, state, runtime):
        self.seen.append("after_agent")

    def on_error(self, error, state, runtime):
        self.seen.append(f"on_error {error} {len(state['messages'])}")


def test_on_error_always_runs_and_the_error_goes_on():
    """Source: langchain#34766."""
    seen = []
    with pytest.raises(RuntimeError, match="down"):
        tk.Agent(tk.ScriptedModel([RuntimeError("down")]), middleware=[Log(seen)]).run("go")
    assert seen == ["before_agent", "on_error down 1"]


def test_a_fault_in_on_error_does_not_hide_the_error():
    class Bad(tk.AgentMiddleware):
        def on_error(self, error, state, runtime):
            raise KeyError("second")

    with pytest.raises(RuntimeError, match="down") as caught:
        tk.Agent(tk.ScriptedModel([RuntimeError("down")]), middleware=[Bad()]).run("go")
    assert [e.source for e in caught.value.trace.of_kind("error")] == ["Bad.on_error", "agent"]


def test_async_on_error_and_sync_on_error_both_run_under_async():
    seen = []

    class Later(tk.AgentMiddleware):
        async def aon_error(self, error, state, runtime):
            seen.append("async")

    agent = tk.Agent(tk.ScriptedModel([RuntimeError("down")]), middleware=[Later(), Log(seen)])
    with pytest.raises(RuntimeError):
        asyncio.run(agent.arun("go"))
    assert seen == ["before_agent", "on_error down 1", "async"]


def test_wrap_agent_call_stands_around_the_run():
    class Twice(tk.AgentMiddleware):
        def wrap_agent_call(self, request, handler):
            try:
                return handler(request)
            except RuntimeError:
                return handler(request.override(state={"messages": [tk.ChatMessage.from_user("again")]}))

    model = tk.ScriptedModel([RuntimeError("down"), "up"])
    trace = tk.Agent(model, middleware=[Twice()]).run("go")
    assert [m.text for m in trace.messages] == ["again", "up"]


def test_wrap_agent_call_works_under_async_in_both_forms():
    class Sync(tk.AgentMiddleware):
        def wrap_agent_call(self, request, handler):
            return handler(request)

    class Later(tk.AgentMiddleware):
        async def awrap_agent_call(self, request, handler):
            return await handler(request)

    agent = tk.Agent(tk.ScriptedModel(["up"]), middleware=[Sync(), Later()])
    assert asyncio.run(agent.arun("go")).text == "up"


def test_wrap_agent_call_must_give_a_trace():
    class Wrong(tk.AgentMiddleware):
        def wrap_agent_call(self, request, handler):
            return "done"

    with pytest.raises(UpdateError, match=r"Wrong.wrap_agent_call returned 'done'"):
        tk.Agent(tk.ScriptedModel([]), middleware=[Wrong()]).run("go")


def test_when_switches_every_hook_of_a_middleware():
    class Shout(tk.AgentMiddleware):
        def when(self, state):
            return len(state["messages"]) > 2

        def before_model(self, state, runtime):
            return {"messages": [tk.ChatMessage.from_user("LOUD")]}

        def wrap_model_call(self, request, handler):
            return tk.ChatMessage.from_assistant((handler(request).result[0].text or "").upper())

        def wrap_tool_call(self, request, handler):
            raise AssertionError("not yet")

    tool = tk.Tool("t", "", {"type": "object"}, lambda: "ok")
    model = tk.ScriptedModel([tk.ToolCall("t"), "bye"])
    made = Shout()
    made.when = lambda state: len(state["messages"]) > 3
    trace = tk.Agent(model, [tool], middleware=[made]).run("go")
    assert [m.text for m in trace.messages] == ["go", None, None, "bye"]
    made.when = lambda state: state["messages"][-1].role == "user"
    assert tk.Agent(tk.ScriptedModel(["bye"]), middleware=[made]).run("go").text == "BYE"


def test_tools_of_a_middleware_are_offered_only_while_it_acts():
    class Later(tk.AgentMiddleware):
        tools = (tk.Tool("late", "", {"type": "object"}, lambda: "ok"),)

        def when(self, state):
            return len(state["messages"]) > 1

    model = tk.ScriptedModel([tk.ToolCall("late", {}, "a"), tk.ToolCall("late", {}, "b"), "bye"])
    trace = tk.Agent(model, middleware=[Later()]).run("go")
    assert [len(r["tools"] or ()) for r in model.requests] == [0, 1, 1]
    assert [r.error for r in trace.tool_results] == [True, False]


@pytest.mark.parametrize("given", [None, "request", {"messages": []}], ids=repr)
def test_a_handler_takes_requests_only(given):
    @tk.wrap_model_call
    def wrong(request, handler):
        return handler(given)

    with pytest.raises(UpdateError, match="A wrapper gave its handler"):
        tk.Agent(tk.ScriptedModel(["x"]), middleware=[wrong]).run("go")


def test_two_of_one_class_get_numbers_and_an_explicit_clash_is_refused():
    """Source: langchain#39110."""
    assert Plan((Log([]), Log([]), Log([]))).names == ("Log", "Log#2", "Log#3")
    named = [tk.before_model(lambda state, runtime: None, name="gate") for _ in range(2)]
    with pytest.raises(ConfigError, match="Two middlewares are named 'gate'"):
        tk.Agent(tk.ScriptedModel([]), middleware=named)


@pytest.mark.parametrize("hook", ["before_model", "wrap_model_call", "wrap_tool_call", "on_error"])
def test_async_only_hooks_are_refused_when_a_sync_run_starts(hook):
    """Source: langchain#33429."""

    async def method(self, *args):
        raise AssertionError

    made = type("Later", (tk.AgentMiddleware,), {f"a{hook}": method})()
    with pytest.raises(ConfigError, match=f"Middleware 'Later' has a{hook} but no {hook}"):
        tk.Agent(tk.ScriptedModel(["x"]), middleware=[made]).run("go")


def test_sync_wrappers_run_under_async_and_may_retry():
    tries = []

    class Again(tk.AgentMiddleware):
        def wrap_model_call(self, request, handler):
            try:
                return handler(request)
            except RuntimeError:
                tries.append(1)
                return handler(request)

        def wrap_tool_call(self, request, handler):
            return handler(request)

    tool = tk.Tool("t", "", {"type": "object"}, lambda: "ok")
    model = tk.ScriptedModel([RuntimeError("down"), tk.ToolCall("t"), "bye"])
    trace = asyncio.run(tk.Agent(model, [tool], middleware=[Again()]).arun("go"))
    assert (trace.text, tries, trace.tool_results[0].result) == ("bye", [1], "ok")


def test_many_sync_layers_around_parallel_calls_do_not_wait_for_each_other():
    class Layer(tk.AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            return handler(request)

        def wrap_model_call(self, request, handler):
            return handler(request)

    tool = tk.Tool("t", "", {"type": "object"}, lambda: "ok")
    calls = [tk.ToolCall("t", {}, str(number)) for number in range(12)]
    model = tk.ScriptedModel([tk.ChatMessage.from_assistant(tool_calls=calls), "bye"])
    agent = tk.Agent(model, [tool], middleware=[Layer() for _ in range(6)])

    async def limited():
        return await asyncio.wait_for(agent.arun("go"), 10)

    assert len(asyncio.run(limited()).tool_results) == 12


def test_a_jump_without_end_is_bounded():
    """Source: langchain#40136."""

    @tk.before_model(can_jump_to=["model"])
    def forever(state, runtime):
        return {"jump_to": "model"}

    with pytest.raises(LimitError, match="jumped 6 times"):
        tk.Agent(tk.ScriptedModel([]), middleware=[forever], max_model_calls=5).run("go")


def test_a_jump_to_tools_without_any_turn_is_an_error():
    @tk.before_model(can_jump_to=["tools"])
    def early(state, runtime):
        return {"jump_to": "tools"}

    tool = tk.Tool("t", "", {"type": "object"}, lambda: "ok")
    with pytest.raises(UpdateError, match="needs an assistant message"):
        tk.Agent(tk.ScriptedModel([]), [tool], middleware=[early]).run("go")


def test_a_denied_call_does_not_run_after_a_jump_to_tools():
    """Source: langchain#40492."""
    ran = []
    tool = tk.Tool("t", "", {"type": "object"}, lambda: ran.append(1))

    class Deny(tk.AgentMiddleware):
        @tk.hook_config(can_jump_to=["tools"])
        def after_model(self, state, runtime):
            turn = state["messages"][-1]
            answers = [tk.ChatMessage.from_tool("denied", c, error=True) for c in turn.tool_calls]
            return {"messages": answers, "jump_to": "tools"} if answers else None

    trace = tk.Agent(tk.ScriptedModel([tk.ToolCall("t"), "bye"]), [tool], middleware=[Deny()]).run("go")
    assert ran == []
    assert [r.result for r in trace.tool_results] == ["denied"]


def test_editing_the_state_in_a_hook_changes_nothing():
    class Sneak(tk.AgentMiddleware):
        state_schema = {"notes": StateField(default=list)}

        def before_model(self, state, runtime):
            state["messages"].clear()
            state["notes"].append("x")

    trace = tk.Agent(tk.ScriptedModel(["bye"]), middleware=[Sneak()]).run("go")
    assert [m.text for m in trace.messages] == ["go", "bye"]
    assert trace.state == {"notes": []}


def test_context_and_counts_are_in_the_runtime():
    seen = []

    @tk.after_model
    def look(state, runtime):
        seen.append((runtime.context, runtime.agent_name, runtime.model_calls, runtime.tokens))

    model = tk.ScriptedModel([tk.Reply("x", prompt_tokens=3, completion_tokens=4)])
    tk.Agent(model, middleware=[look], name="bot").run("go", context={"user": 7})
    assert seen == [({"user": 7}, "bot", 1, 7)]


def test_middleware_names_its_hooks():
    assert repr(Log([])) == "<Log: before_agent, after_agent, on_error>"


@pytest.mark.parametrize(("direct", "ended"), [("other", "return_direct"), ("called", "done")])
def test_the_tool_that_ran_decides_whether_its_result_is_the_answer(direct, ended):
    tools = [tk.Tool(n, "", {"type": "object"}, lambda n=n: n, return_direct=n == direct) for n in ("called", "other")]
    swap = tk.wrap_tool_call(lambda request, handler: handler(request.override(tool=tools[1])))
    trace = tk.Agent(tk.ScriptedModel([tk.ToolCall("called"), "done"]), tools, middleware=[swap]).run("go")
    assert (trace.stop_reason, trace.tool_results[0].result) == (ended, "other")


def test_a_command_of_a_tool_gets_the_tools_name_on_a_result_without_one():
    answer = {"role": "tool", "content": "ok", "tool_call_id": "c1"}
    tool = tk.Tool("write", "", {"type": "object"}, lambda: tk.Command({"messages": [answer]}))
    trace = tk.Agent(tk.ScriptedModel([tk.ToolCall("write", {}, "c1"), "done"]), [tool]).run("go")
    [result] = trace.tool_results
    assert (result.origin, result.result) == (tk.ToolCall("write", {}, "c1"), "ok")


def test_a_tool_that_nobody_registered_is_not_named_as_one_to_call():
    tools = [tk.Tool(name, "", {"type": "object"}, lambda: "ok") for name in ("real", "ghost")]
    offer = tk.wrap_model_call(lambda request, handler: handler(request.override(tools=tools)))
    supply = tk.wrap_tool_call(lambda request, handler: handler(request))
    model = tk.ScriptedModel([tk.ToolCall("ghost"), "done"])
    trace = tk.Agent(model, tools[:1], middleware=[offer, supply]).run("go")
    assert trace.tool_results[0].result == 'There is no tool "ghost". Call one of: real.'
