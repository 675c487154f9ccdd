"""Runs of Agent: arms, limits, tool choice, parallel calls, errors that keep what was done, streams."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import threading
import time
import weakref

import pydantic
import pytest

import toolkit as tk
from toolkit.errors import ConfigError, LimitError, ModelError, UpdateError


def call(name="add", cid="c1", **arguments):
    return tk.ToolCall(name, arguments, cid)


def both(*calls):
    return tk.ChatMessage.from_assistant(tool_calls=calls)


def results(trace):
    return [(result.result, result.error) for result in trace.tool_results]


def test_a_question_a_call_an_answer(add):
    model = tk.ScriptedModel([call(x=1, y=2), "It is 3."])
    trace = tk.Agent(model, [add], system_prompt="Be brief.").run("1 + 2?")
    assert trace.text == "It is 3."
    assert trace.stop_reason == "done"
    assert results(trace) == [("3", False)]
    assert [m.role for m in model.requests[0]["messages"]] == ["system", "user"]
    assert [m.role for m in trace.messages] == ["user", "assistant", "tool", "assistant"]
    assert model.requests[0]["tools"] == [add]


PROMPTED = {
    "hermes": '<tool_call>{"name": "add", "arguments": {"x": 1, "y": 2}}</tool_call>',
    "airgap": 'TOOL_CALL: add {"x": 1, "y": 2}',
    "action_json": '{"action": "add", "action_input": {"x": 1, "y": 2}}',
}


class Idle(tk.AgentMiddleware):
    def wrap_model_call(self, request, handler):
        return handler(request)

    def wrap_tool_call(self, request, handler):
        return handler(request)


@pytest.mark.parametrize("layers", [[], [Idle()]], ids=["bare", "wrapped"])
@pytest.mark.parametrize("stream", [False, True], ids=["run", "stream"])
def test_a_run_is_freed_with_its_trace_and_needs_no_collector(add, layers, stream):
    agent = tk.Agent(tk.ScriptedModel([call(x=1, y=2), "3"]), [add], middleware=layers)
    gc.collect()
    gc.disable()
    try:
        trace = [event for event in agent.stream("go") if event.kind == "end"][-1].data["trace"] if stream else None
        alive = weakref.ref(trace or agent.run("go"))
        del trace
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("protocol", PROMPTED)
def test_prompted_arm_shows_and_reads_calls_in_the_protocols_words(add, protocol):
    model = tk.ScriptedModel([PROMPTED[protocol], "It is 3."])
    trace = tk.Agent(model, [add], arm="prompted", protocol=protocol).run("1 + 2?")
    assert results(trace) == [("3", False)]
    assert trace.text == "It is 3."
    first, second = model.requests
    assert first["tools"] is None
    assert "add" in first["messages"][0].text
    assert "3" in second["messages"][-1].text  # the result, as a user turn


def test_constrained_arm_holds_decoding_and_reads_the_answer_key(add):
    model = tk.ScriptedModel(['{"name": "add", "arguments": {"x": 1, "y": 2}}', '{"answer": "It is 3."}'])
    trace = tk.Agent(model, [add], arm="constrained").run("1 + 2?")
    assert trace.text == "It is 3."
    assert model.requests[0]["schema"]
    assert results(trace) == [("3", False)]


def test_arm_is_native_only_where_the_model_supports_tools(add):
    class Plain(tk.ScriptedModel):
        supports_tools = False

    assert tk.Agent(Plain([]), [add]).recipe.arm == "prompted"
    assert tk.Agent(tk.ScriptedModel([]), [add]).recipe.arm == "native"


def test_a_call_cut_short_is_asked_for_again_with_the_reason(add):
    good = PROMPTED["hermes"]
    model = tk.ScriptedModel([tk.Reply(good[:40], finish_reason="length"), good, "3"])
    trace = tk.Agent(model, [add], arm="prompted").run("1 + 2?")
    assert trace.text == "3"
    assert [error for _, error in results(trace)] == [True, False]
    assert "Write the whole call again" in model.requests[1]["messages"][-1].text


def test_asking_again_is_bounded(add):
    model = tk.ScriptedModel([tk.Reply(PROMPTED["hermes"][:40], finish_reason="length")], cycle=True)
    trace = tk.Agent(model, [add], arm="prompted", max_reasks=2).run("1 + 2?")
    assert trace.stop_reason == "invalid_calls"
    assert len(model.requests) == 3


def test_a_call_the_server_could_not_read_is_read_here(add):
    fault = tk.Fault("parse", "no JSON")
    model = tk.ScriptedModel([tk.Reply(PROMPTED["hermes"], fault=fault), "3"])
    assert results(tk.Agent(model, [add]).run("1 + 2?")) == [("3", False)]


def test_a_server_fault_raises_and_keeps_the_trace(add):
    model = tk.ScriptedModel(
        [call(x=1, y=2), tk.Reply("", fault=tk.Fault("timeout", "no token"), finish_reason="error")]
    )
    with pytest.raises(ModelError, match="timeout: no token") as caught:
        tk.Agent(model, [add]).run("hi")
    assert results(caught.value.trace) == [("3", False)]
    assert caught.value.fault.kind == "timeout"


# ------------------------------------------------------------------ limits
def test_model_calls_are_limited_and_nothing_is_lost(add):
    model = tk.ScriptedModel(lambda_turns(add))
    with pytest.raises(LimitError, match="All 3 model calls") as caught:
        tk.Agent(model, [add], max_model_calls=3).run("go")
    assert len(caught.value.trace.tool_results) == 3
    assert caught.value.trace.stop_reason == "error"


def lambda_turns(add):
    return [call(x=n, y=n, cid=f"c{n}") for n in range(9)]


def test_tokens_and_seconds_are_limited(add):
    replies = [tk.Reply(tool_calls=(call(x=n, y=1),), prompt_tokens=60, completion_tokens=10) for n in range(9)]
    with pytest.raises(LimitError, match="140 tokens"):
        tk.Agent(tk.ScriptedModel(replies), [add], max_run_tokens=100).run("go")
    with pytest.raises(LimitError, match="max_seconds"):
        tk.Agent(tk.ScriptedModel(replies), [add], max_seconds=0).run("go")


def test_a_model_that_repeats_itself_is_stopped(add):
    model = tk.ScriptedModel([call(x=1, y=1)], cycle=True)
    with pytest.raises(LimitError, match="same call \\(add\\) with the same result 3 times"):
        tk.Agent(model, [add], max_repeats=3).run("go")


def test_polling_with_changing_results_is_no_repetition():
    left = iter(range(9))
    poll = tk.Tool("poll", "", {"type": "object"}, lambda: next(left))
    model = tk.ScriptedModel([*[call("poll", cid=f"c{n}") for n in range(6)], "done"])
    assert tk.Agent(model, [poll], max_repeats=3).run("go").text == "done"


# ------------------------------------------------------------------ tool choice
def test_none_offers_no_tools_and_refuses_calls(add):
    model = tk.ScriptedModel([call(x=1, y=2), "In words."])
    trace = tk.Agent(model, [add], tool_choice="none").run("go")
    assert model.requests[0]["tools"] is None
    assert trace.text == "In words."
    assert results(trace) == [("Tools may not be called now. Answer in words.", True)]


@pytest.mark.parametrize("choice", ["any", "add"])
def test_a_demanded_call_is_asked_for_until_it_comes_once(add, choice):
    model = tk.ScriptedModel(["I would rather talk.", call(x=1, y=2), "3"])
    trace = tk.Agent(model, [add], tool_choice=choice).run("go")
    assert trace.text == "3"
    assert "Call" in model.requests[1]["messages"][-1].text
    assert model.requests[0]["tool_choice"] == choice
    assert model.requests[2]["tool_choice"] is None


def test_a_demanded_call_that_never_comes_ends_the_run(add):
    trace = tk.Agent(tk.ScriptedModel(["no"], cycle=True), [add], tool_choice="any").run("go")
    assert trace.stop_reason == "tool_choice"


def test_another_tool_than_the_demanded_one_is_refused(add, boom):
    model = tk.ScriptedModel([call("boom"), call(x=1, y=2), "3"])
    trace = tk.Agent(model, [add, boom], tool_choice="add").run("go")
    assert results(trace) == [('"boom" was not run. Call "add" now.', True), ("3", False)]


def test_no_parallel_runs_one_call_a_turn(add):
    model = tk.ScriptedModel([both(call(x=1, y=1, cid="a"), call(x=2, y=2, cid="b")), "done"])
    trace = tk.Agent(model, [add], tool_choice="no-parallel").run("go")
    assert sorted(error for _, error in results(trace)) == [False, True]


# ------------------------------------------------------------------ tools
def test_a_tool_error_is_a_result_and_its_sibling_is_kept(add, boom):
    model = tk.ScriptedModel([both(call("boom", cid="a"), call(x=1, y=2, cid="b")), "done"])
    trace = tk.Agent(model, [add, boom]).run("go")
    assert [error for _, error in results(trace)] == [True, False]
    assert "ValueError: kaput" in trace.tool_results[0].result


def test_policy_raise_ends_the_run_with_the_tools_own_exception(boom):
    with pytest.raises(ValueError, match="kaput") as caught:
        tk.Agent(tk.ScriptedModel([call("boom")]), [boom], on_tool_error="raise").run("go")
    assert caught.value.trace.messages[-1].tool_calls


def test_an_unknown_tool_is_named_with_the_known_ones(add):
    trace = tk.Agent(tk.ScriptedModel([call("ad", x=1), "done"]), [add]).run("go")
    assert results(trace) == [('There is no tool "ad". Call one of: add.', True)]


def test_a_hidden_tool_does_not_run_unless_allowed(add):
    @tk.wrap_model_call
    def hide(request, handler):
        return handler(request.override(tools=()))

    lines = [call(x=1, y=2), "done"]
    refused = tk.Agent(tk.ScriptedModel(lines), [add], middleware=[hide]).run("go")
    allowed = tk.Agent(tk.ScriptedModel(lines), [add], middleware=[hide], hidden_tools="allow").run("go")
    assert results(refused)[0][1]
    assert results(allowed) == [("3", False)]


def test_arguments_are_coerced_without_loss_and_the_turn_keeps_its_own(add):
    trace = tk.Agent(tk.ScriptedModel([call(x="1", y=2, z=3), "done"]), [add]).run("go")
    assert results(trace) == [("3", False)]
    assert trace.tool_calls[0].arguments == {"x": "1", "y": 2, "z": 3}


def test_parallel_calls_run_at_once_and_keep_their_order():
    gate = threading.Barrier(2, timeout=5)
    meet = tk.Tool(
        "meet",
        "",
        {"type": "object", "properties": {"who": {"type": "string"}}},
        lambda who: (gate.wait(), who)[1],
    )
    model = tk.ScriptedModel([both(call("meet", who="a", cid="1"), call("meet", who="b", cid="2")), "done"])
    assert results(tk.Agent(model, [meet]).run("go")) == [("a", False), ("b", False)]


def test_parallel_can_be_switched_off():
    running, most = [], []

    def slow() -> str:
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()
        return "ok"

    tool = tk.Tool("slow", "", {"type": "object"}, slow)
    model = tk.ScriptedModel([both(*(call("slow", cid=str(n)) for n in range(3))), "done"])
    tk.Agent(model, [tool], parallel=False).run("go")
    assert max(most) == 1


def test_dedupe_runs_identical_calls_once():
    ran = []
    tool = tk.Tool("once", "", {"type": "object"}, lambda: ran.append(1) or len(ran))
    line = both(call("once", cid="a"), call("once", cid="b"))
    trace = tk.Agent(tk.ScriptedModel([line, "done"]), [tool], dedupe=True).run("go")
    assert results(trace) == [("1", False), ("1", False)]
    assert [result.origin.id for result in trace.tool_results] == ["a", "b"]


def test_return_direct_ends_the_run():
    tool = tk.Tool("say", "", {"type": "object"}, lambda: "42", return_direct=True)
    trace = tk.Agent(tk.ScriptedModel([call("say")]), [tool]).run("go")
    assert trace.stop_reason == "return_direct"
    assert results(trace) == [("42", False)]


def test_a_tool_reads_and_writes_the_state():
    def more(step: int, count: int) -> dict:
        """Count."""
        return {"count": count + step}

    tool = tk.Tool.from_function(
        more, inputs_from_state={"count": "count"}, outputs_to_state={"count": {"source": "count"}}
    )
    from toolkit.agents.state import StateField

    agent = tk.Agent(tk.ScriptedModel([call("more", step=2), "done"]), [tool], state_schema={"count": StateField()})
    assert agent.run("go", count=5).state == {"count": 7}


# ------------------------------------------------------------------ shapes of answers
SCHEMA = {"title": "Sum", "type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


class Sum(pydantic.BaseModel):
    total: int


@dataclasses.dataclass
class SumData:
    total: int


@pytest.mark.parametrize(
    ("wanted", "value"),
    [(SCHEMA, {"total": 5}), (Sum, Sum(total=5)), (SumData, SumData(5))],
    ids=["json", "model", "data"],
)
def test_an_answer_in_a_given_shape(wanted, value):
    name = "SumData" if wanted is SumData else "Sum"
    model = tk.ScriptedModel(["In prose.", call(name, total="five"), call(name, total=5)])
    trace = tk.Agent(model, response_format=wanted).run("go")
    assert trace.structured_response == value
    assert [error for _, error in results(trace)] == [True, False]


def test_a_shaped_answer_in_the_constrained_arm():
    model = tk.ScriptedModel(['{"name": "Sum", "arguments": {"total": 5}}'])
    trace = tk.Agent(model, response_format=SCHEMA, arm="constrained").run("go")
    assert trace.structured_response == {"total": 5}


def test_something_that_is_no_shape_is_refused():
    with pytest.raises(ConfigError, match="response_format"):
        tk.Agent(tk.ScriptedModel([]), response_format="Sum")


# ------------------------------------------------------------------ construction and input
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tool_choice": "sub"}, "tool_choice 'sub'"),
        ({"on_tool_error": "ignore"}, "on_tool_error 'ignore'"),
        ({"arm": "magic"}, "arm 'magic'"),
        ({"options": {"temprature": 1}}, "Unknown option 'temprature'"),
        ({"middleware": [tk.AgentMiddleware]}, "Make an instance"),
        ({"state_schema": 3}, "no state schema"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_work_is_refused_when_built(add, options, words):
    with pytest.raises(ConfigError, match=words):
        tk.Agent(tk.ScriptedModel([]), [add], **options)


def test_a_tool_name_given_twice_is_refused_when_built(add):
    class More(tk.AgentMiddleware):
        tools = (add,)

    with pytest.raises(ConfigError, match=r"'add' is given by More and by the agent"):
        tk.Agent(tk.ScriptedModel([]), [add], middleware=[More()])


def test_a_run_goes_on_from_a_trace(add):
    agent = tk.Agent(tk.ScriptedModel(["one", "two"]), [add])
    first = agent.run("a")
    second = agent.run([*first.messages, "b"])
    assert [m.text for m in second.messages] == ["a", "one", "b", "two"]


def test_input_that_no_schema_declares_is_an_error(add):
    with pytest.raises(UpdateError, match="the run's input writes 'budget'"):
        tk.Agent(tk.ScriptedModel([]), [add]).run("go", budget=3)


# ------------------------------------------------------------------ async and streams
def test_arun_with_an_async_tool():
    async def later(x: int) -> int:
        """Wait."""
        await asyncio.sleep(0)
        return x + 1

    agent = tk.Agent(tk.ScriptedModel([both(call("later", x=1, cid="a"), call("later", x=2, cid="b")), "ok"]), [later])
    assert results(asyncio.run(agent.arun("go"))) == [("2", False), ("3", False)]


def test_run_works_inside_a_running_event_loop(add):
    async def cell():
        return tk.Agent(tk.ScriptedModel([call(x=1, y=2), "3"]), [add]).run("go")

    assert asyncio.run(cell()).text == "3"


def kinds(events):
    return [event.kind for event in events]


def test_stream_gives_events_words_and_at_last_the_trace(add):
    agent = tk.Agent(tk.ScriptedModel([call(x=1, y=2), "It is\n3."]), [add])
    events = list(agent.stream("go"))
    assert kinds(events) == [
        "model_call", "model_reply", "tool_call", "tool_result", "model_call", "token", "token", "model_reply", "end",
    ]  # fmt: skip
    assert events[-1].data["trace"].text == "It is\n3."


def test_closing_a_stream_stops_the_run(tmp_path):
    tool = tk.Tool("t", "", {"type": "object"}, lambda: time.sleep(0.001) or str(time.perf_counter()))
    model = tk.ScriptedModel([call("t")], cycle=True)
    stream = tk.Agent(model, [tool], max_model_calls=None).stream("go", trace_file=tmp_path / "t.jsonl")
    next(stream)
    stream.close()
    stop = time.perf_counter() + 5
    while tk.Trace.load(tmp_path / "t.jsonl").stop_reason == "unfinished" and time.perf_counter() < stop:
        time.sleep(0.01)
    assert tk.Trace.load(tmp_path / "t.jsonl").stop_reason == "error"


def test_astream_gives_the_same_events(add):
    async def collect():
        agent = tk.Agent(tk.ScriptedModel([call(x=1, y=2), "3"]), [add])
        return [event async for event in agent.astream("go")]

    assert kinds(asyncio.run(collect()))[-3:] == ["token", "model_reply", "end"]


def test_a_failing_stream_raises(boom):
    agent = tk.Agent(tk.ScriptedModel([call("boom")]), [boom], on_tool_error="raise")
    with pytest.raises(ValueError, match="kaput"):
        list(agent.stream("go"))


def test_side_calls_of_middleware_are_marked_in_the_stream(add):
    class Ask(tk.AgentMiddleware):
        def before_model(self, state, runtime):
            runtime.call_model(tk.ScriptedModel(["side"]), "hm?", source=self.name)

    events = list(tk.Agent(tk.ScriptedModel(["main"]), middleware=[Ask()]).stream("go"))
    assert [e.source for e in events if e.kind == "model_reply"] == ["Ask", "agent"]
    assert "".join(e.data["text"] for e in events if e.kind == "token") == "main"


def test_repr_is_short(add):
    assert repr(tk.Agent(tk.ScriptedModel([]), [add])) == "Agent(scripted, native, tools=[add])"
