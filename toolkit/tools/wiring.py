"""Check and store how a tool is wired: what it reads from the state, writes to it, and shows of its result.

Not here: carrying it out (`toolkit.execution`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolkit.errors import ConfigError
from toolkit.tools.import_paths import dotted_path, resolve_function

if TYPE_CHECKING:
    from toolkit.tools import Tool

STRING_KEYS = frozenset({"source", "handler", "raw_result"})  # the root form of outputs_to_string
_OPTIONAL = ("inputs_from_state", "outputs_to_state", "outputs_to_string", "timeout_s", "effect")


def check_wiring(tool: Tool) -> None:
    """Check `inputs_from_state`, `outputs_to_state` and `outputs_to_string` of a tool.

    Raises:
        ConfigError: a parameter that does not exist, a source that is no text, a handler that cannot be called, or
            keys that do not go together.
    """
    where = f"of tool {tool.name!r}"
    _check_inputs(tool, where)
    for key, config in (tool.outputs_to_state or {}).items():
        _check_config(config, f"outputs_to_state[{key!r}] {where}", STRING_KEYS - {"raw_result"})
    config = tool.outputs_to_string or {}
    if config.keys() & STRING_KEYS:
        _check_config(config, f"outputs_to_string {where}", STRING_KEYS)
        return
    for key, part in config.items():
        _check_config(part, f"outputs_to_string[{key!r}] {where}", STRING_KEYS - {"raw_result"})
        if "source" not in part:
            raise ConfigError(f"outputs_to_string[{key!r}] {where} needs a 'source', the key of the result to show.")


def _check_inputs(tool: Tool, where: str) -> None:
    known = set(tool.properties) | _parameters(tool.function)
    for key, parameter in (tool.inputs_from_state or {}).items():
        if not isinstance(parameter, str) or (known and parameter not in known):
            raise ConfigError(
                f"inputs_from_state {where} maps {key!r} to {parameter!r}, which is no parameter. "
                f"Use one of: {', '.join(sorted(known))}."
            )


def _parameters(function: Callable[..., Any] | None) -> set[str]:
    try:
        return set(inspect.signature(function).parameters) if function is not None else set()
    except (TypeError, ValueError):  # some builtins have no signature
        return set()


def _check_config(config: Any, where: str, allowed: frozenset[str]) -> None:
    if not isinstance(config, Mapping):
        raise ConfigError(f"{where} must be a dict, not {config!r}.")
    strange = sorted(config.keys() - allowed)
    if strange:
        raise ConfigError(f"{where} has unknown keys {strange}. Allowed here: {', '.join(sorted(allowed))}.")
    if "source" in config and not isinstance(config["source"], str):
        raise ConfigError(f"source in {where} must be text, the key of the result, not {config['source']!r}.")
    if "handler" in config and not callable(config["handler"]):
        raise ConfigError(f"handler in {where} must be a function, not {config['handler']!r}.")
    if not isinstance(config.get("raw_result", False), bool):
        raise ConfigError(f"raw_result in {where} must be true or false, not {config['raw_result']!r}.")


def tool_to_dict(tool: Tool) -> dict[str, Any]:
    """Return a tool as plain JSON data; see `Tool.to_dict`."""
    data: dict[str, Any] = tool.tool_spec
    data["function"] = dotted_path(tool.function) if tool.function is not None else None
    for name in _OPTIONAL:
        value = getattr(tool, name)
        if value is not None and not (name == "effect" and value == "reads"):
            data[name] = _handlers(value, dotted_path)
    return data


def tool_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the tool that `tool_to_dict` described; the data stay as they are."""
    wired = ("outputs_to_state", "outputs_to_string")
    fields = {name: _handlers(value, resolve_function) if name in wired else value for name, value in data.items()}
    if isinstance(fields.get("function"), str):
        fields["function"] = resolve_function(fields["function"])
    return fields


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
