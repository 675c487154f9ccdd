"""Whatever a document or a server says, a ToolkitError is all that comes of it."""

from __future__ import annotations

import copy
import gzip
import html
import json
import random
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.execution.openapi import http
from toolkit.messages import ChatMessage, ToolCall

DEEP: Any = "x"
for _ in range(210):
    DEEP = [DEEP]
JUNK: list[Any] = [
    *(
        None,
        True,
        -1,
        1.5,
        10**400,
        float("nan"),
        float("inf"),
        "",
        "x",
        "é\ud800",
        "\0\r\n",
        "x" * 5000,
        "http://[",
        "//",
    ),
    *("http://h:99999/", "\u2028{id}", "{", "../..", "#/paths", "#", "#/", {}, [], [None], {"": None}, {"$ref": "#"}),
    *({"$ref": "#/nope"}, {"$ref": "http://[::1/x#/a"}, {"$ref": 5}, {"type": ["null", 5]}, {1: 2, None: 3}, DEEP),
    {"allOf": [{"$ref": "#/components/schemas/Pet"}]},
    {"type": "object", "properties": {"a": {}}, "required": ["a", "b"]},
]
SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 9},
        "tags": {"type": "array", "items": {"type": "string"}, "nullable": True},
        "owner": {"allOf": [{"$ref": "#/components/schemas/Owner"}, {"description": "d"}]},
        "kid": {"$ref": "#/components/schemas/Pet"},
        "id": {"type": "integer", "readOnly": True, "minimum": 0, "exclusiveMinimum": True},
        "kind": {"oneOf": [{"const": "a"}, {"enum": ["b", 1]}], "default": "a"},
    },
}
PARAMETERS = [
    {"name": "q", "in": "query", "style": "deepObject", "explode": True, "schema": {"type": "object"}},
    {"name": "n", "in": "query", "schema": {"type": "number"}, "allowReserved": True},
    {"name": "X-T", "in": "header", "schema": {"type": "array", "items": {"type": "string"}}},
    {"name": "sid", "in": "cookie", "schema": {"type": "string"}},
    {"name": "f", "in": "query", "content": {"application/json": {"schema": {}}}},
    {"$ref": "#/components/parameters/Page"},
]


def body(kind: str) -> dict[str, Any]:
    encoding = {"tags": {"style": "spaceDelimited", "explode": False}}
    return {"required": True, "content": {kind: {"schema": {"$ref": "#/components/schemas/Pet"}, "encoding": encoding}}}


DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "T", "version": "1"},
    "servers": [{"url": "http://{host}/v1", "variables": {"host": {"default": "api.test"}}}],
    "security": [{"key": []}, {"basic": [], "bearer": []}],
    "paths": {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "style": "matrix", "schema": {"type": "string"}}],
            "get": {"operationId": "get-pet", "parameters": PARAMETERS, "description": "Get."},
            "put": {"operationId": "put-pet", "requestBody": body("application/json")},
            "delete": {"security": [], "servers": [{"url": "http://other.test"}]},
        },
        "/forms": {"post": {"operationId": "form", "requestBody": body("application/x-www-form-urlencoded")}},
        "/parts": {"post": {"operationId": "part", "requestBody": body("multipart/form-data"), "security": [{}]}},
        "/text": {"post": {"operationId": "text", "requestBody": {"content": {"text/plain": {}}}}},
    },
    "components": {
        "schemas": {"Pet": SCHEMA, "Owner": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "parameters": {"Page": {"name": "page", "in": "query", "schema": {"type": "integer", "maximum": 9}}},
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "query", "name": "key"},
            "basic": {"type": "http", "scheme": "basic"},
            "bearer": {"type": "http", "scheme": "bearer"},
        },
    },
}


def places(node: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) of a document, down to some depth."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], (dict, list)) and depth < 20:
            yield from places(node[key], depth + 1)


def mutated(source: random.Random) -> dict[str, Any]:
    """Return the document with one to four nodes replaced, removed, renamed or copied elsewhere."""
    document = copy.deepcopy(DOCUMENT)
    for _ in range(source.randint(1, 4)):
        holder, key = source.choice(list(places(document)))
        other, at = source.choice(list(places(document)))
        kind = source.randrange(4)
        if kind == 0:
            holder[key] = source.choice(JUNK)
        elif kind == 1:
            del holder[key]
        elif kind == 2 and isinstance(holder, dict):
            name = source.choice([item for item in JUNK if isinstance(item, str)])
            holder[source.choice([name, "$ref", "in", "name", "type", "allOf"])] = holder.pop(key)
        else:
            holder[key] = copy.deepcopy(other[at])
    return document


def text_of(document: dict[str, Any], source: random.Random) -> Any:
    """Return the document as data, JSON, YAML, or any of these with a piece cut out or put in."""
    kind = source.randrange(4)
    if kind == 0:
        return document
    try:
        text = json.dumps(document) if kind < 3 else yaml.safe_dump(document)
    except (ValueError, RecursionError, yaml.YAMLError, TypeError):
        return document
    if source.random() < 0.5:
        at = source.randrange(len(text))
        scraps = ["", "\0", "!!bool maybe", "&a *a", "\t", "{", "[" * 500, "? ", "!!python/name:os ", "\ufeff"]
        scrap = source.choice(scraps)
        text = text[:at] + scrap + text[at + source.randrange(9) :]
    return text


STATUSES = [200, 201, 204, 301, 302, 307, 308, 400, 401, 404, 418, 500, 503, 599, 999]
CHARSETS = ["utf-8", "utf-7", "utf-16", "utf-32", "latin-1", "idna", "punycode", "unicode_escape", "undefined", "hex"]
CHARSETS += ['"nope"', "ascii", "cp037", "é", "ut\0f"]
TYPES = ["application/json", "image/png", "", "é", *(f"text/plain; charset={name}" for name in CHARSETS)]
TARGETS = [
    *("/x", "//evil.test/x", "http://api.test/v1/x", "https://api.test/", "http://[", "http://h:99999/", "file:///etc"),
    *("", "?a=1", "\ud800", "http://api.test\\@evil.test/", "mailto:a", "http://\xff/", "#x"),
]
CODINGS = ["identity", "gzip", "deflate", "x-gzip", "br", "GZIP", "gzip, deflate", ""]
BODIES = [
    *(b"", b"{}", b'{"a": 1}', b"null", b"{", b"[" * 100_000, b'{"a":' * 5000, b"NaN", b"1" * 5000, b"\xff\xfe", b"%%"),
    *(b"\\N{x}", b"-Infinity", b"\0" * 50, b'"\\ud800"', b'[1e999, {"__proto__": 1}]'),
]


class Rogue(httpx.BaseTransport):
    """Answer as a seed says: any status, headers, coding and body, whole, cut or damaged."""

    def __init__(self, source: random.Random) -> None:
        self.source = source

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        one = self.source.choice
        if one(range(12)) == 0:
            raise one([httpx.ReadError("s3cret-token"), httpx.InvalidURL("x"), OSError("x"), httpx.DecodingError("x")])
        echoed = f"{request.url}{sorted(request.headers.items())}".encode()
        coding, data = one(CODINGS), one([*BODIES, echoed, html.escape(echoed.decode()).encode()])
        packed = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress}.get(coding.lower())
        if packed is not None and one(range(3)):
            data = packed(data)
        if one(range(4)) == 0:
            data = data[: len(data) // 2] + one([b"", b"\0", b"junk"])
        headers = [(b"Content-Type", one(TYPES).encode("utf-8", "replace")), (b"Content-Encoding", coding.encode())]
        headers += [(b"Location", one(TARGETS).encode("utf-8", "replace"))] if one(range(3)) == 0 else []
        return httpx.Response(one(STATUSES), headers=headers, stream=httpx.ByteStream(data))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ARGUMENTS = st.recursive(
    LEAVES | st.sampled_from([10**400, "../..", "a\r\nb", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)
CREDENTIALS = [None, "s3cret-token", {"key": "s3cret-token"}, {"basic": "ann:s3cret-token", "bearer": "s3cret-token"}]


def fitting(schema: Any, source: random.Random, depth: int = 0) -> Any:
    """Return a value that fits a schema, as far as a glance at it tells."""
    if not isinstance(schema, dict) or depth > 4:
        return source.choice(["x", 1, None, {"a": ["b"]}, "../..", "a\r\nb", "\ud800", 10**400, 1e308])
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return source.choice(schema["enum"])
    kinds = schema.get("type")
    kind = source.choice(kinds) if isinstance(kinds, list) and kinds else kinds
    if kind == "object" or "properties" in schema:
        known = schema.get("properties")
        return {
            key: fitting(item, source, depth + 1) for key, item in (known if isinstance(known, dict) else {}).items()
        }
    if kind == "array":
        return [fitting(schema.get("items"), source, depth + 1) for _ in range(source.randrange(3))]
    if kind in ("integer", "number"):
        return source.choice([0, 1, 7, -3, 2**70])
    return {"boolean": True, "null": None}.get(kind, source.choice(["abc", "a", "é/?&#", "%2e", ".", ""]))


def play(seed: int, odd: list[Any], patch: pytest.MonkeyPatch) -> set[str]:
    """Read a mutated document, call all its operations, against a rogue server; return the kinds of what came."""
    source = random.Random(seed)
    patch.setattr(http, "_transport", lambda url: Rogue(source))
    document = text_of(mutated(source) if source.random() < 0.8 else DOCUMENT, source)
    credentials = source.choice(CREDENTIALS)
    told: list[Any] = []
    try:
        tool = tk.OpenAPITool(tk.ScriptedModel([]), spec=document, credentials=credentials)
    except tk.ToolkitError as error:
        return {type(error).__name__, *(["leak"] if credentials and "s3cret-token" in str(error) else [])}
    kinds = set()
    for one in tool.service.tools() if tool.service else ():
        arguments = {name: fitting(schema, source) for name, schema in one.properties.items() if source.random() < 0.9}
        arguments |= {name: source.choice(odd) for name in arguments if source.random() < 0.1}
        call = ToolCall(one.name, arguments)
        try:
            told.append(tool.service.call(one.name, copy.deepcopy(arguments)))
            kinds.add("answer")
        except tk.ToolkitError as error:
            told.append(str(error))
            kinds.add(type(error).__name__)
        result = tk.ToolInvoker([one], raise_on_failure=False).invoke(call)
        told.append(result.result)
        assert " failed with " not in str(result.result).replace(" failed with ConfigError", "")
        tool.model = tk.ScriptedModel([call])
        told.append([m.text for m in tool.run([ChatMessage.from_user("Go.")])["service_response"]])
    return kinds | {"leak" for text in told if credentials and "s3cret-token" in repr(text)}


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9), st.lists(ARGUMENTS, min_size=1, max_size=5))
def test_no_raw_exception(seed: int, given: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert "leak" not in play(seed, given, patch)


def test_the_fuzz_gets_everywhere() -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = set().union(*(play(seed, ["x"], patch) for seed in range(60)))
    assert found == {"answer", "ConfigError", "ToolArgumentsError", "ToolInvocationError"}


@pytest.mark.slow
@settings(deadline=None, max_examples=4000, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9), st.lists(ARGUMENTS, min_size=1, max_size=5))
def test_no_raw_exception_for_long(seed: int, given: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert "leak" not in play(seed, given, patch)
