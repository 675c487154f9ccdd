"""Read parameters written as tags, such as `<parameter=city>Oslo</parameter>`, whose values are plain text.

A structural tag ends a value only if what follows is structure again, so markup inside a value survives; a missing
closing tag is made up for by the next structural one.

Not here: types of the values (`coerce`), the tags of each family (`syntaxes`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

from toolkit.extraction.budget import LOOK
from toolkit.extraction.resolve import ToolSpec
from toolkit.extraction.source import Found, Source

_HALF_PAIR = re.compile(r"<(?:\w{1,40}[_:])?(?:arg_key|arg_value|parameter|param)\b")
_LONGEST_TAG = 400
_OPENERS_SEEN = 16  # in one value, to find the one that shows that its closer is missing


@dataclass(frozen=True, slots=True)
class Tags:
    """Hold the tags of one family."""

    opener: re.Pattern[str]  # opens a parameter; group `key`, and perhaps `value` for one without content
    closer: re.Pattern[str]  # closes a parameter
    stop: re.Pattern[str]  # closes the call or its wrapper, or opens the next call


@dataclass(slots=True)
class Members:
    """Hold the parameters that were read, and where reading stopped; `cut` if a value had no end."""

    values: dict[str, str] = field(default_factory=dict)
    openers: dict[str, str] = field(default_factory=dict)  # key -> its opening tag, for flags such as string="false"
    end: int = 0
    cut: bool = False
    repairs: list[str] = field(default_factory=list)


def read_members(source: Source, pos: int, tags: Tags, tool: ToolSpec | None) -> Members:
    """Read parameters from `pos` until something else stands there."""
    found = Members(end=pos)
    text, limit = source.text, source.limit
    while True:
        start = source.skip(found.end)
        opener = tags.opener.match(text, start, limit)
        if opener is None:
            surplus = tags.closer.match(text, start, limit)
            if surplus is None or not found.values:
                found.cut = _cut(source, start, tags)
                return found
            found.repairs.append("surplus_close_tag")
            found.end = surplus.end()
            continue
        key = opener["key"].strip().replace("\\_", "_")
        found.openers[key] = opener[0]
        given = opener.groupdict().get("value")
        if given is not None:
            found.values[key], found.end = given, opener.end()
            continue
        end = _value_end(source, opener.end(), tags, tool, found)
        if end is None:
            source.touch_end()
            found.cut = True
            return found
        value_end, found.end = end
        found.values[key] = trim(text[opener.end() : value_end], closed=found.end > value_end)


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
        if unseen and source.text[opener.start() - 1].isspace():
            found.repairs.append("missing_close_tag")
            return opener.start(), opener.start()
        pos = opener.end()
    if structural is None:
        source.touch_end()
        closer = source.find(tags.closer, start)
        return closer and closer.span()
    if structural[0] == structural[1]:
        found.repairs.append("missing_close_tag")
    return structural


def _structural_end(source: Source, tags: Tags, pos: int, stop: int) -> Found | None:
    """Return the closing tag before which a value ends for certain, or where another tag ends it."""
    text, limit = source.text, source.limit
    while (tag := text.find("<", pos, min(stop, limit))) >= 0:
        source.budget.spend(LOOK)
        if (closer := tags.closer.match(text, tag, limit)) is not None:
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
        return source.find(tags.closer, stop.end()) is None
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
        pattern.match(text, after, limit) for pattern in (tags.opener, tags.stop, tags.closer)
    ) or text.startswith("```", after)


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
        value = re.sub(r"\r?\n\Z", "", value)
    return value
