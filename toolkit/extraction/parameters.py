"""Read parameters written as tags, such as `<parameter=city>Oslo</parameter>`, whose values are plain text.

A structural tag ends a value only if what follows is structure again, so markup inside a value survives; a missing
closing tag is made up for by the next structural one.

Not here: types of the values (`coerce`), the tags of each family (`syntaxes`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from toolkit.extraction.budget import LOOK, Budget
from toolkit.extraction.lenient_json import decode
from toolkit.extraction.resolve import ToolSpec
from toolkit.extraction.source import Found, Source

# a namespace before a tag's name; DeepSeek's with its bars doubled, apart, or lost
DSML = r"(?:[ ]?[｜|]{1,3}[ ]?DSML[ ]?[｜|]{1,3}[ ]?|DSML[ ])"
NS = rf"(?:\w++:|{DSML})?"
_FLAG = re.compile(r"string\s*+=\s*+[\"'](true|false)[\"']")
_TYPE_FLAG = re.compile(r"\btype\s*+=\s*+[\"'](\w++)[\"']")
_HALF_PAIR = re.compile(r"<(?:\w{1,40}[_:])?(?:arg_key|arg_value|parameter|param)\b")
_ELEMENT = re.compile(r"\s*+<([^\W\d][\w.\-]*+)>")
_FOREIGN = re.compile(r"</([\w:.-]{1,80})>\Z")
_LONGEST_TAG = 400
_OPENERS_SEEN = 16  # in one value, to find the one that shows that its closer is missing


@dataclass(frozen=True, slots=True)
class Tags:
    """Hold the tags of one family."""

    opener: re.Pattern[str]  # opens a parameter; group `key`, and perhaps `value` for one without content
    closer: re.Pattern[str] | None  # closes a parameter; None if a tag of the key's own name does
    stop: re.Pattern[str]  # closes the call or its wrapper, or opens the next call
    tight: bool = False  # no text has an opener in it, so that one ends a value even without a blank before it


class Repeated(list[Any]):
    """Hold the values of a key that was given several times: a list where the schema wants one, else the last."""


@dataclass(slots=True)
class Members:
    """Hold the parameters that were read, and where reading stopped; `cut` if a value had no end."""

    values: dict[str, Any] = field(default_factory=dict)
    end: int = 0
    cut: bool = False
    torn: bool = False  # whether a value holds its own closing tag, so that what stands behind that is no part of it
    repairs: list[str] = field(default_factory=list)


def put(values: dict[str, Any], key: str, value: Any) -> None:
    """Put a value in, beside those that the key has already."""
    if key not in values:
        values[key] = value
    elif isinstance(values[key], Repeated):
        values[key].append(value)
    else:
        values[key] = Repeated((values[key], value))


def read_members(source: Source, pos: int, tags: Tags, tool: ToolSpec | None) -> Members:
    """Read parameters from `pos` until something else stands there."""
    found = Members(end=pos)
    text, limit = source.text, source.limit
    while True:
        start = source.skip(found.end)
        opener = tags.opener.match(text, start, limit)
        if opener is None:
            surplus = tags.closer.match(text, start, limit) if tags.closer else None
            if surplus is None or not found.values:
                found.cut = _cut(source, start, tags)
                return found
            found.repairs.append("surplus_close_tag")
            found.end = surplus.end()
            continue
        key = opener["key"].strip().replace("\\_", "_")
        given = opener.groupdict().get("value")
        if given is not None:
            put(found.values, key, _flagged(opener[0], given, source.budget))
            found.end = opener.end()
            continue
        inner = tags if tags.closer else _closed_by(tags, key)
        end = _value_end(source, opener.end(), inner, tool, found)
        if end is None:
            source.touch_end()
            found.cut = True
            return found
        value_end, found.end = end
        source.budget.spend(2 * (value_end - opener.end()))  # the same text may be read as a value again and again
        closed = found.end > value_end
        written = trim(text[opener.end() : value_end], closed=closed)
        if not closed:
            found.torn = found.torn or (inner.closer is not None and inner.closer.search(written) is not None)
            written = _without_foreign_closer(written)
        put(found.values, key, _flagged(opener[0], written, source.budget))


def _without_foreign_closer(value: str) -> str:
    """Return a value without the closing tag of something else, if that stands in place of its own."""
    found = _FOREIGN.search(value)
    return value[: found.start()].rstrip() if found and f"<{found[1]}" not in value else value


@lru_cache(maxsize=1024)
def _closed_by(tags: Tags, key: str) -> Tags:
    """Return the tags of a parameter that is closed by its own name."""
    return replace(tags, closer=re.compile(rf"</[ \t]*+{re.escape(key)}[ \t]*+>"))


def _flagged(opener: str, written: str, budget: Budget) -> Any:
    """Return a value, decoded if its tag says that it is JSON or of a type."""
    if "=" not in opener:
        return written
    flag, kind = _FLAG.search(opener), _TYPE_FLAG.search(opener)
    wants_json = flag[1] == "false" if flag else kind is not None and kind[1] not in ("string", "str")
    read = decode(written, budget) if wants_json else None
    return written if read is None else read.value


def _cut(source: Source, pos: int, tags: Tags) -> bool:
    """Tell whether a half tag, or a key without its value, stands where the text ends."""
    text, limit = source.text, source.limit
    if not text.startswith("<", pos, limit) or tags.stop.match(text, pos, limit):
        return False
    if text.find(">", pos, limit) < 0:
        return True
    return _HALF_PAIR.match(text, pos, limit) is not None and source.find(tags.stop, pos) is None


def _value_end(source: Source, start: int, tags: Tags, tool: ToolSpec | None, found: Members) -> tuple[int, int] | None:
    """Return where a value ends and where reading goes on; None if it has no end."""
    structural = source.first(tags, start, partial(_structural_end, source, tags))
    pos, stop = start, structural[0] if structural else source.limit
    for _ in range(_OPENERS_SEEN):
        opener = source.find(tags.opener, pos)
        if opener is None or opener.start() >= stop:
            break
        key = opener["key"].strip()
        unseen = tool is None or (key in tool.properties and key not in found.values)
        if unseen and (tags.tight or source.text[opener.start() - 1].isspace()):
            found.repairs.append("missing_close_tag")
            return opener.start(), opener.start()
        pos = opener.end()
    if structural is None:
        source.touch_end()
        closer = source.find(tags.closer, start) if tags.closer else None
        return closer and closer.span()
    if structural[0] == structural[1]:
        found.repairs.append("missing_close_tag")
    return structural


def _structural_end(source: Source, tags: Tags, pos: int, stop: int) -> Found | None:
    """Return the closing tag before which a value ends for certain, or where another tag ends it."""
    text, limit = source.text, source.limit
    while (tag := text.find("<", pos, min(stop, limit))) >= 0:
        source.budget.spend(LOOK)
        if tags.closer and (closer := tags.closer.match(text, tag, limit)) is not None:
            if _structure(source, closer.end(), tags):
                return closer.span()
        elif (end := tags.stop.match(text, tag, limit)) is not None and _ends_call(source, end, tags):
            return tag, tag
        pos = tag + 1
    return None


def _ends_call(source: Source, stop: re.Match[str], tags: Tags) -> bool:
    """Tell whether a structural tag in a value that was not closed is meant as structure."""
    if stop[0].startswith(("</", "<|", "<｜t")):
        if _structure(source, stop.end(), tags):
            return True
        source.touch_end()
        return tags.closer is None or source.find(tags.closer, stop.end()) is None
    tag_end = source.text.find(">", stop.start(), min(source.limit, stop.end() + _LONGEST_TAG))
    after = source.skip(tag_end + 1)
    return tag_end > 0 and (
        tags.opener.match(source.text, after, source.limit) is not None or source.text.startswith("{", after)
    )


def _structure(source: Source, pos: int, tags: Tags) -> bool:
    """Tell whether structure, or nothing, follows."""
    after = source.skip(pos)
    if after >= source.limit:
        source.touch_end()
        return True
    text, limit = source.text, source.limit
    return any(
        pattern.match(text, after, limit) for pattern in (tags.opener, tags.stop, tags.closer) if pattern
    ) or text.startswith("```", after)


def inner_elements(text: str) -> dict[str, Any] | None:
    """Return what elements a value consists of, and nothing else, by name; None if it is no such value.

    >>> inner_elements("<to>ann</to> <to>bo</to><text>hi</text>")
    {'to': ['ann', 'bo'], 'text': 'hi'}
    """
    found: dict[str, Any] = {}
    pos = 0
    while (opened := _ELEMENT.match(text, pos)) is not None:
        end = text.find(f"</{opened[1]}>", opened.end())
        if end < 0:
            return None
        put(found, opened[1], trim(text[opened.end() : end]))
        pos = end + len(opened[1]) + 3
    return None if text[pos:].strip() else found or None


def trim(value: str, closed: bool = True) -> str:
    r"""Take off the line break on either side that belongs to the template; both or none, if the value was closed.

    >>> trim("\n  two\n\n"), trim("one\n"), trim("one\n", closed=False)
    ('  two\n', 'one\n', 'one')
    """
    bare = value.strip()
    if bare.startswith("<![CDATA[") and bare.endswith("]]>"):
        return bare[9:-3]
    opened = re.match(r"\r?\n", value)
    value = value[opened.end() :] if opened else value
    if opened or not closed:
        value = value[:-2] if value.endswith("\r\n") else value.removesuffix("\n")
    return value
