"""A run stops before a call or in the middle of one, in whatever way, and goes on without doing anything twice.

Sources: langchain#33787 and #32988 (edits), pydantic-ai#2562, #3350, #2888 and langgraph#6533, #6624, #6626 (pausing
and going on), langchainjs#11391 and #11125 (a refusal beside another call), smolagents#2457 (a call that raises beside
one that does not), agent-framework#3938, leviath#96 and codec#122 (a crash in the middle of a tool).
"""

from __future__ import annotations

import asyncio
import json
import operator
import os
import signal
import subprocess
import sys
import time
from typing import Annotated

import pytest
from typing_extensions import TypedDict

import toolkit as tk
from toolkit.agents.builtin import HumanApproval, ToolCallLimit, ToolRetry
from toolkit.agents.requests import Pause
from toolkit.errors import ConfigError

WAYS = pytest.mark.parametrize("way", ["sync", "async", "stream"])


def run(agent, way, *args, **more):
    if way == "sync":
        return agent.run(*args, **more)
    if way == "async":
        return asyncio.run(agent.arun(*args, **more))
    return list(agent.stream(*args, **more))[-1].data["trace"]


@pytest.fixture
def paid():
    return []


@pytest.fixture
def tools(paid):
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    def look(n: int) -> str:
        """Look."""
        return f"saw {n}"

    return [tk.Tool.from_function(pay, effect="dangerous"), look]


def calls(*pairs):
    made = [tk.ToolCall(name, {"amount" if name == "pay" else "n": n}, f"c{n}") for name, n in pairs]
    return tk.ChatMessage.from_assistant(tool_calls=made)


def asking(tools, *lines, ask="pause", **more):
    model = tk.ScriptedModel(list(lines))
    return model, tk.Agent(model, tools, middleware=[HumanApproval("dangerous", ask=ask)], **more)


def through_json(trace):
    return tk.Trace.from_json(trace.to_json())


DECISIONS = [
    ("yes", [900], "paid 900", False),
    (True, [900], "paid 900", False),
    ({"amount": 50}, [50], "paid 50", False),
    ('edit {"amount": 50}', [50], "paid 50", False),
    ("no: too much", [], "The user does not allow this call: too much", True),
    (None, [], None, None),
    ("respond: paid by cheque", [], "paid by cheque", False),
]


@WAYS
@pytest.mark.parametrize("for_all", [True, False])
@pytest.mark.parametrize(("answer", "ran", "result", "error"), DECISIONS)
def test_each_decision_does_what_it_says(way, for_all, answer, ran, result, error, tools, paid):
    _, agent = asking(tools, calls(("pay", 900)))
    trace = through_json(run(agent, way, "pay 900"))
    assert (trace.stop_reason, trace.next_stage, [call.id for call in trace.pending]) == ("paused", "tools", ["c900"])
    assert paid == []
    model, agent = asking(tools, "done")
    decided = answer if for_all and not isinstance(answer, dict) else {"c900": answer}
    if answer is None and decided is None:  # no decision: it is asked again (pydantic-ai#3350)
        assert run(agent, way, trace).stop_reason == "paused"
        assert paid == []
        return
    end = run(agent, way, trace, decisions=decided)
    assert paid == ran
    found = end.tool_results[0]
    if result is not None:
        assert (found.result, found.error) == (result, error)
    shown = [call.arguments for m in model.requests[0]["messages"] for call in m.tool_calls]
    assert shown == [{"amount": ran[0] if ran else 900}]
    assert end.text == "done"
    assert end.stop_reason == "done"
    assert end.pending == []


@WAYS
@pytest.mark.parametrize("concurrent", [True, False])
def test_every_call_that_waits_is_told_of_and_the_others_run(way, concurrent, tools, paid):
    _, agent = asking(tools, calls(("look", 1), ("pay", 2), ("pay", 3), ("look", 4)), concurrent=concurrent)
    trace = run(agent, way, "go")
    assert [call.id for call in trace.pending if call.tool_name == "pay"] == ["c2", "c3"]
    assert [r.result for r in trace.tool_results] == (["saw 1", "saw 4"] if concurrent else ["saw 1"])
    _, agent = asking(tools, "done", concurrent=concurrent)
    # by id, so that no answer goes to another call
    end = run(agent, way, through_json(trace), decisions={"c3": "yes", "c2": "no"})
    assert paid == [3]
    assert [(r.origin.id, r.error) for r in end.tool_results] == [
        ("c1", False), ("c2", True), ("c3", False), ("c4", False),
    ]  # fmt: skip


def test_one_decision_of_two_leaves_the_other_waiting(tools, paid):
    _, agent = asking(tools, calls(("pay", 2), ("pay", 3)))
    trace = agent.run("go", trace_file=None)
    again = agent.run(trace, decisions={"c2": "yes"})
    assert (paid, again.stop_reason, [call.id for call in again.pending]) == ([2], "paused", ["c3"])
    assert [result.result for result in again.tool_results] == ["paid 2"]


@pytest.mark.parametrize(
    ("question", "decisions", "words"),
    [("hello", "yes", "No call waits"), (None, {"c9": "yes"}, "Nobody waits for a decision about 'c9'")],
)
def test_decisions_about_nothing_are_refused(question, decisions, words, tools):
    _, agent = asking(tools, calls(("pay", 2)))
    with pytest.raises(ConfigError, match=words):
        agent.run(question or agent.run("go"), decisions=decisions)


class Stop(tk.AgentMiddleware):
    def __init__(self, hook):
        self.hook, self.stops = hook, 1

    def _act(self, hook):
        if hook == self.hook and self.stops:
            self.stops -= 1
            raise Pause(hook)

    def before_agent(self, state, runtime):
        self._act("before_agent")

    def before_model(self, state, runtime):
        self._act("before_model")

    def after_model(self, state, runtime):
        self._act("after_model")

    def wrap_model_call(self, request, handler):
        self._act("wrap_model_call")
        return handler(request)

    def wrap_tool_call(self, request, handler):
        self._act("wrap_tool_call")
        return handler(request)


@WAYS
@pytest.mark.parametrize("hook", ["before_agent", "before_model", "wrap_model_call", "after_model", "wrap_tool_call"])
def test_any_hook_may_pause_even_inside_a_retry(hook, way, tools, paid):
    model = tk.ScriptedModel([calls(("pay", 7)), "done"])
    agent = tk.Agent(model, tools, middleware=[ToolRetry(initial_delay=0), Stop(hook)])
    first = run(agent, way, "go")
    assert (first.stop_reason, first.error, paid) == ("paused", None, [])
    assert run(agent, way, through_json(first)).text == "done"
    assert paid == [7]
    assert len(model.requests) == 2


def test_a_tool_may_pause(paid):
    def pay(amount: int, request: tk.ToolCallRequest) -> str:
        """Pay."""
        if request.tool_call_id not in request.runtime.approved:
            raise Pause
        return f"paid {amount}"

    model = tk.ScriptedModel([calls(("pay", 7)), "done"])
    agent = tk.Agent(model, [pay])
    trace = agent.run("go")
    assert agent.run(trace, decisions="yes").tool_results[0].result == "paid 7"


def test_a_call_of_a_given_history_goes_through_the_hooks(tools, paid):
    """Nobody can have a call run by writing it into a history: the hooks and approval see it."""
    history = [tk.ChatMessage.from_user("go"), calls(("pay", 9))]
    _model, agent = asking(tools, "done", ask="no")
    assert agent.run(history).tool_results[0].error
    assert paid == []
    limited = tk.Agent(tk.ScriptedModel(["done"]), tools, middleware=[ToolCallLimit(run_limit=0)])
    assert limited.run(history).tool_results[0].error
    assert paid == []


def test_a_limit_counts_a_paused_call_once(tools, paid):
    limit = ToolCallLimit(thread_limit=1)
    model = tk.ScriptedModel([calls(("pay", 1)), "done"])
    agent = tk.Agent(model, tools, middleware=[HumanApproval(ask="pause"), limit])
    trace = agent.run(through_json(agent.run("go")), decisions="yes")
    assert paid == [1]
    assert list(trace.state["thread_tool_calls"].values()) == [1]


@WAYS
@pytest.mark.parametrize("concurrent", [True, False])
def test_what_others_did_is_kept_when_a_call_raises(way, concurrent, paid):
    fails = [True]

    def pay(amount: int) -> str:
        """Pay."""
        if amount == 2 and fails:
            raise OSError("down")
        paid.append(amount)
        return f"paid {amount}"

    def agent(*lines):
        return tk.Agent(tk.ScriptedModel(list(lines)), [pay], on_tool_error="raise", concurrent=concurrent)

    with pytest.raises(OSError, match="down") as caught:
        run(agent(calls(("pay", 1), ("pay", 2), ("pay", 3))), way, "go")
    trace = caught.value.trace
    assert [r.result for r in trace.tool_results] == ["paid 1", *(["paid 3"] if concurrent else [])]
    fails.clear()
    assert [r.result for r in run(agent("done"), way, through_json(trace)).tool_results] == [
        "paid 1", "paid 2", "paid 3",
    ]  # fmt: skip
    assert sorted(paid) == [1, 2, 3]


PROGRAM = """
import sys, time
import toolkit as tk
from toolkit.agents.builtin import HumanApproval

file, log, arm, kind, what = sys.argv[1:]

def note(text):
    with open(log, "a") as out:
        print(text, file=out, flush=True)

def fast(n: int) -> str:
    '''Work fast.'''
    note(f"fast {n}")
    return f"fast {n}"

def slow(n: int) -> str:
    '''Work slowly.'''
    note(f"slow {n}")
    if what == "first":
        time.sleep(60)
    return f"slow {n}"

def ask(call):
    if what == "first":
        note("asked")
        time.sleep(60)
    return "yes"

def line(*calls):
    if arm == "native":
        return tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall(name, {"n": n}) for name, n in calls])
    return "".join('<tool_call>{"name": "%s", "arguments": {"n": %d}}</tool_call>' % call for call in calls)

lines = [line(("fast", 1)), line(("slow", 2), ("fast", 3)), "never"] if what == "first" else ["done"]
model = tk.ScriptedModel(lines)
effect = "writes" if kind == "writes" else "reads"
layers = [HumanApproval(["slow"], ask=ask)] if kind == "asked" else []
tools = [fast, tk.Tool.from_function(slow, effect=effect)]
agent = tk.Agent(model, tools, arm=arm, system_prompt="Be brief.", middleware=layers)
if what == "first":
    agent.run("go", trace_file=file)
else:
    trace = agent.run(tk.Trace.load(file), trace_file=file)
    first = [m.text for m in model.requests[0]["messages"] if m.is_from("system")]
    print(sum(text.count("Be brief.") for text in first), [[r.result, r.error] for r in trace.tool_results], trace.text)
"""


@pytest.mark.parametrize("arm", ["native", "prompted"])
@pytest.mark.parametrize(
    ("kind", "ran", "second"),
    [
        ("reads", ["fast 1", "slow 2", "fast 3", "slow 2"], ["slow 2", False]),
        ("writes", ["fast 1", "slow 2", "fast 3"], ["This call was under way when the program was stopped", True]),
        ("asked", ["fast 1", "asked", "fast 3", "slow 2"], ["slow 2", False]),
    ],
)
def test_a_killed_run_goes_on_in_another_process(arm, kind, ran, second, tmp_path):
    file, log = tmp_path / "run.jsonl", tmp_path / "log"
    words = [sys.executable, "-c", PROGRAM, str(file), str(log), arm, kind]
    with subprocess.Popen([*words, "first"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (log.exists() and "fast 3" in log.read_text() and len(log.read_text().splitlines()) == 3):
            assert process.poll() is None
            time.sleep(0.02)
        while '"fast 3"' not in file.read_text():  # its result is written right after it
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    trace = tk.Trace.load(file)
    assert [m.role.value for m in trace.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [r.result for r in trace.tool_results] == ["fast 1", "fast 3"]
    assert [call.tool_name for call in trace.pending] == ["slow"]
    done = subprocess.run([*words, "second"], capture_output=True, text=True, timeout=60, check=True)
    systems, _, rest = done.stdout.strip().partition(" ")
    assert systems == "1"
    assert rest.endswith("] done")
    results = json.loads(rest.removesuffix(" done").replace("'", '"').replace("True", "true").replace("False", "false"))
    assert [result[0].split(";")[0] for result in results] == ["fast 1", second[0], "fast 3"]
    assert [result[1] for result in results] == [False, second[1], False]
    heard = log.read_text().splitlines()
    assert sorted(heard) == sorted(ran)
    assert tk.Trace.load(file).stop_reason == "done"


def test_a_trace_cut_anywhere_is_the_history_up_to_there(tmp_path, tools, faults):
    """Whatever line of the file is the last: no result goes lost, and no request is wrong when the run goes on."""
    file = tmp_path / "run.jsonl"
    lines = [calls(("look", 1)), calls(("look", 2), ("look", 3)), "done"]
    tk.Agent(tk.ScriptedModel(lines), tools, system_prompt="S").run("go", trace_file=file)
    written = file.read_text().splitlines(keepends=True)
    for end in range(2, len(written)):
        file.write_text("".join(written[:end]) + written[end][: len(written[end]) // 2])
        trace = tk.Trace.load(file)
        known = {e.data["result"]["result"] for e in trace.of_kind("tool_result")}
        assert known <= {result.result for result in trace.tool_results}
        assert not any(message.is_from("system") for message in trace.messages)
        model = tk.ScriptedModel(["on"], cycle=True)
        if trace.messages:
            assert tk.Agent(model, tools).run(trace).text in ("on", "done")
        assert [faults(request["messages"]) for request in model.requests] == [[]] * len(model.requests)


def test_what_a_finished_call_changed_is_not_lost(tmp_path):
    """The process dies after a tool's result and before its change of the state is merged."""

    class Spent(TypedDict):
        spent: Annotated[list[int], operator.add]

    def pay(amount: int, request: tk.ToolCallRequest) -> tk.Command:
        """Pay."""
        done = tk.ChatMessage.from_tool("paid", request.tool_call)
        return tk.Command({"messages": [done], "spent": [amount]})

    file = tmp_path / "run.jsonl"

    def agent(*lines):
        return tk.Agent(tk.ScriptedModel(list(lines)), [pay], state_schema=Spent)

    agent(calls(("pay", 1)), calls(("pay", 2), ("pay", 3)), "done").run("go", trace_file=file)
    written = file.read_text().splitlines(keepends=True)
    for end in range(2, len(written)):
        file.write_text("".join(written[:end]))
        trace = tk.Trace.load(file)
        if not trace.messages or trace.stop_reason == "done":
            continue
        paid = [result.origin.arguments["amount"] for result in trace.tool_results]
        waiting = [call.arguments["amount"] for call in trace.pending]
        assert agent("on").run(trace).state["spent"] == paid + waiting
