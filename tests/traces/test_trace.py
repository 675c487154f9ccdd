"""Traces: JSON round trip, the file that survives kill -9, the static view."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit as tk
from toolkit.agents.state import StateField
from toolkit.errors import ConfigError, UserError
from toolkit.traces import text as trace_steps
from toolkit.traces import view as trace_html


def evil() -> str:
    """Answer with HTML."""
    return "<script>alert(1)</script>"


def run(**more):
    call = '<tool_call>{"name": "evil", "arguments": {}}</tool_call>'
    model = tk.ScriptedModel([tk.Reply(f"I look. {call}", prompt_tokens=9, completion_tokens=4), "<b>done</b>"])
    return tk.Agent(model, [evil], arm="prompted", name="<i>bot</i>").run("What is <this>?", **more)


def test_json_round_trip_keeps_everything():
    trace = run()
    again = tk.Trace.from_json(trace.to_json())
    assert again.to_json() == trace.to_json()
    assert again.messages == trace.messages
    assert again._repr_html_() == trace._repr_html_()
    assert (again.prompt_tokens, again.completion_tokens) == (9, 4)


def test_messages_are_stored_once():
    data = run().to_dict()
    sent = sum(len(event["data"]["messages"]) for event in data["events"] if event["kind"] == "model_call")
    assert sent == 6  # system and user, then both again with the turn and its result
    assert len(data["table"]) == 7  # four that were sent, three more of the history; the user turn is both


def test_the_trace_holds_exact_prompt_reply_and_spans():
    call, reply = run().events[:2]
    assert call.data["messages"][0].role == "system"
    assert call.data["arm"] == "prompted"
    assert reply.data["reply"].text.startswith("I look.")
    (read,) = reply.data["extraction"].calls
    assert reply.data["reply"].text[read.span[0] : read.span[1]].startswith("<tool_call>")


def test_the_view_is_static_escaped_and_folded():
    html = run()._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;i&gt;bot" in html
    assert html.count("<details") >= 3
    assert "<mark" in html
    assert "open" not in re.findall(r"<details[^>]*>", html)[0]
    assert "style=" in html
    assert "class=" not in html


def test_the_view_has_a_size_limit(monkeypatch):
    monkeypatch.setattr("toolkit.traces.json_text.MOST_HTML", 3_000)
    trace = run()
    assert "more steps" in trace._repr_html_()
    assert len(trace._repr_html_()) < 6_000


def test_long_texts_are_cut():
    assert "characters more" in trace_html._text("", "x" * 10_000)


def test_a_failed_run_shows_its_error():
    with pytest.raises(RuntimeError) as caught:
        tk.Agent(tk.ScriptedModel([RuntimeError("<down>")])).run("go")
    html = caught.value.trace._repr_html_()
    assert "RuntimeError: &lt;down&gt;" in html
    assert "no reply" in html


def test_a_file_is_written_as_the_run_goes(tmp_path):
    path = tmp_path / "runs" / "trace.jsonl"
    trace = run(trace_file=path)
    loaded = tk.Trace.load(path)
    assert loaded.to_dict()["events"][0]["kind"] == "model_call"
    assert loaded.messages == trace.messages
    assert loaded.stop_reason == "done"


def test_several_runs_share_a_file(tmp_path):
    path = tmp_path / "trace.jsonl"
    first, second = run(trace_file=path), run(trace_file=path)
    assert tk.Trace.load(path).id == second.id
    assert tk.Trace.load(path, 0).id == first.id
    with pytest.raises(ConfigError, match="holds 2 runs"):
        tk.Trace.load(path, 5)


KILLED = """
    import os, signal, sys
    import toolkit as tk

    def stuck() -> str:
        '''Never come back.'''
        os.kill(os.getpid(), signal.SIGKILL)

    model = tk.ScriptedModel([tk.ToolCall("stuck", {}, "c1")])
    tk.Agent(model, [stuck]).run("go", trace_file=sys.argv[1])
"""


def test_a_run_killed_in_a_tool_call_leaves_a_readable_trace(tmp_path):
    path = tmp_path / "trace.jsonl"
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    trace = tk.Trace.load(path)
    assert trace.stop_reason == "unfinished"
    assert [event.kind for event in trace.events] == ["model_call", "model_reply", "tool_call"]
    assert trace.messages[0].text == "go"
    assert "no result" in trace._repr_html_()


def test_half_a_line_is_no_obstacle(tmp_path):
    path = tmp_path / "trace.jsonl"
    run(trace_file=path)
    text = path.read_text()
    path.write_text(text[:-40])
    assert tk.Trace.load(path).stop_reason == "unfinished"
    run(trace_file=path)  # appended after the torn line
    assert tk.Trace.load(path).stop_reason == "done"


def test_no_file_and_no_trace_are_user_errors(tmp_path):
    with pytest.raises(ConfigError, match="no trace file"):
        tk.Trace.load(tmp_path / "none")
    with pytest.raises(ConfigError, match="no trace of version"):
        tk.Trace.from_dict({"version": 99})


def ended(agent, question):
    """Run an agent whose words may read as one more call, so that its script ends before it does."""
    try:
        return agent.run(question)
    except UserError as error:
        return error.trace


@given(st.text(max_size=200), st.text(max_size=80))
def test_no_text_of_a_model_or_tool_gets_out_of_its_place(said, result):
    model = tk.ScriptedModel([tk.ToolCall("t", {"x": said}, "c"), said])
    tool = tk.Tool("t", "", {"type": "object", "properties": {"x": {"type": "string"}}}, lambda x: result)
    trace = ended(tk.Agent(model, [tool]), said)
    html = trace._repr_html_()
    bare = re.sub(r"<(/?)(div|b|details|summary|small|pre|code|i|mark|span)( style='[^'<>]*')?>", "", html)
    assert "<" not in bare
    assert tk.Trace.from_json(trace.to_json())._repr_html_() == html


def test_a_time_looks_the_same_once_it_was_written():
    trace = tk.Trace()
    trace.record("jump", to="end")
    trace.events[0].at = 0.00049999996  # 0.0005 in the file, which has six digits
    trace.finish([], "done")
    assert tk.Trace.from_json(trace.to_json())._repr_html_() == trace._repr_html_()


# ------------------------------------------------------------------ whatever values and texts there are
@pytest.mark.parametrize("text", ["a\u2028b", "a\u2029b", "a\x85b", "a\x0cb\x1cc\rd\r\ne", "a\udc80b", "😀"])
def test_any_text_survives_the_file(tmp_path, text):
    path = tmp_path / "t.jsonl"
    trace = tk.Agent(tk.ScriptedModel([text])).run(text, trace_file=path)
    again = tk.Trace.load(path)
    assert (again.stop_reason, again.text) == ("done", text)
    assert again.messages == trace.messages
    assert tk.Trace.from_json(trace.to_json()).text == text
    trace.to_json().encode()
    trace._repr_html_().encode()


def ring():
    value: list = []
    value.append(value)
    return value


class Mute:
    def __str__(self):
        raise RuntimeError("no text")


ODD = {
    "tuple keys": {(1, 2): 3},
    "mixed keys": {1: 2, "a": 3, None: 4},
    "ring": ring(),
    "mute": Mute(),
    "a class": tk.Trace,
    "deep": json.loads("[" * 900 + "]" * 900),
    "set": {1},
    "bytes": b"\xff",
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_no_value_ends_a_run_that_is_saved(tmp_path, value):
    note = tk.before_model(lambda state, runtime: {"note": value}, state_schema={"note": StateField()})
    path = tmp_path / "t.jsonl"
    trace = tk.Agent(tk.ScriptedModel(["done"]), middleware=[note]).run("go", trace_file=path)
    assert tk.Trace.load(path).text == "done"
    assert tk.Trace.from_json(trace.to_json()).text == "done"
    trace._repr_html_()


def test_a_fault_in_writing_never_hides_the_outcome(tmp_path, monkeypatch):
    written = []

    def full(self, line):
        written.append(line)
        if len(written) > 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolkit.traces.file.Journal._write", full)
    trace = run(trace_file=tmp_path / "t.jsonl")  # warnings are errors here, and yet it ends well
    assert trace.text == "<b>done</b>"
    assert [e.source for e in trace.of_kind("error")] == ["trace file"]


def test_runs_at_the_same_time_can_share_a_file(tmp_path):
    path = tmp_path / "t.jsonl"
    inner = tk.before_model(
        lambda state, runtime: tk.Agent(tk.ScriptedModel(["in"])).run("b", trace_file=path) and None
    )
    tk.Agent(tk.ScriptedModel(["out"]), middleware=[inner]).run("a", trace_file=path)
    outer, nested = tk.Trace.load(path, 0), tk.Trace.load(path, 1)
    assert [m.text for m in outer.messages] == ["a", "out"]
    assert [m.text for m in nested.messages] == ["b", "in"]


@pytest.mark.parametrize("text", ["[1]", '{"version":1}', "{", "null", '{"version":1,"table":[1]}', "[" * 100_000])
def test_what_is_no_trace_is_refused(text):
    with pytest.raises(ConfigError, match="trace"):
        tk.Trace.from_json(text)


def test_a_second_try_that_succeeds_clears_the_error():
    class Again(tk.AgentMiddleware):
        def wrap_agent_call(self, request, handler):
            try:
                return handler(request)
            except RuntimeError:
                return handler(request)

    trace = tk.Agent(tk.ScriptedModel([RuntimeError("busy"), "fine"]), middleware=[Again()]).run("go")
    assert (trace.stop_reason, trace.error, trace.text) == ("done", None, "fine")


# ------------------------------------------------------------------ in a terminal
def test_the_text_has_a_line_for_each_step():
    lines = run().to_text().splitlines()
    assert lines[0] == "model scripted → evil() · read from text · 9+4 tokens · 0.00 s"
    assert re.fullmatch(r"tool evil\(\) → <script>alert\(1\)</script> · \d+\.\d ms", lines[1])
    assert lines[2].startswith("model scripted → answer: <b>done</b> · ")
    assert lines[3] == "answer: <b>done</b>"
    assert re.fullmatch(r"done · \d\.\d\d s · 9 prompt and 4 written tokens", lines[4])
    assert len(lines) == 5


def test_print_shows_the_text_and_repr_stays_short():
    trace = run()
    assert str(trace) == trace.to_text()
    assert repr(trace) == "Trace(done: '<b>done</b>' 2 model calls, 1 tool call)"


def test_a_failed_run_names_its_error_in_text_and_repr():
    with pytest.raises(RuntimeError) as caught:
        tk.Agent(tk.ScriptedModel([RuntimeError("down\nand out")])).run("go")
    trace = caught.value.trace
    assert repr(trace) == r"Trace(error: 'RuntimeError: down\nand out' 0 model calls, 0 tool calls)"
    lines = trace.to_text().splitlines()
    assert lines[:3] == [
        "model scripted · no reply",
        "error RuntimeError: down …",
        "error: RuntimeError: down …",
    ]


def limited():
    model = tk.ScriptedModel([tk.ToolCall("evil", {}, "a"), tk.ToolCall("evil", {}, "b"), "done"])
    return tk.Agent(model, [evil], middleware=[tk.middleware.ToolCallLimit(run_limit=1)]).run("go")


def test_an_update_names_its_fields_and_shows_its_data_once():
    trace = limited()
    updates = [line for line in str(trace).splitlines() if line.startswith("update")]
    assert updates[0] == "update run_tool_calls, thread_tool_calls (ToolCallLimit.after_model)"
    assert "No tool may be called again" in updates[1]
    first = trace._repr_html_().split("<b>Update</b>")[1].split("</details>")[0]
    assert first.count("* 1/None") == 2  # one for each counter
    assert "keys" not in first


def test_a_failed_tool_and_a_jump_give_their_reason():
    def boom() -> str:
        """Fail."""
        raise ValueError("bad\nluck")

    trace = tk.Agent(tk.ScriptedModel([tk.ToolCall("boom", {}, "a"), "so"]), [boom]).run("go")
    assert "tool boom() → error: Tool 'boom' failed with ValueError: bad … · " in str(trace)
    trace.record("jump", "mine", to="end")
    assert "jump to=end (mine)" in str(trace)


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_breaks_a_line_of_the_view(said, result):
    model = tk.ScriptedModel([tk.ToolCall("t", {"x": said}, "c"), said])
    tool = tk.Tool("t", "", {"type": "object", "properties": {"x": {"type": "string"}}}, lambda x: result)
    trace = ended(tk.Agent(model, [tool]), said)
    lines = trace.to_text().split("\n")
    assert len(lines) == len(trace_steps.steps(trace)) + 2
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 250
    assert tk.Trace.from_json(trace.to_json()).to_text() == trace.to_text()


@given(st.text(alphabet=st.sampled_from("a\n\r\x1b\x85\u2028\u2029\u202e\u2066\x00\x7f\x9b\ud800 "), max_size=30))
def test_no_name_or_error_breaks_a_line_of_the_view(text):
    trace = tk.Trace(agent=text)
    trace.record("model_call", text, model=text, number=1)
    trace.record("tool_call", text, call=tk.ToolCall(text, {text: text}), number=2)
    for kind in ("jump", "update", "refused", text):
        trace.record(kind, text, **{text or "x": text}, keys=[text], state={"messages": text})
    trace.fail(RuntimeError(text), [])
    lines = trace.to_text().split("\n")
    assert len(lines) == len(trace_steps.steps(trace)) + 2
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_any_value_has_a_text(value):
    trace = tk.Trace()
    trace.record("update", "mine", keys=["messages"], state={"messages": value})
    trace.record("jump", to={"x": value})
    trace.finish([], "done")
    assert len(trace.to_text().split("\n")) == 4
