"""Hold the text that is read, what is known about it, and what was searched for in it: Source.

Readers look at the text through a Source, which pays for it from the budget and remembers what a search has shown.

Not here: what was read (`drafts`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from toolkit.extraction.budget import Budget
from toolkit.extraction.resolve import ToolIndex

_BLANK = re.compile(r"(?:[\s\ufeff\u200b\u200c\u200d\u2060]++|\\n(?=[\s<{\[]|$))*+")


Found = tuple[int, int]  # where it begins and ends

_BRACKET = re.compile(r"[()\[\]{}]")


# Code between one or two back-ticks, on one line; three begin a fence.
_CODE = re.compile(r"(?<!`)(`{1,2}+)(?!`)[^`\n]*+(?:(?!\1(?!`))`++[^`\n]*+)*+\1(?!`)")


class Code(NamedTuple):
    """Hold where code spans begin and end, and where one is open at the end of the text, or behind it."""

    starts: list[int]
    ends: list[int]
    open: int


class Ends(NamedTuple):
    """Hold where searches for one thing began, in order, and what each found first."""

    starts: list[int]
    found: list[Found | None]


@dataclass(slots=True)
class Searches:
    """Hold what searches of a text have shown, for all regions of it."""

    # pattern -> (searched from, found or None), so that a missing closer is searched for once
    patterns: dict[re.Pattern[str], tuple[int, re.Match[str] | None]] = field(default_factory=dict)
    # what was searched for by hand, and up to where -> what was found
    ends: dict[tuple[object, int], Ends] = field(default_factory=dict)
    brackets: dict[int, int] = field(default_factory=dict)  # opening -> closing, once it was asked for
    dead: set[tuple[int, int]] = field(default_factory=set)  # (position, limit) where an object without its brace fails
    code: Code | None = None  # once it was asked for
    touched: bool = False  # a value was open where the text ends, so that more text may change a reading


@dataclass(slots=True)
class Source:
    """Hold the text that is read and what is known about it."""

    text: str  # the whole reply
    limit: int  # where the present region ends
    tools: ToolIndex  # the declared tools
    budget: Budget  # what the reading may still cost
    cut: bool = False  # the server says that the reply was cut at its length limit
    searches: Searches = field(default_factory=Searches)

    def within(self, limit: int) -> Source:
        """Return the same source with a nearer end."""
        return replace(self, limit=limit)

    def touch_end(self) -> None:
        """Note that a value is open at the end of the region, if that is the end of the text."""
        self.searches.touched = self.searches.touched or self.limit >= len(self.text)

    def match(self, pattern: re.Pattern[str], pos: int) -> re.Match[str] | None:
        """Return the match of `pattern` at `pos`; that the budget has ended shows at the next place that is read."""
        found = pattern.match(self.text, pos, self.limit)
        self.budget.left -= 50 if found is None else 50 + found.end() - pos
        return found

    def past(self, pattern: re.Pattern[str], pos: int) -> int:
        """Return the position behind `pattern` if it matches at `pos`, else `pos`."""
        found = self.match(pattern, pos)
        return pos if found is None else found.end()

    def find(self, pattern: re.Pattern[str], pos: int) -> re.Match[str] | None:
        """Return the next match of `pattern`; many searches in growing order cost one pass together."""
        start, found = self.searches.patterns.get(pattern, (-1, None))
        if start < 0 or pos < start or (found is not None and found.start() < pos):
            found = pattern.search(self.text, pos)
            self.searches.patterns[pattern] = (pos, found)
            self.budget.spend(50 + (len(self.text) if found is None else found.end()) - pos)
        return found if found is not None and found.end() <= self.limit else None

    def first(self, thing: object, pos: int, search: Callable[[int, int], Found | None]) -> Found | None:
        """Return what `search(pos, stop)` finds first from `pos` on; no part of the text is searched twice for a thing.

        Where an earlier search from `stop` on has told the rest, `search` looks for what begins before that only.
        """
        starts, known = self.searches.ends.setdefault((thing, self.limit), Ends([], []))
        place = bisect_right(starts, pos)
        if place and ((last := known[place - 1]) is None or last[0] >= pos):
            return last
        found = search(pos, starts[place] if place < len(starts) else self.limit)
        if found is None and place < len(starts):
            starts[place], found = pos, known[place]
        else:
            starts.insert(place, pos)
            known.insert(place, found)
        return found

    def closer_of(self, pos: int) -> int:
        """Return where the bracket that opens at `pos` is closed by one of any kind, or the end of the text."""
        pairs = self.searches.brackets
        if not pairs:
            stack: list[int] = []
            for one in _BRACKET.finditer(self.text):
                self.budget.spend(32)
                if one[0] in "([{":
                    stack.append(one.start())
                elif stack:
                    pairs[stack.pop()] = one.start()
            pairs[-1] = 0
        return pairs.get(pos, len(self.text))

    def in_code(self, start: int, end: int) -> bool:
        """Tell whether a part of the text stands in a code span."""
        code, text = self.searches.code, self.text
        if code is None:
            spans = [one.span() for one in _CODE.finditer(text)] if "`" in text else []
            last = max(text.rfind("\n") + 1, spans[-1][1] if spans else 0)
            opened = text.find("`", last)
            self.budget.spend(len(text))
            code = Code([one[0] for one in spans], [one[1] for one in spans], len(text) if opened < 0 else opened)
            self.searches.code = code
        if start > code.open:
            self.touch_end()
        place = bisect_right(code.starts, start) - 1
        return place >= 0 and end <= code.ends[place]

    def skip_line(self, pos: int) -> int:
        """Return the start of the next line."""
        stop = self.text.find("\n", pos, self.limit)
        return self.limit if stop < 0 else stop + 1

    def skip(self, pos: int) -> int:
        """Return the position behind blanks."""
        found = _BLANK.match(self.text, pos, self.limit)
        end = found.end() if found else pos
        self.budget.left -= end - pos
        return end
