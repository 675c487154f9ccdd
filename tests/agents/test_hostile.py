"""Faults that a hostile user found: approval of parallel calls, StopIteration, edits in place, repeated ids."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import toolkit as tk
from toolkit.agents.builtin import (
    FewShot,
    FormatRepair,
    HumanApproval,
    ModelFallback,
    ModelRetry,
    Summarization,
    ToolRetry,
)
from toolkit.agents.requests import ModelResponse
from toolkit.errors import ConfigError, LimitError, UpdateError
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


# ------------------------------------------------------------------ edits in place
class Edits(tk.AgentMiddleware):
    """Try to change in place whatever a hook is given; change the call that a wrapper is given."""

    def __init__(self):
        self.refused = 0

    def before_model(self, state, runtime):
        for message in state["messages"]:
            for data in (message.meta, *(one.arguments for one in message.tool_calls)):
                with pytest.raises(TypeError, match="cannot be changed in place"):
                    data["edited"] = True
                self.refused += 1

    after_model = before_model

    def wrap_model_call(self, request, handler):
        response = handler(request)
        self.before_model({"messages": request.messages}, None)
        return response

    def wrap_tool_call(self, request, handler):
        request.tool_call["args"]["amount"] = 7
        return handler(request)


@WAYS
def test_the_history_cannot_be_edited_in_place(way):
    edits = Edits()

    def agent():
        return tk.Agent(tk.ScriptedModel([call(amount=1), "done"]), [pay], middleware=[edits])

    trace = in_both_ways(agent)[way]()
    assert edits.refused > 5
    assert trace.tool_results[0].result == "paid 7"  # the call itself was the wrapper's to change
    assert [c.arguments for c in trace.tool_calls] == [{"amount": 1}]
    assert [e.data["call"].arguments for e in trace.of_kind("tool_call")] == [{"amount": 1}]


def test_a_key_that_is_no_text_is_refused_clearly():
    with pytest.raises(UpdateError, match="returned the key 1"):
        tk.Agent(tk.ScriptedModel(["a"]), middleware=[tk.before_model(lambda state, runtime: {1: 2})]).run("go")


# ------------------------------------------------------------------ ids
@pytest.mark.parametrize("ids", [("c", "c", "c"), ("", "", None), ("c", "c", "c_1"), ("call_1_1", None, "x")])
def test_repeated_ids_of_a_server_are_made_unique(ids):
    calls = tuple(tk.ToolCall("pay", {"amount": n}, known) for n, known in enumerate(ids))
    model = tk.ScriptedModel([tk.Reply(tool_calls=calls, finish_reason="tool_calls"), "done"])
    looks = tk.after_model(lambda state, runtime: None)
    trace = tk.Agent(model, [pay], middleware=[looks]).run("go")
    assert [result.result for result in trace.tool_results] == ["paid 0", "paid 1", "paid 2"]
    assert len({c.id for c in trace.tool_calls}) == 3
    assert all(c.id for c in trace.tool_calls)


def test_a_refused_call_does_not_answer_another_of_its_id():
    calls = tuple(tk.ToolCall("pay", {"amount": n}, "c") for n in range(2))
    model = tk.ScriptedModel([tk.Reply(tool_calls=calls, finish_reason="tool_calls"), "done"])
    trace = tk.Agent(model, [pay], tool_choice="no-parallel").run("go")
    assert sorted(result.error for result in trace.tool_results) == [False, True]


# ------------------------------------------------------------------ limits
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_going_round_is_noticed(turns):
    lines = [call(amount=n % turns) for n in range(5 * turns)]
    with pytest.raises(LimitError, match="5 times") as caught:
        tk.Agent(tk.ScriptedModel([*lines, "done"]), [pay]).run("go")
    assert len(caught.value.trace.tool_results) == 5 * turns


def test_the_order_of_parallel_calls_hides_no_loop():
    turns = [said(*(call(cid=f"c{n}", amount=n) for n in order)) for order in [(0, 1), (1, 0)] * 3]
    with pytest.raises(LimitError, match="5 times in a row"):
        tk.Agent(tk.ScriptedModel([*turns, "done"]), [pay]).run("go")


def test_turns_that_get_on_are_no_loop():
    lines = [call(amount=n % 2 + n // 8) for n in range(16)]
    assert tk.Agent(tk.ScriptedModel([*lines, "done"]), [pay]).run("go").text == "done"


def test_jumps_do_not_escape_the_clock():
    slow = tk.before_model(lambda state, runtime: time.sleep(0.01) or {"jump_to": "model"}, can_jump_to=["model"])
    agent = tk.Agent(tk.ScriptedModel(["a"]), middleware=[slow], max_seconds=0.05, max_model_calls=None)
    with pytest.raises(LimitError, match="max_seconds"):
        agent.run("go")


def test_tokens_are_estimated_where_the_server_counts_none():
    lines = [call(amount=n) for n in range(10)]
    with pytest.raises(LimitError, match="max_run_tokens is 500"):
        tk.Agent(tk.ScriptedModel(lines), [pay], max_run_tokens=500).run("x" * 1000)
    counted = tk.Reply("done", prompt_tokens=1, completion_tokens=1)
    assert tk.Agent(tk.ScriptedModel([counted]), max_run_tokens=2).run("x" * 1000).text == "done"


def test_a_limit_is_no_failure_to_try_again():
    tried = []

    @tk.wrap_model_call
    def used_up(request, handler):
        tried.append(1)
        raise LimitError("used up")

    for outer in (ModelRetry(initial_delay=0), ModelFallback(tk.ScriptedModel(["b"]))):
        with pytest.raises(LimitError, match="used up"):
            tk.Agent(tk.ScriptedModel(["a"]), middleware=[outer, used_up]).run("go")
    assert len(tried) == 2


# ------------------------------------------------------------------ summaries, examples, repair
def talk(*turns):
    return [
        tk.ChatMessage.from_user(t) if n % 2 == 0 else tk.ChatMessage.from_assistant(t) for n, t in enumerate(turns)
    ]


def texts(trace):
    return [m.text for m in trace.messages if m.text]


@WAYS
def test_the_agents_own_model_can_summarize(way):
    def agent():
        short = Summarization(None, trigger=("messages", 3), keep=("messages", 1))
        return tk.Agent(tk.ScriptedModel(["Greetings.", "Fine."]), middleware=[short])

    trace = in_both_ways(agent, talk("Hi", "Hello", "How are you?"))[way]()
    assert texts(trace)[0].endswith("Greetings.")
    assert texts(trace)[1:] == ["How are you?", "Fine."]


def test_an_empty_summary_changes_nothing():
    short = Summarization(tk.ScriptedModel(["  "]), trigger=("messages", 3), keep=("messages", 1))
    trace = tk.Agent(tk.ScriptedModel(["Fine."]), middleware=[short]).run(talk("Hi", "Hello", "How are you?"))
    assert texts(trace) == ["Hi", "Hello", "How are you?", "Fine."]


@pytest.mark.parametrize(
    ("size", "what"),
    [
        (("messages", 0), "above 0"),
        (("tokens", -1), "above 0"),
        (("fraction", 1.5), "at most 1"),
        (("words", 2), "words"),
    ],
    ids=str,
)
@pytest.mark.parametrize("word", ["trigger", "keep"])
def test_sizes_that_mean_nothing_are_refused(word, size, what):
    with pytest.raises(ConfigError, match=what):
        Summarization(**{word: size})


@pytest.mark.parametrize(
    ("trigger", "keep", "left"),
    [
        (("messages", 5), ("messages", 5), "abcde"),
        (("messages", 4), ("messages", 4), "Sbcde"),
        (("tokens", 60), ("messages", 4), "Sbcde"),  # the tail alone would trigger again
        (("tokens", 60), ("tokens", 59), "Sde"),
        (("tokens", 60), ("tokens", 1), "Se"),
        (("fraction", 0.01), ("fraction", 0.01), "Scde"),
        ([("messages", 9), ("tokens", 99)], ("messages", 1), "Se"),
    ],
    ids=str,
)
def test_all_but_the_tail_is_summarized_whatever_the_tails_length(trigger, keep, left):
    short = Summarization(tk.ScriptedModel(["S"]), trigger=trigger, keep=keep)
    said = talk("a" * 99, "b" * 99, "c" * 99, "d" * 99, "e")
    trace = tk.Agent(tk.ScriptedModel(["done"]), middleware=[short]).run(said)
    assert "".join(text[-1] for text in texts(trace)[:-1]) == left


def test_each_time_the_trigger_is_reached_all_is_summarized_again():
    writer = tk.ScriptedModel(["S1", "S2", "S3"])
    short = Summarization(writer, trigger=("messages", 3), keep=("messages", 1))
    lines = [call(amount=n) for n in range(3)]
    trace = tk.Agent(tk.ScriptedModel([*lines, "done"]), [pay], middleware=[short]).run("The question")
    assert texts(trace) == ["Summary of the conversation so far:\nS3", "done"]
    assert ["The question" in r["messages"][0].text for r in writer.requests] == [True, False, False]
    assert "S2" in writer.requests[2]["messages"][0].text
    assert [result.result for result in trace.tool_results] == ["paid 2"]


@pytest.mark.parametrize(("answered", "left"), [(True, "ab"), (False, "x")], ids=["its call", "no call"])
def test_a_result_at_the_cut_stays_with_its_call_or_goes(answered, left):
    asked = tk.ToolCall("pay", {"amount": 1}, "c1")
    asking = [tk.ChatMessage.from_assistant("a", tool_calls=[asked])] if answered else talk("Hi", "x")
    history = [*talk("Hi", "Hello"), *asking, tk.ChatMessage.from_tool("b", asked)]
    short = Summarization(tk.ScriptedModel(["S"]), trigger=("messages", 3), keep=("messages", 1))
    trace = tk.Agent(tk.ScriptedModel(["done"]), [pay], middleware=[short]).run(history)
    kept = [m.text or m.tool_call_result.result for m in trace.messages[1:-1]]
    assert "".join(kept) == left


@WAYS
@pytest.mark.parametrize("failures", [2, 3])
def test_a_summary_is_asked_for_three_times(way, failures, monkeypatch):
    monkeypatch.setattr("toolkit.agents.builtin.failures.Backoff.delays", lambda self: iter([0] * self.max_retries))

    def agent():
        writer = tk.ScriptedModel([*[RuntimeError("busy")] * failures, "S"])
        short = Summarization(writer, trigger=("messages", 3), keep=("messages", 1))
        return tk.Agent(tk.ScriptedModel(["Fine."]), middleware=[short])

    run = in_both_ways(agent, talk("Hi", "Hello", "How are you?"))[way]
    if failures == 3:
        with pytest.raises(RuntimeError, match="busy"):
            run()
    else:
        assert texts(run())[1:] == ["How are you?", "Fine."]


def test_examples_stand_behind_the_system_message():
    model = tk.ScriptedModel(["Warm."])
    shown = FewShot([talk("Weather in Oslo?", "Cold.")])
    tk.Agent(model, middleware=[shown]).run([tk.ChatMessage.from_system("Be brief."), *talk("Weather in Rome?")])
    assert [m.text for m in model.requests[0]["messages"]] == [
        "Be brief.",
        "Weather in Oslo?",
        "Cold.",
        "Weather in Rome?",
    ]


def test_a_response_without_messages_needs_no_repair():
    nothing = tk.wrap_model_call(lambda request, handler: ModelResponse([]))
    trace = tk.Agent(tk.ScriptedModel(["a"]), middleware=[FormatRepair(), nothing]).run("go")
    assert [m.role for m in trace.messages] == ["user"]
