"""Keep what tools share between calls: State, a typed key-value store with a merge rule per key.

Not here: which tool reads or writes which key (`Tool.inputs_from_state`, `Tool.outputs_to_state`) and in which
order the calls of one turn run (`toolkit.execution.turns`).
"""

from __future__ import annotations

import threading
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, get_origin

from toolkit.errors import ConfigError, did_you_mean
from toolkit.execution.arguments import copied
from toolkit.messages import ChatMessage

Merge = Callable[[Any, Any], Any]


def merge_lists(old: Any, new: Any) -> list[Any]:
    """Append what is new to what is there.

    >>> merge_lists(None, "a"), merge_lists(["a"], ["b"])
    (['a'], ['a', 'b'])
    """
    return _as_list(old) + _as_list(new)


def replace_values(old: Any, new: Any) -> Any:
    """Keep what is new."""
    return new


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def own(value: Any) -> Any:
    """Return a value with lists, dicts and sets of its own; other objects, such as a client, stay the same.

    (Source: haystack#12668, haystack#11831.)
    """
    try:
        return copied(value)
    except RecursionError:  # it holds itself, or nearly
        return value


class State:
    """Hold values by key; lists grow, other values are replaced, unless the schema names a handler.

    What comes in and goes out are copies of lists, dicts and sets: only `set` changes a value. The key `messages` is
    always there. A tool parameter annotated `State` is given the live object.

    >>> state = State({"docs": {"type": list}, "repo": {"type": str}}, {"repo": "R"})
    >>> state.set("docs", ["a"]); state.set("docs", ["b"]); state.get("docs"), state.get("repo")
    (['a', 'b'], 'R')

    Args:
        schema: key -> {"type": a type, "handler": merge function of (old, new)}; the handler is optional.
        data: first values.

    Raises:
        ConfigError: a key whose type is none, a handler that cannot be called, or data for a key that is not declared.
    """

    injected_into_tools = True  # read by `toolkit.tools.signatures`: the model never fills such a parameter

    def __init__(self, schema: Mapping[str, Mapping[str, Any]], data: Mapping[str, Any] | None = None) -> None:
        self.schema: dict[str, dict[str, Any]] = {key: _declared(key, spec) for key, spec in schema.items()}
        self.schema.setdefault("messages", {"type": list[ChatMessage], "handler": merge_lists})
        self._data: dict[str, Any] = own(dict(data or {}))
        for key in self._data:
            self._check(key)
        self._data.setdefault("messages", [])
        self._lock = threading.RLock()

    @classmethod
    def for_tool(cls, state: State | None, call: Any) -> State:
        """Return what a tool is given for a parameter of this type."""
        return state if state is not None else cls({})

    def get(self, key: str, default: Any = None) -> Any:
        """Return a copy of the value of a key, or `default`."""
        return own(self._data[key]) if key in self._data else default

    def set(self, key: str, value: Any, handler_override: Merge | None = None) -> None:
        """Merge a value in, with the key's handler or the one given here.

        Raises:
            ConfigError: the key is not declared.
        """
        self._check(key)
        handler = handler_override or self.schema[key]["handler"]
        with self._lock:
            self._data[key] = handler(self._data.get(key), own(value))

    def has(self, key: str) -> bool:
        """Tell whether the key has a value."""
        return key in self._data

    @property
    def data(self) -> dict[str, Any]:
        """Return copies of all values by key."""
        return {key: own(value) for key, value in self._data.items()}

    def _check(self, key: str) -> None:
        if key not in self.schema:
            raise ConfigError(f"State has no key {key!r}. {did_you_mean(key, self.schema)}")

    def __repr__(self) -> str:
        return f"State({', '.join(key for key in self._data if key != 'messages' or self._data[key])})"[:100]


def _declared(key: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    if "type" not in spec:
        raise ConfigError(f"Key {key!r} of the state has no type. Write {{{key!r}: {{'type': str}}}}, say.")
    kind, handler = spec["type"], spec.get("handler")
    if not isinstance(kind, (type, types.UnionType, typing.NewType, typing.TypeVar)) and get_origin(kind) is None:
        raise ConfigError(f"The type of state key {key!r} is {kind!r}, which is no type. Write str or list[str], say.")
    if handler is not None and not callable(handler):
        raise ConfigError(f"The handler of state key {key!r} must be a function of (old, new), not {handler!r}.")
    grows = kind is list or get_origin(kind) is list
    return {"type": kind, "handler": handler or (merge_lists if grows else replace_values)}
