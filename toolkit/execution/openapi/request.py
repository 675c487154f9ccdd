"""Build the request of one operation from the arguments of a call: pure, unsigned, nothing is sent.

Every value is spelled in OpenAPI's styles and encoded so that it stays one value: no slash, question mark, ampersand,
semicolon or line break in it can change the structure of the URL, the query, the cookies or the headers.

Not here: credentials (`auth`), sending (`http`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import httpx

from toolkit.errors import ConfigError, ToolArgumentsError, ToolInvocationError
from toolkit.execution.openapi.http import HttpRequest, origin, place
from toolkit.execution.openapi.operations import FORM, MULTIPART, Operation, Parameter, is_json
from toolkit.secrets import scrub

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_LITERAL = "/:@!$&'()*+,;=-._~%"  # what a path template may hold as it is
_MISSING = object()
_RESERVED = ":/?@!$'()*,;"  # what allowReserved lets through; &, #, +, = and [] would change the query
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_COOKIE_SAFE = "!#$&'()*+-./:<=>?@[]^_`{|}~"  # cookie-octets of RFC 6265 that quote() would spell out
_SEPARATORS = {"form": ",", "simple": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

Pairs = list[tuple[str, str]]


def server_url(server: str | Mapping[str, Any], location: str = "") -> str:
    """Return the base URL that a server is called at.

    Args:
        server: a URL, or a server object of a document; its variables take their defaults.
        location: URL of the document, for a relative server.

    Raises:
        ConfigError: it is no absolute http(s) URL.
    """
    if not isinstance(server, (str, Mapping)):
        raise ConfigError(f"A server is a URL such as 'https://api.example.com/v1', not {server!r}.")
    named = server if isinstance(server, str) else _filled(server)
    try:
        url = urljoin(location, named)
        parts = urlsplit(url)
        origin(url)
    except ValueError as error:
        raise ConfigError(f"Server {scrub(named)!r} is no URL: {error}. Give server='https://…'.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"There is no server to call: {scrub(url)!r} is not an http(s) URL. Give server='https://…'.")
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

    Arguments that the operation does not declare go into a body that takes further keys, else they are left out. Null
    counts as not given, except in a body.

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
    fields = {item.name: value for item, value in placed["body"]}
    if operation.body and operation.body.more:
        known = {item.argument for item in operation.arguments}
        fields |= {name: value for name, value in arguments.items() if name not in known}
    content_type, content = _body(operation, fields)
    headers = [(item.name, header_value(item.name, value, item.explode)) for item, value in placed["header"]]
    if content_type:
        headers.append(("Content-Type", header_value("Content-Type", content_type)))
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
    """Fill one segment; an empty or a dot segment is refused, since servers resolve it however it is encoded."""
    pieces = _PLACEHOLDER.split(template)
    filled = ""
    for index, piece in enumerate(pieces):
        if index % 2 and piece in values:
            item, value = values[piece]
            filled += path_value(item.name, value, item.style, item.explode)
        else:
            filled += escape(piece, _LITERAL)
    if len(pieces) > 1 and unquote(filled) in ("", ".", ".."):
        raise ToolArgumentsError(f"Path parameter {pieces[1]!r} cannot be {unquote(filled)!r}. Give a real value.")
    return filled


def _fixed_query(operation: Operation) -> Pairs:
    """Return the query that some documents write into the path itself."""
    query = operation.path.partition("#")[0].partition("?")[2]
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return [(escape(name, "%[]"), escape(value, "%")) for name, _, value in pairs]


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
        (utf8(text_of(name), "The body").decode(), part)
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


def text_of(value: Any) -> str:
    """Spell one value as text, as JSON does for everything but text itself.

    >>> text_of(True), text_of(3.0), text_of("a"), text_of({"b": 1})
    ('true', '3', 'a', '{"b":1}')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return json_of(value)


def json_of(value: Any) -> str:
    """Write JSON.

    Raises:
        ToolArgumentsError: NaN, infinity, or something JSON has no word for.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolArgumentsError(f"A value cannot be written as JSON: {error}.") from None


def utf8(text: str, what: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        ToolArgumentsError: it holds half a character.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolArgumentsError(f"{what} holds half a character and cannot be sent.") from None


def escape(value: Any, safe: str = "") -> str:
    """Percent-encode one value.

    >>> escape("a/b?c=1")
    'a%2Fb%3Fc%3D1'
    """
    return quote(utf8(text_of(value), repr(value)), safe=safe)


def path_value(name: str, value: Any, style: str, explode: bool) -> str:
    """Spell a value of a path, in the styles simple, label and matrix.

    >>> path_value("id", [3, 4], "matrix", True)
    ';id=3;id=4'
    """
    if style == "label":
        return "." + _joined(value, "." if explode else ",", explode)
    if style == "matrix":
        return "".join(f";{key}={item}" for key, item in _pairs(escape(name), value, explode))
    return _joined(value, ",", explode)


def _joined(value: Any, separator: str, explode: bool, spell: Callable[[Any], str] = escape) -> str:
    if isinstance(value, list):
        return separator.join(map(spell, value))
    if isinstance(value, Mapping):
        equals = "=" if explode else separator
        return separator.join(f"{spell(key)}{equals}{spell(item)}" for key, item in value.items())
    return spell(value)


def _pairs(key: str, value: Any, explode: bool, separator: str = ",", safe: str = "") -> Pairs:
    """Spell a value under a name, as one pair or, exploded, as one for each item."""
    if explode and isinstance(value, list):
        return [(key, escape(item, safe)) for item in value]
    if explode and isinstance(value, Mapping):
        return [(escape(inner), escape(item, safe)) for inner, item in value.items()]
    return [(key, _joined(value, separator, False, lambda item: escape(item, safe)))]


def query_pairs(name: str, value: Any, style: str, explode: bool, allow_reserved: bool = False) -> Pairs:
    """Spell a value of a query or form, as encoded pairs.

    >>> query_pairs("tag", ["a b", "c"], "form", True)
    [('tag', 'a%20b'), ('tag', 'c')]
    >>> query_pairs("f", {"x": 1}, "deepObject", True)
    [('f[x]', '1')]
    """
    safe = _RESERVED if allow_reserved else ""
    key = escape(name, "[]")
    if style == "deepObject":
        return _deep(key, value, safe)
    return _pairs(key, value, explode, _SEPARATORS.get(style, ","), safe)


def _deep(key: str, value: Any, safe: str) -> Pairs:
    if isinstance(value, Mapping):
        return [pair for inner, item in value.items() for pair in _deep(f"{key}[{escape(inner)}]", item, safe)]
    if isinstance(value, list):
        nested = (f"{key}[]" if isinstance(item, (Mapping, list)) else key for item in value)
        return [pair for inner, item in zip(nested, value, strict=True) for pair in _deep(inner, item, safe)]
    return [(key, escape(value, safe))]


def header_value(name: str, value: Any, explode: bool = False) -> bytes:
    """Spell a value of a header.

    Raises:
        ToolArgumentsError: the name is no header's name, or the value holds a line break or another control character.
    """
    if not _TOKEN.fullmatch(name):
        raise ToolArgumentsError(f"{name!r} is no name of a header, so the operation cannot be called.")
    text = _joined(value, ",", explode, text_of)
    if _CONTROL.search(text):
        raise ToolArgumentsError(f"The value of header {name!r} holds a control character, such as a line break.")
    return utf8(text.strip(), f"The value of header {name!r}")


def cookie_pairs(name: str, value: Any, explode: bool) -> Pairs:
    """Spell a value of a cookie, as encoded pairs.

    >>> cookie_pairs("sid", "a;b", True)
    [('sid', 'a%3Bb')]
    """
    return _pairs(escape(name), value, explode, "%2C", _COOKIE_SAFE)
