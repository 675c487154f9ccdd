"""Name a function by its import path and find it again; write down tools, and what runs them, as plain JSON data.

Reading a path imports the module it names, which runs that module. Read only files you trust.
Not here: which settings are stored (`ToolInvoker.to_dict`).
"""

from __future__ import annotations

import contextlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from toolkit.errors import ConfigError
from toolkit.tools.tool import Tool

_OPTIONAL = ("inputs_from_state", "outputs_to_state", "outputs_to_string", "timeout_s", "effect", "return_direct")
_UNSAID = (None, "reads", False)  # what an optional field holds that was not set


def dotted_path(function: Callable[..., Any]) -> str:
    """Return the import path of a function or class.

    >>> import json
    >>> dotted_path(json.dumps)
    'json.dumps'

    Raises:
        ConfigError: a lambda, a function inside a function, a bound method, or anything else no import finds.
    """
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    if not module or "<" in name or not hasattr(function, "__qualname__"):
        raise ConfigError(
            f"{name!r} cannot be written down: it has no import path. "
            "Define it with `def` at the top level of a module, and save that."
        )
    path = f"{module}.{name}"
    found = resolve(path)
    if found is not function and getattr(found, "function", None) is not function:
        raise ConfigError(f"{path!r} is another object by now. Save the function under a name of its own.")
    return path


def resolve(path: str) -> Callable[..., Any]:
    """Import and return what a path names, such as `package.module:name` or with a dot; it must be callable.

    Raises:
        ConfigError: no such path, or something that cannot be called.
    """
    found: Any = None
    with contextlib.suppress(ImportError, AttributeError, ValueError, TypeError):
        found = pkgutil.resolve_name(path)
    if callable(found):
        return found  # type: ignore[no-any-return] # checked just above
    raise ConfigError(f"{path!r} names no function. Expected an import path such as 'mypackage.tools.weather'.")


def resolve_function(path: str) -> Callable[..., Any]:
    """Return the function a path names, taken out of the Tool that `@tool` may have made of it."""
    found = resolve(path)
    inner = getattr(found, "function", None)
    return inner if callable(inner) else found


def settings_in(data: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a copy of the settings that the `to_dict` of the class at the path `kind` wrote down.

    Raises:
        ConfigError: data of something else.
    """
    if data.get("type") != kind:
        raise ConfigError(f"type {data.get('type')!r} is no {kind.rpartition('.')[2]}; expected {kind!r}.")
    return dict(data["init_parameters"])


def tool_to_dict(tool: Tool) -> dict[str, Any]:
    """Return a tool as plain JSON data.

    Raises:
        ConfigError: a function without an import path, such as a lambda.
    """
    data: dict[str, Any] = tool.tool_spec
    data["function"] = dotted_path(tool.function) if tool.function is not None else None
    given = {name: getattr(tool, name) for name in _OPTIONAL}
    return data | {name: _handlers(value, dotted_path) for name, value in given.items() if value not in _UNSAID}


def tool_from_dict(data: Mapping[str, Any]) -> Tool:
    """Build a tool from what `tool_to_dict` gave; the data stay as they are.

    Raises:
        ConfigError: a path that names no function.
    """
    wired = ("outputs_to_state", "outputs_to_string")
    fields = {name: _handlers(value, resolve_function) if name in wired else value for name, value in data.items()}
    if isinstance(fields.get("function"), str):
        fields["function"] = resolve_function(fields["function"])
    return Tool(**fields)


def _handlers(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a setting with every handler changed from function to path or back."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: change(inner)
        if key == "handler" and (callable(inner) or isinstance(inner, str))
        else _handlers(inner, change)
        for key, inner in value.items()
    }
