"""Calls of a streamed answer: every way in which servers cut and number them gives the same calls."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.models.call_pieces import CallPieces, joined
from toolkit.models.openai import OpenAIAnswer

KNOWN = ("read_log", "read", "haha", "ping")
objects = st.dictionaries(
    st.text(max_size=4), st.integers() | st.text(max_size=8) | st.lists(st.just({"a": "}{"})), min_size=1, max_size=3
)
# a server that gives one index and no ids cannot say the same call twice
calls = st.lists(st.tuples(st.sampled_from(KNOWN), objects), min_size=1, max_size=3, unique_by=repr)
# (index, id, names, arguments) of a server's style
INDEXES = ("own", "zero", "none")
IDS = ("own", "first", "none")
NAMES = ("first", "every", "cut")
ARGUMENTS = ("whole", "cut", "grows", "again", "placeholder")


def told(style: tuple[str, ...], index: str, identity: str) -> bool:
    """Tell whether a server that cuts calls so tells them apart at all."""
    return index == "own" or identity == "own" or (style[0] == "whole" and style[1] == "first")


STYLES = [
    (arguments, names, index, identity)
    for arguments, names, index, identity in itertools.product(ARGUMENTS, NAMES, INDEXES, IDS)
    if told((arguments, names), index, identity)
]


def cut(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]


def pieces(name: str, arguments: dict, style: tuple[str, ...], place: int) -> list[dict]:
    """Return the pieces of one call as a server of that style sends them."""
    how, names, index, identity = style
    text = json.dumps(arguments)
    parts = {"whole": [text], "cut": ["", *cut(text)], "again": [*cut(text), text], "placeholder": ["{}", *cut(text)]}
    parts["grows"] = [text[: len(text) // 2], text]
    found = []
    for number, part in enumerate(parts[how]):
        function = {"arguments": part}
        if number == 0 or names == "every":
            function["name"] = name
        piece = {"function": function}
        if index != "none":
            piece["index"] = place if index == "own" else 0
        if identity == "own" or (identity == "first" and number == 0):
            piece["id"] = f"id_{place}"
        found.append(piece)
    if names == "cut":
        found[0]["function"]["name"] = name[:2]
        later = {"function": {"name": name[2:], "arguments": ""}}
        found.insert(1, {**{key: value for key, value in found[0].items() if key in ("index", "id")}, **later})
        found[0]["function"]["arguments"], found[1]["function"]["arguments"] = "", parts[how][0]
    return found


def read(streamed: list[list[dict]], finish: str = "tool_calls", known=KNOWN):
    answer = OpenAIAnswer(calls=CallPieces(known))
    for piece in streamed:
        list(answer.feed({"choices": [{"delta": {"tool_calls": piece}}]}))
    list(answer.feed({"choices": [{"delta": {}, "finish_reason": finish}]}))
    return answer.reply("m", 1.0)


@pytest.mark.parametrize("style", STYLES, ids="-".join)
@settings(max_examples=12)
@given(calls)
def test_every_style_gives_the_same_calls(style, wanted):
    streamed = [[piece] for place, (name, given) in enumerate(wanted) for piece in pieces(name, given, style, place)]
    reply = read(streamed)
    assert [(call.tool_name, call.arguments) for call in reply.tool_calls] == wanted
    assert len({call.id for call in reply.tool_calls}) == len(wanted)
    assert reply.fault is None


def piece(index=None, identity="", name="", arguments=""):
    found = {"function": {"name": name, "arguments": arguments}, "id": identity}
    return {**found, "index": index} if index is not None else found


A, B = '{"path": "a"}', '{"path": "b"}'
REPORTED = {
    "hermes-agent#11984": (
        [[piece(0, "c1", "read_log")], [piece(0, "c1", "read_log", '{"path": ')], [piece(0, "c1", "read_log", '"a"}')]],
        [A],
    ),
    "no index, two calls": ([[piece(None, "c1", "read_log", A)], [piece(None, "c2", "read_log", B)]], [A, B]),
    "no index, no id": ([[piece(None, "", "read_log", A)], [piece(None, "", "read_log", B)]], [A, B]),
    "no index, one list": ([[piece(None, "", "ping", "{}"), piece(None, "", "ping", "{}")]], ["{}", "{}"]),
    "vercel/ai#14277": ([[piece(0, "call_a", "read_log", A)], [piece(0, "call_b", "read_log", B)]], [A, B]),
    "one call twice, ids of their own": ([[piece(0, "x", "read_log", A)], [piece(0, "y", "read_log", A)]], [A, A]),
    "one id at two indexes": ([[piece(0, "c1", "read_log")], [piece(1, "c1", "", A)]], [A]),
    "one id at two indexes, named": ([[piece(0, "c1", "read_log")], [piece(1, "c1", "read_log", A)]], [A]),
    "one id at two indexes, empty last": ([[piece(0, "c1", "read_log", A)], [piece(1, "c1", "read_log")]], [A]),
    "two calls of one id": ([[piece(0, "c1", "read_log", A)], [piece(1, "c1", "read_log", B)]], [A, B]),
    "another id in each piece": ([[piece(0, "x", "read_log", '{"path": ')], [piece(0, "y", "", '"a"}')]], [A]),
    "LocalAI#9722": ([[piece(0, "c1", "read_log", A)], [piece(1, "c1", "read_log", A)]], [A]),
    "open-webui#22235": ([[piece(0, "c1", "read_log", A)], [piece(0, "", "", B)]], [A, B]),
    "open-webui#22235, whole again": ([[piece(0, "c1", "read_log", A)], [piece(0, "", "read_log", A)]], [A]),
    "vercel/ai#15879": ([[piece(None, "c1", "", A)], [piece(None, "c1", "read_log", "")]], [A]),
    "vercel/ai#15879, no id": ([[piece(0, "", "", A)], [piece(0, "", "read_log", "")]], [A]),
    "vllm#51697": ([[piece(0, "c1", "read_log", "{")], [piece(0, "", "", A)]], [A]),
    "ogx#5462": ([[piece(0, "c1", "read_log", "{}")], [piece(0, "", "", A)]], [A]),
    "two calls without arguments": ([[piece(0, "x", "ping")], [piece(1, "y", "ping")]], ["{}", "{}"]),
}


@pytest.mark.parametrize("source", REPORTED)
def test_what_was_reported(source):
    streamed, wanted = REPORTED[source]
    reply = read(streamed)
    assert [json.dumps(call.arguments) for call in reply.tool_calls] == wanted
    assert {call.tool_name for call in reply.tool_calls} <= set(KNOWN)
    assert len({call.id for call in reply.tool_calls}) == len(wanted)


def test_a_name_that_nobody_offered_is_kept():
    assert read([[piece(0, "a", "foo")], [piece(0, "a", "foo", A)]]).tool_calls[0].tool_name == "foo"
    assert read([[piece(0, "a", "ha")], [piece(0, "a", "ha", A)]]).tool_calls[0].tool_name == "haha"


def test_arguments_that_stay_unreadable_are_given_as_they_came():
    reply = read([[piece(0, "a", "read_log", '{"path": ')], [piece(0, "a", "", "a.log}")]])
    assert (reply.fault.kind, reply.text) == ("parse", '{"name": "read_log", "arguments": {"path": a.log}}')


@given(st.lists(st.text(max_size=3)))
def test_pieces_that_are_good_in_a_row_are_joined(texts):
    assert joined(texts, lambda _: True) == "".join(texts)


def test_calls_of_an_answer_that_was_cut_are_not_run():
    reply = read([[piece(0, "a", "read_log", A)]], finish="length")
    assert (reply.tool_calls, reply.finish_reason, reply.limit) == ((), "length", "num_predict")
