"""Send a tool's result where it belongs: to the model as text, to the state by key.

Not here: the text of plain values (`toolkit.execution.conversion`), merging (`toolkit.execution.state`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        return _converted(tool, result, quote)
    if config.keys() & STRING_KEYS:
        return _one(tool, config, result, quote)
    return to_text({key: _one(tool, one, result, False) for key, one in config.items()}, quote=quote)


def _one(tool: Tool, config: Mapping[str, Any], result: Any, quote: bool) -> Any:
    source = config.get("source")
    value = result.get(source) if source is not None and isinstance(result, Mapping) else result
    return _converted(tool, value, quote, config.get("handler"), raw=bool(config.get("raw_result")))


def _converted(
    tool: Tool, value: Any, quote: bool, handler: Callable[[Any], Any] | None = None, *, raw: bool = False
) -> Any:
    """Return what the handler makes of a value, as text unless `raw`; name the tool where that fails."""
    try:
        if handler is not None:
            value = handler(value)
        return value if raw or (handler is not None and isinstance(value, str)) else to_text(value, quote=quote)
    except StringConversionError as error:
        words = str(error)
        raise StringConversionError(f"Tool {tool.name!r} ran, but {words[:1].lower()}{words[1:]}") from error.__cause__
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise StringConversionError(
            f"Tool {tool.name!r} ran, but its result could not be turned into text: "
            f"{type(error).__name__}: {safe_str(error)}."
        ) from error


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
