"""State of a run: schemas, reducers, messages with ids."""

from __future__ import annotations

import operator
from typing import Annotated, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit as tk
from toolkit.agents.state import REMOVE_ALL, Private, RemoveMessage, RunState, StateField, schema_fields
from toolkit.errors import ConfigError, UpdateError


class Budget(TypedDict):
    spent: Annotated[int, operator.add]
    seen: NotRequired[Annotated[list[str], operator.add]]
    note: str
    secret: Annotated[str, Private]


class WithDefaults:
    """Source: langchain#34164."""

    note: str = "none yet"
    spent: Annotated[int, operator.add] = 5


def test_fields_are_read_off_a_typed_dict():
    fields = schema_fields(Budget)
    state = RunState(fields)
    assert state.values == {"spent": 0, "seen": []}
    state.merge({"spent": 2, "seen": ["a"], "note": "x", "secret": "s"}, "A")
    state.merge({"spent": 3, "seen": ["b"], "note": "y"}, "A")
    assert state.values == {"spent": 5, "seen": ["a", "b"], "note": "y", "secret": "s"}
    assert "secret" not in state.output()


def test_declared_defaults_are_applied():
    assert RunState(schema_fields(WithDefaults)).values == {"note": "none yet", "spent": 5}


@pytest.mark.parametrize("wrong", [3, "x", {"a": int}], ids=str)
def test_what_is_no_schema_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"state schema|StateField"):
        schema_fields(wrong)


@pytest.mark.parametrize("update", ["oops", 5, ["x"], ""], ids=repr)
def test_an_update_that_is_no_dict_names_who_gave_it(update):
    with pytest.raises(UpdateError, match=r"A\.before_model returned"):
        RunState({}).merge(update, "A.before_model")


def test_an_undeclared_key_is_named_with_its_neighbour():
    with pytest.raises(UpdateError, match=r"A writes 'spend', which no state_schema declares. Did you mean 'spent'"):
        RunState(schema_fields(Budget)).merge({"spend": 1}, "A")


def texts(state):
    return [message.text for message in state.messages]


def test_messages_are_appended_replaced_and_removed_by_id():
    state = RunState({})
    state.add([tk.ChatMessage.from_user("a"), {"role": "user", "content": "b"}, "c"])
    first = state.messages[0].meta["id"]
    state.add(tk.ChatMessage.from_user("A", {"id": first}))
    assert texts(state) == ["A", "b", "c"]
    state.add([RemoveMessage(state.messages[1].meta["id"]), "d"])
    assert texts(state) == ["A", "c", "d"]
    state.add(["lost", RemoveMessage(REMOVE_ALL), "new"])
    assert texts(state) == ["new"]


def user(text, known):
    return tk.ChatMessage.from_user(text, {"id": known})


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ([RemoveMessage("a"), user("A", "a")], ["A", "b"]),
        ([RemoveMessage("a"), RemoveMessage("a")], ["b"]),
        ([user("c", "c"), RemoveMessage("c")], ["a", "b"]),
        ([user("c", "c"), RemoveMessage("c"), user("C", "c")], ["a", "b", "C"]),
        ([RemoveMessage("b"), RemoveMessage("a")], []),
        ([RemoveMessage("a"), RemoveMessage(REMOVE_ALL), user("c", "a")], ["c"]),
        ([RemoveMessage("a"), RemoveMessage(REMOVE_ALL)], []),
        ([RemoveMessage("zzz"), RemoveMessage(REMOVE_ALL), user("c", "c")], ["c"]),
    ],
    ids=["given again", "twice", "new", "new and again", "both", "all, then again", "all", "unknown, then all"],
)
def test_what_is_deleted_goes_once_the_update_is_read(update, expected):
    state = RunState({})
    state.add([user("a", "a"), user("b", "b")])
    state.add(update)
    assert texts(state) == expected


def test_a_message_that_is_gone_cannot_be_removed():
    state = RunState({})
    state.add([user("a", "a")])
    with pytest.raises(UpdateError, match=r"A removes message 'a', which is not in the history"):
        state.add([RemoveMessage(REMOVE_ALL), RemoveMessage("a")], "A")


@pytest.mark.parametrize("wrong", [RemoveMessage("zzz"), 5, [object()]], ids=["unknown id", "number", "object"])
def test_what_cannot_be_merged_into_messages_is_an_error(wrong):
    with pytest.raises(UpdateError, match="A "):
        RunState({}).add(wrong, "A")


def test_calls_without_an_id_get_one():
    state = RunState({})
    state.add([tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("t"), tk.ToolCall("t")])])
    ids = [call.id for call in state.messages[0].tool_calls]
    assert None not in ids
    assert len(set(ids)) == 2


@given(st.lists(st.sampled_from(["append", "replace", "remove", "clear"]), max_size=30))
def test_ids_stay_unique_whatever_happens(steps):
    state = RunState({"n": StateField()})
    for step in steps:
        if step == "append" or (step != "clear" and not state.messages):
            state.add(["x"])
        elif step == "replace":
            state.add([tk.ChatMessage.from_user("y", {"id": state.messages[-1].meta["id"]})])
        elif step == "remove":
            state.add([RemoveMessage(state.messages[0].meta["id"])])
        else:
            state.add([RemoveMessage(REMOVE_ALL)])
    ids = [message.meta["id"] for message in state.messages]
    assert len(ids) == len(set(ids))


def test_defaults_of_dataclasses_and_pydantic_models_are_applied():
    """Source: langchain#34164."""
    import dataclasses

    import pydantic

    from toolkit.agents.state import schema_fields

    @dataclasses.dataclass
    class Plain:
        seen: list = dataclasses.field(default_factory=list)
        count: int = 3

    class Model(pydantic.BaseModel):
        seen: list = pydantic.Field(default_factory=list)
        count: int = 3

    for schema in (Plain, Model):
        fields = schema_fields(schema)
        assert fields["seen"].initial() == []
        assert fields["seen"].initial() is not fields["seen"].initial()
        assert fields["count"].initial() == 3
