"""Hold what passes between the stages of reading: Source, Draft, Reading.

A syntax reads a Source at a position and gives a Reading: a region of text and the Drafts in it. A Draft becomes a
call once its name is resolved, its arguments are decoded and no veto falls (`settle`).

What is made anew for each call is a NamedTuple here and in the readers: as fixed as a frozen dataclass, and made in a
quarter of the time.

Not here: what the user gets (`types`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from toolkit.extraction.fuel import Fuel
from toolkit.extraction.resolve import ToolIndex
from toolkit.extraction.types import Rejected, Span

_BLANK = re.compile(r"(?:[\s\ufeff\u200b\u200c\u200d\u2060]|\\n(?=[\s<{\[]|$))*")
_NO_SOURCES: dict[str, str] = {}
NOTHING = object()  # an argument key that is not there at all


@dataclass(slots=True)
class Source:
    """Hold the text that is read and what is known about it.

    Attributes:
        text: the whole reply.
        limit: where the present region ends.
        tools: the declared tools.
        fuel: what failed attempts may still cost.
        cut: the server says that the reply was cut at its length limit.
        searched: pattern -> (searched from, found or None), so that a missing closer is searched for once.
    """

    text: str
    limit: int
    tools: ToolIndex
    fuel: Fuel
    cut: bool = False
    searched: dict[re.Pattern[str], tuple[int, re.Match[str] | None]] = field(default_factory=dict)

    def within(self, limit: int) -> Source:
        """Return the same source with a nearer end."""
        return Source(self.text, limit, self.tools, self.fuel, self.cut, self.searched)

    def find(self, pattern: re.Pattern[str], pos: int) -> re.Match[str] | None:
        """Return the next match of `pattern`; many searches in growing order cost one pass together."""
        start, found = self.searched.get(pattern, (-1, None))
        if start < 0 or pos < start or (found is not None and found.start() < pos):
            found = pattern.search(self.text, pos)
            self.searched[pattern] = (pos, found)
        return found if found is not None and found.end() <= self.limit else None

    def skip_line(self, pos: int) -> int:
        """Return the start of the next line."""
        stop = self.text.find("\n", pos, self.limit)
        return self.limit if stop < 0 else stop + 1

    def skip(self, pos: int) -> int:
        """Return the position behind blanks."""
        found = _BLANK.match(self.text, pos, self.limit)
        return found.end() if found else pos


class Draft(NamedTuple):
    """Hold one call as written.

    Attributes:
        name: the name as written.
        arguments: an object, text that holds one, plain texts by name (`untyped`), None, or NOTHING.
        span: where it stands.
        syntax: what it was written in.
        repairs: what was mended so far.
        untyped: values are plain text and take their types from the schema.
        positional: arguments without names.
        sources: source text of values, by name or index.
        closed: whether every closer was there.
        flat: `arguments` are the members beside the name, so that they count only if all are declared.
        doubtful: reason code for turning it down where it is only implied, such as `expression`; `in_sentence` counts.
        text_argument: text that is no object may be the single text parameter.
        exact: it is an object with the two keys that the protocol states and no others.
    """

    name: str
    arguments: Any
    span: Span
    syntax: str
    repairs: tuple[str, ...] = ()
    untyped: bool = False
    positional: tuple[Any, ...] = ()
    sources: dict[str, str] = _NO_SOURCES
    closed: bool = True
    flat: bool = False
    doubtful: str | None = None
    text_argument: bool = False
    exact: bool = False

    def at(self, span: Span) -> Draft:
        """Return the draft with another span."""
        rest: tuple[Any, ...] = self[3:]  # several times as fast as `_replace`, and done for each call
        return Draft(self.name, self.arguments, span, *rest)

    def mended(self, *codes: str) -> Draft:
        """Return the draft with further repairs."""
        return self._replace(repairs=(*codes, *self.repairs))


class Reading(NamedTuple):
    """Hold what a syntax read at one place.

    Attributes:
        end: where the region ends.
        drafts: the calls in it, in order.
        rejected: candidates that failed.
        explicit: its marker is one that no prose would use.
        text: what of the region is for the user.
        thinking: what of the region is thought.
        final: nothing after it is read, such as an invented observation.
        inner: a region in it that is to be walked as if it stood alone, such as what a fence holds.
        placed: the syntax judged its place itself.
    """

    end: int
    drafts: tuple[Draft, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    explicit: bool = True
    text: str = ""
    thinking: str = ""
    final: bool = False
    inner: Span | None = None
    placed: bool = False


def spread(drafts: list[Draft], start: int, end: int) -> tuple[Draft, ...]:
    """Give the wrapper's text to the first and the last of its drafts, so that spans cover the whole region."""
    if len(drafts) < 2:
        return (drafts[0].at((start, end)),) if drafts else ()
    drafts[0] = drafts[0].at((start, drafts[0].span[1]))
    drafts[-1] = drafts[-1].at((drafts[-1].span[0], end))
    return tuple(drafts)
