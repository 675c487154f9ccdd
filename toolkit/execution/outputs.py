"""Send a tool's result where it belongs: to the model as text, to the state by key.

Not here: the text of plain values (`toolkit.execution.conversion`), merging (`toolkit.execution.state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.errors import StringConversionError, ToolOutputMergeError
from toolkit.execution.conversion import safe_str, to_text
from toolkit.execution.state import State
from toolkit.tools import Tool
from toolkit.tools.wiring import STRING_KEYS


def result_text(tool: Tool, result: Any, *, quote: bool) -> Any:
    """Return what the model is given for a result, as the tool's `outputs_to_string` says.

    Args:
        tool: the tool that gave the result.
        result: what its function returned.
        quote: write text as a JSON string too.

    Returns:
        Text, or the object itself where the tool asks for the raw result.

    Raises:
        StringConversionError: a handler or a conversion failed; `__cause__` says why.
    """
    config = tool.outputs_to_string
    if not config:
        return _named(tool, to_text, result, quote)
    if config.keys() & STRING_KEYS:
        return _one(tool, config, result, quote)
    parts = {key: _one(tool, one, result, False) for key, one in config.items()}
    return to_text(parts, quote=quote)


def _one(tool: Tool, config: Mapping[str, Any], result: Any, quote: bool) -> Any:
    source, handler = config.get("source"), config.get("handler")
    value = result.get(source) if source is not None and isinstance(result, Mapping) else result
    if handler is not None:
        value = _named(tool, lambda item, _: handler(item), value, quote)
        return value if config.get("raw_result") or isinstance(value, str) else _named(tool, to_text, value, quote)
    return value if config.get("raw_result") else _named(tool, to_text, value, quote)


def _named(tool: Tool, convert: Any, value: Any, quote: bool) -> Any:
    """Convert, and name the tool where that fails."""
    try:
        return convert(value, quote=quote) if convert is to_text else convert(value, quote)
    except StringConversionError as error:
        raise StringConversionError(f"Tool {tool.name!r} ran, but {_lower(str(error))}") from error.__cause__
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise StringConversionError(
            f"Tool {tool.name!r} ran, but its result could not be turned into text: "
            f"{type(error).__name__}: {safe_str(error)}."
        ) from error


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def write_to_state(tool: Tool, result: Any, state: State) -> None:
    """Merge a result into the state as the tool's `outputs_to_state` says; only dicts have parts to write.

    A source key that the result lacks is skipped.

    Raises:
        ToolOutputMergeError: the state has no such key, or the handler failed; `__cause__` says which.
    """
    if not tool.outputs_to_state or not isinstance(result, Mapping):
        return
    for key, config in tool.outputs_to_state.items():
        source = config.get("source")
        if source is not None and source not in result:
            continue
        try:
            state.set(key, result if source is None else result[source], config.get("handler"))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ToolOutputMergeError(
                f"Tool {tool.name!r} ran, but its result could not be written to the state: {safe_str(error)}"
            ) from error
