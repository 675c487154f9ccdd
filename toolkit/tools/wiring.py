"""Check how a tool is wired: what it reads from the state, writes to it, and shows of its result.

Not here: carrying it out (`toolkit.execution`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolkit.errors import ConfigError

STRING_KEYS = frozenset({"source", "handler", "raw_result"})  # the root form of outputs_to_string


def check_inputs(name: str, inputs_from_state: Mapping[str, Any], known: Iterable[str] | None) -> None:
    """Check `inputs_from_state` of the tool `name`; `known` are its parameters, None where nobody can tell.

    Raises:
        ConfigError: a parameter that does not exist (Source: haystack#12811).
    """
    parameters = sorted(known or ())
    for key, parameter in inputs_from_state.items():
        if not isinstance(parameter, str) or (known is not None and parameter not in parameters):
            raise ConfigError(
                f"inputs_from_state of tool {name!r} maps {key!r} to {parameter!r}, which is no parameter. "
                f"Use one of: {', '.join(parameters) or 'none, since it takes none'}."
            )


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """Return a function's parameters by name; None where it has no signature to read, as some builtins."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def check_outputs(name: str, outputs_to_state: Mapping[str, Any], outputs_to_string: Mapping[str, Any]) -> None:
    """Check `outputs_to_state` and `outputs_to_string` of the tool `name`.

    Raises:
        ConfigError: a source that is no text, a handler that cannot be called, or keys that do not go together.
    """
    where, inner = f"of tool {name!r}", STRING_KEYS - {"raw_result"}
    for key, config in outputs_to_state.items():
        _check_config(config, f"outputs_to_state[{key!r}] {where}", inner)
    if outputs_to_string.keys() & STRING_KEYS:
        _check_config(outputs_to_string, f"outputs_to_string {where}", STRING_KEYS)
        return
    for key, part in outputs_to_string.items():
        _check_config(part, f"outputs_to_string[{key!r}] {where}", inner)
        if "source" not in part:
            raise ConfigError(f"outputs_to_string[{key!r}] {where} needs a 'source', the key of the result to show.")


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
