"""Whatever a server sends, a request gives a reply, a fault or an error of ours, and never a raw exception."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.asking import Asked
from toolkit.errors import ToolkitError
from toolkit.evaluation.rows import facts_of_reply
from toolkit.messages import ToolCall
from toolkit.models.base import Reply
from toolkit.models.connection import Connection
from toolkit.models.embedded import EmbeddedModel
from toolkit.models.ollama import OllamaModel, OllamaServer
from toolkit.models.openai import OpenAIModel

TOOL = {"name": "weather", "description": "", "parameters": {"type": "object", "properties": {"city": {}}}}
COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens")

# as a real Ollama and a real llama-server send them, one piece a line
OLLAMA = [
    {"model": "m", "created_at": "2026-08-01T10:00:00Z", "done": False,
     "message": {"role": "assistant", "content": "", "thinking": "Hm."}},
    {"model": "m", "message": {"role": "assistant", "content": "Let me look."}, "done": False},
    {"model": "m", "message": {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "function": {"index": 0, "name": "weather", "arguments": {"city": "Oslo"}}}]}, "done": False},
    {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop",
     "total_duration": 92, "load_duration": 12, "prompt_eval_count": 31, "eval_count": 9, "eval_duration": 40},
]  # fmt: skip
OPENAI = [
    {"choices": [{"index": 0, "finish_reason": None, "delta": {"role": "assistant", "content": None}}], "id": "c1"},
    {"choices": [{"index": 0, "finish_reason": None, "delta": {"reasoning_content": "Hm."}}]},
    {"choices": [{"index": 0, "finish_reason": None, "delta": {"content": "Let me look."}}]},
    {"choices": [{"index": 0, "finish_reason": None, "delta": {"tool_calls": [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}]}}]},
    {"choices": [{"index": 0, "finish_reason": None, "delta": {"tool_calls": [
        {"index": 0, "function": {"arguments": '{"city": "Oslo"}'}}]}}]},
    {"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {}}]},
    {"choices": [], "usage": {"prompt_tokens": 31, "completion_tokens": 9,
                              "prompt_tokens_details": {"cached_tokens": 4}},
     "timings": {"cache_n": 4, "prompt_n": 27, "predicted_ms": 40.5}},
]  # fmt: skip
WHOLE = [
    {"choices": [{"text": "Let me look.", "message": {"content": "Hm.", "tool_calls": []}, "finish_reason": "length"}]},
]


SERVER = OllamaServer("http://127.0.0.1:1")  # a client takes long to make


def ollama(pieces: list[Any]) -> OllamaModel:
    model = OllamaModel("m", host="http://127.0.0.1:1")
    model._open_server = copy.copy(SERVER)
    model._open_server.lines = lambda *_: iter(map(json.dumps, pieces))
    return model


def openai(pieces: list[Any]) -> OpenAIModel:
    model = OpenAIModel("m@http://127.0.0.1:1/v1")
    model._connection = Connection(None, "", "")
    model._connection.lines = lambda *_: (f"data: {json.dumps(piece)}" for piece in pieces)
    return model


def embedded(pieces: list[Any]) -> EmbeddedModel:
    model = EmbeddedModel("/none.gguf")
    model.pieces = lambda *_: iter(pieces)
    return model


BACK_ENDS = {
    "ollama": (ollama, OLLAMA),
    "openai": (openai, OPENAI),
    "whole": (openai, WHOLE),
    "embedded": (embedded, OPENAI),
}


def places(value: Any, at: tuple = ()) -> list[tuple]:
    """Return the way to every value inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, inner in items for place in places(inner, (*at, key)))]


def changed(pieces: list[Any], place: tuple, value: Any) -> list[Any]:
    pieces = copy.deepcopy(pieces)
    if not place:
        return [value]
    inner: Any = pieces
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return pieces


deep: Any = 1
for _ in range(400):
    deep = [deep]
SHAPES = [None, True, 0, -1, 7, 10**30, 1.5, 1e308, float("inf"), float("nan"), "", "x", "\ud800", "[", [], [1], ["x"],
          [[]], [None], {}, {"x": 1}, [{}], {"": None}, {"error": "no"}, deep, {"a": deep}]  # fmt: skip
junk = st.sampled_from(SHAPES) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


RECIPE = tk.Recipe("m")


@functools.cache
def extraction(text: str) -> Any:
    return tk.extract(text, tools=[TOOL])


def check(model: Any) -> None:
    """Ask, and put the reply through everything that a sweep does with one."""
    try:
        reply = model.chat("Hi", tools=None)
    except ToolkitError:
        return
    assert all(isinstance(text, str) for text in (reply.text, reply.thinking, reply.finish_reason))
    assert all(isinstance(call, ToolCall) and isinstance(call.arguments, dict) for call in reply.tool_calls)
    assert all(getattr(reply, key) is None or 0 <= getattr(reply, key) <= 2**53 for key in COUNTS)
    assert 0 <= reply.load_seconds < float("inf")
    assert reply.fault is None or reply.fault.message
    assert Reply.from_dict(json.loads(json.dumps(reply.to_dict()))).text == reply.text
    facts_of_reply(Asked(RECIPE, None, reply, extraction(reply.text)))
    repr(reply).encode("utf-8", "backslashreplace")
    reply._repr_html_().encode()


@pytest.mark.parametrize("name", BACK_ENDS)
def test_what_a_server_really_sends_is_read(name):
    make, pieces = BACK_ENDS[name]
    reply = make(pieces).chat("Hi")
    assert reply.fault is None
    assert reply.text == "Let me look."
    if name != "whole":
        assert reply.thinking == "Hm."
        assert [(call.tool_name, call.arguments, call.id) for call in reply.tool_calls] == [
            ("weather", {"city": "Oslo"}, "call_1")
        ]
        assert (reply.prompt_tokens, reply.completion_tokens) == (31, 9)


@pytest.mark.parametrize("name", BACK_ENDS)
def test_every_shape_in_every_place(name):
    make, pieces = BACK_ENDS[name]
    for place in places(pieces):
        for value in SHAPES:
            check(make(changed(pieces, place, value)))


@pytest.mark.parametrize("name", BACK_ENDS)
@settings(max_examples=300)
@given(data=st.data())
def test_any_changes_of_what_a_server_sends(name, data):
    make, pieces = BACK_ENDS[name]
    for _ in range(data.draw(st.integers(1, 3))):
        pieces = changed(pieces, data.draw(st.sampled_from(places(pieces))), data.draw(junk))
    check(make(pieces))


@pytest.mark.parametrize("name", ["ollama", "openai"])
@given(
    line=st.text(max_size=40) | st.sampled_from(["data: [", "data: " + "[" * 5000, "[" * 5000, "error: {", "data: 1"])
)
def test_any_line_of_a_server(name, line):
    model = {"ollama": ollama, "openai": openai}[name]([])
    holder = model._open_server if name == "ollama" else model._connection
    holder.lines = lambda *_: iter([line, line])
    check(model)


def test_a_part_of_the_wrong_kind_is_named():
    fault = openai([{"choices": [{"delta": {"content": [1]}}]}]).chat("Hi").fault
    assert fault.kind == "server"
    assert fault.message == "content of its answer must be text, not [1]"
    fault = ollama([{"message": {"tool_calls": {"a": 1}}}]).chat("Hi").fault
    assert fault.message == "tool_calls of its answer must be a list, not {'a': 1}"
