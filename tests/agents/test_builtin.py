"""Ready middleware, each in a run."""

from __future__ import annotations

import asyncio
import importlib

import pytest

import toolkit as tk
from toolkit.agents import builtin
from toolkit.agents.builtin import (
    ContextEditing,
    FewShot,
    FormatRepair,
    HumanApproval,
    ModelCallLimit,
    ModelFallback,
    ModelRetry,
    Planning,
    Summarization,
    ToolCallLimit,
    ToolEmulation,
    ToolErrors,
    ToolRetry,
    ToolSelection,
)
from toolkit.agents.builtin.failures import Backoff
from toolkit.errors import ConfigError, LimitError
from toolkit.execution.approval import Decision


def call(name="add", cid="c1", **arguments):
    return tk.ToolCall(name, arguments, cid)


def agent(lines, middleware, tools=(), **more):
    return tk.Agent(tk.ScriptedModel(lines), tools, middleware=[middleware], **more)


def both_ways(make):
    """Run sync and async; the answers must agree."""
    one, two = make().run("go"), asyncio.run(make().arun("go"))
    said = [
        [(m.role, m.text, [(r.result, r.error) for r in m.tool_call_results]) for m in t.messages] for t in (one, two)
    ]
    assert said[0] == said[1]
    return one


def test_every_name_is_there_and_documented_with_an_example():
    for name in builtin.__all__:
        made = getattr(builtin, name)
        home = importlib.import_module(made.__module__)
        assert home.__doc__
        assert ">>>" in made.__doc__ or issubclass(made, Exception)


# ------------------------------------------------------------------ retry and fallback
def test_model_retry_asks_again():
    lines = [RuntimeError("1"), RuntimeError("2"), "up"]
    assert both_ways(lambda: agent(lines, ModelRetry(2, initial_delay=0))).text == "up"


def test_model_retry_ends_with_words_or_raises():
    said = both_ways(lambda: agent([RuntimeError("down")] * 2, ModelRetry(1, initial_delay=0))).text
    assert said == "The model could not be asked: RuntimeError: down (2 tries)."
    with pytest.raises(RuntimeError):
        agent([RuntimeError("down")], ModelRetry(0, on_failure="error")).run("go")
    with pytest.raises(RuntimeError):
        agent([RuntimeError("down"), "up"], ModelRetry(2, retry_on=ValueError, on_failure="error")).run("go")
    by_name = ModelRetry(1, retry_on=["OSError", "RuntimeError"], initial_delay=0)
    assert agent([RuntimeError("down"), "up"], by_name).run("go").text == "up"
    assert agent([RuntimeError("x")], ModelRetry(0, on_failure=lambda e: f"sorry: {e}")).run("go").text == "sorry: x"


def test_waits_grow_and_are_capped():
    assert list(Backoff(4, 1, 2, 3, jitter=False).delays()) == [1, 2, 3, 3]
    assert all(0.75 <= wait <= 1.25 for wait in Backoff(1, 1).delays())
    with pytest.raises(ConfigError, match="max_retries"):
        Backoff(-1)
    with pytest.raises(ConfigError, match="'raise' is unknown"):
        ToolRetry(on_failure="raise")
    with pytest.raises(ConfigError, match="Did you mean 'jitter'"):
        ModelRetry(jiter=False)


def test_tool_retry_runs_again_only_what_it_is_for(boom):
    def go(**more):
        return both_ways(lambda: agent([call("boom"), "done"], ToolRetry(2, initial_delay=0, **more), [boom]))

    assert go().tool_results[0].result == 'Tool "boom" failed 3 times: ValueError: kaput.'
    assert "3 times" not in go(tools=["other"]).tool_results[0].result
    assert go(on_failure=lambda e: "own words").tool_results[0].result == "own words"
    with pytest.raises(ValueError, match="kaput"):
        agent([call("boom")], ToolRetry(1, initial_delay=0, on_failure="error"), [boom], on_tool_error="raise").run(
            "go"
        )


def test_fallback_asks_in_turn_and_the_last_error_goes_on():
    def make():
        spares = [tk.ScriptedModel([ValueError("2")]), tk.ScriptedModel(["third"])]
        return agent([RuntimeError("1")], ModelFallback(*spares))

    assert both_ways(make).text == "third"
    with pytest.raises(ValueError, match="2"):
        agent([RuntimeError("1")], ModelFallback(tk.ScriptedModel([ValueError("2")]))).run("go")
    with pytest.raises(ConfigError):
        ModelFallback()


def test_tool_errors_words_what_it_knows(boom):
    known = ToolErrors(lambda error, request: f"{request.tool_call.name}: no" if "kaput" in str(error) else None)
    trace = both_ways(lambda: agent([call("boom"), "done"], known, [boom]))
    assert trace.tool_results[0].result == "boom: no"
    other = ToolErrors(lambda error, request: None)
    assert "kaput" in agent([call("boom"), "done"], other, [boom]).run("go").tool_results[0].result
    by_name = ToolErrors({"OSError": "gone", "Exception": "broken"}, tools=["boom"])
    assert both_ways(lambda: agent([call("boom"), "done"], by_name, [boom])).tool_results[0].result == "broken"
    with pytest.raises(ConfigError):
        ToolErrors("text")


# ------------------------------------------------------------------ limits
def test_model_call_limit_ends_or_raises(add):
    lines = [call(x=1, y=2), "never"]
    trace = both_ways(lambda: agent(lines, ModelCallLimit(run_limit=1), [add]))
    assert trace.text.startswith("Stopped")
    assert trace.stop_reason == "jump"
    with pytest.raises(LimitError, match="all 1 model calls"):
        agent(lines, ModelCallLimit(run_limit=1, exit_behavior="error"), [add]).run("go")


@pytest.mark.parametrize(
    ("limit", "settings", "what"),
    [
        (ModelCallLimit, {}, "run_limit, thread_limit"),
        (ToolCallLimit, {}, "run_limit, thread_limit"),
        (ModelCallLimit, {"run_limit": 1, "exit_behavior": "continue"}, "Known: end, error"),
        (ToolCallLimit, {"run_limit": 1, "exit_behavior": "stop"}, "Known: continue, end, error"),
        (ToolCallLimit, {"run_limit": 3, "thread_limit": 2}, "run_limit 3 is above thread_limit 2"),
    ],
)
def test_limits_that_mean_nothing_are_refused(limit, settings, what):
    with pytest.raises(ConfigError, match=what):
        limit(**settings)


@pytest.mark.parametrize(
    ("target", "text", "calls"), [("model", "Stopped: all 2 model calls are used up.", 2), ("end", "a", 1)]
)
def test_a_jump_past_the_limit_is_counted(target, text, calls):
    @tk.after_model(can_jump_to=[target])
    def again(state, runtime):
        return {"jump_to": target}

    made = tk.Agent(tk.ScriptedModel(["a", "b", "c"]), middleware=[ModelCallLimit(run_limit=2), again])
    trace = made.run("go")
    assert (trace.text, trace.state["thread_model_calls"]) == (text, calls)


def test_a_turn_that_ends_the_run_uses_nothing_up(add):
    line = tk.ChatMessage.from_assistant(tool_calls=[call(cid="a", x=1, y=2), call(cid="b", x=3, y=4)])
    trace = agent([line], ToolCallLimit(thread_limit=1, exit_behavior="end"), [add]).run("go")
    assert trace.state["thread_tool_calls"] == {"* None/1": 0}


def test_a_threads_count_goes_on_where_the_trace_is_handed_on():
    one = agent(["a", "b", "c"], ModelCallLimit(thread_limit=2))
    trace = one.run("go")
    for _ in range(2):
        trace = one.run(trace)
    assert trace.text.startswith("Stopped")
    assert trace.state["thread_model_calls"] == 2


@pytest.mark.parametrize(("exit_behavior", "errors"), [("continue", [False, True]), ("end", [True, True])])
def test_tool_call_limit(add, exit_behavior, errors):
    line = tk.ChatMessage.from_assistant(tool_calls=[call(cid="a", x=1, y=2), call(cid="b", x=3, y=4)])
    limit = {"run_limit": 1, "exit_behavior": exit_behavior}
    trace = both_ways(lambda: agent([line, "done"], ToolCallLimit(**limit), [add]))
    assert sorted(result.error for result in trace.tool_results) == errors
    with pytest.raises(LimitError):
        agent([line], ToolCallLimit(run_limit=1, exit_behavior="error"), [add]).run("go")


def test_two_limits_of_one_kind_count_apart(add):
    tools, models = [ToolCallLimit(run_limit=n) for n in (2, 3)], [ModelCallLimit(run_limit=n) for n in (3, 4)]
    lines = [call(cid=f"c{n}", x=n, y=1) for n in range(9)]
    trace = tk.Agent(tk.ScriptedModel(lines), [add], middleware=[*tools, *models]).run("go")
    assert [result.error for result in trace.tool_results] == [False, False, True]
    assert trace.text == "Stopped: all 3 model calls are used up."


def test_a_limit_for_one_tool_leaves_the_others(add, boom):
    line = tk.ChatMessage.from_assistant(tool_calls=[call("boom", "a"), call("boom", "b"), call(cid="c", x=1, y=2)])
    limits = [ToolCallLimit(tool_name="boom", run_limit=1), ToolCallLimit(tool_name="add", run_limit=1)]
    trace = tk.Agent(tk.ScriptedModel([line, "done"]), [add, boom], middleware=limits).run("go")
    assert {r.origin.id: "may not be called" in r.result for r in trace.tool_results} == {
        "a": False,
        "b": True,
        "c": False,
    }


# ------------------------------------------------------------------ context
@pytest.mark.parametrize("persist", [False, True])
def test_context_editing_clears_for_the_model_or_for_good(persist):
    read = tk.Tool("read", "", {"type": "object"}, lambda: "word " * 50)
    model = tk.ScriptedModel([call("read", "a"), call("read", "b"), "done"])
    edit = ContextEditing(trigger=10, keep=1, persist=persist)
    trace = tk.Agent(model, [read], middleware=[edit]).run("go")
    seen = [m.tool_call_result.result for m in model.requests[2]["messages"] if m.tool_call_result]
    assert [text == "[cleared]" for text in seen] == [True, False]
    assert (trace.tool_results[0].result == "[cleared]") is persist


def test_context_editing_spares_tools_by_name():
    read = tk.Tool("read", "", {"type": "object"}, lambda: "word " * 50)
    model = tk.ScriptedModel([call("read"), "done"])
    tk.Agent(model, [read], middleware=[ContextEditing(trigger=1, keep=0, exclude_tools=["read"])]).run("go")
    assert model.requests[1]["messages"][-1].tool_call_result.result.startswith("word")


@pytest.mark.parametrize(("keep", "left"), [(0, ".."), (1, ".a"), (2, "oa"), (9, "oa")])
def test_context_editing_keeps_the_last_and_what_no_call_asked_for_is_not_sent(keep, left):
    orphan = tk.ChatMessage.from_tool("b", call("read", "x"))
    asking = tk.ChatMessage.from_assistant(tool_calls=[call("read", "a"), call("read", "b")])
    answers = [tk.ChatMessage.from_tool(text, call("read", cid)) for text, cid in (("o", "a"), ("a", "b"))]
    editing = ContextEditing(trigger=1, keep=keep, placeholder=".")
    made = agent(["done"], editing)
    made.run([tk.ChatMessage.from_user("go"), asking, *answers, orphan])
    shown = [m.tool_call_result.result for m in made.model.requests[0]["messages"] if m.tool_call_result]
    assert "".join(shown) == left


def test_one_edit_of_the_context_leaves_what_another_cleared():
    read = tk.Tool("read", "", {"type": "object"}, lambda: "word " * 50)
    model = tk.ScriptedModel([call("read", "a"), call("read", "b"), "done"])
    edits = [ContextEditing(trigger=1, keep=1), ContextEditing(trigger=1, keep=0, placeholder="<gone>")]
    tk.Agent(model, [read], middleware=edits).run("go")
    seen = [m.tool_call_result.result for m in model.requests[2]["messages"] if m.tool_call_result]
    assert seen == ["[cleared]", "<gone>"]


def test_summarization_keeps_a_call_with_its_result(add):
    def make():
        writer = tk.ScriptedModel(["They added."])
        summary = Summarization(writer, trigger=("messages", 5), keep=("messages", 1))
        return agent([call(x=1, y=2), call(cid="c2", x=3, y=4), "done"], summary, [add])

    trace = both_ways(make)
    assert [m.role for m in trace.messages] == ["user", "assistant", "tool", "assistant"]
    assert trace.messages[0].text == "Summary of the conversation so far:\nThey added."


@pytest.mark.parametrize("size", [("tokens", 5), ("fraction", 0.001), [("messages", 99), ("tokens", 5)]], ids=str)
def test_summarization_by_other_sizes(size):
    writer = tk.ScriptedModel(["short"])
    trace = agent(["ok"], Summarization(writer, trigger=size, keep=("tokens", 4))).run(["a long question " * 9, "b"])
    assert trace.messages[0].text.endswith("short")
    assert trace.events[0].source == "Summarization"
    with pytest.raises(ConfigError):
        Summarization(writer, trigger=("words", 3))


# ------------------------------------------------------------------ people
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.mark.parametrize(
    ("answer", "result", "error"),
    [
        ("y", "paid 9", False),
        (True, "paid 9", False),
        ('edit {"amount": 1}', "paid 1", False),
        ({"amount": 2}, "paid 2", False),
        ("respond: paid already", "paid already", False),
        ("reject: too much", "The user does not allow this call: too much", True),
        ("", "The user does not allow this call", True),
        ("edit [", "The user does not allow this call: the new arguments are no JSON", True),
        (Decision("reject", text="no"), "The user does not allow this call: no", True),
    ],
    ids=str,
)
def test_human_approval(answer, result, error):
    trace = both_ways(lambda: agent([call("pay", amount=9), "done"], HumanApproval(ask=lambda c: answer), [pay]))
    assert trace.tool_results[0].result.startswith(result)
    assert trace.tool_results[0].error is error


def test_only_marked_or_named_tools_are_asked_for():
    def never(c):
        raise AssertionError(c)

    for gate in (HumanApproval("dangerous", never), HumanApproval(["other"], never)):
        assert agent([call("pay", amount=9), "done"], gate, [pay]).run("go").tool_results[0].result == "paid 9"
    risky = tk.Tool.from_function(pay, effect="dangerous")
    gate = HumanApproval("dangerous", lambda c: "no")
    assert agent([call("pay", amount=9), "done"], gate, [risky]).run("go").tool_results[0].error


def test_input_is_the_default_question(monkeypatch):
    asked = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "yes")
    assert agent([call("pay", amount=9), "done"], HumanApproval(), [pay]).run("go").tool_results[0].result == "paid 9"
    assert 'Run pay({"amount": 9})?' in asked[0]


def test_an_async_question_may_be_put_in_any_run():
    async def ask(c):
        await asyncio.sleep(0)
        return {"amount": c.arguments["amount"] - 1}

    assert both_ways(lambda: agent([call("pay", amount=9), "done"], HumanApproval(ask=ask), [pay])).text == "done"
    with pytest.raises(ConfigError, match="'perhaps'"):
        Decision("perhaps")


def test_what_an_ask_changes_is_not_run():
    def ask(c):
        c["args"]["amount"] = 1
        return True

    trace = both_ways(lambda: agent([call("pay", amount=9), "done"], HumanApproval(ask=ask), [pay]))
    assert trace.tool_results[0].result == "paid 9"


@pytest.mark.parametrize(
    ("answer", "result", "error"),
    [
        (True, "paid 9", False),
        ('edit {"amount": 1}', "paid 1", False),
        ("respond: paid already", "paid already", False),
        ("no: too much", "too much", True),
        (Decision("reject"), "not allow", True),
        (7, "the answer was a int", True),
    ],
    ids=str,
)
def test_an_agent_and_an_invoker_take_the_same_ask(answer, result, error):
    risky = tk.Tool.from_function(pay, effect="dangerous")
    asked = tk.ToolInvoker([risky], raise_on_failure=False, ask=lambda c: answer).invoke(call("pay", amount=9))
    made = agent([call("pay", amount=9), "done"], HumanApproval("dangerous", lambda c: answer), [risky])
    for found in (asked, made.run("go").tool_results[0]):
        assert result in found.result
        assert found.error is error


def test_an_ask_may_be_one_fixed_answer_and_tools_a_dict():
    gate = HumanApproval({"pay": True, "look": False}, ask="no: not today")
    look = tk.Tool("look", "", {"type": "object"}, lambda: "seen")
    trace = both_ways(lambda: agent([call("pay", amount=9), call("look", "c2"), "done"], gate, [pay, look]))
    assert [r.result for r in trace.tool_results] == ["The user does not allow this call: not today", "seen"]


# ------------------------------------------------------------------ tools and prompts
WEATHER = [
    tk.Tool(name, text, {"type": "object"}, lambda: "")
    for name, text in [("mail", "Send a letter"), ("weather", "Tell the weather of a city"), ("sum", "Add numbers")]
]


@pytest.mark.parametrize("chooser", [None, "I would take weather, or maybe mail."], ids=["words", "model"])
def test_tool_selection_offers_the_fitting_tools(chooser):
    def make():
        model = tk.ScriptedModel([chooser]) if chooser else None
        return agent(["Rain."], ToolSelection(model, max_tools=1, always_include=["sum"]), WEATHER)

    assert both_ways(make).text == "Rain."
    made = make()
    made.run("How is the weather in this city?")
    assert [tool.name for tool in made.model.requests[0]["tools"]] == ["weather", "sum"]


def test_a_chooser_that_names_nothing_hides_nothing():
    made = agent(["x"], ToolSelection(tk.ScriptedModel(["hm"]), max_tools=2), WEATHER)
    made.run("go")
    assert len(made.model.requests[0]["tools"]) == 2


@pytest.mark.parametrize(
    ("reply", "offered"),
    [
        ("sum, mail", ["mail", "sum", "weather"]),  # in the order of the agent's tools, the fixed ones last
        ("nope, sum", ["sum", "weather"]),
        ("", ["mail", "sum", "weather"]),
        ("mail", ["mail", "weather"]),
    ],
    ids=repr,
)
def test_a_choosers_slips_do_not_end_the_run(reply, offered):
    choice = ToolSelection(tk.ScriptedModel([reply]), max_tools=2, always_include=["weather"])
    made = agent(["ok"], choice, WEATHER)
    assert made.run("go").text == "ok"
    assert [tool.name for tool in made.model.requests[0]["tools"]] == offered


def test_a_fixed_tool_that_is_missing_is_an_error():
    with pytest.raises(ConfigError, match="'wether', which is not offered. Did you mean 'weather'"):
        agent(["ok"], ToolSelection(always_include=["wether"]), WEATHER).run("go")
    assert agent(["ok"], ToolSelection(always_include=["wether"])).run("go").text == "ok"


def test_emulation_plays_a_tool_that_does_not_exist(add):
    player = tk.ScriptedModel(["boo", "boo"])
    trace = both_ways(lambda: agent([call("ghost", a=1), "ok"], ToolEmulation(player), [add]))
    assert (trace.tool_results[0].result, trace.tool_results[0].error) == ("boo", False)
    assert 'ghost\n\nIt is called with {"a": 1}' in player.requests[0]["messages"][0].text


def test_emulation_plays_only_its_tools(add):
    def make():
        return agent([call(x=1, y=2), "ok"], ToolEmulation(tk.ScriptedModel(["4"]), tools=["add"]), [add])

    assert both_ways(make).tool_results[0].result == "4"
    other = agent([call(x=1, y=2), "ok"], ToolEmulation(tk.ScriptedModel([]), tools=["sub"]), [add])
    assert other.run("go").tool_results[0].result == "3"


def test_planning_tells_of_its_tool_and_keeps_the_list():
    todos = [{"content": "look", "status": "pending"}]
    trace = both_ways(lambda: agent([call("write_todos", todos=todos), "ok"], Planning("PLAN"), system_prompt="BASE"))
    assert trace.state["todos"] == todos
    more = [{"content": "look", "status": "pending", "prio": 1}]
    assert agent([call("write_todos", todos=more), "ok"], Planning()).run("go").state["todos"] == todos
    assert agent(["ok"], Planning()).run(trace).state["todos"] == todos
    twice = tk.ChatMessage.from_assistant(tool_calls=[call("write_todos", n, todos=todos) for n in "ab"])
    trace = agent([twice, "ok"], Planning()).run("go")
    assert [result.error for result in trace.tool_results] == [True, True]
    assert "todos" not in trace.state
    made = agent(["ok"], Planning("PLAN"), system_prompt="BASE")
    made.run("go")
    assert made.model.requests[0]["messages"][0].text == "BASE\n\nPLAN"


def test_format_repair_keeps_only_the_repaired_reply(add):
    good = '<tool_call>{"name": "add", "arguments": {"x": 1, "y": 2}}</tool_call>'
    broken = tk.Reply(good[:30], finish_reason="length")
    trace = both_ways(lambda: agent([broken, good, "3"], FormatRepair(), [add], arm="prompted"))
    assert [m.role for m in trace.messages] == ["user", "assistant", "tool", "assistant"]
    assert not any(result.error for result in trace.tool_results)


def test_few_shot_shows_the_nearest_whose_tools_are_offered(add):
    def example(text, *calls):
        return [tk.ChatMessage.from_user(text), tk.ChatMessage.from_assistant("shown", tool_calls=calls)]

    shots = [example("weather in Oslo", call("weather")), example("weather today"), example("numbers")]
    made = agent(["ok"], FewShot(shots, k=1), [add])
    made.run("weather in Rome")
    assert [m.text for m in made.model.requests[0]["messages"]] == ["weather today", "shown", "weather in Rome"]
    with pytest.raises(ConfigError, match="must start with a user"):
        FewShot([[tk.ChatMessage.from_assistant("x")]])
