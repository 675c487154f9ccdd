"""Turn arguments into the types that the tool's schema declares, where nothing is lost, and record it.

What does not fit is kept as read and noted with its path: validating is the invoker's work.

Not here: defaults and validation (`toolkit.execution`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolkit.extraction.lenient_json import read_json
from toolkit.extraction.parameters import Repeated, inner_elements

_INTEGER = re.compile(r"\s*+[-+]?\d++\s*+$")
_NUMBER = re.compile(r"\s*+[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?\s*+$")
_BOOLEANS = {"true": True, "false": False}
_NULLS = {"null", "None", "none"}
# JSON Schema's words, and those of BFCL and of Python programmers.
_TYPES = {
    "str": "string", "String": "string", "char": "string",
    "int": "integer", "long": "integer", "Integer": "integer", "short": "integer", "byte": "integer",
    "float": "number", "double": "number", "Float": "number",
    "bool": "boolean", "Boolean": "boolean",
    "dict": "object", "map": "object",
    "list": "array", "tuple": "array", "set": "array",
}  # fmt: skip
_FIT: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
    "object": (dict,), "array": (list,), "null": (type(None),),
}  # fmt: skip
SURE: dict[type, tuple[str, ...]] = {  # types that need no second look
    str: ("string",), int: ("integer", "number"), float: ("number",), bool: ("boolean",),
}  # fmt: skip
_DEEPEST, _DEEPEST_TYPE, _MOST_TYPES = 24, 4, 16  # levels of a value; of `anyOf` in `anyOf`, and members of one


class Coercion:
    """Coerce the arguments of one call."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.root = schema
        self.repairs: list[str] = []  # `coerced` once something was turned
        self.notes: list[str] = []  # what does not fit, with its path

    def arguments(self, given: dict[str, Any], sources: dict[str, str] | None = None) -> dict[str, Any]:
        """Return the arguments with typed values; the source text of a value is what a text parameter is given."""
        properties = self.root.get("properties")
        if not isinstance(properties, dict) or not properties:
            return given
        result = {}
        for key, value in given.items():
            schema = properties.get(key)
            if key in properties and not surely_fits(value, schema):
                source = sources.get(key) if sources is not None else None
                value = self.value(value, schema, f"/{key}", source)  # noqa: PLW2901
            result[key] = value
        return result

    def untyped(self, given: dict[str, str]) -> dict[str, Any]:
        """Return arguments that were written as plain text with the types that are declared."""
        properties = self.root.get("properties")
        known = properties if isinstance(properties, dict) else {}
        return {key: self.text(value, known.get(key), f"/{key}") for key, value in given.items()}

    def text(self, value: Any, schema: Any, path: str) -> Any:
        """Return what a piece of plain text stands for, or several that one key was given."""
        types = self.types(schema)
        if isinstance(value, Repeated):
            if "array" in types:
                return self.items(value, schema, path)
            self.repairs.append("duplicate_keys")
            return self.text(value[-1], schema, path)
        if not isinstance(value, str):
            return self.value(value, schema, path)
        if "null" in types and len(types) > 1 and value.strip() in _NULLS:
            return None
        if "string" in types:
            return value
        decoded, read = _decode(value.strip())
        if not types:
            return decoded if read and not isinstance(decoded, str) else value
        if not read and (inner := inner_elements(value)) and path.count("/") < _DEEPEST:
            if "array" in types and len(inner) == 1:
                return self.items([*inner.values()], schema, path)
            if "object" in types:
                properties = (self.resolve(schema) or {}).get("properties") or {}
                return {key: self.text(one, properties.get(key), f"{path}/{key}") for key, one in inner.items()}
        if "array" in types and not (read and _fits(decoded, types)) and not re.search(r"[,;\n]", value.strip()):
            return self.items([value], schema, path)
        return self.value(decoded if read else value, schema, path, record=False)

    def items(self, values: list[Any], schema: Any, path: str) -> list[Any]:
        """Return the items of a list that were written one by one; an item that is a list itself holds several."""
        items = self.resolve(schema).get("items")
        nested = "array" in self.types(items)
        found: list[Any] = []
        for value in values[0] if len(values) == 1 and isinstance(values[0], Repeated) else values:
            read = self.text(value, items, f"{path}/{len(found)}")
            found += read if isinstance(read, list) and not nested else [read]
        return found

    def value(self, value: Any, schema: Any, path: str, source: str | None = None, record: bool = True) -> Any:
        """Return `value` in the declared type if that loses nothing, else as it is, with a note."""
        schema = self.resolve(schema)
        types = self.types(schema)
        if not types or _fits(value, types):
            return self.inside(value, schema, path)
        for wanted in types:
            turned, fits = _turn(value, wanted, source)
            if fits:
                if record and "coerced" not in self.repairs:
                    self.repairs.append("coerced")
                return self.inside(turned, schema, path)
        self.notes.append(f"{path}: {_brief(value)} is no {' or '.join(types)}")
        return value

    def inside(self, value: Any, schema: Any, path: str) -> Any:
        """Coerce the members of an object or array."""
        if not isinstance(schema, dict) or path.count("/") > _DEEPEST:
            return value
        if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
            properties = schema["properties"]
            return {
                key: self.value(inner, properties[key], f"{path}/{key}") if key in properties else inner
                for key, inner in value.items()
            }
        items = schema.get("items")
        if isinstance(value, list) and isinstance(items, dict) and self.types(items):
            return [self.value(inner, items, f"{path}/{place}") for place, inner in enumerate(value)]
        return value

    def resolve(self, schema: Any) -> Any:
        """Follow a local `$ref`."""
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        for _ in range(8):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            target: Any = self.root
            for part in reference[2:].split("/"):
                target = target.get(part) if isinstance(target, dict) else None
            schema = target
        return schema

    def types(self, schema: Any, depth: int = 0) -> tuple[str, ...]:
        """Return the types that a schema allows, in JSON Schema's words; () if anything goes."""
        schema = self.resolve(schema)
        if not isinstance(schema, dict) or depth > _DEEPEST_TYPE:
            return ()
        found = schema.get("type")
        if isinstance(found, str):
            name = _TYPES.get(found, found)
            return (name,) if name in _FIT else ()
        if isinstance(found, list):
            return tuple(_TYPES.get(one, one) for one in found if isinstance(one, str) and _TYPES.get(one, one) in _FIT)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                return _unique([self.types(part, depth + 1) for part in schema[key][:_MOST_TYPES]])
        return _enumerated(schema)


def surely_fits(value: Any, schema: Any) -> bool:
    """Tell at a glance whether a plain value has the declared type; False if that needs a closer look."""
    if type(schema) is not dict or "$ref" in schema:
        return False
    kind = schema.get("type")
    return type(kind) is str and kind in SURE.get(type(value), ())


def _unique(parts: list[tuple[str, ...]]) -> tuple[str, ...]:
    if not all(parts):
        return ()
    return tuple(dict.fromkeys(name for part in parts for name in part))


def _enumerated(schema: dict[str, Any]) -> tuple[str, ...]:
    values = (
        schema.get("enum") if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    )
    if not values:
        return ()
    names = [next((name for name in ("boolean", *_FIT) if _fits(value, (name,))), "") for value in values]
    return tuple(dict.fromkeys(names)) if all(names) else ()


def _fits(value: Any, types: tuple[str, ...]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if len(types) == 1:  # as nearly always
        return isinstance(value, _FIT[types[0]])
    return any(isinstance(value, _FIT[name]) for name in types)


def _turn(value: Any, wanted: str, source: str | None) -> tuple[Any, bool]:
    """Return the value as `wanted`, and whether that loses nothing."""
    if wanted == "string":
        return _as_text(value, source)
    if isinstance(value, bool):
        return value, False
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        return int(value), True
    if not isinstance(value, str):
        return value, False
    if wanted in ("integer", "number"):
        return _as_number(value, wanted)
    if wanted == "boolean" and value.strip().lower() in _BOOLEANS:
        return _BOOLEANS[value.strip().lower()], True
    if wanted == "null" and value.strip() in _NULLS:
        return None, True
    if wanted in ("object", "array") and value.lstrip()[:1] in ("{", "["):
        decoded, read = _decode(value.strip())
        return decoded, read and isinstance(decoded, _FIT[wanted])
    return value, False


def _as_text(value: Any, source: str | None) -> tuple[Any, bool]:
    if isinstance(value, str) or value is None:
        return value, False
    if source is not None:
        return source, True
    if isinstance(value, bool):
        return str(value).lower(), True
    return (str(value), True) if isinstance(value, (int, float)) else (value, False)


def _as_number(value: str, wanted: str) -> tuple[Any, bool]:
    if _INTEGER.match(value) and len(value) < 400:
        return int(value), True
    if not _NUMBER.match(value) or len(value) > 400:
        return value, False
    number = float(value)
    if wanted == "integer":
        return (int(number), True) if number.is_integer() and abs(number) < 2**53 else (value, False)
    return number, number not in (float("inf"), float("-inf"))


def _decode(text: str) -> tuple[Any, bool]:
    """Return the one JSON or Python value that the whole text is, and whether it is one."""
    read = read_json(text)
    return read.value, read.problem is None and not text[read.end :].strip()


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
