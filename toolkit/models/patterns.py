r"""Write schemas so that llama.cpp's grammar can hold decoding to them.

Its grammar knows plain characters, classes of plain characters, groups, `|` and counts, between `^` and `$`; all
else is refused or ignored, and a quotation mark in a pattern ends the JSON string in the middle. What means the same
in these words is rewritten, what cannot be said in them is refused before anything is sent.

    \d{4}          ->  ^[…]*[0-9]{4}[…]*$       a part of the text, as JSON Schema means it
    ^a$|^b$        ->  ^(a|b)$

Not here: whether a schema is one, and whether a reply keeps it (`schemas`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from toolkit.errors import ConfigError

_TOKEN = re.compile(
    r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|\[(?:\\.|[^\]\\])*\]|\(\?:|\(\?<[A-Za-z_]\w*>|\(\?[^)]{0,3}|"
    r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?|.",
    re.DOTALL,
)
_CLASS_ITEM = re.compile(r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)
Ranges = list[tuple[int, int]]  # of code points, both ends within
_LAST = 0x10FFFF
_SHORT: dict[str, Ranges] = {
    "d": [(48, 57)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "s": [(9, 13), (32, 32), (160, 160), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x3000, 0x3000)],
}
_NAMED = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "0": 0}
# what stands in a JSON string as it is: no control character, no quotation mark, no backslash
_RAW: Ranges = [(32, 33), (35, 91), (93, 126), (128, _LAST)]
_SPECIAL = set("^$.[]()|{}*+?")


class _InexpressibleError(ValueError):
    pass


@lru_cache(maxsize=512)
def grammar_pattern(pattern: str) -> str:
    r"""Return a pattern that llama.cpp's grammar holds and that lets through nothing that the given one does not.

    >>> grammar_pattern(r"^\d{4}$"), grammar_pattern("^a$|^b$")
    ('^[0-9]{4}$', '^(a|b)$')

    Raises:
        ConfigError: it needs look-around, word boundaries, back references or classes of Unicode.
    """
    try:
        found = [_anchored(part) for part in _alternatives(pattern)]
    except _InexpressibleError as error:
        raise ConfigError(
            f"The pattern {pattern!r} cannot be held while decoding: llama.cpp's grammar knows no {error}. Write it "
            "without, or leave it out and check the reply."
        ) from None
    return f"^({'|'.join(found)})$" if len(found) > 1 else f"^{found[0]}$"


def _alternatives(pattern: str) -> list[list[str]]:
    """Return the parts of each alternative at the top."""
    found: list[list[str]] = [[]]
    depth = 0
    for word in _TOKEN.findall(pattern):
        depth += word.startswith("(") - (word == ")")
        if word == "|" and depth == 0:
            found.append([])
        else:
            found[-1].append(word)
    return found


def _anchored(words: list[str]) -> str:
    start, end = words[:1] == ["^"], words[-1:] == ["$"]
    inner = words[1 if start else 0 : len(words) - 1 if end else len(words)]
    text = "".join(map(_translated, inner))
    anything = f"{_class(_RAW)}*"
    return ("" if start else anything) + text + ("" if end else anything)


def _translated(word: str) -> str:
    if word[0] == "[":
        return _class(_members(word))
    if word == ".":
        return _class(_RAW)
    if word in ("^", "$"):
        raise _InexpressibleError("anchor in the middle")
    if word[:2] == "(?":
        if word != "(?:" and not word.endswith(">"):
            raise _InexpressibleError("look-around or flags")
        return "("
    if word[0] in "*+?{" and word != "{":
        return word[:1] if word[0] != "{" else word.rstrip("?+")  # lazy or not, the same texts match
    if word in ("(", ")", "|"):
        return word
    ranges = _escaped(word) if word[0] == "\\" else [(ord(word), ord(word))]
    (low, high), *others = ranges
    return _class(ranges) if others or low != high else _literal(low)


def _literal(code: int) -> str:
    """Return a character as it stands in a JSON string, written for a pattern."""
    char = chr(code)
    if char in '"\\' or code < 32:
        named = {34: '\\\\"', 92: "\\\\\\\\", 10: "\\\\n", 13: "\\\\r", 9: "\\\\t", 12: "\\\\f", 8: "\\\\b"}
        return named.get(code) or f"\\\\u{code:04x}"
    return f"\\{char}" if char in _SPECIAL else char


def _escaped(token: str) -> Ranges:
    """Return what an escape stands for."""
    letter = token[1]
    if letter.lower() in _SHORT:
        ranges = _SHORT[letter.lower()]
        return ranges if letter.islower() else _without(ranges)
    if letter in "xu":
        return [(int(token[2:], 16),) * 2] if len(token) > 2 else [(ord(letter), ord(letter))]
    if letter in _NAMED:
        return [(_NAMED[letter], _NAMED[letter])]
    if letter.isalnum():
        names = {"b": "word boundary", "B": "word boundary", "p": "class of Unicode", "P": "class of Unicode"}
        raise _InexpressibleError(names.get(letter, "back reference" if letter.isdigit() else f"escape {token!r}"))
    return [(ord(letter), ord(letter))]


def _members(token: str) -> Ranges:
    """Return the code points of a class."""
    inner = token[1:-1]
    negated = inner.startswith("^")
    items = _CLASS_ITEM.findall(inner[1:] if negated else inner)
    found: Ranges = []
    at = 0
    while at < len(items):
        first = _item(items[at])
        if at + 2 < len(items) and items[at + 1] == "-" and len(first) == 1:
            last = _item(items[at + 2])
            found.append((first[0][0], last[-1][1]))
            at += 3
        else:
            found += first
            at += 1
    return _without(found) if negated else found


def _item(item: str) -> Ranges:
    if item == "\\b":  # within a class, a backspace
        return [(8, 8)]
    return _escaped(item) if item[0] == "\\" and len(item) > 1 else [(ord(item), ord(item))]


def _without(ranges: Ranges) -> Ranges:
    """Return all other code points."""
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return [*found, (start, _LAST)] if start <= _LAST else found


def _class(ranges: Ranges) -> str:
    """Return the class of those code points that can stand in a JSON string as they are, or a group of literals."""
    within = sorted((max(low, a), min(high, b)) for low, high in ranges for a, b in _RAW if max(low, a) <= min(high, b))
    others = [code for code in (34, 92, 9, 10, 13) if any(low <= code <= high for low, high in ranges)]
    if not within:
        if not others:
            raise _InexpressibleError("empty class")
        return f"({'|'.join(map(_literal, others))})"
    return f"[{''.join(_char(low) if low == high else f'{_char(low)}-{_char(high)}' for low, high in within)}]"


def _char(code: int) -> str:
    char = chr(code)
    if char in "[]":
        return f"\\{char}"
    return f"\\x{code:02X}" if char in "^-" or code == 127 else char


def for_grammar(schema: Any, hopeless: Literal["refuse", "keep", "drop"] = "refuse") -> Any:
    """Return a schema as llama.cpp's grammar holds it; the same one where nothing has to be written otherwise.

    Args:
        schema: the schema, or a part of one.
        hopeless: what becomes of a pattern that cannot be held.

    Raises:
        ConfigError: such a pattern.
    """
    if isinstance(schema, list):
        return [for_grammar(item, hopeless) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return dict(_rewritten(schema, hopeless))


def _rewritten(schema: Mapping[str, Any], hopeless: Any) -> Iterator[tuple[str, Any]]:
    tuples = isinstance(schema.get("prefixItems"), list)
    for key, value in schema.items():
        if key == "pattern" and isinstance(value, str):
            try:
                yield key, grammar_pattern(value)
            except ConfigError:
                if hopeless == "refuse":
                    raise
                if hopeless == "keep":
                    yield key, value
        elif key == "items" and tuples and isinstance(value, bool):
            continue  # refused there; it holds to just these items by itself
        elif key in ("enum", "const", "default", "examples"):
            yield key, value
        elif key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, Mapping):
            yield key, {name: for_grammar(inner, hopeless) for name, inner in value.items()}
        else:
            yield key, for_grammar(value, hopeless)
