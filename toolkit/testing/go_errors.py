"""Word errors as Go's decoders do, for a fake server that refuses what a real one refuses.

Not here: which requests are refused (`requests`).
"""

from __future__ import annotations

import json
import re
from typing import Any

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PLACES = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}


def kind_of(value: Any) -> str:
    """Return the word of Go's decoder for the kind of a JSON value.

    >>> [kind_of(value) for value in (True, 1.5, "x", [], {})]
    ['bool', 'number', 'string', 'array', 'object']
    """
    words = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return words.get(type(value), "null")


def json_error(text: str, error: json.JSONDecodeError) -> str:
    """Return what Go says of a text that Python's decoder refused.

    >>> try:
    ...     json.loads('{"city": Rome}')
    ... except json.JSONDecodeError as error:
    ...     print(json_error('{"city": Rome}', error))
    invalid character 'R' looking for beginning of value
    """
    at = error.pos
    if error.msg.startswith("Invalid \\escape"):
        at += 1
    if error.msg.startswith("Unterminated") or at >= len(text):
        return "unexpected end of JSON input"
    if error.msg.startswith("Illegal trailing comma"):  # Python points at the comma, Go at what follows
        at += 1 + len(text[at + 1 :]) - len(text[at + 1 :].lstrip())
    place = next((words for start, words in _PLACES.items() if error.msg.startswith(start)), "")
    if not place:  # a missing comma, in an array or an object
        place = "after array element" if _in_array(text[:at]) else "after object key:value pair"
    shown = text[at].encode("unicode_escape").decode() if text[at] != "'" else "\\'"
    return f"invalid character '{shown}' {place}"


def _in_array(text: str) -> bool:
    text = re.sub(r'"(?:\\.|[^"\\])*"', "", text)
    stack = []
    for character in text:
        if character in "[{":
            stack.append(character)
        elif character in "]}" and stack:
            stack.pop()
    return bool(stack) and stack[-1] == "["


def duration(text: str) -> float:
    """Return the seconds of a duration such as `1h30m`.

    Raises:
        ValueError: in Go's words, where a unit is missing or the text is none.
    """
    if text.lstrip("+-") == "0":
        return 0.0
    sign = -1.0 if text.startswith("-") else 1.0
    found = re.findall(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)", text)
    if found and "".join(number + unit for number, unit in found) == text.lstrip("+-"):
        return sign * sum(float(number) * _UNITS[unit] for number, unit in found)
    missing = re.fullmatch(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))*(?:\d+\.?\d*|\.\d+)", text)
    raise ValueError(f'time: {"missing unit in" if missing else "invalid"} duration "{text}"')
