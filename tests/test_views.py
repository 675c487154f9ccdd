"""Every view can be sent to a front end, is bounded, and runs nothing, whatever model, tool, server or hand wrote."""

from __future__ import annotations

import html.parser
import json
import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.errors import ToolkitError
from toolkit.evaluation.cases import case_from_dict
from toolkit.lab.chat import conversation_html
from toolkit.lab.magics import ToolsCell
from toolkit.lab.playground import Trial, _prompt, _results
from toolkit.models.base import Fault, Reply
from toolkit.traces import Trace

SCRIPT = "</pre></div></td>'\"><script>alert(1)</script><img src=x onerror=alert(1)>&lt;<b title='"


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.seen |= {name for name, _ in attributes}


ALLOWED = {
    "div", "b", "details", "summary", "small", "pre", "code", "i", "mark", "span", "table", "thead", "tbody", "tr",
    "th", "td", "ul", "li", "p", "br", "style", "title", "class", "border", "id", "colspan", "type",
}  # fmt: skip


def told(text):
    """Return a text for places in which a lone surrogate is refused."""
    return text.encode("utf-8", "replace").decode()


def tools(text):
    schema = {"type": "object", "properties": {"x": {"description": told(text)}}}
    return [tk.Tool("t", text, schema, lambda x: text)]


def views(text):
    """Return every view there is, of things that hold a text wherever they can."""
    call = tk.ToolCall("t", {"x": text}, text)
    trace = tk.Agent(tk.ScriptedModel([call, *[text] * 4], name=told(text)), tools(text)).run(text)
    fault = Reply(text, thinking=text, tool_calls=(call,), model=text, fault=Fault("server", text))
    case = case_from_dict({"id": "a", "messages": [text or "x"], "tools": [{"name": "t"}], "expect": {"no_call": True}})
    recipe = tk.Recipe("m", name=told(text))
    result = tk.evaluate(recipe, [case], models={"m": tk.ScriptedModel([text])}, progress=False)
    asked = tk.ask(recipe, case, model=tk.ScriptedModel([text]))
    trial = Trial(asked, tk.evaluation.scoring.Verdict("wrong_call", text), tuple(trace.tool_results))
    extraction = tk.extract(
        f"{text}<tool_call>{json.dumps({'name': text, 'arguments': {'x': text}})}</tool_call>{text}"
    )
    airgap = tk.AirgapChat(tk.ScriptedModel([text])).invoke(text or "x")
    return {
        "trace": trace._repr_html_(), "fault": fault._repr_html_(), "extraction": extraction._repr_html_(),
        "asked": asked._repr_html_(), "cases": tk.load_cases([case])._repr_html_(), "result": result._repr_html_(),
        "failures": tk.evaluation.readable(result.rows).to_html(), "prompt": _prompt(asked.prompt),
        "trial": _results(trial),
        "conversation": conversation_html([type("Turn", (), {"message": text, "text": text, "reason": text})]),
        "tools": ToolsCell(text, tk.Toolset(tools(text)))._repr_html_(), "airgap": airgap._repr_html_(),
    }  # fmt: skip


def check(shown):
    shown.encode()
    seen = Tags()
    seen.feed(re.sub(r"(?s)<style type=.*?</style>", "", shown))
    assert seen.seen <= ALLOWED


@pytest.mark.parametrize("text", [SCRIPT, "\ud800", "a\ud83db", "\x00\x1b[31m", "x" * 50, ""], ids=repr)
def test_no_text_gets_out_of_its_place(text):
    for name, shown in views(text).items():
        check(shown)
        if text == SCRIPT:
            assert "<script" not in shown, name


@settings(max_examples=25)
@given(st.text(st.characters(codec=None), max_size=60) | st.text(alphabet="<>&'\"/ab\ud800", max_size=40))
def test_nor_does_any_other_text(text):
    for shown in views(text).values():
        check(shown)


@pytest.mark.slow
def test_five_megabytes_give_a_view_that_a_notebook_can_hold():
    text = ("<&'\">" * 200 + " words\n") * 5_000
    assert len(text) > 5_000_000
    for name, shown in views(text).items():
        assert len(shown) < 2_000_000, name


def test_many_turns_give_a_view_that_a_notebook_can_hold():
    turn = type("Turn", (), {"message": "m" * 20_000, "text": "t" * 20_000})
    assert len(conversation_html([turn] * 300)) < 500_000
    assert len(_prompt([tk.ChatMessage.from_user("x" * 20_000)] * 300)) < 500_000
    many = tk.extract("\n".join(f'<tool_call>{{"name": "f{n}", "arguments": {{}}}}</tool_call>' for n in range(3_000)))
    assert len(many._repr_html_()) < 1_000_000


# ------------------------------------------------------------------ trace files that others made
def crafted(value):
    """Return a trace file's content in which everything that can be is a value."""
    reply = dict.fromkeys(
        ("text", "thinking", "prompt_tokens", "completion_tokens", "seconds", "fault", "model"), value
    )
    call = {"tool_name": value, "arguments": value, "id": value, "span": value, "syntax": value, "repairs": value}
    bad = {"reason": value, "detail": value}
    datas = [
        ("model_call", {"number": 1, "messages": [], "tools": value, "arm": value, "model": value}),
        ("model_reply", {"number": 1, "reply": reply, "calls": value, "read_from": value,
                         "extraction": {"calls": [call], "rejected": [bad], "text": value}}),
        ("model_call", {"number": 2, "messages": [], "tools": [value], "model": value}),
        ("model_reply", {"number": 2, "calls": [call], "reply": {"fault": {"kind": value, "message": value}}}),
        ("model_reply", {"number": value, "reply": value, "extraction": value, "calls": [value]}),
        ("tool_call", {"number": 3, "call": value}), ("tool_result", {"number": 3, "result": value, "seconds": value}),
        ("tool_call", {"number": 4, "call": call}), ("tool_result", {"number": 4, "result": {"result": value}}),
        ("update", {"keys": value, "state": value}), ("jump", {"to": value}), ("error", {"error": value}),
        ("refused", {"call": call}),
    ]  # fmt: skip
    events = [{"kind": kind, "at": 0.5, "source": "agent", "data": data} for kind, data in datas]
    events += [{"kind": "x", "at": 1.0, "source": "agent", "data": {"a": value}}]
    return {"version": 1, "id": "a", "agent": value, "started": 0, "events": events, "messages": [],
            "state": {}, "structured_response": None, "stop_reason": value, "error": value, "seconds": value,
            "table": []}  # fmt: skip


JUNK = [SCRIPT, 5, -1, 1e308, None, True, [], [SCRIPT], {}, {SCRIPT: SCRIPT}, [[SCRIPT, SCRIPT]], [1, 2], "\ud800",
        [None], {"a": {"b": [SCRIPT]}}, "x" * 100_000]  # fmt: skip


def look_at(data):
    try:
        trace = Trace.from_json(json.dumps(data))
    except ToolkitError:
        return
    check(trace._repr_html_())
    lines = str(trace)
    lines.encode()
    assert all(line.isprintable() for line in lines.split("\n"))
    repr(trace).encode("utf-8", "backslashreplace")


@pytest.mark.parametrize("value", JUNK, ids=lambda value: repr(value)[:20])
def test_a_crafted_trace_runs_nothing(value):
    look_at(crafted(value))


@pytest.mark.parametrize("key", ["kind", "at", "source", "data"])
@pytest.mark.parametrize("value", JUNK, ids=lambda value: repr(value)[:20])
def test_nor_does_one_with_crafted_events(key, value):
    data = crafted("x")
    data["events"] = [{**event, key: value} for event in data["events"]]
    look_at(data)


@pytest.mark.parametrize(
    "key", ["version", "id", "started", "events", "messages", "state", "table", "seconds", "error"]
)
@pytest.mark.parametrize("value", JUNK, ids=lambda value: repr(value)[:20])
def test_nor_one_with_crafted_parts(key, value):
    look_at({**crafted("x"), key: value})


@settings(max_examples=100)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
                    max_leaves=5))  # fmt: skip
def test_any_value_in_a_trace_file(value):
    look_at(crafted(value))


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def ring():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value", [deep(5_000), ring(), {"a": ring()}, (ring(),)], ids=["deep", "ring", "in dict", "in tuple"]
)
def test_a_value_that_has_no_end_is_shown_and_written(tmp_path, value):
    trace = Trace(file=tmp_path / "t.jsonl")
    trace.record("jump", to=value)
    trace.record("update", keys=["a"], state={"a": value})
    trace.finish([], "done", {"a": value})
    trace.close()
    check(trace._repr_html_())
    assert Trace.load(tmp_path / "t.jsonl").stop_reason == "done"
    assert Trace.from_json(trace.to_json()).stop_reason == "done"
    str(trace).encode()


def test_a_view_takes_little_memory():
    text = "<" * 5_000_000
    reply = Reply(text)
    tracemalloc.start()
    reply._repr_html_()
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
