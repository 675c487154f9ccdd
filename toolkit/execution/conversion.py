"""Turn what a tool returned into the text that a model reads, and write it to the state by key.

Text stays as it is, everything else becomes JSON (non-ASCII kept, NaN as null), and what JSON cannot hold becomes
`str(value)`. One rule for every tool, whatever it returns (Source: haystack#9293, haystack#12455).

Not here: merging into the state (`toolkit.execution.state`).
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from toolkit.errors import StringConversionError, ToolOutputMergeError
from toolkit.execution.state import State
from toolkit.tools import Tool
from toolkit.tools.shown import safe_str
from toolkit.tools.wiring import STRING_KEYS

_PRINTED = (datetime.date, datetime.time, decimal.Decimal, uuid.UUID, pathlib.PurePath)


def to_text(value: Any, *, quote: bool = False) -> str:
    """Return a tool's result as text for the model.

    >>> to_text("plain é"), to_text({"k": "é", "n": [1, None]}), to_text(float("nan"))
    ('plain é', '{"k": "é", "n": [1, null]}', 'null')
    >>> to_text("plain é", quote=True)
    '"plain é"'

    Args:
        value: anything; objects with `to_dict` or `model_dump`, dataclasses, dates and enums become JSON.
        quote: write text as a JSON string too.

    Raises:
        StringConversionError: the value is no JSON and its `str()` fails; `__cause__` says why.
    """
    if type(value) is str and not quote:
        return value
    if type(value) is int and value.bit_length() < 1_000:  # far longer ones, Python refuses to print
        return str(value)
    try:
        return _json(value, quote)
    except Exception:
        return _printed(value)


def _json(value: Any, quote: bool) -> str:
    if isinstance(value, str) and not isinstance(value, enum.Enum) and not quote:
        return str(value)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain)
    except ValueError:  # NaN or infinity somewhere, or a circle (which fails again below)
        finite = json.loads(json.dumps(value, default=plain), parse_constant=lambda _: None)
        return json.dumps(finite, ensure_ascii=False)


def _printed(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:
        kind = type(value).__name__
        raise StringConversionError(
            f"The result, an object of type {kind}, has no text: {type(error).__name__}: {safe_str(error)}."
        ) from error


def plain(value: Any) -> Any:
    """Return a JSON-like stand-in for an object that `json` does not know.

    Raises:
        TypeError: there is none.
    """
    for method in ("to_dict", "model_dump"):
        found = getattr(value, method, None)
        if callable(found) and not isinstance(value, type):
            return found()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, _PRINTED):
        return str(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON")


def capped(text: str, limit: int | None) -> str:
    """Return the text cut to `limit` characters, with a mark that says so.

    >>> capped("abcdefgh", 3)
    'abc… [cut: 3 of 8 characters shown]'
    """
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… [cut: {limit:,} of {len(text):,} characters shown]"


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
