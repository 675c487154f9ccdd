"""What may a hook edit in place? Copies: the messages of the history as hooks and wrappers get them.

Each message is copied once. A copy notes when it is edited; until then the same copies are handed out again, since
copying a long history for every hook would cost more than the rest of the loop.
Not here: the history itself (`toolkit.agents.state`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from toolkit.messages import ChatMessage, ChatRole, ToolCall


def copied(value: Any) -> Any:
    """Return a copy of JSON data that can be edited; other objects in it stay the same."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


class Watch:
    """Note whether anything was edited."""

    __slots__ = ("edited",)

    def __init__(self) -> None:
        self.edited = False


def _noting(plain: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.watch.edited = True
        return plain(self, *args, **kwargs)

    return method


class WatchedDict(dict[Any, Any]):
    """Be a dict that notes edits; copies and pickles of it are plain dicts."""

    __slots__ = ("watch",)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class WatchedList(list[Any]):
    """Be a list that notes edits; copies and pickles of it are plain lists."""

    __slots__ = ("watch",)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


_DICT_EDITS = "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update"
_LIST_EDITS = "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove reverse sort"
for _name in _DICT_EDITS.split():
    setattr(WatchedDict, _name, _noting(getattr(dict, _name)))
for _name in _LIST_EDITS.split():
    setattr(WatchedList, _name, _noting(getattr(list, _name)))


def watched(value: Any, watch: Watch) -> Any:
    """Return a copy of JSON data that notes edits in `watch`; other objects in it stay the same."""
    if isinstance(value, dict):
        made: Any = WatchedDict((key, watched(item, watch)) for key, item in value.items())
    elif isinstance(value, list):
        made = WatchedList([watched(item, watch) for item in value])
    else:
        return value
    made.watch = watch
    return made


class Copies:
    """Hold a copy of each message of a history, in its order, and start anew once one of them was edited.

    The history may grow; whoever changes it in another way must call `restart`.
    """

    __slots__ = ("_copies", "_originals", "_watch")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget all copies."""
        self._originals: list[ChatMessage] = []
        self._copies: list[ChatMessage] = []
        self._watch = Watch()

    def of(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the messages' copies: an edit in place of meta or arguments stays in the copy, and is then dropped."""
        if self._watch.edited:
            self.restart()
        if len(self._originals) < len(messages):
            for message in messages[len(self._originals) :]:
                self._originals.append(message)
                self._copies.append(_copy(message, self._watch))
        return self._copies.copy()

    def kept(self, messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
        """Return messages that no hook holds, for the trace: the originals of unedited copies, new copies of others."""
        if self._watch.edited:
            return tuple(map(_plain, messages))
        if len(messages) <= len(self._copies) and all(map(is_, messages, self._copies)):
            return tuple(self._originals[: len(messages)])
        original = {id(mine): message for mine, message in zip(self._copies, self._originals, strict=True)}
        return tuple(original.get(id(message)) or _plain(message) for message in messages)


def _copy(message: ChatMessage, watch: Watch) -> ChatMessage:
    content = message._content
    if message._role is ChatRole.ASSISTANT:  # nobody else calls
        content = tuple(
            replace(part, arguments=watched(part.arguments, watch)) if isinstance(part, ToolCall) else part
            for part in content
        )
    return ChatMessage(message._role, content, message._name, watched(message._meta, watch))


def _plain(message: ChatMessage) -> ChatMessage:
    content = tuple(
        replace(part, arguments=copied(part.arguments)) if isinstance(part, ToolCall) else part
        for part in message._content
    )
    return ChatMessage(message._role, content, message._name, copied(message._meta))
