"""What do hooks and wrappers get of the history? Copies whose arguments and meta cannot be changed in place.

Each message is copied once, and the copy is handed out to every hook: copying a long history for each of them would
cost more than the rest of the loop.
Not here: the history itself (`toolkit.agents.state`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from toolkit.messages import ChatMessage, ChatRole, ToolCall


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "A message of the history cannot be changed in place. Return a changed copy under its id from the hook, "
        "or pass on request.override(…)."
    )


class ReadOnlyDict(dict[Any, Any]):
    """Be a dict that cannot be changed; copies and pickles of it are plain dicts."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return dict, (dict(self),)


class ReadOnlyList(list[Any]):
    """Be a list that cannot be changed; copies and pickles of it are plain lists."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = _refuse
    reverse = sort = _refuse

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return list, (list(self),)


def read_only(value: Any) -> Any:
    """Return a copy of JSON data that cannot be changed; other objects in it stay the same."""
    if isinstance(value, dict):
        return ReadOnlyDict({key: read_only(item) for key, item in value.items()})
    if isinstance(value, list):
        return ReadOnlyList([read_only(item) for item in value])
    return value


class Copies:
    """Hold a read-only copy of each message of a history, in its order.

    The history may grow; whoever changes it in another way must call `restart`.
    """

    __slots__ = ("_copies",)

    def __init__(self) -> None:
        self._copies: list[ChatMessage] = []

    def restart(self) -> None:
        """Forget all copies."""
        self._copies = []

    def of(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the messages' copies, as a list of one's own."""
        if len(self._copies) < len(messages):  # else this hook is not the first to look at this history
            self._copies.extend(map(_copy, messages[len(self._copies) :]))
        return self._copies.copy()


def _copy(message: ChatMessage) -> ChatMessage:
    content = message.parts
    if message.role is ChatRole.ASSISTANT:  # nobody else calls
        content = tuple([_call(part) if isinstance(part, ToolCall) else part for part in content])
    return ChatMessage(message.role, content, message.name, read_only(message.meta))


def _call(call: ToolCall) -> ToolCall:
    arguments = read_only(call.arguments)
    plain = type(call) is ToolCall  # made thrice as fast as `replace` does it
    return ToolCall(call.tool_name, arguments, call.id) if plain else replace(call, arguments=arguments)
