"""Walk a reply once from left to right: the outermost construct wins, what is in an accepted call is data.

Not here: what is made of the result as a whole (`pipeline`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from toolkit.extraction.drafts import Reading, Source
from toolkit.extraction.places import place
from toolkit.extraction.scan import triggers
from toolkit.extraction.settle import confidence, settle
from toolkit.extraction.types import ExtractedCall, Rejected, Span

_KEEP_TEXT = {
    "placeholder",
    "schema_echo",
    "undeclared",
    "no_arguments",
    "quoted",
    "hedged",
    "example",
    "in_sentence",
    "signature",
    "no_tool_wanted",
    "other_syntax",
}


_DEEPEST = 3  # regions within regions; deeper ones are text


class Taken(NamedTuple):
    """Hold an accepted call and how it stands: `explicit`, in a sentence, closed."""

    call: ExtractedCall
    explicit: bool
    in_sentence: bool
    closed: bool


class Walk:
    """Walk one reply and gather what is found.

    Attributes:
        pos: where the walk stands.
        floor: where the last construct ended.
        taken: accepted calls.
        rejected: candidates that are no calls.
        text: pieces for the user.
        thinking: pieces of thought.
        thought_last: calls in a closed thought with nothing behind it.
        stopped: nothing further is read.
    """

    def __init__(self, source: Source, names: frozenset[str] | None, depth: int = 0) -> None:
        self.source, self.names, self.depth = source, names, depth
        self.triggers = triggers(names)
        self.searches = self.triggers.searches
        if self.triggers.by_name is not None and source.tools.endings is not None:
            self.searches = (*self.searches, ("(", source.tools.endings))
        self.heads: list[re.Match[str] | None] = []  # the next match of each search; empty if the text is new
        self.pos = self.floor = 0
        self.taken: list[Taken] = []
        self.rejected: list[Rejected] = []
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.thought_last: list[Taken] = []
        self.taken_back = 0  # how often all before was made a thought
        self.stopped = False

    def run(self) -> Walk:
        """Walk to the end."""
        while self.step():
            pass
        return self

    def step(self) -> bool:
        """Go to the next place where something may begin and read it; False at the end."""
        found = self.find()
        if found is None or self.stopped:
            self.text.append(self.source.text[self.pos : self.source.limit])
            self.pos = self.source.limit
            return False
        name, reading = self.read(found)
        if reading is None or reading.end <= self.pos:
            self.skip(found)
        else:
            self.take(name, found.start(), reading)
        return True

    def find(self) -> re.Match[str] | None:
        """Return the next place where something may begin."""
        source, found = self.source, None
        if self.pos == self.floor and self.pos < source.limit:
            found = self.triggers.at_start.match(source.text, self.pos, source.limit)
        return found or self.next()

    def read(self, found: re.Match[str]) -> tuple[str, Reading | None]:
        """Read what begins at a place; the name of the syntax and its reading, or None if nothing does."""
        name = found.lastgroup or self.triggers.by_name_key
        if self.depth >= _DEEPEST and name.startswith("thoughts"):
            return name, None
        reading = self.triggers.syntaxes[name].read(self.source, found)
        if reading is None:
            for other, opened in self.triggers.others(found):
                reading = other.read(self.source, opened)
                if reading is not None:
                    return other.name, reading
        return name, reading

    def skip(self, found: re.Match[str]) -> None:
        """Step over a place where nothing begins."""
        self.text.append(self.source.text[self.pos : found.start() + 1])
        self.pos = found.start() + 1

    def next(self) -> re.Match[str] | None:
        """Return the next trigger.

        Each search goes on only once its last match was passed, so that all of them together stay one pass each.
        """
        text, pos, limit = self.source.text, self.pos, self.source.limit
        heads = self.heads
        if not heads:
            for first, pattern in self.searches:  # `str.find` finds the first character faster than any pattern
                at = text.find(first, pos, limit)
                heads.append(pattern.search(text, at, limit) if at >= 0 else None)
        found, start = None, limit + 1
        for number, head in enumerate(heads):
            if head is None:
                continue
            at = head.start()
            if at < pos:
                first, pattern = self.searches[number]
                at = text.find(first, pos, limit)
                head = heads[number] = pattern.search(text, at, limit) if at >= 0 else None  # noqa: PLW2901
                if head is None:
                    continue
                at = head.start()
            if at < start:
                found, start = head, at
        return found

    def take(self, name: str, start: int, reading: Reading) -> None:
        """Take what a syntax read, and go on behind it."""
        begin = start
        for draft in reading.drafts:
            begin = min(begin, draft.span[0])
        for one in reading.rejected:
            begin = min(begin, one.span[0])
        before = self.source.text[self.pos : begin] if begin >= self.pos else ""
        if begin < self.pos:  # the name stood before the trigger
            self.cut_back(self.pos - begin)
        self.text.append(before)
        if name.startswith("thought"):
            self.thought(name, reading)
        elif reading.inner is not None:
            self.inside(reading)
        else:
            self.gather(begin, reading)
        self.pos = self.floor = reading.end
        self.stopped = self.stopped or (reading.final and not name.startswith("thoughts"))
        if reading.final and not name.startswith(("thoughts", "final", "invented")):
            self.drop_invented()

    def cut_back(self, length: int) -> None:
        """Take the last characters of the text back, since they belong to a call."""
        while length > 0 and self.text:
            piece = self.text.pop()
            if len(piece) > length:
                self.text.append(piece[:-length])
                return
            length -= len(piece)

    def gather(self, begin: int, reading: Reading) -> None:
        """Settle the drafts of a reading."""
        source = self.source
        where = None
        if not reading.explicit and not reading.placed and reading.drafts:
            where = place(
                source.text,
                begin,
                reading.end,
                self.floor,
                listed=source.text[begin] in "{[`~" or reading.drafts[0].syntax != "llama_pythonic",
            )
        outcomes: list[ExtractedCall | Rejected] = []
        for draft in reading.drafts:
            outcome = settle(draft, source, reading.explicit)
            if isinstance(outcome, ExtractedCall) and where is not None and where.veto is not None:
                outcome = Rejected(draft.span, draft.syntax, where.veto, "Its place shows no call.", outcome.tool_name)
            elif isinstance(outcome, ExtractedCall) and not self.allowed(outcome.syntax):
                outcome = Rejected(draft.span, draft.syntax, "other_syntax", "", outcome.tool_name)
            outcomes.append(outcome)
            if isinstance(outcome, ExtractedCall):
                sentence = where is not None and where.kind == "sentence"
                self.taken.append(Taken(outcome, reading.explicit, sentence, draft.closed))
        refused = [one for one in outcomes if isinstance(one, Rejected)]
        self.rejected += [*refused, *reading.rejected]
        if reading.text:
            self.text.append(reading.text)
        if reading.thinking:
            self.thinking.append(reading.thinking.strip())
        failed = reading.rejected if not reading.drafts else ()
        if failed and all(one.reason in _KEEP_TEXT for one in failed):
            self.text.append(source.text[begin : reading.end])
        if refused and len(refused) == len(outcomes) and all(one.reason in _KEEP_TEXT for one in refused):
            self.text.append(source.text[begin : reading.end])

    def allowed(self, label: str) -> bool:
        """Tell whether the protocol allows this syntax."""
        return (
            self.names is None
            or label in self.names
            or any(label in one.labels for one in self.triggers.syntaxes.values() if one.name in self.names)
        )

    def thought(self, name: str, reading: Reading) -> None:
        """Take a thought; drafts in it are no calls, but an open one may end in the call that is meant."""
        if name.startswith("thought_end"):
            self.take_back()
            return
        if reading.inner is None:
            self.thinking.append(reading.thinking.strip())
            return
        start, end = reading.inner
        inside = Walk(self.source.within(end), self.names, self.depth + 1)
        inside.pos = inside.floor = start
        inside.run()
        if reading.final:
            meant = trailing(inside, self.source.text, end)
            if meant:
                first = meant[0].call.span[0]
                self.thinking.append(self.source.text[start:first].strip())
                self.taken += [one._replace(call=from_open_thought(one.call)) for one in meant]
                self.rejected += [in_thinking(one.call) for one in inside.taken if one not in meant]
                return
        self.thinking.append(self.source.text[start:end].strip())
        self.rejected += [in_thinking(one.call) for one in inside.taken]
        if inside.taken and not self.source.text[reading.end : self.source.limit].strip():
            self.thought_last = inside.taken

    def take_back(self) -> None:
        """Make a thought of all that stands before a closing tag whose opening tag was in the prompt."""
        self.rejected += [in_thinking(one.call) for one in self.taken]
        self.rejected = [
            one if one.reason in ("in_thinking",) else replace(one, reason="in_thinking") for one in self.rejected
        ]
        before = "".join(self.text).strip()
        if before or self.taken:
            self.thinking.append(before)
        self.taken, self.text = [], []
        self.taken_back += 1

    def inside(self, reading: Reading) -> None:
        """Walk a region of its own, such as the content of a fence."""
        start, end = reading.inner or (0, 0)
        if self.depth >= _DEEPEST:
            self.text.append(self.source.text[start:end])
            return
        inner = Walk(self.source.within(end), self.names, self.depth + 1)
        inner.pos = inner.floor = start
        inner.run()
        self.rejected += inner.rejected
        self.thinking += inner.thinking
        if inner.taken:
            self.taken += [widened(inner.taken, reading, self.floor)] if len(inner.taken) == 1 else inner.taken
            self.text += inner.text
        else:
            self.text.append(self.source.text[max(self.floor, self.pos) : reading.end])
        self.stopped = self.stopped or inner.stopped

    def drop_invented(self) -> None:
        """Drop what follows the first action, if the model went on with an answer of its own making."""
        rest = self.source.text[self.pos : self.source.limit]
        if re.match(r"\s*[*_]{0,2}(?:Observation|Thought|Action|Final Answer|Tool|User)\b", rest):
            self.rejected.append(
                Rejected((self.pos, self.source.limit), "react", "after_action", "Invented by the model.")
            )
            self.pos = self.floor = self.source.limit


def widened(taken: list[Taken], reading: Reading, floor: int) -> Taken:
    """Let the span of the only call in a fence cover the fence."""
    return taken[0]


def trailing(inside: Walk, text: str, end: int) -> list[Taken]:
    """Return the explicit calls with which a thought that was never closed ends."""
    meant: list[Taken] = []
    edge: Span = (end, end)
    for one in reversed(inside.taken):
        between = re.sub(r"</s>|<\|[\w]+\|>|</?\w+>|```", "", text[one.call.span[1] : edge[0]])
        if not one.explicit or between.strip():
            break
        meant.insert(0, one)
        edge = one.call.span
    return meant


def from_open_thought(call: ExtractedCall) -> ExtractedCall:
    """Return a call with the note that the thought before it was never closed."""
    repairs = (*call.repairs, "unclosed_thinking")
    return replace(call, repairs=repairs, confidence=confidence(repairs))


def in_thinking(call: ExtractedCall) -> Rejected:
    """Return the rejection of a draft in a thought."""
    return Rejected(call.span, call.syntax, "in_thinking", "A draft in a thought is no call.", call.tool_name)
