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
