"""Spell the values of parameters on the wire: OpenAPI's styles, percent-encoding, header and cookie rules.

Every value is encoded so that it stays one value: no slash, question mark, ampersand, semicolon or line break in it
can change the structure of the URL, the query, the cookies or the headers.

Not here: which parameter goes where (`request`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from toolkit.errors import ToolArgumentsError

_RESERVED = ":/?@!$'()*,;"  # what allowReserved lets through; &, #, +, = and [] would change the query
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_COOKIE_SAFE = "!#$&'()*+-./:<=>?@[]^_`{|}~"  # cookie-octets of RFC 6265 that quote() would spell out
_SEPARATORS = {"form": ",", "simple": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

Pairs = list[tuple[str, str]]


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


def escape(value: Any, safe: str = "") -> str:
    """Percent-encode one value.

    >>> escape("a/b?c=1")
    'a%2Fb%3Fc%3D1'
    """
    try:
        return quote(text_of(value), safe=safe)
    except UnicodeEncodeError:
        raise ToolArgumentsError(f"{value!r} holds half a character and cannot be sent.") from None


def path_value(name: str, value: Any, style: str, explode: bool) -> str:
    """Spell a value of a path, in the styles simple, label and matrix.

    >>> path_value("id", [3, 4], "matrix", True)
    ';id=3;id=4'
    """
    if style == "label":
        return "." + _joined(value, "." if explode else ",", explode)
    if style == "matrix":
        return _matrix(escape(name), value, explode)
    return _joined(value, ",", explode)


def _matrix(name: str, value: Any, explode: bool) -> str:
    if explode and isinstance(value, Mapping):
        return "".join(f";{escape(key)}={escape(item)}" for key, item in value.items())
    if explode and isinstance(value, list):
        return "".join(f";{name}={escape(item)}" for item in value)
    return f";{name}={_joined(value, ',', False)}"


def _joined(value: Any, separator: str, explode: bool, spell: Callable[[Any], str] = escape) -> str:
    if isinstance(value, list):
        return separator.join(map(spell, value))
    if isinstance(value, Mapping):
        equals = "=" if explode else separator
        return separator.join(f"{spell(key)}{equals}{spell(item)}" for key, item in value.items())
    return spell(value)


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
    if explode and isinstance(value, list):
        return [(key, escape(item, safe)) for item in value]
    if explode and isinstance(value, Mapping):
        return [(escape(inner), escape(item, safe)) for inner, item in value.items()]
    return [(key, _joined(value, _SEPARATORS.get(style, ","), False, lambda item: escape(item, safe)))]


def _deep(key: str, value: Any, safe: str) -> Pairs:
    if isinstance(value, Mapping):
        return [pair for inner, item in value.items() for pair in _deep(f"{key}[{escape(inner)}]", item, safe)]
    if isinstance(value, list):
        return [pair for item in value for pair in _deep(f"{key}[]" if _is_nested(item) else key, item, safe)]
    return [(key, escape(value, safe))]


def _is_nested(value: Any) -> bool:
    return isinstance(value, (Mapping, list))


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
    try:
        return text.strip().encode()
    except UnicodeEncodeError:
        raise ToolArgumentsError(f"The value of header {name!r} holds half a character and cannot be sent.") from None


def cookie_pairs(name: str, value: Any, explode: bool) -> Pairs:
    """Spell a value of a cookie, as encoded pairs.

    >>> cookie_pairs("sid", "a;b", True)
    [('sid', 'a%3Bb')]
    """
    if explode and isinstance(value, list):
        return [(escape(name), escape(item, _COOKIE_SAFE)) for item in value]
    if explode and isinstance(value, Mapping):
        return [(escape(key), escape(item, _COOKIE_SAFE)) for key, item in value.items()]
    return [(escape(name), _joined(value, "%2C", False, lambda item: escape(item, _COOKIE_SAFE)))]
