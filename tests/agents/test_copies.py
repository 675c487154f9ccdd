"""Hooks get copies of the history, once made and not to be changed in place."""

import copy
import json
import pickle

import pytest

import toolkit as tk
from toolkit.agents.copies import Copies
from toolkit.execution.arguments import copied

CALL = tk.ToolCall("pay", {"to": {"names": ["Ada", {"n": 1}]}, "sum": 3}, "c1")


def history():
    return [
        tk.ChatMessage.from_user("Hi", {"seen": [1]}),
        tk.ChatMessage.from_assistant(tool_calls=[CALL]),
        tk.ChatMessage.from_tool("ok", CALL),
    ]


def test_copies_are_handed_out_again_as_the_history_grows():
    messages, copies = history(), Copies()
    first = copies.of(messages)
    messages.append(tk.ChatMessage.from_user("More"))
    second = copies.of(messages)
    assert all(a is b for a, b in zip(first, second, strict=False))
    assert second == messages
    second.clear()
    assert copies.of(messages) == messages


EDITS = {
    "meta": lambda said: said[0].meta.update(seen=2),
    "inside meta": lambda said: said[0].meta["seen"].append(2),
    "argument": lambda said: said[1].tool_calls[0].arguments.__setitem__("sum", 100),
    "deep dict": lambda said: said[1].tool_calls[0].arguments["to"]["names"][1].clear(),
    "deep list": lambda said: said[1].tool_calls[0].arguments["to"]["names"].sort(key=str),
    "pop": lambda said: said[1].tool_calls[0].arguments.pop("sum"),
    "setdefault": lambda said: said[1].tool_calls[0].arguments["to"].setdefault("new", 1),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_in_place_is_refused_at_any_depth(edit):
    messages, copies = history(), Copies()
    with pytest.raises(TypeError, match="cannot be changed in place"):
        edit(copies.of(messages))
    assert messages == copies.of(messages) == history()


def test_copies_are_ordinary_data_to_everything_else():
    arguments = Copies().of(history())[1].tool_calls[0].arguments
    assert json.loads(json.dumps(arguments)) == CALL.arguments
    assert repr(arguments) == repr(CALL.arguments)
    for twin in (copy.deepcopy(arguments), pickle.loads(pickle.dumps(arguments)), copied(arguments)):
        assert twin == CALL.arguments
        assert type(twin) is dict
        assert type(twin["to"]["names"]) is list
