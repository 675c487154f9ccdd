"""Build the request of one operation from the arguments of a call: pure, unsigned, nothing is sent.

Not here: spelling single values (`encoding`), credentials (`auth`), sending (`http`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import httpx

from toolkit.errors import ConfigError, ToolArgumentsError, ToolInvocationError
from toolkit.execution.openapi.body import FORM, MULTIPART, is_json
from toolkit.execution.openapi.encoding import (
    Pairs,
    cookie_pairs,
    header_value,
    json_of,
    path_value,
    query_pairs,
    text_of,
    utf8,
)
from toolkit.execution.openapi.http import HttpRequest, origin, place
from toolkit.execution.openapi.operations import Operation, Parameter

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_LITERAL = "/:@!$&'()*+,;=-._~%"  # what a path template may hold as it is
_MISSING = object()


def server_url(server: str | Mapping[str, Any], location: str = "") -> str:
    """Return the base URL that a server is called at.

    Args:
        server: a URL, or a server object of a document; its variables take their defaults.
        location: URL of the document, for a relative server.

    Raises:
        ConfigError: it is no absolute http(s) URL.
    """
    named = server if isinstance(server, str) else _filled(server)
    try:
        url = urljoin(location, named)
        parts = urlsplit(url)
        origin(url)
    except ValueError as error:
        raise ConfigError(f"Server {named!r} is no URL: {error}. Give server='https://…'.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"There is no server to call: {url!r} is not an http(s) URL. Give server='https://…'.")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(f"Server {place(url)!r} must be a plain URL, without user, query or fragment.")
    return url.rstrip("/")


def _filled(server: Mapping[str, Any]) -> str:
    variables = server.get("variables")

    def fill(match: re.Match[str]) -> str:
        variable = variables.get(match[1]) if isinstance(variables, Mapping) else None
        if not isinstance(variable, Mapping) or "default" not in variable:
            raise ConfigError(f"Server {server.get('url')!r} has no default for {match[1]!r}. Give server='https://…'.")
        return str(variable["default"])

    return _PLACEHOLDER.sub(fill, str(server.get("url", "/")))


def build_request(operation: Operation, arguments: Mapping[str, Any], base_url: str) -> HttpRequest:
    """Build the request of an operation.

    Arguments that the operation does not declare are left out. Null counts as not given, except in a body.

    Args:
        operation: what to call.
        arguments: the model's arguments, by `Parameter.argument`.
        base_url: what `server_url` gave.

    Raises:
        ToolArgumentsError: a required one is missing, or a value cannot be sent safely.
        ToolInvocationError: the path would leave the server.
    """
    placed: dict[str, list[tuple[Parameter, Any]]] = {"path": [], "query": [], "header": [], "cookie": [], "body": []}
    for item in operation.arguments:
        if (value := _value(item, arguments)) is not _MISSING:
            placed[item.place].append((item, value))
    url = base_url + _path(operation, {item.name: (item, value) for item, value in placed["path"]})
    if origin(url) != origin(base_url):
        raise ToolInvocationError(f"Path {operation.path!r} would leave the server {place(base_url)!r}.")
    content_type, content = _body(operation, {item.name: value for item, value in placed["body"]})
    headers = [(item.name, header_value(item.name, value, item.explode)) for item, value in placed["header"]]
    if content_type:
        headers.append(("Content-Type", content_type.encode()))
    query = _fixed_query(operation)
    for item, value in placed["query"]:
        query += query_pairs(item.name, value, item.style, item.explode, item.allow_reserved)
    cookies = [pair for item, value in placed["cookie"] for pair in cookie_pairs(item.name, value, item.explode)]
    return HttpRequest(operation.method, url, tuple(query), tuple(headers), tuple(cookies), content)


def _value(item: Parameter, arguments: Mapping[str, Any]) -> Any:
    """Return the argument's value; what counts is whether it is there, so 0, false and "" are sent."""
    value = arguments.get(item.argument, _MISSING)
    if value is None and item.place != "body":
        value = _MISSING
    if value is _MISSING and item.required:
        raise ToolArgumentsError(f"Missing required {item.place} parameter {item.argument!r}. Give it.")
    if item.media_type is None or value is _MISSING:
        return value
    # a value sent as a document; in a query, only JSON documents are written as such
    return json_of(value) if item.place != "query" or is_json(item.media_type) else value


def _path(operation: Operation, values: Mapping[str, tuple[Parameter, Any]]) -> str:
    """Fill the template; each value stays inside its segment."""
    template = operation.path.partition("#")[0].partition("?")[0]
    segments = [_segment(segment, values) for segment in template.lstrip("/").split("/")]
    return "/" + "/".join(segments)


def _segment(template: str, values: Mapping[str, tuple[Parameter, Any]]) -> str:
    """Fill one segment.

    Raises:
        ToolArgumentsError: it would be empty or a dot segment, which servers resolve however it is encoded.
    """
    pieces = _PLACEHOLDER.split(template)
    filled = ""
    for index, piece in enumerate(pieces):
        if index % 2 and piece in values:
            item, value = values[piece]
            filled += path_value(item.name, value, item.style, item.explode)
        else:
            filled += quote(piece, safe=_LITERAL)
    if len(pieces) > 1 and unquote(filled) in ("", ".", ".."):
        raise ToolArgumentsError(f"Path parameter {pieces[1]!r} cannot be {unquote(filled)!r}. Give a real value.")
    return filled


def _fixed_query(operation: Operation) -> Pairs:
    """Return the query that some documents write into the path itself."""
    query = operation.path.partition("#")[0].partition("?")[2]
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return [(quote(name, safe="%[]"), quote(value, safe="%")) for name, _, value in pairs]


def _body(operation: Operation, values: Mapping[str, Any]) -> tuple[str, bytes | None]:
    """Write the body: its content type and its bytes."""
    body = operation.body
    if body is None or (not values and not body.required):
        return "", None
    value, kind = values["body"] if body.whole else dict(values), body.media_type
    if is_json(kind):
        return kind if "*" not in kind else "application/json", utf8(json_of(value), "The body")
    if kind == FORM and isinstance(value, Mapping):
        return kind, _form(value, body.encoding)
    if kind == MULTIPART and isinstance(value, Mapping):
        return _multipart(value)
    return kind if "*" not in kind else "application/octet-stream", utf8(text_of(value), "The body")


def _form(value: Mapping[str, Any], encoding: Mapping[str, tuple[str, bool]]) -> bytes:
    pairs: Pairs = []
    for name, item in value.items():
        style, explode = encoding.get(name, ("form", True))
        shown = json_of(item) if isinstance(item, Mapping) and name not in encoding else item
        pairs += query_pairs(name, shown, style, explode) if shown is not None else []
    return "&".join(f"{name}={part}" for name, part in pairs).encode()


def _multipart(value: Mapping[str, Any]) -> tuple[str, bytes]:
    """Write form fields as parts; a list gives one part for each item."""
    parts = [
        (utf8(name, "The body").decode(), part)
        for name, item in value.items()
        for part in (item if isinstance(item, list) else [item])
    ]
    files = [(name, _part(part)) for name, part in parts]
    if not files:
        return f"{MULTIPART}; boundary=none", b"--none--\r\n"
    form = httpx.Request("POST", "http://form", files=files)
    return form.headers["content-type"], form.read()


def _part(value: Any) -> tuple[None, bytes, str | None]:
    text = utf8("" if value is None else text_of(value), "The body")
    return None, text, "application/json" if isinstance(value, Mapping) else None
