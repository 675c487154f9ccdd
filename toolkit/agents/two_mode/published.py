"""What stands under the published keys `action` and `action_input`, word for word?

Extraction knows many spellings: it weighs keys against each other, and takes a text for the JSON that is in it. An
object with both published keys means just what they say. Where extraction would read more into it, the reply is read
once more with a plainer object in its place, so that everything round it counts as before.

Not here: whether an action can be carried out with its input (`toolkit.agents.two_mode.reading`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from toolkit.agents.two_mode.actions import KEYS
from toolkit.extraction.lenient_json import JsonRead, read_json
from toolkit.extraction.negatives import hedged
from toolkit.extraction.places import lead_line
from toolkit.extraction.shapes import ARGUMENT_KEYS, NAME_KEYS
from toolkit.extraction.types import ExtractedCall, Extraction, Rejected

_ACTION, _INPUT = KEYS
_RIVALS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS)) - set(KEYS)
_HELD = "\ue000"  # a letter for private use: begins what stands in place of a text
# what may stand in a call before its JSON; a name, a quote or a bracket there means that the JSON is only the input
_LEAD = re.compile(r"[^\"'“‘:({\[]*(?:action\b[^\"'“‘:({\[]*:[^\"'“‘:({\[]*)?(?=[{\[])", re.IGNORECASE)
REACT_INPUT = re.compile(r"\binput\b[^\n:]*:[*_]{0,2}\s*(?=[^\s{\[`])", re.IGNORECASE)
_FAR = 240  # how far back the words before a candidate count
_OPENED = re.compile(r"(?:^|[:\n])[ \t]*\($")
_CLOSED = re.compile(r"\)[\s.;]*?(?:\n|$)")
_DROPPED = {"bare_argument", "string_arguments", "double_encoded", "listed_arguments", "coerced"}

Look = Callable[[str], Extraction]
Takes = Callable[[str, str], bool]
Edits = dict[int, tuple[int, str, JsonRead | None]]  # start -> end, what is to stand there, the object as written


class Meant(NamedTuple):
    """Hold a call and, if it has both published keys, the object as written.

    Attributes:
        call: what extraction made of it.
        written: the object; None for any other spelling.
        held: the text of the input where extraction was not shown it; None if it was.
        repairs: what was mended.
    """

    call: ExtractedCall
    written: dict[str, Any] | None = None
    held: str | None = None
    repairs: tuple[str, ...] = ()

    @property
    def nameless(self) -> bool:
        """Tell whether the published key holds no name, whatever else does."""
        return self.written is not None and not _named(self.written)


class Held:
    """Give each text a stand-in that extraction takes for nothing but text."""

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def stand_in(self, text: str) -> str:
        """Return what is to stand in place of a text."""
        made = self._stand_ins.setdefault(text, f"{_HELD}{len(self._stand_ins)}")
        self._texts[made] = text
        return made

    def text(self, value: Any) -> str | None:
        """Return the text that a stand-in is for; None if the value is none."""
        return self._texts.get(value) if isinstance(value, str) else None


class Found:
    """Hold what extraction found in a reply and look at its objects again.

    Attributes:
        extraction: what was found, in the plainer reply if it had to be made plainer.

    Args:
        text: the reply.
        look: extracts.
        takes: tells whether the action of a name takes a text as its input.
    """

    def __init__(self, text: str, look: Look, takes: Takes) -> None:
        self._look, self._takes, self._held = look, takes, Held()
        self._written: dict[int, JsonRead] = {}  # where a plainer object stands -> the object as written
        self.extraction = look(text)
        if edits := self._edits():
            self.extraction = look(self._edited(edits))

    def calls(self) -> list[Meant]:
        """Return the calls, in order."""
        source = self.extraction.source
        groups = groupby(self.extraction.calls, lambda call: _opener(source, call))
        return [one for at, calls in groups for one in self._paired(at, list(calls))]

    def mentioned(self) -> Iterator[Meant]:
        """Yield the published objects that stand in a sentence which does not speak about them."""
        source = self.extraction.source
        if self.extraction.status == "truncated":
            return
        for one in self.extraction.rejected:
            if one.reason == "in_sentence" or (one.reason == "quoted" and _in_brackets(source, one)):
                at = _opener(source, one)
                if at is None or _led_in_as_example(source, at):
                    continue
                shown, read = self._read(at)
                if isinstance(read.value, dict) and read.value.keys() == set(KEYS) and read.closed:
                    for call in self._look(json.dumps(shown)).calls:
                        yield self._meant(call, shown, read.value, read.repairs)

    def published(self, one: Rejected) -> bool:
        """Tell whether what was turned down is an object with both published keys."""
        at = _opener(self.extraction.source, one)
        return at is not None and bool(_objects(self._read(at)[0]))

    def _read(self, at: int) -> tuple[Any, JsonRead]:
        """Return the value that begins at a place, and how it was written."""
        read = read_json(self.extraction.source, at)
        return read.value, self._written.get(at, read)

    def _paired(self, at: int | None, calls: Sequence[ExtractedCall]) -> list[Meant]:
        """Give each call of one value its object, as far as that is certain."""
        if at is None:
            return [self._other(call) for call in calls]
        shown, read = self._read(at)
        pairs = list(zip(_objects(shown), _objects(read.value), strict=False))
        if len(pairs) != len(calls):  # some members of a list are no calls
            pairs = [pair for pair in pairs if self._look(json.dumps(pair[0])).calls]
        if len(pairs) != len(calls):
            return [self._other(call) for call in calls]
        return [self._meant(call, *pair, read.repairs) for call, pair in zip(calls, pairs, strict=True)]

    def _meant(self, call: ExtractedCall, shown: Any, written: Any, repairs: tuple[str, ...]) -> Meant:
        codes = (*repairs, *(code for code in call.repairs if code not in _DROPPED))
        held = self._held.text(shown[_INPUT])
        if held is not None:  # also where the object now begins at another place than before
            written = {**written, _INPUT: held}
        return Meant(call, written, held, tuple(dict.fromkeys(codes)))

    def _other(self, call: ExtractedCall) -> Meant:
        held = next((text for one in call.arguments.values() if (text := self._held.text(one)) is not None), None)
        return Meant(call, None, held, call.repairs)

    def _edits(self) -> Edits:
        """Return what has to be made plainer."""
        source, found = self.extraction.source, self.extraction
        places = {at: False for call in found.calls if (at := _opener(source, call)) is not None}
        edits: Edits = {}
        for one in found.rejected:
            refused = one.reason == "bad_arguments"
            if refused and one.syntax == "react":
                edits.update(self._react_edit(source, one))
            if (at := _opener(source, one)) is not None:
                places[at] = places.get(at, False) or refused
        for at, refused in places.items():
            read = read_json(source, at)
            text = self._plainer(read, refused)
            if text is not None and not read.closed:
                text = text[: -open_brackets(source[at : read.end]) or None]
            if text is not None:
                edits[at] = (read.end, text, read)
        return edits

    def _edited(self, edits: Edits) -> str:
        """Return the reply with the plainer objects in it, and note where they stand."""
        source, pos, length = self.extraction.source, 0, 0
        pieces: list[str] = []
        for at, (end, text, read) in sorted(edits.items()):
            if at < pos:
                continue
            pieces += [source[pos:at], text]
            if read is not None:
                self._written[length + at - pos] = read
            length, pos = length + at - pos + len(text), end
        return "".join((*pieces, source[pos:]))

    def _plainer(self, read: JsonRead, refused: bool) -> str | None:
        """Return a value's text with the published keys and no rivals; None if it is as it should be."""
        objects = _objects(read.value)
        if not objects or "duplicate_keys" in read.repairs:
            return None
        plain = [self._plain(one, refused) for one in objects]
        if plain == objects:
            return None
        return json.dumps(plain if isinstance(read.value, list) else plain[0])

    def _plain(self, written: dict[str, Any], refused: bool) -> dict[str, Any]:
        """Return an object without rival keys, and with a stand-in for a text that extraction would refuse."""
        if not _named(written):
            return written
        name, given = written[_ACTION], written[_INPUT]
        plain = {key: value for key, value in written.items() if key not in _RIVALS}
        if refused or len(plain) < len(written):
            alone = self._look(json.dumps(plain)) if isinstance(given, str) and self._takes(name, given) else None
            if alone is not None and any(one.reason == "bad_arguments" for one in alone.rejected):
                plain[_INPUT] = self._held.stand_in(given)
        return plain

    def _react_edit(self, source: str, one: Rejected) -> Edits:
        """Return the edit for a text behind `Action Input:` that is JSON, such as a number."""
        label = REACT_INPUT.search(source, *one.span)
        text = source[label.end() : one.span[1]].strip() if label is not None else ""
        if label is None or not text or "\n" in text or not self._takes(one.name or "", text):
            return {}
        return {label.end(): (label.end() + len(text), self._held.stand_in(text), None)}


def _objects(value: Any) -> list[dict[str, Any]]:
    """Return the published objects that a value is made of; none if it is made of anything else."""
    members = value if isinstance(value, list) else [value]
    whole = all(isinstance(one, dict) and one.keys() >= set(KEYS) for one in members)
    return list(members) if whole else []


def _named(written: dict[str, Any]) -> bool:
    return isinstance(written[_ACTION], str) and bool(written[_ACTION].strip())


def _opener(source: str, one: ExtractedCall | Rejected) -> int | None:
    """Return where the JSON of a candidate begins; None if it is not all of the call."""
    if one.syntax == "react":  # there the name stands before it
        return None
    lead = _LEAD.match(source, *one.span)
    return None if lead is None else lead.end()


def _in_brackets(source: str, one: Rejected) -> bool:
    """Tell whether a candidate only counts as quoted for its round brackets, with nothing else behind a colon."""
    start, end = one.span
    return _OPENED.search(source[max(0, start - _FAR) : start]) is not None and _CLOSED.match(source, end) is not None


def _led_in_as_example(source: str, at: int) -> bool:
    """Tell whether the line before that of a candidate speaks about what follows."""
    line = source.rfind("\n", max(0, at - _FAR), at)
    return line >= 0 and hedged("", lead=lead_line(source, line + 1, 0))


def open_brackets(text: str) -> int:
    """Count the brackets that are never closed; those in strings do not count.

    >>> open_brackets('{"a": {"b": "}"')
    2
    """
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    return sum(bare.count(char) for char in "{[") - sum(bare.count(char) for char in "}]")
