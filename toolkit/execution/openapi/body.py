"""Read how the body of an operation is made: which media type, and which arguments become it.

An object body is spread: each property is an argument of its own. Anything else is one argument, `body`.

Not here: writing the body (`request`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.execution.openapi.spec import OpenAPISpec

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_TELLS_APART = {"oneOf", "anyOf", "not", "if"}  # what a flat list of properties cannot say

Node = tuple[Any, str]  # a node of a document, and the location of that document
Fields = dict[str, tuple[Node, bool]]  # property -> its schema, whether it is required


@dataclass(frozen=True)
class Body:
    """Hold how the body of an operation is made.

    Attributes:
        media_type: such as `application/json`.
        whole: whether the argument `body` is the body, rather than one argument for each property.
        required: whether a request without body is refused.
        needs: properties that a body must have.
        encoding: style and explode of form fields, by property.
    """

    media_type: str
    whole: bool
    required: bool = False
    needs: tuple[str, ...] = ()
    encoding: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


def read_body(spec: OpenAPISpec, request_body: Any, base: str) -> tuple[Body | None, dict[str, tuple[Node, bool]]]:
    """Read a request body: how it is made, and (schema, required) of each of its arguments."""
    node, base, _ = spec.follow(request_body, base)
    content = node.get("content") if isinstance(node, Mapping) else None
    if not isinstance(content, Mapping) or not content:
        return None, {}
    media_type = min(content, key=_preference)
    media = content[media_type] if isinstance(content[media_type], Mapping) else {}
    required = node.get("required") is True
    kind = str(media_type).partition(";")[0].strip().lower()
    schema = media.get("schema", {})
    flat = _FlatReader(spec).read(schema, base) if _has_fields(kind) else None
    if flat is None:
        whole = schema if is_json(kind) or _has_fields(kind) else {"type": "string"}
        return Body(kind, True, required), {"body": ((whole, base), required)}
    # What the schema requires is asked for even where the body as a whole is optional: documents seldom say
    # `required: true`, and a model that leaves such a property out earns a 400.
    needs = tuple(name for name, (_, needed) in flat.items() if needed)
    return Body(kind, False, required, needs, _encoding(media)), flat


def _preference(media_type: Any) -> int:
    kind = str(media_type).partition(";")[0].strip().lower()
    order = (is_json(kind), kind == FORM, kind == MULTIPART, kind.startswith("text/"))
    return order.index(True) if True in order else len(order)


def is_json(kind: str) -> bool:
    """Tell whether a media type holds JSON; wildcards count as JSON."""
    return kind in ("application/json", "text/json", "*/*", "application/*") or kind.endswith("+json")


def _has_fields(kind: str) -> bool:
    return is_json(kind) or kind in (FORM, MULTIPART)


def _encoding(media: Mapping[str, Any]) -> dict[str, tuple[str, bool]]:
    found = media.get("encoding")
    if not isinstance(found, Mapping):
        return {}
    styles = {name: item for name, item in found.items() if isinstance(item, Mapping) and "style" in item}
    return {name: (str(item["style"]), bool(item.get("explode", True))) for name, item in styles.items()}


class _FlatReader:
    """Read the properties of object bodies, each schema once: eight parts that name eight parts soon are millions."""

    def __init__(self, spec: OpenAPISpec) -> None:
        self._spec = spec
        self._known: dict[tuple[int, str], Fields | None] = {}  # (identity of a node, its document) -> its properties

    def read(self, schema: Any, base: str, depth: int = 0) -> Fields | None:
        """Return the properties of an object body; None where it is no plain object and must be given whole."""
        node, there, _ = self._spec.follow(schema, base)
        key = id(node), there
        if key not in self._known:
            self._known[key] = None  # what a schema that holds itself finds inside
            self._known[key] = self._read(node, there, depth) if _is_plain_object(node) and depth <= 20 else None
        return self._known[key]

    def _read(self, node: Mapping[str, Any], base: str, depth: int) -> Fields | None:
        fields: Fields = {}
        needs = _names(node.get("required"))
        for part in _list(node.get("allOf")):
            inner = self.read(part, base, depth + 1)
            if inner is None and not _only_requires(part):
                return None
            fields |= inner or {}
            needs |= _names(part.get("required"))
        own = _mapping(node.get("properties")).items()
        fields |= {str(name): ((item, base), False) for name, item in own if not self._spec.is_read_only(item, base)}
        return {name: (item, needed or name in needs) for name, (item, needed) in fields.items()}


def _is_plain_object(node: Any) -> bool:
    if not isinstance(node, Mapping) or _TELLS_APART & set(node) or node.get("nullable") is True:
        return False
    return node.get("type", "object") == "object" and bool(_mapping(node.get("properties")) or _list(node.get("allOf")))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(value: Any) -> set[str]:
    return {name for name in value if isinstance(name, str)} if isinstance(value, list) else set()


def _only_requires(part: Any) -> bool:
    return isinstance(part, Mapping) and set(part) <= {"required", "description", "title", "type"}
