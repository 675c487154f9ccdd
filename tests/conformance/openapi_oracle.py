"""Work out anew, from the OpenAPI document alone, what a call should lead to: a request, or a refusal before sending.

The rules are those of the table of weaknesses: presence counts, not truth; path values are percent-encoded; the body
holds the body's properties; cookies are sent; an empty security list opts out (B-W13); a missing credential is an
error before sending (B-W15); the allow-list holds at the call (B-W16); every operation is offered (B-W14).
Not here: comparing (`openapi_compare`).
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import yaml

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


@dataclass
class Op:
    name: str
    id: str
    method: str
    path: str
    parameters: list[dict]
    own: set[str]  # parameters declared on the operation itself, not on its path
    media: str = ""
    body: dict | None = None
    body_required: bool = False
    security: list[dict] = field(default_factory=list)
    servers: list[dict] = field(default_factory=list)
    described: bool = True


@dataclass
class Outcome:
    """Hold what should come of a call: `kind` is request, unknown, arguments, auth or server."""

    kind: str
    request: dict = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)  # parts of the request that this oracle does not spell out


def document(source: Any) -> dict | None:
    if isinstance(source, dict):
        return source
    try:
        found = json.loads(source)
    except ValueError:
        try:
            found = yaml.safe_load(source)
        except yaml.YAMLError:
            return None
    return found if isinstance(found, dict) else None


def normal_name(text: str) -> str:
    """Return an operation's id as a function name.

    >>> normal_name("create-pet.v1")
    'create_pet_v1'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:64]


def operations(spec: dict) -> list[Op]:
    """Return every operation; of several with one normalised name, later ones are numbered."""
    found: list[Op] = []
    for path, item in (spec.get("paths") or {}).items():
        for method in item:
            if method in METHODS:
                op = _operation(spec, path, method, item)
                twins = sum(normal_name(other.id) == op.name for other in found)
                op.name += f"_{twins + 1}" if twins else ""
                found.append(op)
    return found


def _operation(spec: dict, path: str, method: str, item: dict) -> Op:
    raw = item[method]
    own = [follow(spec, p) for p in raw.get("parameters", ())]
    keys = {(p["name"], p["in"]) for p in own}
    above = [p for p in (follow(spec, p) for p in item.get("parameters", ())) if (p["name"], p["in"]) not in keys]
    body = follow(spec, raw.get("requestBody") or {})
    content = body.get("content") or {}
    media = next((kind for kind in content if "json" in kind), next(iter(content), ""))
    identity = raw.get("operationId") or f"{path}_{method}"
    return Op(
        normal_name(identity),
        identity,
        method,
        path,
        above + own,
        {p["name"] for p in own},
        media,
        follow(spec, content[media].get("schema") or {}) if media else None,
        bool(body.get("required")),
        raw.get("security", spec.get("security") or []),
        raw.get("servers") or item.get("servers") or spec.get("servers") or [],
        bool(raw.get("description") or raw.get("summary")),
    )


def follow(spec: dict, node: Any) -> Any:
    while isinstance(node, dict) and isinstance(node.get("$ref"), str) and node["$ref"].startswith("#/"):
        target: Any = spec
        for part in node["$ref"][2:].split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def whole(spec: dict, node: Any, depth: int = 0) -> Any:
    """Return a schema with its references put in, and `nullable` written as 3.1 writes it."""
    node = follow(spec, node)
    if isinstance(node, list):
        return [whole(spec, item, depth + 1) for item in node]
    if not isinstance(node, dict) or depth > 12:
        return node if depth <= 12 else {}
    found = {key: whole(spec, value, depth + 1) for key, value in node.items()}
    if found.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def body_properties(spec: dict, op: Op) -> dict | None:
    """Return the properties of an object body; None where the body is something else."""
    schema = whole(spec, op.body) if op.body is not None else {}
    properties = dict(schema.get("properties") or {})
    for part in schema.get("allOf", ()):
        properties |= part.get("properties") or {}
    return properties or None


def called(spec: dict, name: str, allowed: list[str] | None) -> Op | None:
    ops = [op for op in operations(spec) if offered(op, allowed)]
    return next((op for op in ops if op.name == name), next((op for op in ops if op.id == name), None))


def offered(op: Op, allowed: list[str] | None) -> bool:
    return allowed is None or op.id in allowed or op.name in allowed or f"{op.method.upper()} {op.path}" in allowed


def outcome(
    spec: dict, name: str, arguments: Any, credentials: str | None, allowed: list[str] | None = None
) -> Outcome:
    """Work out what a call should lead to."""
    op = called(spec, name, allowed)
    if op is None:
        return Outcome("unknown")
    given = read_arguments(arguments)
    if given is None or misfits(spec, op, given):
        return Outcome("arguments")
    base = _server(op)
    if base is None:
        return Outcome("server")
    found = _request(spec, op, given, base)
    return _signed(spec, op, credentials, found)


def read_arguments(arguments: Any) -> dict | None:
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    return {} if arguments is None else arguments if isinstance(arguments, dict) else None


def misfits(spec: dict, op: Op, given: dict) -> list[str]:
    """Return the names of arguments that are missing or do not fit their schema."""
    wanted = {p["name"]: (whole(spec, p.get("schema") or {}), bool(p.get("required"))) for p in op.parameters}
    properties = body_properties(spec, op)
    if properties is not None:
        needed = set(whole(spec, op.body).get("required") or ())
        started = op.body_required or bool(properties.keys() & given.keys())
        wanted |= {n: (s, n in needed and started) for n, s in properties.items() if n not in wanted}
    elif op.body is not None:
        wanted["body"] = (whole(spec, op.body), op.body_required)
    found = [name for name, (_, required) in wanted.items() if required and name not in given]
    for name, (schema, _) in wanted.items():
        if name in given and not jsonschema_rs.Draft202012Validator(schema).is_valid(given[name]):
            found.append(name)
    return found


def clashes(spec: dict, op: Op) -> int:
    """Count the parameters and body properties that share their name with another."""
    names = [p["name"] for p in op.parameters] + list(body_properties(spec, op) or ())
    return len(names) - len(set(names))


def _server(op: Op) -> str | None:
    if not op.servers:
        return None
    server = op.servers[0]
    variables = server.get("variables") or {}
    url = re.sub(r"\{(\w+)\}", lambda m: str((variables.get(m[1]) or {}).get("default", m[0])), server["url"])
    return url.rstrip("/") if url.startswith(("http://", "https://")) and "{" not in url else None


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else "" if value is None else str(value)


def _request(spec: dict, op: Op, given: dict, base: str) -> Outcome:
    path, loose = op.path, set()
    parts: dict[str, Any] = {"params": [], "headers": {}, "cookies": {}}
    for item in op.parameters:
        name, place = item["name"], item["in"]
        if name not in given:
            continue
        value = given[name]
        if isinstance(value, dict) or item.get("style") not in (None, "form", "simple") or "content" in item:
            loose.add({"path": "url", "query": "params", "header": "headers", "cookie": "cookies"}[place])
        items = [_text(v) for v in value] if isinstance(value, list) else [_text(value)]
        if place == "path":
            path = path.replace("{" + name + "}", ",".join(quote(v, safe="") for v in items))
        elif place == "query":
            exploded = item.get("explode", True)
            parts["params"] += [(name, v) for v in items] if exploded else [(name, ",".join(items))]
        else:
            parts["headers" if place == "header" else "cookies"][name] = ",".join(items)
    found = {"url": base + path, "method": op.method, **parts}
    properties = body_properties(spec, op)
    if op.body is not None and "json" in op.media:
        if properties is not None:
            found["json"] = {name: given[name] for name in properties if name in given}
            if not found["json"] and not op.body_required:
                del found["json"]
        elif "body" in given:
            found["json"] = given["body"]
        else:
            loose.add("json")
    elif op.body is not None:
        loose |= {"body", "json"}
    return Outcome("request", {key: value for key, value in found.items() if value not in ({}, [], None)}, loose)


def _signed(spec: dict, op: Op, credentials: str | None, found: Outcome) -> Outcome:
    schemes = (spec.get("components") or {}).get("securitySchemes") or {}
    if credentials and not schemes:
        return Outcome("auth")
    if not op.security or ({} in op.security and not credentials):
        return found
    if not credentials:
        return Outcome("auth")
    for requirement in op.security:
        if len(requirement) > 1:
            continue  # several schemes at once need a credential each
        signs = [_sign(follow(spec, schemes.get(name) or {}), credentials) for name in requirement]
        if all(signs):
            for place, name, value in filter(None, signs):
                if place == "params":
                    found.request["params"] = [*found.request.get("params", []), (name, value)]
                else:
                    found.request.setdefault(place, {})[name] = value
            return found
    return Outcome("auth")


def _sign(scheme: dict, value: str) -> tuple[str, str, str] | None:
    if scheme.get("type") == "apiKey":
        return {"header": "headers", "query": "params", "cookie": "cookies"}[scheme["in"]], scheme["name"], value
    if scheme.get("type") == "http" and scheme.get("scheme", "").lower() == "bearer":
        return "headers", "Authorization", f"Bearer {value}"
    if scheme.get("type") == "http" and scheme.get("scheme", "").lower() == "basic" and ":" in value:
        return "headers", "Authorization", "Basic " + base64.b64encode(value.encode()).decode()
    return None
