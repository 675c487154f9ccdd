"""Faults that a hostile user found: approval of parallel calls, StopIteration, edits in place, repeated ids."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import toolkit as tk
from toolkit.agents.builtin import HumanApproval, ToolRetry
from toolkit.models.scripted import ScriptedModel


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def call(name="pay", cid="c1", **arguments):
    return tk.ToolCall(name, arguments, cid)


def said(*calls):
    return tk.ChatMessage.from_assistant(tool_calls=calls)


def three_payments(ask, **more):
    calls = [call(cid=f"c{n}", amount=n) for n in range(3)]
    middleware = [*more.pop("outer", ()), HumanApproval(ask=ask) if ask else HumanApproval()]
    return tk.Agent(tk.ScriptedModel([said(*calls), "done"]), [pay], middleware=middleware, **more)


def in_both_ways(agent, question="go"):
    return [lambda: agent().run(question), lambda: asyncio.run(asyncio.wait_for(agent().arun(question), 10))]


WAYS = pytest.mark.parametrize("way", [0, 1], ids=["sync", "async"])


# ------------------------------------------------------------------ approval
class Desk:
    """Answer questions slowly and note whether two were open at once."""

    def __init__(self):
        self.open, self.most, self.asked = 0, 0, []

    def __call__(self, call):
        self.open += 1
        self.most = max(self.most, self.open)
        self.asked.append(call.arguments["amount"])
        time.sleep(0.01)
        self.open -= 1
        return "yes" if call.arguments["amount"] == 1 else "no"


class AsyncDesk(Desk):
    async def __call__(self, call):
        self.open += 1
        self.most = max(self.most, self.open)
        self.asked.append(call.arguments["amount"])
        await asyncio.sleep(0.01)
        self.open -= 1
        return "yes" if call.arguments["amount"] == 1 else "no"


@WAYS
def test_one_question_at_a_time_in_the_order_of_the_calls(way):
    class Late(tk.AgentMiddleware):
        """Hold the first call back, so that the others come to the question earlier."""

        def wrap_tool_call(self, request, handler):
            time.sleep(0.03 if request.tool_call["args"]["amount"] == 0 else 0)
            return handler(request)

    desk = Desk()
    trace = in_both_ways(lambda: three_payments(desk, outer=[Late()]))[way]()
    assert (desk.most, desk.asked) == (1, [0, 1, 2])
    assert [result.error for result in trace.tool_results] == [True, False, True]
    assert trace.tool_results[1].result == "paid 1"


def test_async_questions_are_put_one_at_a_time_too():
    desk = AsyncDesk()
    trace = asyncio.run(three_payments(desk).arun("go"))
    assert (desk.most, desk.asked) == (1, [0, 1, 2])
    assert [result.error for result in trace.tool_results] == [True, False, True]


def test_two_runs_share_one_keyboard(monkeypatch):
    desk = Desk()
    monkeypatch.setattr("builtins.input", lambda prompt: desk(call(amount=1)))
    runs = [threading.Thread(target=three_payments(None).run, args=("go",)) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(10)
    assert (desk.most, len(desk.asked)) == (1, 6)


@WAYS
def test_calls_that_need_no_question_or_never_reach_it_hold_nobody_up(way):
    class Skip(tk.AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            if request.tool_call.id == "c0":
                return tk.ChatMessage.from_tool("skipped", request.tool_call)
            return handler(request)

    trace = in_both_ways(lambda: three_payments(lambda c: True, outer=[Skip(), ToolRetry()]))[way]()
    assert [result.result for result in trace.tool_results] == ["skipped", "paid 1", "paid 2"]


def test_an_ask_that_fails_ends_the_run_and_lets_the_others_go():
    def ask(call):
        raise KeyError("desk closed")

    with pytest.raises(KeyError, match="desk closed"):
        three_payments(ask).run("go")


def test_a_plain_function_may_give_something_to_await():
    async def later(call):
        return "yes"

    trace = asyncio.run(three_payments(lambda call: later(call)).arun("go"))
    assert [result.error for result in trace.tool_results] == [False] * 3


@pytest.mark.parametrize("fault", [EOFError(), RuntimeError("input(): lost sys.stdin"), NotImplementedError("none")])
def test_where_nobody_can_be_asked_the_call_is_refused(monkeypatch, fault):
    def closed(prompt):
        raise fault

    monkeypatch.setattr("builtins.input", closed)
    trace = three_payments(None).run("go")
    assert all(result.error and "nobody could be asked" in result.result for result in trace.tool_results)


# ------------------------------------------------------------------ StopIteration
class Empty(ScriptedModel):
    def chat(self, messages, tools=None, schema=None, options=None, **more):
        return next(iter([]))


def stop(*_):
    return next(iter([]))


STOPS = {
    "before_model": lambda: tk.Agent(tk.ScriptedModel(["a"]), middleware=[tk.before_model(stop)]),
    "after_agent": lambda: tk.Agent(tk.ScriptedModel(["a"]), middleware=[tk.after_agent(stop)]),
    "wrap_model_call": lambda: tk.Agent(tk.ScriptedModel(["a"]), middleware=[tk.wrap_model_call(stop)]),
    "wrap_tool_call": lambda: tk.Agent(
        tk.ScriptedModel([call(amount=1), "a"]), [pay], middleware=[tk.wrap_tool_call(stop)]
    ),
    "two tool calls": lambda: tk.Agent(
        tk.ScriptedModel([said(call(amount=1), call(cid="c2", amount=2)), "a"]),
        [pay],
        middleware=[tk.wrap_tool_call(stop)],
    ),
    "model": lambda: tk.Agent(Empty([])),
    "ask": lambda: three_payments(stop),
}


@WAYS
@pytest.mark.parametrize("agent", STOPS.values(), ids=STOPS)
def test_stop_iteration_is_a_failure_and_never_hangs(agent, way):
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        in_both_ways(agent)[way]()
    assert caught.value.trace.stop_reason == "error"


@WAYS
def test_a_tool_that_raises_stop_iteration_is_an_error_result(way):
    def empty() -> str:
        """Raise."""
        return next(iter([]))

    def agent():
        seen = tk.wrap_tool_call(lambda request, handler: handler(request))
        return tk.Agent(tk.ScriptedModel([call("empty"), "a"]), [empty], middleware=[seen])

    trace = in_both_ways(agent)[way]()
    assert trace.tool_results[0].error
    assert trace.text == "a"


def test_a_run_that_cancels_itself_ends_its_stream():
    async def cancel(state, runtime):
        raise asyncio.CancelledError

    async def read():
        agent = tk.Agent(tk.ScriptedModel(["a"]), middleware=[tk.before_model(cancel)])
        async for _ in agent.astream("go"):
            pass

    async def main():
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(read(), 5)

    asyncio.run(main())
