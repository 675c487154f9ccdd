"""Keep a run's state: declared fields, reducers, and the messages with their ids.

A schema is a class with annotations (a TypedDict, say) or a dict of `StateField`:

    class Budget(TypedDict):
        spent: Annotated[int, operator.add]        # a reducer combines old and new
        note: str                                  # replaced
        secret: Annotated[str, Private]            # only hooks see it

But: a key that no schema declares is an error, not dropped (Source: langchain#34164 and its like).
Not here: who may write when (`toolkit.agents.loop`).
"""

from __future__ import annotations

import copy
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, NotRequired, Required

from toolkit.agents.copies import Copies
from toolkit.agents.pairs import paired, with_ids
from toolkit.errors import ConfigError, UpdateError, did_you_mean
from toolkit.execution.state import own
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult, as_messages

REMOVE_ALL = "__remove_all__"
_MISSING: Any = object()
_ASKING = {ChatRole.USER, ChatRole.SYSTEM}


class Private:
    """Mark a field as private: ignored in input, absent from output, visible to hooks."""


@dataclass(frozen=True)
class StateField:
    """Declare one state field.

    Attributes:
        reducer: function of (old, new) that gives the merged value; None replaces.
        default: value before any write; may be a function that makes it. Without one the key is absent.
        private: ignored in input and absent from output.
    """

    reducer: Callable[[Any, Any], Any] | None = None
    default: Any = _MISSING
    private: bool = False

    def initial(self) -> Any:
        """Return a fresh first value, or the marker for none."""
        return self.default() if callable(self.default) else copy.deepcopy(self.default)


@dataclass(frozen=True, slots=True)
class RemoveMessage:
    """Delete the message with this id from the history; `RemoveMessage(REMOVE_ALL)` deletes all before it."""

    id: str


def schema_fields(schema: Any) -> dict[str, StateField]:
    """Read the fields of a state schema; `messages` is always there and is left out.

    Raises:
        ConfigError: it is neither a class with annotations nor a dict of StateField.
    """
    if schema is None:
        return {}
    if isinstance(schema, Mapping):
        if wrong := [key for key, value in schema.items() if not isinstance(value, StateField)]:
            raise ConfigError(f"State field {wrong[0]!r} must be a StateField, not {schema[wrong[0]]!r}.")
        return {str(key): value for key, value in schema.items() if key != "messages"}
    if not isinstance(schema, type):
        raise ConfigError(f"{schema!r} is no state schema. Give a TypedDict, or a dict of StateField.")
    hints = typing.get_type_hints(schema, include_extras=True)
    return {name: _field(hint, _default(schema, name)) for name, hint in hints.items() if name != "messages"}


def _default(schema: type, name: str) -> Any:
    """Return a field's default, or the function that makes it: of a plain class, a dataclass or a pydantic model."""
    declared = getattr(schema, "model_fields", {}).get(name)  # pydantic
    if declared is not None:
        if declared.default_factory is not None:
            return declared.default_factory
        return _MISSING if declared.is_required() else declared.default
    made = getattr(schema, "__dataclass_fields__", {}).get(name)
    if made is not None and made.default_factory is not MISSING:
        return made.default_factory
    return getattr(schema, name, _MISSING)


def _field(hint: Any, default: Any) -> StateField:
    while typing.get_origin(hint) in (Required, NotRequired):
        (hint,) = typing.get_args(hint)
    if typing.get_origin(hint) is not typing.Annotated:
        return StateField(default=default)
    kind, *marks = typing.get_args(hint)
    private = any(mark is Private or isinstance(mark, Private) for mark in marks)
    reducer = next((mark for mark in marks if callable(mark) and mark is not Private), None)
    if reducer is not None and default is _MISSING:
        empty = typing.get_origin(kind) or kind
        default = empty if empty in (list, dict, set, tuple, int, float, str, bool) else _MISSING
    return StateField(reducer, default, private)


class RunState:
    """Hold and merge the state of one run."""

    __slots__ = ("_ids", "_prefix", "_stamped", "any_invalid", "copies", "fields", "in_order", "messages", "values")

    def __init__(self, fields: Mapping[str, StateField]) -> None:
        self.fields = fields
        self.messages: list[ChatMessage] = []
        self.values: dict[str, Any] = {}
        self.copies = Copies()
        self._ids: set[str] = set()
        self._prefix = os.urandom(5).hex()
        self._stamped = 0
        self.any_invalid = False  # some turn held calls that could not be read
        self.in_order = True  # nobody but the loop has changed the history since calls and results were paired
        for name, declared in fields.items():
            if declared.default is not _MISSING:
                self.values[name] = declared.initial()

    def start(self, given: Mapping[str, Any]) -> None:
        """Take the input of a run.

        Raises:
            UpdateError: a key that no schema declares.
        """
        self.merge({key: value for key, value in given.items() if not self._is_private(key)}, "the run's input")

    def _is_private(self, key: str) -> bool:
        return key in self.fields and self.fields[key].private

    def view(self) -> dict[str, Any]:
        """Return a copy for hooks; editing it changes nothing here."""
        seen = {key: own(value) for key, value in self.values.items()}
        seen["messages"] = self.copies.of(self.messages)
        return seen

    def output(self) -> dict[str, Any]:
        """Return the public fields but the messages."""
        return {key: value for key, value in self.values.items() if not self._is_private(key)}

    def merge(self, update: Any, who: str) -> str | None:
        """Merge a hook's update, field by field, and return the jump it asks for.

        Args:
            update: a dict or None.
            who: who gives it, for the error.

        Raises:
            UpdateError: no dict, or a key that no schema declares.
        """
        if update is None:
            return None
        if not isinstance(update, Mapping):
            raise UpdateError(f"{who} returned {update!r}. Return a dict of state fields, a Command, or None.")
        jump = None
        for key, value in update.items():
            if not isinstance(key, str):
                raise UpdateError(f"{who} returned the key {key!r}. State fields have text names: {{'name': value}}.")
            if key == "messages":
                self.add(value, who)
            elif key == "jump_to":
                jump = value
            else:
                self._write(key, value, who)
        return jump

    def _write(self, key: str, value: Any, who: str) -> None:
        declared = self.fields.get(key)
        if declared is None:
            hint = did_you_mean(key, ["messages", *self.fields])
            raise UpdateError(f"{who} writes {key!r}, which no state_schema declares. {hint}")
        if declared.reducer is not None and key in self.values:
            value = declared.reducer(self.values[key], value)
        self.values[key] = value

    def add(self, messages: Any, who: str = "a hook") -> None:
        """Merge messages: a new id is appended, a known one replaced in place, a RemoveMessage deletes.

        What is deleted goes once all is read, so that the same id, given again after it, replaces in place.

        Raises:
            UpdateError: an unknown id is to be deleted, or something is no message.
        """
        gone: set[Any] = set()
        items = items_of(messages, who)
        self.in_order = False
        for place, item in enumerate(items):
            if not isinstance(item, RemoveMessage):
                self.put(item)
                if gone:
                    gone.discard(item.meta.get("id"))
            elif item.id == REMOVE_ALL:
                self._drop(self._ids.copy())
                gone.clear()
            elif item.id in self._ids:
                gone.add(item.id)
            elif RemoveMessage(REMOVE_ALL) not in items[place:]:  # which would make up for it
                raise UpdateError(
                    f"{who} removes message {item.id!r}, which is not in the history. Take an id from it."
                )
        if gone:
            self._drop(gone)

    def put(self, message: ChatMessage) -> None:
        """Append one message, or replace the one with its id."""
        meta = message.meta
        known = meta.get("id")
        if "invalid_calls" in meta:
            self.any_invalid = True
        if known is None:
            known = self.fresh_id()
            if message.role is ChatRole.ASSISTANT:
                message = with_ids(message, known)
            message = ChatMessage(message.role, message.parts, message.name, {**meta, "id": known})
        elif known in self._ids:
            place = next(i for i, old in enumerate(self.messages) if old.meta.get("id") == known)
            self.messages[place] = message
            self.copies.restart()
            return
        self._ids.add(known)
        self.messages.append(message)

    def fresh_id(self) -> str:
        """Return an id that no message has."""
        self._stamped += 1
        return f"{self._prefix}-{self._stamped}"

    def insert_after(self, anchor: ChatMessage, messages: Iterable[ChatMessage]) -> None:
        """Put messages right after one that is in the history."""
        place = next(i for i, old in enumerate(self.messages) if old is anchor) + 1
        tail = self.messages[place:]
        del self.messages[place:]
        self.copies.restart()
        self.add(list(messages))
        self.messages.extend(tail)

    def pair(self, *, waiting: bool, unread: bool) -> None:
        """Put calls and results in order, if anybody but the loop changed the history; see `paired`."""
        if self.in_order:
            return
        self.in_order = not waiting or {message.role for message in self.messages} <= _ASKING
        if waiting and self.in_order:  # a question alone, the common case
            return
        found = paired(self.messages, waiting=waiting, unread=unread)
        if len(found) != len(self.messages) or any(a is not b for a, b in zip(found, self.messages, strict=True)):
            self.messages, self._ids = [], set()
            self.copies.restart()
            for message in found:
                self.put(message)

    def _drop(self, gone: set[Any]) -> None:
        self.copies.restart()
        self._ids -= gone
        self.messages = [message for message in self.messages if message.meta.get("id") not in gone]

    def last_assistant(self) -> ChatMessage | None:
        """Return the last assistant message, or None."""
        assistant = ChatRole.ASSISTANT  # looking up an enum member costs more than the comparison
        for message in reversed(self.messages):
            if message.role is assistant:
                return message
        return None

    def after(self, turn: ChatMessage) -> list[ChatMessage]:
        """Return the messages after `turn`, last first."""
        found = []
        for message in reversed(self.messages):
            if message is turn:
                break
            found.append(message)
        return found

    def answered(self, turn: ChatMessage) -> set[str | None]:
        """Return the ids of the calls that have a result after `turn`."""
        return {result.origin.id for message in self.after(turn) for result in message.tool_call_results}

    def results(self, turn: ChatMessage, call: ToolCall) -> list[ToolCallResult]:
        """Return the results that a call of `turn` got."""
        found = (result for m in self.after(turn) for result in m.tool_call_results)
        return [result for result in found if result.origin.id == call.id]


def as_message(value: Any) -> Any:
    """Return a message of LangChain as ours; anything else as it is."""
    foreign = not isinstance(value, ChatMessage) and hasattr(value, "content") and hasattr(value, "type")
    return as_messages(value)[0] if foreign else value


def items_of(messages: Any, who: str) -> list[Any]:
    """Return messages and RemoveMessages as one list.

    Raises:
        UpdateError: something in it is neither.
    """
    if isinstance(messages, RemoveMessage):
        return [messages]
    items: list[Any] = []
    rest = messages if isinstance(messages, (list, tuple)) else [messages]
    for item in rest:
        if isinstance(item, (ChatMessage, RemoveMessage)):
            items.append(item)
            continue
        if getattr(item, "type", None) == "remove":  # LangChain's RemoveMessage
            items.append(RemoveMessage(item.id))
            continue
        try:
            items.extend(as_messages(item))
        except ConfigError as error:
            raise UpdateError(f"{who} gave {item!r} as a message: {error}") from None
    return items
