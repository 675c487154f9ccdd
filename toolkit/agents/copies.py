"""What may a hook edit in place? Copies: the messages of the history as hooks and wrappers get them.

Each message is copied once and the copy handed out again until somebody edits it; copying a long history for every
hook would cost more than the rest of the loop.
Not here: the history itself (`toolkit.agents.state`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from toolkit.messages import ChatMessage, ChatRole, ToolCall

_ASSISTANT = ChatRole.ASSISTANT


def copied(value: Any) -> Any:
    """Return a copy of JSON data that can be edited; other objects in it stay the same."""
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    if type(value) is list:
        return [copied(item) for item in value]
    return value


@dataclass(slots=True)
class _Pair:
    """Hold a message and its copy, and of both what can be edited, to be compared in one step."""

    message: ChatMessage
    copy: ChatMessage
    kept: tuple[dict[str, Any], ...]
    shown: tuple[dict[str, Any], ...]


class Copies:
    """Hold a copy of each message, and which message a copy is of."""

    __slots__ = ("_by_copy", "_by_message")

    def __init__(self) -> None:
        # both sides are held, so that no id is used again
        self._by_message: dict[int, _Pair] = {}
        self._by_copy: dict[int, _Pair] = {}

    def of(self, messages: Iterable[ChatMessage]) -> list[ChatMessage]:
        """Return the messages' copies: an edit in place of meta or arguments stays in the copy, and is then dropped."""
        known = self._by_message.get
        return [
            pair.copy if (pair := known(id(message))) is not None and pair.kept == pair.shown else self._new(message)
            for message in messages
        ]

    def _new(self, message: ChatMessage) -> ChatMessage:
        copy = _copy(message)
        self._by_message[id(message)] = self._by_copy[id(copy)] = _Pair(message, copy, _open(message), _open(copy))
        return copy

    def kept(self, messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
        """Return messages that no hook holds, for the trace: the originals of unedited copies, new copies of others."""
        known = self._by_copy.get
        return tuple(
            pair.message if (pair := known(id(message))) is not None and pair.kept == pair.shown else _copy(message)
            for message in messages
        )


def _copy(message: ChatMessage) -> ChatMessage:
    content = message._content
    if message._role is _ASSISTANT and any(isinstance(part, ToolCall) for part in content):
        content = tuple(
            replace(part, arguments=copied(part.arguments)) if isinstance(part, ToolCall) else part for part in content
        )
    return ChatMessage(message._role, content, message._name, copied(message._meta))


def _open(message: ChatMessage) -> tuple[dict[str, Any], ...]:
    return (message._meta, *(part.arguments for part in message._content if isinstance(part, ToolCall)))
