"""Arguments become a request; no value can change its structure."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from werkzeug import Response

from toolkit.errors import ConfigError, ToolArgumentsError
from toolkit.execution.openapi.http import HttpRequest, Limits, exchange
from toolkit.execution.openapi.operations import Operation, operations
from toolkit.execution.openapi.request import build_request, server_url
from toolkit.execution.openapi.spec import load_spec

BASE = "https://api.example.com/v1"


def operation(path: str, *parameters: dict[str, Any], method: str = "get", **more: Any) -> Operation:
    node = {"operationId": "op", "parameters": list(parameters), **more}
    return operations(load_spec({"openapi": "3.1.0", "paths": {path: {method: node}}}))[0]


def parameter(name: str, place: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {}, **more}


def built(path: str, arguments: dict[str, Any], *parameters: dict[str, Any], **more: Any) -> HttpRequest:
    return build_request(operation(path, *parameters, **more), arguments, BASE)


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("a/b?c=1#d", "/v1/pets/a%2Fb%3Fc%3D1%23d"),
        ("../admin", "/v1/pets/..%2Fadmin"),
        ("%2e%2e", "/v1/pets/%252e%252e"),
        ("a b;c=d", "/v1/pets/a%20b%3Bc%3Dd"),
        ("\\\\evil.com", "/v1/pets/%5C%5Cevil.com"),
        ("é", "/v1/pets/%C3%A9"),
        (0, "/v1/pets/0"),
        (False, "/v1/pets/false"),
        (7.0, "/v1/pets/7"),
    ],
    ids=range(9),
)
def test_path_values_are_escaped(value: Any, path: str) -> None:  # B-W13
    assert urlsplit(built("/pets/{id}", {"id": value}).address).path == path


@pytest.mark.parametrize("value", ["", ".", ".."], ids=["empty", "dot", "dots"])
def test_path_values_that_no_escape_makes_safe_are_refused(value: str) -> None:
    with pytest.raises(ToolArgumentsError, match="cannot be"):
        built("/pets/{id}/x", {"id": value})


def test_two_values_cannot_make_a_dot_segment_together() -> None:
    with pytest.raises(ToolArgumentsError, match="cannot be"):
        built("/x/{a}{b}", {"a": ".", "b": "."})


@settings(deadline=None)  # the first example pays for imports
@given(st.text(min_size=1, max_size=30), st.text(max_size=30))
def test_no_value_changes_host_path_or_query(value: str, other: str) -> None:
    spec = operation("/pets/{id}/toys", parameter("q", "query"), parameter("r", "query"))
    try:
        request = build_request(spec, {"id": value, "q": other, "r": "end"}, BASE)
    except ToolArgumentsError:
        assert (
            value in (".", "..")
            or not (value + other).isprintable()
            or any("\ud800" <= c <= "\udfff" for c in value + other)
        )
        return
    parts = urlsplit(request.url)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "api.example.com", "")
    assert [unquote(piece) for piece in parts.path.split("/")] == ["", "v1", "pets", value, "toys"]
    assert parse_qs(parts.query, keep_blank_values=True, separator="&") == {"q": [other], "r": ["end"]}


@settings(deadline=None)  # the first example pays for imports
@given(st.text(max_size=20))
def test_what_is_sent_is_what_httpx_sends(value: str) -> None:
    spec = operation("/pets/{id}", parameter("q", "query"))
    try:
        request = build_request(spec, {"id": "x" + value, "q": value}, BASE)
    except ToolArgumentsError:
        return
    url = httpx.URL(request.url)
    assert (url.host, url.raw_path.decode()) == (
        "api.example.com",
        request.url.removeprefix("https://api.example.com"),
    )


@pytest.mark.parametrize(
    ("style", "explode", "value", "path"),
    [
        ("simple", False, [3, 4], "3,4"),
        ("simple", True, {"a": 1, "b": 2}, "a=1,b=2"),
        ("simple", False, {"a": 1}, "a,1"),
        ("label", False, [3, 4], ".3,4"),
        ("label", True, [3, 4], ".3.4"),
        ("matrix", False, [3, 4], ";id=3,4"),
        ("matrix", True, [3, 4], ";id=3;id=4"),
        ("matrix", True, {"a": 1}, ";a=1"),
        ("matrix", False, 5, ";id=5"),
        ("simple", False, ["a,b", "c/d"], "a%2Cb,c%2Fd"),
    ],
    ids=range(10),
)
def test_path_styles(style: str, explode: bool, value: Any, path: str) -> None:
    request = built("/x/{id}", {"id": value}, parameter("id", "path", style=style, explode=explode))
    assert request.address == f"{BASE}/x/{path}"


@pytest.mark.parametrize("path", ["@evil.com/x", "//evil.com/x", "/\\evil.com", "evil.com", "?x=//evil.com"])
def test_a_path_of_the_document_cannot_name_another_host(path: str) -> None:
    assert urlsplit(built(path, {}).url).netloc == "api.example.com"


def test_query_that_is_written_into_the_path() -> None:
    assert built("/search?kind=dog", {"q": "x"}, parameter("q", "query")).url == f"{BASE}/search?kind=dog&q=x"


# ---------------------------------------------------------------- queries


@pytest.mark.parametrize("value", [0, False, "", 0.0], ids=["zero", "false", "empty", "float"])
def test_falsy_values_are_sent(value: Any) -> None:  # B-W13
    sent = {0: "0", "": ""}.get(value, "") if value is not False else "false"
    assert built("/x", {"q": value}, parameter("q", "query", required=True)).query == (("q", sent),)


def test_null_is_not_sent() -> None:
    assert built("/x", {"q": None}, parameter("q", "query")).query == ()


@pytest.mark.parametrize(
    ("more", "value", "query"),
    [
        ({}, ["a b", "c&d"], "q=a%20b&q=c%26d"),
        ({"explode": False}, ["a,b", "c"], "q=a%2Cb,c"),
        ({"style": "spaceDelimited", "explode": False}, ["a", "b"], "q=a%20b"),
        ({"style": "pipeDelimited", "explode": False}, ["a", "b"], "q=a%7Cb"),
        ({"style": "deepObject", "explode": True}, {"a": 1, "b": {"c": [2, 3]}}, "q[a]=1&q[b][c]=2&q[b][c]=3"),
        ({}, {"a": 1, "b": 2}, "a=1&b=2"),
        ({"explode": False}, {"a": 1}, "q=a,1"),
        ({"allowReserved": True}, "a/b?c&d=e#f", "q=a/b?c%26d%3De%23f"),
        ({}, "a=b&c", "q=a%3Db%26c"),
        ({}, True, "q=true"),
        ({}, [], ""),
    ],
    ids=range(11),
)
def test_query_styles(more: dict[str, Any], value: Any, query: str) -> None:
    assert built("/x", {"q": value}, parameter("q", "query", **more)).url.partition("?")[2] == query


def test_parameter_that_is_a_document() -> None:
    item = {"name": "f", "in": "query", "content": {"application/json": {"schema": {}}}}
    assert built("/x", {"f": {"a": [1]}}, item).query == (("f", "%7B%22a%22%3A%5B1%5D%7D"),)


# ---------------------------------------------------------------- headers and cookies


def test_header() -> None:
    assert built("/x", {"X-T": True}, parameter("X-T", "header")).headers == (("X-T", b"true"),)


@pytest.mark.parametrize(
    "value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "\x7f"], ids=["crlf", "lf", "cr", "nul", "del"]
)
def test_header_values_cannot_inject(value: str) -> None:
    with pytest.raises(ToolArgumentsError, match="control character"):
        built("/x", {"X-T": value}, parameter("X-T", "header"))


def test_header_names_cannot_inject() -> None:
    with pytest.raises(ToolArgumentsError, match="no name of a header"):
        built("/x", {"X\r\nY": "a"}, parameter("X\r\nY", "header"))


def test_cookies_are_sent() -> None:  # B-W13
    request = built("/x", {"sid": "a;b=c", "n": 0}, parameter("sid", "cookie"), parameter("n", "cookie"))
    assert dict(request.headers)["Cookie"] == b"sid=a%3Bb=c; n=0"


# ---------------------------------------------------------------- bodies


def content(schema: Any, kind: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {kind: {"schema": schema, **more}}}, "method": "post"}


PET = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}


def test_body_holds_only_its_properties() -> None:  # B-W13
    request = built(
        "/t/{tenant}", {"tenant": "t", "q": 1, "name": "Rex", "extra": 1}, parameter("q", "query"), **content(PET)
    )
    assert json.loads(request.content) == {"name": "Rex"}
    assert request.content == b'{"name":"Rex"}'
    assert dict(request.headers)["Content-Type"] == b"application/json"


def test_body_keeps_falsy_and_null() -> None:
    assert json.loads(built("/x", {"name": None, "n": 0}, **content(PET)).content) == {"name": None, "n": 0}


def test_name_in_path_and_body() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    request = built("/x/{id}", {"id": 1, "body_id": "two"}, **content(schema))
    assert (request.url, json.loads(request.content)) == (f"{BASE}/x/1", {"id": "two"})


def test_array_body() -> None:
    assert built("/x", {"body": ["é"]}, **content({"type": "array"})).content == '["é"]'.encode()


def test_no_body_without_arguments() -> None:
    assert built("/x", {}, **content(PET)).content is None


def test_nan_is_refused() -> None:
    with pytest.raises(ToolArgumentsError, match="JSON"):
        built("/x", {"n": float("nan")}, **content(PET))


def test_form_body() -> None:
    schema = {"type": "object", "properties": {"a": {}, "tags": {}, "deep": {}}}
    request = built(
        "/x", {"a": "b&c=d", "tags": [1, 2], "deep": {"k": "v"}}, **content(schema, "application/x-www-form-urlencoded")
    )
    assert request.content == b"a=b%26c%3Dd&tags=1&tags=2&deep=%7B%22k%22%3A%22v%22%7D"


def test_form_body_with_deep_objects() -> None:
    schema = {"type": "object", "properties": {"deep": {}}}
    more = content(
        schema, "application/x-www-form-urlencoded", encoding={"deep": {"style": "deepObject", "explode": True}}
    )
    assert built("/x", {"deep": {"k": "v"}}, **more).content == b"deep[k]=v"


def test_multipart_body(echo: Any) -> None:
    got: dict[str, str] = {}
    echo.answer = lambda served: (got.update(served.form.to_dict()), Response(""))[1]
    echo.reads_body = False
    schema = {"type": "object", "properties": {"text": {}, "o": {}}}
    spec = operation("/x", **content(schema, "multipart/form-data"))
    exchange(build_request(spec, {"text": 'a\r\n--x"é', "o": {"k": 1}}, echo.url), Limits())
    assert got == {"text": 'a\r\n--x"é', "o": '{"k":1}'}


@pytest.mark.parametrize(("kind", "sent"), [("text/plain", b"hi"), ("application/xml", b"hi"), ("text/csv", b"hi")])
def test_text_body(kind: str, sent: bytes) -> None:
    request = built("/x", {"body": "hi"}, **content({"type": "object"}, kind))
    assert (request.content, dict(request.headers)["Content-Type"]) == (sent, kind.encode())


def test_missing_required_argument() -> None:
    with pytest.raises(ToolArgumentsError, match="Missing required path parameter 'id'"):
        built("/x/{id}", {})


# ---------------------------------------------------------------- servers


def server(spec: dict[str, Any], location: str = "", given: str | None = None) -> str:
    found = load_spec({"openapi": "3.1.0", **spec})
    return server_url(given or operations(found)[0].server, location)


def paths(item: dict[str, Any] | None = None, **operation: Any) -> dict[str, Any]:
    return {"paths": {"/a": {"get": operation, **(item or {})}}}


@pytest.mark.parametrize(
    ("spec", "location", "url"),
    [
        ({**paths(), "servers": [{"url": "https://r/v1/"}]}, "", "https://r/v1"),
        ({**paths({"servers": [{"url": "https://p"}]}), "servers": [{"url": "https://r"}]}, "", "https://p"),
        (paths({"servers": [{"url": "https://p"}]}, servers=[{"url": "https://o"}]), "", "https://o"),
        (paths(), "https://d/api/openapi.json", "https://d"),
        ({**paths(), "servers": [{"url": "/v1"}]}, "https://d/api/openapi.json", "https://d/v1"),
        ({**paths(), "servers": [{"url": "../v2"}]}, "https://d/api/x/openapi.json", "https://d/api/v2"),
        (
            {
                **paths(),
                "servers": [
                    {"url": "https://{r}.x:{p}", "variables": {"r": {"default": "eu"}, "p": {"default": 8443}}}
                ],
            },
            "",
            "https://eu.x:8443",
        ),
    ],
    ids=["root", "path", "operation", "none", "absolute_path", "relative", "variables"],
)
def test_servers(spec: dict[str, Any], location: str, url: str) -> None:  # B-W12
    assert server(spec, location) == url


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("/v1", "no http"),
        ("ftp://x", "no http|not an http"),
        ("file:///etc", "not an http"),
        ("https://u:p@x", "without user"),
        ("https://x?a=1", "query"),
        ("https://{r}.x", "no default for 'r'"),
        ("https://x:99999", "is no URL"),
        ("https://[x", "is no URL"),
    ],
)
def test_unusable_servers(url: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match if url != "/v1" else "not an http"):
        server({**paths(), "servers": [{"url": url}]})


def test_server_given_by_the_user() -> None:
    assert server({**paths(), "servers": [{"url": "/v1"}]}, given="http://127.0.0.1:1/x/") == "http://127.0.0.1:1/x"


def test_request_repr_shows_no_query() -> None:
    assert repr(built("/x", {"key": "s3cret"}, parameter("key", "query"))) == f"HttpRequest(GET {BASE}/x)"
