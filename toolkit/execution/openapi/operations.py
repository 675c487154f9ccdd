"""List the operations of an OpenAPI document, each as a function with a name, a text and a schema.

An object body is spread: each property is an argument of its own. Anything else is one argument, `body`.

Not here: how arguments become a request (`request`), schemas in detail (`schema`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.errors import ConfigError, closest
from toolkit.execution.openapi.inheritance import subtype_properties, tag_of
from toolkit.execution.openapi.schema import is_pattern, write_schemas
from toolkit.execution.openapi.spec import Node, OpenAPISpec, as_mapping
from toolkit.tools import check_schema
from toolkit.tools.shown import shown

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_PLACES = ("path", "query", "header", "cookie")
# a model must not set these: the first three are OpenAPI's rule, the others steer the connection
_RESERVED_HEADERS = {"accept", "content-type", "authorization", "host", "connection", "content-length", "cookie"}
_RESERVED_HEADERS |= {"transfer-encoding", "upgrade", "te", "trailer", "expect", "proxy-authorization"}
_MAX_DESCRIPTION = 1024
_MAX_NAME = 64
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_TELLS_APART = {"oneOf", "anyOf", "not", "if"}  # what a flat list of properties cannot say

Fields = dict[str, tuple[Node, bool]]  # property -> its schema, whether it is required


@dataclass(frozen=True)
class Parameter:
    """Hold one argument of an operation and where it goes."""

    argument: str  # the name that the model writes
    name: str  # the name on the wire; the same unless two places share it
    place: str  # path, query, header, cookie or body
    required: bool = False
    style: str = "simple"  # how arrays and objects are spelled, as OpenAPI names it
    explode: bool = False
    allow_reserved: bool = False
    media_type: str | None = None  # set where the value is sent as a document, such as JSON in a query


@dataclass(frozen=True)
class Body:
    """Hold how the body of an operation is made."""

    media_type: str
    whole: bool  # whether the argument `body` is the body, rather than one argument for each property
    required: bool = False
    encoding: Mapping[str, tuple[str, bool]] = field(default_factory=dict)  # style and explode of form fields
    more: Mapping[str, Node] = field(default_factory=dict)  # pattern of further names, or "" for any -> their schema


@dataclass(frozen=True)
class Operation:
    """Hold one operation."""

    id: str  # the raw operationId, or path and method where there is none
    name: str  # the id in [A-Za-z0-9_], at most 64 long, unique in the document
    method: str  # in capitals
    path: str
    description: str
    arguments: tuple[Parameter, ...]
    body: Body | None
    parameters: dict[str, Any]  # JSON Schema of the arguments
    server: Mapping[str, Any]  # the first of the operation's, else the path's, else the document's
    security: tuple[Mapping[str, Any], ...] = ()  # the requirements in force; empty for none

    def __repr__(self) -> str:
        return f"Operation({self.name}: {self.method} {self.path})"


@dataclass(frozen=True)
class _Draft:
    """Hold an operation found in the document, before its schema is written."""

    spec: OpenAPISpec
    path: str
    method: str
    id: str
    name: str
    item: Mapping[str, Any]
    node: Mapping[str, Any]
    base: str


def operations(spec: OpenAPISpec, allowed: Iterable[str] | None = None) -> list[Operation]:
    """List the operations of a document, in its order.

    Args:
        spec: the document.
        allowed: operationIds, normalised names or "GET /path"; None takes all.

    Raises:
        ConfigError: an allowed name fits no operation, or a schema cannot be read.
    """
    drafts = _drafts(spec)
    if allowed is not None:
        drafts = _only(drafts, [allowed] if isinstance(allowed, str) else list(allowed))
    return [_operation(draft) for draft in drafts]


def normalise(name: str) -> str:
    """Spell a name in [A-Za-z0-9_], at most 64 long.

    >>> normalise("create-pet.v1")
    'create_pet_v1'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:_MAX_NAME] or "operation"


def _drafts(spec: OpenAPISpec) -> list[_Draft]:
    drafts: list[_Draft] = []
    taken: dict[str, int] = {}
    for path, node in spec.document["paths"].items():
        item, base, _ = spec.follow(node, spec.location)
        if not isinstance(item, Mapping) or str(path).startswith("x-"):
            continue
        for method, operation in item.items():
            if method in METHODS and isinstance(operation, Mapping):
                raw = str(operation.get("operationId") or f"{path}_{method}")
                name = _unique(normalise(raw), taken)
                drafts.append(_Draft(spec, str(path), method, raw, name, item, operation, base))
    return drafts


def _unique(name: str, taken: dict[str, int]) -> str:
    """Return the name, with a number behind it where it is taken; counted on, so that all names take linear time."""
    found, stem = name, name[: _MAX_NAME - 8]
    while found in taken:
        taken[stem] = taken.get(stem, 1) + 1
        found = f"{stem}_{taken[stem]}"
    taken.setdefault(found, 1)
    return found


def _only(drafts: list[_Draft], allowed: list[str]) -> list[_Draft]:
    """Keep the allowed drafts; a raw id counts before a normalised name, so no name lets in a stranger."""
    spellings = {f"{draft.method.upper()} {draft.path}": draft for draft in drafts}
    spellings |= {draft.name: draft for draft in drafts}
    spellings |= {draft.id: draft for draft in drafts}
    for name in allowed:
        if name not in spellings:
            near = closest(str(name), [draft.id for draft in drafts], n=1)
            known = ", ".join(draft.id for draft in drafts[:30])
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"allowed_operations names {name!r}, which the document lacks.{hint} It has: {known}.")
    kept = {spellings[name].name for name in allowed}
    return [draft for draft in drafts if draft.name in kept]


def _operation(draft: _Draft) -> Operation:
    """Write one operation with its schema; a fault in it names the operation."""
    try:
        arguments, body, parameters = _signature(draft)
        document = draft.spec.document
        security = _listed(draft.node if "security" in draft.node else document, "security")
        owners = (draft.node, draft.item, document)
        servers = next(filter(None, (_listed(owner, "servers") for owner in owners)), [{"url": "/"}])
        check_schema(parameters, draft.name)
    except ConfigError as error:
        raise ConfigError(
            f"Operation {draft.id!r} cannot be read: {error} Or leave it out with allowed_operations."
        ) from None
    return Operation(
        id=draft.id,
        name=draft.name,
        method=draft.method.upper(),
        path=draft.path,
        description=_description(draft),
        arguments=arguments,
        body=body,
        parameters=parameters,
        server=servers[0] if isinstance(servers[0], Mapping) else {},
        security=tuple(item for item in security if isinstance(item, Mapping)),
    )


def _signature(draft: _Draft) -> tuple[tuple[Parameter, ...], Body | None, dict[str, Any]]:
    """Return the arguments of an operation, how its body is made, and the schema of all arguments."""
    found = list(_parameters(draft))
    body, fields = read_body(draft.spec, draft.node.get("requestBody"), draft.base)
    arguments = _name_arguments([item for item, _, _ in found], fields)
    nodes = [node for _, node, _ in found] + [fields[item.name][0] for item in arguments[len(found) :]]
    named = {("", item.argument): node for item, node in zip(arguments, nodes, strict=True)}
    named |= {("more", pattern): node for pattern, node in (body.more if body else {}).items()}
    written, definitions = write_schemas(draft.spec, named, draft.id)
    properties = {name: schema for (kind, name), schema in written.items() if not kind}
    for item, (_, _, text) in zip(arguments, found, strict=False):
        if text and isinstance(properties[item.argument], dict):
            properties[item.argument] = {**properties[item.argument], "description": text}
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [item.argument for item in arguments if item.required]:
        parameters["required"] = required
    if body and body.more:
        patterns = {name: schema for (kind, name), schema in written.items() if kind and name}
        parameters |= {"patternProperties": patterns} if patterns else {}
        parameters["additionalProperties"] = written.get(("more", ""), False)
    if definitions:
        parameters["$defs"] = definitions
    return tuple(arguments), body, parameters


def _listed(owner: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list of the document, empty where it has none; anything else in its place is a ConfigError."""
    found = owner.get(key)
    if found and not isinstance(found, list):
        raise ConfigError(f"{key!r} must be a list, not {shown(found)}.")
    return found or []


def _description(draft: _Draft) -> str:
    """Return the operation's text; its method and path where it has none, since a model needs something to read."""
    for owner in (draft.node, draft.item):
        text = owner.get("description") or owner.get("summary")
        if isinstance(text, str) and text.strip():
            return text.strip()[:_MAX_DESCRIPTION]
    return f"{draft.method.upper()} {draft.path}"


def _parameters(draft: _Draft) -> Iterator[tuple[Parameter, Node, str]]:
    """Yield each parameter with its schema and its text; the operation's own replace the path's."""
    found: dict[tuple[str, str], tuple[Mapping[str, Any], str]] = {}
    for owner in (draft.item, draft.node):
        for node in _listed(owner, "parameters"):
            item, base, _ = draft.spec.follow(node, draft.base)
            if isinstance(item, Mapping) and isinstance(item.get("name"), str) and _is_offered(item, draft.path):
                found[item["name"], item["in"]] = item, base
    for name in re.findall(r"\{([^{}]+)\}", draft.path):  # placeholders that nobody declared
        found.setdefault((name, "path"), ({"name": name, "in": "path", "schema": {"type": "string"}}, draft.base))
    for place in _PLACES:
        for (_, where), (item, base) in found.items():
            if where == place:
                yield _parameter(item, base)


def _is_offered(item: Mapping[str, Any], path: str) -> bool:
    place, name = item.get("in"), item["name"]
    if place == "path":
        return f"{{{name}}}" in path
    return place in _PLACES and not (place == "header" and name.lower() in _RESERVED_HEADERS)


def _parameter(item: Mapping[str, Any], base: str) -> tuple[Parameter, Node, str]:
    place, content, text = item["in"], as_mapping(item.get("content")), item.get("description")
    default = "form" if place in ("query", "cookie") else "simple"
    media_type, schema, style = None, item.get("schema", {}), str(item.get("style") or default)
    if content:  # the value is a document
        media_type, media = next(iter(content.items()))
        schema, style = as_mapping(media).get("schema", {}), default
    parameter = Parameter(
        argument=item["name"],
        name=item["name"],
        place=place,
        required=place == "path" or item.get("required") is True,
        style=style,
        explode=style == "form" if media_type or not isinstance(item.get("explode"), bool) else item["explode"],
        allow_reserved=item.get("allowReserved") is True and not media_type,
        media_type=media_type,
    )
    return parameter, (schema, base), text if isinstance(text, str) else ""


def _name_arguments(parameters: list[Parameter], body: Fields) -> list[Parameter]:
    """Give every argument a name of its own: a second `id` becomes `body_id`, say."""
    fields_of_body = [Parameter(name, name, "body", needed) for name, (_, needed) in body.items()]
    taken: set[str] = set()
    out = []
    for item in (*parameters, *fields_of_body):
        name = item.name
        while name in taken:
            name = f"{item.place}_{name}"
        taken.add(name)
        out.append(replace(item, argument=name))
    return out


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
    reader = _FlatReader(spec)
    flat = reader.read(schema, base) if has_fields else None
    if flat is None:
        return Body(kind, True, required), {"body": ((schema if has_fields else {"type": "string"}, base), required)}
    # What the schema requires is asked for even where the body as a whole is optional: documents seldom say
    # `required: true`, and a model that leaves such a property out earns a 400.
    styles = {name: item for name, item in as_mapping(media.get("encoding")).items() if "style" in as_mapping(item)}
    encoding = {name: (str(item["style"]), bool(item.get("explode", True))) for name, item in styles.items()}
    return Body(kind, False, required, encoding, reader.more), flat


def _preference(kind: str) -> int:
    order = (is_json(kind), kind == FORM, kind == MULTIPART, kind.startswith("text/"), True)
    return order.index(True)


def is_json(kind: str) -> bool:
    """Tell whether a media type holds JSON; wildcards count as JSON."""
    return kind in ("application/json", "text/json", "*/*", "application/*") or kind.endswith("+json")


class _FlatReader:
    """Read the properties of object bodies, each schema once: eight parts that name eight parts soon are millions."""

    def __init__(self, spec: OpenAPISpec) -> None:
        self._spec = spec
        self._known: dict[tuple[int, str], Fields | None] = {}  # (identity of a node, its document) -> its properties
        self.more: dict[str, Node] = {}  # what may stand beside the properties, as in `Body.more`

    def read(self, schema: Any, base: str, depth: int = 0, part: bool = False) -> Fields | None:
        """Return the properties of an object body; None where it is no plain object and must be given whole."""
        node, there, _ = self._spec.follow(schema, base)
        key = id(node), there
        if key not in self._known:
            self._known[key] = None  # what a schema that holds itself finds inside
            plain = _is_plain_object(node) and depth <= 20
            self._known[key] = self._read(node, there, depth, part) if plain else None
        return self._known[key]

    def _read(self, node: Mapping[str, Any], base: str, depth: int, part: bool) -> Fields | None:
        fields: Fields = {}
        needs, parts = _list(node.get("required")), _list(node.get("allOf"))
        for item in parts:
            inner = self.read(item, base, depth + 1, part or len(parts) > 1 or "properties" in node)
            if inner is None and not set(as_mapping(item) or "x") <= {"required", "description", "title", "type"}:
                return None
            fields |= inner or {}
            needs = [*needs, *_list(item.get("required"))]
        self._note_more(node, base)
        own = as_mapping(node.get("properties")).items()
        fields |= {str(name): ((item, base), False) for name, item in own if not self._spec.is_read_only(item, base)}
        if not part and "discriminator" in node:
            added = subtype_properties(self._spec, node, base)
            fields |= {name: (item, False) for name, item in (added or {}).items()}
            self.more |= {"": (True, base)} if added is None else {}
            needs = [*needs, tag_of(self._spec, node, base)]
        return {name: (item, needed or name in needs) for name, (item, needed) in fields.items()}

    def _note_more(self, node: Mapping[str, Any], base: str) -> None:
        """Note what keys a schema takes beside its properties; only what it says: a misspelt name is no further key.

        (Source: fastmcp#380 of punkpeye.)
        """
        patterns = as_mapping(node.get("patternProperties"))
        self.more |= {str(pattern): (item, base) for pattern, item in patterns.items() if is_pattern(str(pattern))}
        further = node.get("additionalProperties")
        if further is True or isinstance(further, Mapping):
            self.more[""] = further, base


def _is_plain_object(node: Any) -> bool:
    if not isinstance(node, Mapping) or _TELLS_APART & set(node) or node.get("nullable") is True:
        return False
    parts = as_mapping(node.get("properties")) or _list(node.get("allOf"))
    return node.get("type", "object") == "object" and bool(parts)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
