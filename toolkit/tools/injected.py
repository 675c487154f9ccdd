"""Find the parameters of a tool that the invoker gives and no model sees: the state, the call's id, the whole request.

A parameter asks by its type: `State`, `CallId`, or in an agent `ToolCallRequest` and `Runtime`. LangChain's marks are
known by name: `Annotated[str, InjectedToolCallId]`, `Annotated[dict, InjectedState]`, `ToolRuntime`.
Not here: the schema of all other parameters (`toolkit.tools.signatures`).
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from typing import Any

from toolkit.errors import ToolInvocationError

_LIBRARIES = ("langchain", "langchain_core", "langgraph")


class CallId:
    """Stand for the id of the call that a tool answers."""

    injected_into_tools = True

    @staticmethod
    def for_tool(state: Any, call: Any) -> str | None:
        """Return what is given."""
        return None if call is None else call.id


class _Values:
    """Stand for all values of the state, or for that of one key."""

    injected_into_tools = True

    def __init__(self, key: str | None) -> None:
        self.key = key

    def for_tool(self, state: Any, call: Any) -> Any:
        """Return what is given."""
        values = {} if state is None else state.data
        return values.get(self.key) if self.key else values


class _Request:
    """Stand for the request of a call, which has the state, the id and the context as a `ToolRuntime` has."""

    injected_into_tools = True

    @staticmethod
    def for_tool(state: Any, call: Any) -> Any:
        """Return what is given; see `request_of`."""
        return request_of(state)


def request_of(state: Any) -> Any:
    """Return the request of the call whose tool is given this state.

    Raises:
        ToolInvocationError: no agent runs the call.
    """
    request = getattr(state, "request", None)
    if request is None:
        raise ToolInvocationError("This tool asks for its call or its run, which only an Agent can give.")
    return request


_MARKS: dict[str, Callable[[Any], Any]] = {
    "InjectedToolCallId": lambda mark: CallId,
    "InjectedState": lambda mark: _Values(getattr(mark, "field", None)),
    "ToolRuntime": lambda mark: _Request,
}


def injected_type(hint: Any) -> Any:
    """Return what gives a parameter of this type its value, such as State; None where the model gives it.

    It has `injected_into_tools = True` and `for_tool(state, call)`, which returns what is given.
    """
    for mark in _marks(hint):
        if getattr(mark, "injected_into_tools", False):
            return mark
        kind = mark if isinstance(mark, type) else typing.get_origin(mark) or type(mark)
        names = [k.__name__ for k in getattr(kind, "__mro__", ()) if k.__module__.partition(".")[0] in _LIBRARIES]
        if make := next((_MARKS[name] for name in names if name in _MARKS), None):
            return make(mark)
    return None


def _marks(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in typing.get_args(hint):
        yield from _marks(inner)
