"""Walk a reply once from left to right: the outermost construct wins, what is in an accepted call is data.

Not here: what is made of the result as a whole (`pipeline`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from toolkit.extraction.budget import LOOK, ExhaustedError
from toolkit.extraction.drafts import NOTHING, Reading, Syntax
from toolkit.extraction.places import marked_place, named, place
from toolkit.extraction.scan import triggers
from toolkit.extraction.settle import confidence, settle
from toolkit.extraction.source import Source
from toolkit.extraction.types import ExtractedCall, Rejected, Span

# Reasons for which a candidate is no call but words, which stay for the user to read.
_WORDS = {
    "placeholder", "schema_echo", "undeclared", "no_arguments", "quoted", "hedged", "example", "in_sentence",
    "signature", "no_tool_wanted", "other_syntax",
}  # fmt: skip
_DEEPEST = 3  # regions within regions; deeper ones are text
_INVENTED = re.compile(r"\s*+[*_]{0,2}(?:Observation|Thought|Action|Final Answer|Tool|User)\b")
_TOKENS = re.compile(r"</s>|<\|[\w]++\|>|</?\w++>|```")  # what may stand behind a call without being words


class Candidate(NamedTuple):
    """Hold what is a call unless the rest of the reply says otherwise, and how it stands."""

    call: ExtractedCall
    explicit: bool  # a marker announces it
    in_sentence: bool  # it stands in a sentence
    closed: bool  # every closer was there
    bare: bool  # it is a name and a bracket in plain text


@dataclass(slots=True)
class Head:
    """Hold the next match of one search, and where it begins: behind the text if there is none."""

    first: str
    pattern: re.Pattern[str]
    start: int = -1
    match: re.Match[str] | None = None

    def search(self, text: str, pos: int, limit: int) -> bool:
        """Go on to the next match from `pos` on; False if there is none."""
        at = text.find(self.first, pos, limit)  # it finds the first character faster than any pattern
        self.match = self.pattern.search(text, at, limit) if at >= 0 else None
        self.start = limit + 1 if self.match is None else self.match.start()
        return self.match is not None


class Walk:
    """Walk one reply and gather what is found."""

    def __init__(self, source: Source, names: frozenset[str] | None, depth: int = 0, start: int = 0) -> None:
        self.names, self.depth = names, depth
        self.triggers = triggers(names)
        self.searches = self.triggers.searches
        if None in self.triggers.syntaxes and source.tools.endings is not None:
            self.searches = (*self.searches, ("(", source.tools.endings))
        self.renew(source)
        self.pos = self.floor = start  # where the walk stands; where the last construct ended
        self.candidates: list[Candidate] = []  # what is a call so far
        self.rejected: list[Rejected] = []
        self.text: list[str] = []  # pieces for the user
        self.thinking: list[str] = []
        self.thought_last: list[Candidate] = []  # calls in a closed thought with nothing behind it
        self.taken_back = 0  # how often all before was made a thought
        self.thought_through = 0  # how many of the rejected were made thoughts so
        self.stopped = False  # nothing further is read
        self.told = False  # whether what was tried last is only named

    def renew(self, source: Source) -> None:
        """Go on over another text that begins as the one before."""
        self.source = source
        self.heads: list[Head] | None = None  # the next match of each search that can find something

    def run(self) -> Walk:
        """Walk to the end, or to where the budget ends; what was found before that stays."""
        try:
            while self.step():
                pass
        except ExhaustedError:
            self.give_up()
        return self

    def give_up(self) -> None:
        """Leave the rest unread as text, and say so."""
        rest = (self.pos, self.source.limit)
        self.rejected.append(Rejected(rest, "", "budget", "Reading it would take too long for a text of this length."))
        self.text.append(self.source.text[self.pos : self.source.limit])
        self.pos, self.stopped = self.source.limit, True

    def step(self) -> bool:
        """Go to the next place where something may begin and read it; False at the end."""
        self.source.budget.spend(LOOK)
        found = self.find()
        if found is None or self.stopped:
            self.text.append(self.source.text[self.pos : self.source.limit])
            self.pos = self.source.limit
            return False
        syntax, reading = self.read(found)
        if reading is None or reading.end <= self.pos:
            self.skip(found)
        else:
            self.take(syntax, reading, found.start())
        return True

    def find(self) -> re.Match[str] | None:
        """Return the next place where something may begin."""
        source, found = self.source, None
        if self.pos == self.floor and self.pos < source.limit:
            found = self.triggers.at_start.match(source.text, self.pos, source.limit)
        return found or self.next()

    def read(self, found: re.Match[str]) -> tuple[Syntax, Reading | None]:
        """Read what begins at a place; the syntax and its reading, or None if nothing does."""
        syntax = self.triggers.syntaxes[found.lastgroup]
        self.told = syntax.kind != "call" and named(self.source, *found.span(), hides=syntax.kind != "noise")
        if self.told or (self.depth >= _DEEPEST and syntax.kind == "thought"):
            return syntax, None
        reading = syntax.read(self.source, found, syntax)
        if reading is None:
            for other, opened in self.triggers.others(found):
                reading = other.read(self.source, opened, other)
                if reading is not None:
                    syntax = other
                    break
        self.told = reading is not None and self.is_told(syntax, reading, found)
        return syntax, None if self.told else reading

    def is_told(self, syntax: Syntax, reading: Reading, found: re.Match[str]) -> bool:
        """Tell whether a mark is only named: no call of a tool follows it, and it stands in a sentence about it."""
        if syntax.kind != "call" or syntax.by_name or reading.inner or not reading.explicit:
            return False
        if any(one.arguments not in (NOTHING, {}) or self.source.tools.may_be(one.name) for one in reading.drafts):
            return False
        marked = reading.drafts or reading.rejected or found[0].endswith("|>")
        return bool(marked) and found[0][0] != "\n" and named(self.source, *found.span(), hides=True)

    def skip(self, found: re.Match[str]) -> None:
        """Step over a place where nothing begins."""
        self.text.append(self.source.text[self.pos : found.start() + 1])
        self.pos = found.start() + 1

    def next(self) -> re.Match[str] | None:
        """Return the next trigger.

        Each search goes on only once its last match was passed, so that all of them together stay one pass each.
        """
        text, pos, limit = self.source.text, self.pos, self.source.limit
        if self.heads is None:
            here = [Head(*one) for one in self.searches if text.find(one[0], pos, limit) >= 0]
            self.heads = [head for head in here if head.search(text, pos, limit)]
        nearest, found = limit + 1, None
        for head in self.heads:
            if head.start < pos:
                head.search(text, pos, limit)
            if head.start < nearest:
                nearest, found = head.start, head.match
        return found

    def take(self, syntax: Syntax, reading: Reading, start: int) -> None:
        """Take what a syntax read, and go on behind it."""
        begin = min(start, reading.drafts[0].span[0]) if reading.drafts else start
        begin = min(begin, reading.rejected[0].span[0]) if reading.rejected else begin
        if begin < self.pos:  # the name stood before the trigger
            self.cut_back(self.pos - begin)
        self.text.append(self.source.text[self.pos : begin])
        if syntax.kind == "thought_end":
            self.take_back()
        elif syntax.kind == "thought" and reading.inner is not None:
            self.thought(*reading.inner, reading.end)
        elif reading.inner is not None:
            self.inside(*reading.inner, reading.end)
        else:
            self.gather(syntax, reading, begin)
        self.pos = self.floor = reading.end
        self.stopped = self.stopped or syntax.kind == "end" or reading.final
        if reading.final:
            self.drop_invented()

    def cut_back(self, length: int) -> None:
        """Take the last characters of the text back, since they belong to a call."""
        while length > 0 and self.text:
            piece = self.text.pop()
            if len(piece) > length:
                self.text.append(piece[:-length])
                return
            length -= len(piece)

    def gather(self, syntax: Syntax, reading: Reading, begin: int) -> None:
        """Settle the drafts of a reading."""
        source, where = self.source, None
        if reading.drafts and not reading.explicit:
            listed = not syntax.by_name or source.text[begin] in "{[`~"
            exact = all(draft.exact and draft.closed for draft in reading.drafts)
            where = place(source.text, reading.drafts[0].span[0], reading.end, self.floor, listed=listed, exact=exact)
        elif reading.drafts:
            where = marked_place(source.text, begin)
        in_sentence = where is not None and where.kind == "sentence" and not reading.explicit
        turned_down: list[Rejected] = []
        for draft in reading.drafts:
            source.budget.spend_call()
            outcome = settle(draft, source, reading.explicit)
            if isinstance(outcome, Rejected):
                turned_down.append(outcome)
            elif where is not None and where.veto is not None:
                turned_down.append(refused(outcome, where.veto, "Its place shows no call."))
            elif self.triggers.labels is not None and outcome.syntax not in self.triggers.labels:
                turned_down.append(refused(outcome, "other_syntax"))
            else:
                self.candidates.append(Candidate(outcome, reading.explicit, in_sentence, draft.closed, syntax.by_name))
        self.rejected += [*turned_down, *reading.rejected]
        if reading.text:
            self.text.append(reading.text)
        if reading.thinking:
            self.thinking.append(reading.thinking.strip())
        failed = turned_down or reading.rejected if len(turned_down) == len(reading.drafts) else ()
        if failed and all(one.reason in _WORDS for one in failed):
            self.text.append(source.text[begin : reading.end])

    def thought(self, start: int, end: int, behind: int) -> None:
        """Take a thought; drafts in it are no calls, but one without an end may end in the call that is meant."""
        self.source.budget.spend(end - start)
        inside = Walk(self.source.within(end), self.names, self.depth + 1, start).run()
        self.stopped = self.stopped or inside.stopped
        meant = trailing(inside, self.source.text, end) if end == behind else []
        if meant:
            end = meant[0].call.span[0]
            self.candidates += [one._replace(call=from_open_thought(one.call)) for one in meant]
        elif inside.candidates and self.source.skip(behind) >= self.source.limit:
            self.thought_last = inside.candidates
        self.thinking.append(self.source.text[start:end].strip())
        drafts = inside.candidates[: len(inside.candidates) - len(meant)]
        self.rejected += [in_thinking(one.call) for one in drafts]

    def take_back(self) -> None:
        """Make a thought of all that stands before a closing tag whose opening tag was in the prompt."""
        rest = [replace(one, reason="in_thinking") for one in self.rejected[self.thought_through :]]
        self.rejected[self.thought_through :] = [*rest, *(in_thinking(one.call) for one in self.candidates)]
        self.thought_through = len(self.rejected)
        before = "".join(self.text).strip()
        if before or self.candidates:
            self.thinking.append(before)
        self.candidates, self.text = [], []
        self.taken_back += 1

    def inside(self, start: int, end: int, behind: int) -> None:
        """Walk a region of its own, such as the content of a fence."""
        if self.depth >= _DEEPEST:
            self.text.append(self.source.text[start:end])
            return
        self.source.budget.spend(end - start)
        inner = Walk(self.source.within(end), self.names, self.depth + 1, start).run()
        self.rejected += inner.rejected
        self.thinking += inner.thinking
        self.candidates += inner.candidates
        self.text += inner.text if inner.candidates else [self.source.text[max(self.floor, self.pos) : behind]]
        self.stopped = self.stopped or inner.stopped

    def drop_invented(self) -> None:
        """Drop what follows the first action, if the model went on with an answer of its own making."""
        rest = self.source.text[self.pos : self.source.limit]
        if _INVENTED.match(rest):
            self.rejected.append(
                Rejected((self.pos, self.source.limit), "react", "after_action", "Invented by the model.")
            )
            self.pos = self.floor = self.source.limit


def trailing(inside: Walk, text: str, end: int) -> list[Candidate]:
    """Return the explicit calls with which a thought that was never closed ends."""
    meant: list[Candidate] = []
    edge: Span = (end, end)
    for one in reversed(inside.candidates):
        between = _TOKENS.sub("", text[one.call.span[1] : edge[0]])
        if not one.explicit or between.strip():
            break
        meant.append(one)
        edge = one.call.span
    return meant[::-1]


def from_open_thought(call: ExtractedCall) -> ExtractedCall:
    """Return a call with the note that the thought before it was never closed."""
    repairs = (*call.repairs, "unclosed_thinking")
    return replace(call, repairs=repairs, confidence=confidence(repairs))


def refused(call: ExtractedCall, reason: str, detail: str = "") -> Rejected:
    """Return the rejection of what was taken for a call."""
    return Rejected(call.span, call.syntax, reason, detail, call.tool_name)


def in_thinking(call: ExtractedCall) -> Rejected:
    """Return the rejection of a draft in a thought."""
    return refused(call, "in_thinking", "A draft in a thought is no call.")
