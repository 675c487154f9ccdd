from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.messages import ChatMessage
from toolkit.models.backend import call_id
from toolkit.models.base import ChatRequest, Options
from toolkit.models.call_pieces import read_arguments
from toolkit.models.openai import OpenAIAnswer, request_body
from toolkit.models.window import sent_text
from toolkit.models.wire import is_overflow
from toolkit.tools import as_tools


@pytest.mark.parametrize(
    ("wire", "arguments"),
    [
        ('{"x": 1}', {"x": 1}),
        ("", {}),
        ("{", None),
        ("[1]", None),
        ("3", None),
    ],
    ids=str,
)
def test_arguments(wire, arguments):
    assert read_arguments(wire) == arguments


@pytest.mark.parametrize(
    ("message", "kind", "overflow"),
    [
        ("request (2031 tokens) exceeds the available context size (1024 tokens)", "", True),
        ("no", "exceed_context_size_error", True),
        ("the input length exceeds the context length", "", True),
        ("prompt is too long: 5 tokens", "", True),
        ("out of memory", "", False),
        ("Context size has been exceeded.", "server_error", False),  # of all slots together
        ("Context size has been exceeded.", "", False),
        ("the request exceeds the available context size", "exceed_context_size_error", True),
    ],
)
def test_overflow_is_recognised(message, kind, overflow):
    assert is_overflow(message, kind) is overflow


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ("f", {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_tool_choice(choice, wire):
    said, tools = [ChatMessage.from_user("x")], as_tools([{"name": "f"}])
    assert request_body(ChatRequest(Options(), None, said, tools, choice))["tool_choice"] == wire
    assert "tool_choice" not in request_body(ChatRequest(Options(), None, said, [], choice))


@pytest.mark.parametrize(
    ("think", "wire"),
    [
        (None, None),
        (True, {"enable_thinking": True}),
        (False, {"enable_thinking": False}),
        ("low", {"reasoning_effort": "low"}),
    ],
    ids=str,
)
def test_think(think, wire):
    body = request_body(ChatRequest(Options(think=think), None, [ChatMessage.from_user("x")]))
    assert body.get("chat_template_kwargs") == wire


def test_call_ids_are_the_same_for_the_same_request_and_differ_by_turn_and_place():
    ids = [call_id(1, 0, "f", {}), call_id(1, 1, "f", {}), call_id(3, 0, "f", {}), call_id(1, 0, "g", {})]
    assert len(set(ids)) == 4
    assert call_id(1, 0, "f", {}) == ids[0]


def test_sent_text_holds_what_is_said():
    assert sent_text({"prompt": "p"}) == "p"
    calls = [{"function": {"name": "f"}}]
    said = sent_text({"messages": [{"content": "a"}, {"content": None, "tool_calls": calls}], "tools": [1]})
    assert said == "a\n\n" + json.dumps(calls)


@given(st.text(), st.lists(st.integers(0, 40)))
def test_chunking_does_not_change_the_reply(text, cuts):
    def answer(pieces):
        streamed = OpenAIAnswer()
        shown = [
            chunk.text for piece in pieces for chunk in streamed.feed({"choices": [{"delta": {"content": piece}}]})
        ]
        return "".join(shown), streamed.reply("m", 1.0)

    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    assert answer(pieces) == answer([text])


def test_every_sampling_option_reaches_llama_cpp_in_its_words():
    options = {"typical_p": 0.9, "repeat_last_n": 32, "presence_penalty": 0.2, "frequency_penalty": 0.3, "min_p": 0.1}
    body = request_body(ChatRequest(Options(**options, num_keep=8), prompt="x"))
    assert {name: body[name] for name in options} == options
    assert body["n_keep"] == 8
