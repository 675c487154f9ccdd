"""Copies of a history are handed out again until one is edited, at any depth."""

import copy
import json
import pickle

import pytest

import toolkit as tk
from toolkit.agents.copies import Copies

CALL = tk.ToolCall("pay", {"to": {"names": ["Ada", {"n": 1}]}, "sum": 3}, "c1")


def history():
    return [
        tk.ChatMessage.from_user("Hi", {"seen": [1]}),
        tk.ChatMessage.from_assistant(tool_calls=[CALL]),
        tk.ChatMessage.from_tool("ok", CALL),
    ]


def test_unedited_copies_are_handed_out_again_and_stand_for_their_originals():
    messages, copies = history(), Copies()
    first = copies.of(messages)
    messages.append(tk.ChatMessage.from_user("More"))
    second = copies.of(messages)
    assert all(a is b for a, b in zip(first, second, strict=False))
    assert second == messages
    assert all(a is b for a, b in zip(copies.kept(second), messages, strict=True))
    assert copies.kept([second[1], tk.ChatMessage.from_user("new")])[0] is messages[1]


@pytest.mark.parametrize(
    "edit",
    [
        lambda said: said[0].meta.update(seen=2),
        lambda said: said[0].meta["seen"].append(2),
        lambda said: said[1].tool_calls[0].arguments.__setitem__("sum", 100),
        lambda said: said[1].tool_calls[0].arguments["to"]["names"][1].clear(),
        lambda said: said[1].tool_calls[0].arguments["to"]["names"].sort(key=str),
        lambda said: said[1].tool_calls[0].arguments.pop("sum"),
        lambda said: said[1].tool_calls[0].arguments["to"].setdefault("new", 1),
    ],
    ids=["meta", "inside meta", "argument", "deep dict", "deep list", "pop", "setdefault"],
)
def test_an_edit_at_any_depth_stays_in_its_copy(edit):
    messages, copies = history(), Copies()
    shown = copies.of(messages)
    edit(shown)
    assert messages == history()
    assert messages[0].meta == {"seen": [1]}
    kept = copies.kept(shown)
    assert kept == tuple(shown)
    assert all(a is not b for a, b in zip(kept, shown, strict=True))
    assert copies.of(messages) == history()


def test_copies_are_ordinary_data_to_everything_else():
    arguments = Copies().of(history())[1].tool_calls[0].arguments
    assert json.loads(json.dumps(arguments)) == CALL.arguments
    assert repr(arguments) == repr(CALL.arguments)
    for twin in (copy.deepcopy(arguments), pickle.loads(pickle.dumps(arguments))):
        assert twin == CALL.arguments
        assert type(twin) is dict
        assert type(twin["to"]["names"]) is list
