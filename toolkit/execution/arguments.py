"""Check the arguments of a call against the tool's schema, and say field by field what is wrong.

Not here: turning checked arguments into Python objects (`toolkit.execution.ready`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from toolkit.errors import ToolArgumentsError, closest
from toolkit.tools.shown import shown

MOST_PROBLEMS = 8
_SMALL = 1_000
_SCALARS = frozenset((str, int, float, bool, type(None)))
_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
    "minLength": "length at least",
    "maxLength": "length at most",
    "minItems": "items at least",
    "maxItems": "items at most",
    "pattern": "text that matches",
    "format": "text of format",
    "const": "exactly",
}


def as_object(arguments: Any, name: str) -> dict[str, Any]:
    """Return arguments as a dict; "" and null mean none were given (Source: haystack#9408, haystack#8876).

    >>> as_object("", "now"), as_object(None, "now"), as_object('{"a": 1}', "now")
    ({}, {}, {'a': 1})

    Raises:
        ToolArgumentsError: they are neither an object nor JSON text of one.
    """
    found = arguments
    if isinstance(arguments, str):
        try:
            found = json.loads(arguments) if arguments.strip() else None
        except (ValueError, RecursionError):
            found = arguments
    if found is None:
        return {}
    if isinstance(found, Mapping):
        return dict(found)
    raise ToolArgumentsError(f"Arguments of {name!r}: expected a JSON object, got {shown(arguments)}. Nothing was run.")


def copied(value: Any) -> Any:
    """Return JSON data with new lists and objects; sets are new too.

    >>> given = {"a": [1, {"b": 2}]}
    >>> copied(given) == given, copied(given)["a"] is given["a"]
    (True, False)
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(copied, value))
    if type(value) in (tuple, set):
        return type(value)(map(copied, value))
    return value


def problems(validator: Any, arguments: dict[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return one sentence per fault: the field, what was expected, what came; of large arguments only the first."""
    import jsonschema_rs

    try:
        errors = validator.iter_errors(arguments) if _is_small(arguments) else []
        if not errors:
            validator.validate(arguments)  # stops at the first
    except jsonschema_rs.ValidationError as error:
        errors = [error]
    except ValueError as error:  # a value that JSON cannot hold, from a caller in Python
        return [f"arguments: expected JSON values, got {error}"]
    return list(dict.fromkeys(line for error in errors for line in _lines(error, schema)))


def _is_small(arguments: dict[str, Any]) -> bool:
    """Tell whether arguments hold less than a thousand values: a list of all faults takes long to make."""
    stack, count = [iter(arguments.values())], 0
    while stack:
        for value in stack.pop():
            count += 1
            if count > _SMALL:
                return False
            if isinstance(value, (dict, list, tuple)):
                stack.append(iter(value.values() if isinstance(value, dict) else value))
    return True


def refusal(name: str, found: list[str]) -> ToolArgumentsError:
    """Return the error that tells a model what to mend."""
    more = len(found) - MOST_PROBLEMS
    listed = "; ".join(found[:MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    return ToolArgumentsError(f"Arguments of {name!r} do not fit: {listed}. Nothing was run.")


def unknown_names(arguments: Iterable[str], accepted: Iterable[str]) -> list[str]:
    """Return one sentence per argument that the function has no parameter for.

    >>> unknown_names(["town", "citty"], ["city"])
    ["town: expected one of 'city', got an unknown name", "citty: expected 'city', got an unknown name"]
    """
    known = list(accepted)
    lines: list[str] = []
    for name in map(str, arguments):
        near = closest(name, known, n=1) if len(lines) < MOST_PROBLEMS else []
        names = near or known
        wanted = ", ".join(map(repr, names)) or "no arguments"
        lines.append(f"{name}: expected {'' if near or not known else 'one of '}{wanted}, got an unknown name")
    return lines


def _lines(error: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return the sentences of one validation error; unknown and missing names get one each."""
    kind, value = error.kind, error.kind.value
    at = path_of(error.instance_path)
    if kind.name == "required":
        wanted = "a value" if at else _wanted((schema.get("properties") or {}).get(value))
        return [f"{path_of((*error.instance_path, value))}: expected {wanted}, got none"]
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        if not at:
            return unknown_names(value, schema.get("properties") or {})
        given = error.instance if isinstance(error.instance, dict) else {}
        at_names = ((path_of((*error.instance_path, name)), shown(given.get(name))) for name in value)
        return [f"{place}: expected no such name, got {got}" for place, got in at_names]
    return [f"{at or 'arguments'}: expected {_expected(kind, error)}, got {shown(error.instance)}"]


def _wanted(schema: Any) -> str:
    """Say what a missing parameter wants, as far as its schema says it in a word."""
    if isinstance(schema, Mapping) and isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(shown(item) for item in schema["enum"])
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return " or ".join(kind) if isinstance(kind, list) else kind or "a value"


def _expected(kind: Any, error: Any) -> str:
    """Say in words what one keyword asks for."""
    value = kind.value
    if kind.name == "type":
        return " or ".join(value) if isinstance(value, (list, tuple)) else str(value)
    if kind.name == "enum":
        return "one of " + ", ".join(shown(item) for item in value)
    if kind.name in ("anyOf", "oneOf") and isinstance(value, (list, tuple)):
        inner = [_expected(e.kind, e) for branch in value for e in branch[:1]]
        return " or ".join(dict.fromkeys(inner)) or "exactly one of the alternatives"
    if kind.name in _BOUNDS:
        return f"{_BOUNDS[kind.name]} {shown(value)}"
    return str(error.message)


def path_of(parts: Iterable[str | int]) -> str:
    """Write a path as Python would: `items[0].name`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
