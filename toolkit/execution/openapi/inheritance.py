"""Find what a schema with a `discriminator` leaves to its subtypes: their properties, and the values of its tag.

A subtype is what the `mapping` names, and what takes the schema in by `allOf`, at first or second hand.

Not here: the schemas themselves (`schema`), bodies made of them (`operations`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.errors import ConfigError
from toolkit.execution.openapi.spec import Node, OpenAPISpec, as_mapping

_COMPONENTS = "#/components/schemas/"
_MOST = 64  # properties of subtypes that are shown; more are of no use to a model


def tag_of(spec: OpenAPISpec, node: Mapping[str, Any], base: str) -> str:
    """Return the name of the property that tells alternatives or subtypes apart, which all must have; else nothing.

    It is required whether or not the schema says so (Source: fastmcp#4280).
    """
    name = as_mapping(node.get("discriminator")).get("propertyName")
    parts = node.get("oneOf") or node.get("anyOf") or [node]
    holders = [as_mapping(spec.follow(part, base)[0]).get("properties") for part in parts]
    return name if isinstance(name, str) and all(name in as_mapping(holder) for holder in holders) else ""


def subtype_properties(spec: OpenAPISpec, node: Mapping[str, Any], base: str) -> dict[str, Node] | None:
    """Return the properties that subtypes add to a schema, and its tag with the values that tell them apart.

    (Source: fastmcp#4626, fastmcp#5029.)

    Returns:
        nothing for what is no parent: without a discriminator, or with alternatives; None where there are too many.
    """
    discriminator, own = as_mapping(node.get("discriminator")), as_mapping(node.get("properties"))
    if not discriminator or {"oneOf", "anyOf"} & set(node):
        return {}
    found: dict[str, list[Node]] = {}
    seen, left = {id(node)}, [*spec.heirs.get(id(node), ()), *_mapped(spec, discriminator, base)]
    while left:
        part, there, _ = spec.follow(*left.pop())
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        given = as_mapping(part.get("properties")).items()
        for name, item in ((n, i) for n, i in given if n not in own and not spec.is_read_only(i, there)):
            found.setdefault(str(name), []).append((item, there))
        if len(found) > _MOST or len(seen) > 10 * _MOST:
            return None
        inner = part.get("allOf")
        left += [(one, there) for one in inner] if isinstance(inner, list) else []
        left += spec.heirs.get(id(part), ())
    return {name: _either(nodes) for name, nodes in found.items()} | _tag(spec, discriminator, own, base)


def _mapped(spec: OpenAPISpec, discriminator: Mapping[str, Any], base: str) -> Iterator[Node]:
    """Yield what a mapping names, be it by reference or by the bare name of a schema; what leads nowhere is no one."""
    for target in as_mapping(discriminator.get("mapping")).values():
        for ref in (_COMPONENTS + str(target), str(target)):
            try:
                spec.follow({"$ref": ref}, base)
            except ConfigError:
                continue
            yield {"$ref": ref}, base
            break


def _either(nodes: list[Node]) -> Node:
    """Return the schema of a property that several subtypes have: any of theirs."""
    first, base = nodes[0]
    others = [item for item, _ in nodes if item != first]
    if not others:
        return first, base
    return ({"anyOf": [item for item, _ in nodes]}, base) if {there for _, there in nodes} == {base} else ({}, base)


def _tag(spec: OpenAPISpec, discriminator: Mapping[str, Any], own: Mapping[str, Any], base: str) -> dict[str, Node]:
    name, values = discriminator.get("propertyName"), list(map(str, as_mapping(discriminator.get("mapping"))))
    item, there, _ = spec.follow(own.get(str(name)), base)
    if not values or not isinstance(item, Mapping) or item.get("type") != "string" or {"enum", "const"} & set(item):
        return {}
    return {str(name): ({**item, "enum": values}, there)}
