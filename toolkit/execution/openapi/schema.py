"""Turn the schemas of an OpenAPI document into one self-contained JSON Schema (draft 2020-12).

References are written out, since small models read nested text better than pointers; a recursive one, and all of
them where writing out would explode, become entries of `$defs`.

Not here: which schemas an operation has (`operations`).
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from toolkit.errors import ConfigError
from toolkit.execution.openapi.inheritance import subtype_properties, tag_of
from toolkit.execution.openapi.spec import Node, OpenAPISpec, as_mapping

_MAX_INLINE = 800  # nodes; beyond it references are kept as $defs
_MAX_NODES = 50_000
_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
_PLAIN = {"title": str, "description": str, "default": object, "enum": list, "const": object, "format": str}
_PLAIN |= {"uniqueItems": bool, "deprecated": bool}
_NUMBERS = ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains")
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_ANNOTATIONS = {"title", "description", "default", "deprecated", "nullable"}
_ANNOTATIONS |= {"example", "examples", "readOnly", "writeOnly"}
_MERGEABLE = {"type", "properties", "required", "title", "description", "deprecated", "default"}

Schema = dict[str, Any]
T = TypeVar("T")


class _TooLarge(Exception):  # noqa: N818 - a signal, never seen outside
    pass


class SchemaWriter:
    """Write the schemas of one operation; `definitions` collects the `$defs` that they point to."""

    def __init__(self, spec: OpenAPISpec, keep_references: bool = False) -> None:
        self._spec = spec
        self._keep = keep_references
        self._names: dict[tuple[str, bool], str] = {}  # address of a schema, whether as part of another -> in $defs
        self._taken: dict[str, int] = {}  # name in $defs -> the last number given to its stem
        self._missing: collections.deque[tuple[str, bool]] = collections.deque()  # those still to be written
        self._open: list[str] = []  # addresses being written out
        self._nodes = 0
        self.definitions: dict[str, Any] = {}

    def write(self, node: Any, base: str) -> Any:
        """Write the schema `node` of the document at `base`, and the definitions it needs."""
        written = self._write(node, base)
        while self._missing:
            address, part = self._missing.popleft()
            self.definitions[self._names[address, part]] = self._target({"$ref": address}, base, address, part)
        return written

    def _write(self, node: Any, base: str, part: bool = False) -> Any:
        """Write a schema; as `part` of another's `allOf` it is that one, and not any subtype of its own."""
        self._nodes += 1
        if self._nodes > (_MAX_NODES if self._keep else _MAX_INLINE):
            raise _TooLarge
        if not isinstance(node, Mapping):
            return node if isinstance(node, bool) else {}
        if not isinstance(node.get("$ref"), str):
            return self._convert(node, base, part)
        _, _, address = self._spec.follow(node, base)
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return self._beside(self._refer(node, base, address, part), beside, base)

    def _refer(self, node: Mapping[str, Any], base: str, address: str, part: bool) -> Any:
        key = address, part
        if key not in self._names and (self._keep or address in self._open):
            self._names[key] = self._name(address)
            self._missing.append(key)
        if key in self._names:
            return {"$ref": f"#/$defs/{self._names[key]}"}
        return self._target(node, base, address, part)

    def _target(self, node: Mapping[str, Any], base: str, address: str, part: bool) -> Any:
        target, there, _ = self._spec.follow(node, base)
        self._open.append(address)
        try:
            return self._write(target, there, part)
        finally:
            self._open.pop()

    def _beside(self, schema: Any, beside: Mapping[str, Any], base: str) -> Any:
        """Apply keywords that stand beside a `$ref`: annotations replace, others add to it."""
        if not beside or not isinstance(schema, dict):
            return schema
        if self._spec.is_3_0:
            beside = {key: value for key, value in beside.items() if key in _ANNOTATIONS}
        extra = self._convert(beside, base)
        if set(extra) <= _ANNOTATIONS:
            return {**schema, **extra}
        return {"allOf": [schema, extra]}

    def _name(self, address: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9_]+", "_", address.rpartition("/")[2]).strip("_") or "Schema"
        name = stem
        while name in self._taken:  # counted on, since all names in another script have the same stem
            self._taken[stem] += 1
            name = f"{stem}_{self._taken[stem]}"
        self._taken[name] = 1
        return name

    def _convert(self, node: Mapping[str, Any], base: str, part: bool = False) -> Schema:
        out = _plain_keywords(node)
        for key in _ONE:
            if isinstance(node.get(key), (Mapping, bool)):
                out[key] = self._write(node[key], base)
        for key in _MANY:
            if isinstance(node.get(key), list) and node[key]:
                joined = key == "allOf" and (part or len(node[key]) > 1 or "properties" in node)
                out[key] = [self._write(item, base, joined) for item in node[key]]
        for key in _NAMED:
            if isinstance(node.get(key), Mapping):
                given = {n: item for n, item in node[key].items() if key != "patternProperties" or is_pattern(n)}
                out[key] = self._properties(given, base)
        if isinstance(node.get("required"), list) and (required := self._required(node, base)):
            out["required"] = required
        if not part and "discriminator" in node:
            self._add_subtypes(out, node, base)
        return _nullable(merge_all_of(out), node)

    def _add_subtypes(self, out: Schema, node: Mapping[str, Any], base: str) -> None:
        added = {name: self._write(*item) for name, item in (subtype_properties(self._spec, node, base) or {}).items()}
        if added:
            out["properties"] = {**out.get("properties", {}), **added}
        if tag := tag_of(self._spec, node, base):
            out["required"] = list(dict.fromkeys((*out.get("required", ()), tag)))

    def _properties(self, properties: Mapping[str, Any], base: str) -> Schema:
        given = ((name, item) for name, item in properties.items() if not self._spec.is_read_only(item, base))
        return {name: self._write(item, base) for name, item in given}

    def _required(self, node: Mapping[str, Any], base: str) -> list[str]:
        known = as_mapping(node.get("properties"))
        names = dict.fromkeys(name for name in node["required"] if isinstance(name, str))
        return [name for name in names if not self._spec.is_read_only(known.get(name), base)]


def write_schemas(spec: OpenAPISpec, nodes: Mapping[T, Node], owner: str) -> tuple[dict[T, Any], Schema]:
    """Write several schemas, each given as (node, base), and the definitions they share.

    Raises:
        ConfigError: they are too large even with references kept.
    """
    for keep in (False, True):
        writer = SchemaWriter(spec, keep)
        try:
            return {name: writer.write(node, base) for name, (node, base) in nodes.items()}, writer.definitions
        except (_TooLarge, RecursionError):
            continue
    raise ConfigError(
        f"The schema of {owner!r} has more than {_MAX_NODES} nodes, or is too deep. Leave it out of allowed_operations."
    )


def _plain_keywords(node: Mapping[str, Any]) -> Schema:
    """Keep the keywords without schemas in them, those that documents often misspell only if they are sound."""
    out = _type(node)
    out.update({key: node[key] for key, kind in _PLAIN.items() if key in node and isinstance(node[key], kind)})
    out.update({key: node[key] for key in _NUMBERS if _is_number(node.get(key))})
    out.update({key: node[key] for key in _COUNTS if _is_number(node.get(key)) and node[key] >= 0})
    if isinstance(node.get("pattern"), str) and is_pattern(node["pattern"]):
        out["pattern"] = node["pattern"]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if node.get(exclusive) is True and bound in out:  # the boolean spelling of OpenAPI 3.0
            out[exclusive] = out.pop(bound)
    return out


def _type(node: Mapping[str, Any]) -> Schema:
    kinds = node.get("type")
    named = kinds if isinstance(kinds, list) else [kinds]
    kept = [kind for kind in dict.fromkeys(map(str, named)) if kind in _TYPES]
    return {"type": kept if len(kept) > 1 else kept[0]} if kept else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@functools.lru_cache(1024)
def is_pattern(pattern: str) -> bool:
    """Tell whether a text is a pattern that can be checked."""
    import jsonschema_rs

    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern})
    except ValueError:  # ValidationError is one
        return False
    return True


def _nullable(schema: Schema, node: Mapping[str, Any]) -> Schema:
    """Spell OpenAPI 3.0's `nullable` as JSON Schema does."""
    if node.get("nullable") is not True:
        return schema
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema = {**schema, "enum": [*schema["enum"], None]}
    if kinds := schema.get("type"):
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return {**schema, "type": [*kinds, "null"]} if "null" not in kinds else schema
    if not set(schema) & {"allOf", "anyOf", "oneOf", "$ref"}:
        return schema
    kept = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
    inner = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    return {**kept, "anyOf": [inner, {"type": "null"}]}


def merge_all_of(schema: Schema) -> Schema:
    """Join an `allOf` of plain objects into one object; leave any other as it is.

    >>> merge_all_of({"allOf": [{"type": "object", "properties": {"a": {}}}, {"properties": {"b": {}}}]})
    {'type': 'object', 'properties': {'a': {}, 'b': {}}}
    """
    parts = schema.get("allOf")
    if not parts:
        return schema
    outer = {key: value for key, value in schema.items() if key != "allOf"}
    if len(parts) == 1 and isinstance(parts[0], dict) and not set(parts[0]) & set(outer) - _ANNOTATIONS:
        return {**parts[0], **outer}
    parts = [*parts, outer]
    if not all(isinstance(p, dict) and set(p) <= _MERGEABLE and p.get("type", "object") == "object" for p in parts):
        return schema
    return _merged(parts) or schema


def _merged(parts: list[Schema]) -> Schema | None:
    """Return one object for all parts; None where two describe one property differently."""
    out: Schema = {}
    properties: Schema = {}
    required: list[str] = []
    for part in parts:
        if any(properties.setdefault(name, item) != item for name, item in part.get("properties", {}).items()):
            return None
        out |= {key: value for key, value in part.items() if key not in ("properties", "required")}
        required += part.get("required", [])
    if any("properties" in part for part in parts):
        out["properties"] = properties
    if required:
        out["required"] = list(dict.fromkeys(required))
    return out
