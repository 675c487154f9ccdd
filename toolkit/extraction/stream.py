"""Read a reply while it arrives: text to show at once, each call as soon as it is certain, and an early stop.

One walk goes over a growing buffer. It stands still before whatever may still become something else: a half marker,
a value without its end, a line that is not complete. What it hands out is not taken back, with one exception that no
stream can know of: a closing `</think>` whose opening tag was in the prompt makes a draft of all that stands before.

Not here: reading a whole reply (`pipeline`), which `close()` does once more, so that both give the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from toolkit.extraction.budget import ExhaustedError
from toolkit.extraction.drafts import NOTHING, Draft, Reading
from toolkit.extraction.pipeline import CallsInThought, extract, new_source
from toolkit.extraction.resolve import tool_index
from toolkit.extraction.scan import syntax_names, triggers
from toolkit.extraction.settle import TAIL
from toolkit.extraction.types import ExtractedCall, Extraction
from toolkit.extraction.walk import Walk

_PATIENCE = 2_000  # characters after which an opening that led to nothing is text
_SMALL = 4_096  # up to here every chunk is looked at; beyond, once the buffer has grown by a part of itself
_GROWTH, _PART, _AHEAD = 32, 2_048, 2_000_000  # the last: characters that are read once more ahead of that
_CALLS = 2_000  # drafts that any text may hold
_LOOKS = 2  # so many times what one reading may cost is spent on looks ahead of the end
_FAR, _LINE = 64, 400  # beyond these no error comes from a half token, no line goes on
_HALF_LINE = re.compile(
    r"(?:^|\n)[ \t]*+(?:[*_#>•\-]{1,4}|\d++[.)])?[ \t]*+[`*\"']{0,3}"
    r"(?:[^\W\d][\w.\-]*+[`*\"':]{0,3}[ \t]*+(?:\r?\n[ \t]*+)?"
    r"|(?i:here|call|tool|final|function|action|user|human)\b[\w :.]{0,40})?$"
)
_LINE_END = re.compile(r"[^\n]{0,400}\n")
_NEXT_LINE = re.compile(r"[^\n]{0,400}\n\s*+[^\W\d_]*+[ ]?\S")  # as much of it as shows a sentence that goes on
_HALF_HEADER = re.compile(r"<\|(?:start|im_start|start_header_id)\|>[^<]{0,80}(?:<[^>]{0,24}>?)?$")
_LAST_WORD = re.compile(r"(?:[\w.\\\-:/]++|(?:assistant|functions)?\s*+to=[\w.\-:/]*+)\s*+$")
_HALF_CLOSER = re.compile(r"\s*+(?:<[^>\n]{0,48}|\[[A-Z/_]{0,16}|[`~]{0,3}|[}\]\s]*+)$")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Hold one thing that is certain: `text` or `thinking` to show, or a `call`."""

    kind: Literal["text", "thinking", "call"]
    text: str = ""
    call: ExtractedCall | None = None


class StreamExtractor:
    """Read a reply chunk by chunk: text, thoughts and the first call, or list of calls, as soon as they are certain.

    Whether further calls count, such as a call behind one that a group holds, only the end of the reply tells.

    >>> stream = StreamExtractor(tools=[{"name": "f"}])
    >>> chunks = ["I look. <tool", '_call>{"name": "f", "argu', 'ments": {}}</tool_call>', " and on"]
    >>> [event.kind for chunk in chunks for event in stream.feed(chunk)]
    ['text', 'text', 'call', 'text']
    >>> stream.complete, stream.close().calls[0].tool_name
    (True, 'f')

    Attributes:
        calls: the calls that are certain so far.
        rest: after `close()`, events that were still held back.
    """

    def __init__(
        self, tools: Iterable[Any] | None = None, protocol: Any = "auto", *, calls_in_thought: CallsInThought = "never"
    ) -> None:
        self.tools = tool_index(tools)
        self.protocol, self.calls_in_thought = protocol, calls_in_thought
        self.calls: list[ExtractedCall] = []
        self.rest: list[StreamEvent] = []
        self._parts: list[str] = []
        self._length = self._next_look = 0
        self._ahead = _AHEAD
        self._doubt = False  # whether only the end tells if a call, and with it what follows, counts
        self._first = 0  # how many calls the first construct with calls gave; of later ones only the end is sure
        self._spent = self._read = self._settled = 0  # steps of all looks, and what was read for good: steps, drafts
        self._walk = Walk(new_source("", self.tools, None, protocol), syntax_names(protocol))
        self._taken_back = 0
        self._shown = [0, 0, 0]  # pieces of text, thoughts and calls of the walk that were handed out

    @property
    def text(self) -> str:
        """Return all that was fed."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @property
    def complete(self) -> bool:
        """Tell whether a first call is certain, so that the stream may be stopped."""
        return bool(self.calls)

    def feed(self, chunk: str) -> list[StreamEvent]:
        """Take a chunk of any size and return what became certain with it."""
        if not chunk:
            return []
        self._parts.append(chunk)
        self._length += len(chunk)
        if self._length < self._next_look:
            if ">" not in chunk or self._ahead <= 0:
                return []
            self._ahead -= self._length - self._walk.pos  # a closing tag may be in it, and a look is worth its price
        self._look()
        return self._events()

    def _look(self) -> None:
        """Read on as far as the end of the buffer leaves no doubt, and say when to look again."""
        source = new_source(self.text, self.tools, None, self.protocol)
        self._walk.renew(source)
        budget = source.budget
        allowed = left = budget.left
        calls = budget.calls
        try:
            while not self._walk.stopped and self._advance():
                self._read, left = self._read + left - budget.left, budget.left
        except ExhaustedError:
            self._spent += _LOOKS * allowed
        self._spent += allowed - budget.left
        self._settled += calls - budget.calls
        # where the budget of the whole may have ended before, only the whole can tell
        self._doubt = self._doubt or self._read > allowed // 2 or self._settled >= _CALLS
        open_length = self._length - self._walk.pos
        pause = open_length // _GROWTH if open_length > _SMALL else 0
        self._next_look = self._length + max(pause, self._length // _PART)
        if self._spent > _LOOKS * allowed:
            self._next_look, self._ahead = sys.maxsize, 0  # the rest is read at the end, in one look

    def close(self, finish_reason: str | None = None, native_calls: Iterable[Any] = ()) -> Extraction:
        """Return what `extract` makes of the whole; `rest` then holds the events that were held back."""
        whole = extract(
            self.text, self.tools, self.protocol,
            finish_reason=finish_reason, native_calls=native_calls, calls_in_thought=self.calls_in_thought,
        )  # fmt: skip
        self._walk.renew(new_source(self.text, self.tools, finish_reason, self.protocol))
        if not self._walk.stopped:
            self._walk.run()
        texts = [event for event in self._events() if event.kind != "call"]
        late = whole.calls[len(self.calls) :]
        self.calls = list(whole.calls)
        self.rest = [*texts, *(StreamEvent("call", call=call) for call in late)]
        return whole

    def _advance(self) -> bool:
        """Go one construct further if the end of the buffer leaves no doubt about it."""
        walk, text = self._walk, self._walk.source.text
        found = walk.find()
        if found is None:
            self._show_until(self._held_from(text))
            return False
        walk.source.searches.touched = False
        syntax, reading = walk.read(found)
        touched = walk.source.searches.touched
        if reading is None or reading.end <= walk.pos:
            told = walk.told and not touched
            if len(text) - found.start() < _PATIENCE and not told:
                self._show_until(min(self._word_before(found.start()), self._held_from(text)))
                return False
            self._doubt = self._doubt or touched or (syntax.kind == "call" and not (syntax.by_name or told))
            walk.skip(found)
            return True
        if touched or not _settled(reading, text):
            starts = [draft.span[0] for draft in reading.drafts] + [one.span[0] for one in reading.rejected]
            self._show_until(min([self._word_before(found.start()), self._held_from(text), *starts]))
            return False
        before = len(walk.rejected)
        walk.take(syntax, reading, found.start())
        # of what was turned down more text may make another thing; drafts in a thought stay drafts
        self._follow_back()
        self._first = self._first or len(walk.candidates)
        self._doubt = self._doubt or any(one.reason != "in_thinking" for one in walk.rejected[before:])
        return True

    def _follow_back(self) -> None:
        """Begin anew where the walk has made a thought of all that it had."""
        if self._walk.taken_back > self._taken_back:
            self._taken_back, self._first = self._walk.taken_back, 0
            self._shown[0] = self._shown[2] = 0

    def _show_until(self, end: int) -> None:
        """Hand out text that nothing can change any more."""
        walk = self._walk
        if end > walk.pos:
            walk.text.append(walk.source.text[walk.pos : end])
            walk.pos = end

    def _word_before(self, pos: int) -> int:
        """Return where the word before a trigger begins, since it may be the name or the marker that counts."""
        text = self._walk.source.text
        found = _LAST_WORD.search(text, max(self._walk.pos, pos - 160), pos)
        return found.start() if found else pos

    def _held_from(self, text: str) -> int:
        """Return where the end of the buffer begins that may still become a marker."""
        start = max(self._walk.pos, len(text) - 160)
        tail = text[start:]
        held = [len(tail)]
        line = _HALF_LINE if start in (0, self._walk.floor) or "\n" in tail else _LAST_WORD
        for pattern in (_half_marker(), _HALF_HEADER, _LAST_WORD, line):
            if (found := pattern.search(tail)) is not None:
                held.append(found.start())
        return self._word_before(start + min(held))

    def _events(self) -> list[StreamEvent]:
        """Return what the walk has gathered since the last time."""
        self._follow_back()
        walk = self._walk
        texts, thoughts, given = self._shown
        said = "".join(walk.text[texts:])
        events = [StreamEvent("thinking", piece) for piece in walk.thinking[thoughts:] if piece]
        if said:
            events.append(StreamEvent("text", said))
        for one in walk.candidates[given:]:
            given += 1
            if one.in_sentence:
                continue  # it counts only if no clearer call follows, which the end will tell
            self._doubt = self._doubt or (one.bare and not one.call.arguments)  # as in a list of signatures
            if not self._doubt and given <= self._first:
                self.calls.append(one.call)
                events.append(StreamEvent("call", call=one.call))
        self._shown = [len(walk.text), len(walk.thinking), given]
        return events


@cache
def _half_marker() -> re.Pattern[str]:
    """Return the pattern of what begins as an opener does, where the text ends."""
    first = "".join(sorted({literal[0] for literal, _ in triggers(None).searches} - {"\n"}))
    return re.compile(rf"[{re.escape(first)}][\s\S]{{0,64}}$")


def _settled(reading: Reading, text: str) -> bool:
    """Tell whether more text could not change a reading."""
    end = reading.end
    after = len(text) - end
    if reading.open or (reading.rejected and after < _FAR):
        return False
    if not reading.drafts:
        return after > 0
    if any(_open_ended(draft, reading.explicit) for draft in reading.drafts):
        return after > _PATIENCE
    if any(draft.arguments is NOTHING for draft in reading.drafts) and text[end - 1] != ">":
        return after > _FAR
    if not reading.explicit:
        start = reading.drafts[0].span[0]
        led_in = text[max(0, start - _LINE) : start].strip() != ""
        line_is_over = (_NEXT_LINE if led_in else _LINE_END).match(text, end) is not None or after > _LINE
        return line_is_over and not _may_be_closing(text, end)
    if all(draft.closed for draft in reading.drafts) and text[end - 1] == ">":
        return True
    return not _may_be_closing(text, end)


def _may_be_closing(text: str, end: int) -> bool:
    """Tell whether nothing stands behind a call but what may be half its closer, or the end of a reply that was cut."""
    return _HALF_CLOSER.match(text, end) is not None or TAIL.match(text, end) is not None


def _open_ended(draft: Draft, explicit: bool) -> bool:
    """Tell whether a value may go on behind what was taken for its end; indented lines have no closer to show it."""
    return "missing_closers" in draft.repairs or (draft.untyped and not (draft.closed and explicit))
