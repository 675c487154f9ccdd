"""Turn what a tool returned into the text that a model reads.

Text stays as it is, everything else becomes JSON (non-ASCII kept, NaN as null), and what JSON cannot hold becomes
`str(value)`. One rule for every tool, whatever it returns (Source: haystack#9293, haystack#12455).

Not here: choosing or formatting a part of a result (`outputs_to_string`, in `toolkit.execution.outputs`).
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any

from toolkit.errors import StringConversionError

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


def safe_str(value: object) -> str:
    """Return `str(value)`, or a stand-in where that raises."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} without text>"
