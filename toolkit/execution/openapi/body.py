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
        encoding: style and explode of form fields, by property.
    """

    media_type: str
    whole: bool
    required: bool = False
    encoding: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


def read_body(spec: OpenAPISpec, request_body: Any, base: str) -> tuple[Body | None, Fields]:
    """Read a request body: how it is made, and (schema, required) of each of its arguments."""
    node, base, _ = spec.follow(request_body, base)
    content = as_mapping(as_mapping(node).get("content"))
    if not content:
        return None, {}
    kinds = {media_type: str(media_type).partition(";")[0].strip().lower() for media_type in content}
    media_type = min(kinds, key=lambda item: _preference(kinds[item]))
    kind, media = kinds[media_type], as_mapping(content[media_type])
    required = node.get("required") is True
    schema = media.get("schema", {})
    has_fields = is_json(kind) or kind in (FORM, MULTIPART)
    flat = _FlatReader(spec).read(schema, base) if has_fields else None
    if flat is None:
        return Body(kind, True, required), {"body": ((schema if has_fields else {"type": "string"}, base), required)}
    # What the schema requires is asked for even where the body as a whole is optional: documents seldom say
    # `required: true`, and a model that leaves such a property out earns a 400.
    styles = {name: item for name, item in as_mapping(media.get("encoding")).items() if "style" in as_mapping(item)}
    encoding = {name: (str(item["style"]), bool(item.get("explode", True))) for name, item in styles.items()}
    return Body(kind, False, required, encoding), flat


def _preference(kind: str) -> int:
    order = (is_json(kind), kind == FORM, kind == MULTIPART, kind.startswith("text/"), True)
    return order.index(True)


def is_json(kind: str) -> bool:
    """Tell whether a media type holds JSON; wildcards count as JSON."""
    return kind in ("application/json", "text/json", "*/*", "application/*") or kind.endswith("+json")


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of the document; an empty one where something else stands in its place."""
    return value if isinstance(value, Mapping) else {}


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
        needs = _list(node.get("required"))
        for part in _list(node.get("allOf")):
            inner = self.read(part, base, depth + 1)
            if inner is None and not set(as_mapping(part) or "x") <= {"required", "description", "title", "type"}:
                return None
            fields |= inner or {}
            needs = [*needs, *_list(part.get("required"))]
        own = as_mapping(node.get("properties")).items()
        fields |= {str(name): ((item, base), False) for name, item in own if not self._spec.is_read_only(item, base)}
        return {name: (item, needed or name in needs) for name, (item, needed) in fields.items()}


def _is_plain_object(node: Any) -> bool:
    if not isinstance(node, Mapping) or _TELLS_APART & set(node) or node.get("nullable") is True:
        return False
    parts = as_mapping(node.get("properties")) or _list(node.get("allOf"))
    return node.get("type", "object") == "object" and bool(parts)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
