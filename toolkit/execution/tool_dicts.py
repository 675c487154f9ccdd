"""Write a tool as plain JSON data, functions by import path, and read it again: what ToolInvoker stores.

Reading imports the modules that the data names, which runs them. Read only files you trust.
Not here: the paths themselves (`toolkit.tools.import_paths`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolkit.tools import Tool
from toolkit.tools.import_paths import dotted_path, resolve_function

_OPTIONAL = ("inputs_from_state", "outputs_to_state", "outputs_to_string", "timeout_s", "effect", "return_direct")
_UNSAID = (None, "reads", False)  # what an optional field holds that was not set


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
