"""Judge the place of a candidate that no marker announces: own line, own fence, in a sentence, quoted, hedged.

Only what stands before it, and the rest of its own line, is looked at; so a stream can decide at the end of the line.

Not here: what is wrong with the candidate itself (`negatives`).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from toolkit.extraction.negatives import announces, explains, hedged
from toolkit.extraction.source import Source

_FAR, _LONGEST_LINE = 240, 2_000
_QUOTED_LINE = re.compile(r"\s*+>(?!>)")
_PROMPT = re.compile(r"\s*+(?:>>>|\.\.\.|In\s*+\[\d*+\]:|\$|#|//)\s")
_DRESSING = re.compile(
    r"(?:[\s`*_#\-•\d.),;&|\"'\[{\ufeff\u200b\u200c\u200d\u2060]++|\\[nrt]?+)*+"
    r"(?:[\w ]{0,30}(?:call|output|answer|response|action|result|assistant|function|tool)s?\s*+[:=]++)?"
    r"(?:[\s`*_\"'\[{]++|\\n)*+",
    re.IGNORECASE,
)
_OPENED = re.compile(r"(?:^|[:\n])[ \t]*+\($")
_CLOSED = re.compile(r"\)[ \t\r.;]*+(?:\n|$)")
_ENDS_SENTENCE = re.compile(r"[.!?:;,)\]}>。！？：」*`—–-]\s*+$")
_INDENTED = re.compile(r"(?: {4}|\t)")
# What shows that a mark is only named: quotes on both sides, an item of a list, a word for it and a sentence that goes
# on. A mark that hides nothing may stand behind any word.
_NAMED = re.compile(
    r"\b(?:the|an?|each|every|tokens?|tags?|markers?|strings?|closing|opening|by|with|like|between|until|missing|called"
    r"|is|and|or|writes?|emits?|uses?|sees?|finds?)[ ]$",
    re.IGNORECASE,
)
_AFTER_WORD = re.compile(r"[\w,;(][ ]$")
_AROUND_NAME = {'"': '"', "'": "'", "“": "”", "‘": "’", "„": "“", "«": "»", "(": ")", "*": "*", "|": "|"}
_NAME_GOES_ON = re.compile(r"[ ]?[-–—=:|][ ]|[ ][a-z(`]|[,.;:?!)](?:\s|$)")
_ITEM = re.compile(r"(?:^|\n)[ \t]*+(?:[-*•|]|\d++[.)])[ ]$")
_LIST_ITEM = re.compile(r"\s*+(?:[-*•]|\d++[.)])\s")
# A sentence that goes on below what stands in the middle of it.
_SENTENCE_BELOW = re.compile(r"[^\S\n]*+\n(?:[^\S\n]*+\n)?[^\S\n]*+[a-z]{1,20}(?:[ ][A-Za-z`]|[,.;:]\s)")
_QUOTE_BEFORE = re.compile(r"[\"'“‘(«`]$")


class Place(NamedTuple):
    """Hold where a candidate stands, and why it is none there, if so."""

    kind: Literal["own", "sentence"]
    veto: str | None = None


def place(text: str, start: int, end: int, floor: int, *, listed: bool = True, exact: bool = False) -> Place:
    """Judge the place of text[start:end]; the construct before it ended at `floor`.

    What is `listed`, JSON or in brackets, may stand in a sentence; what is `exact`, JSON of the very form that was
    asked for, also in round brackets, and in a sentence which does not speak about it.
    """
    line = max(text.rfind("\n", max(floor, start - _FAR), start) + 1, floor, start - _FAR)
    before, after = text[line:start], rest_of_line(text, end)
    if _QUOTED_LINE.match(before):
        return Place("own", "quoted")
    if _PROMPT.match(before):
        return Place("own", "example")
    own = _DRESSING.fullmatch(before) is not None
    lead = lead_line(text, line, floor) if own else ""
    if hedged(before, after, lead):
        return Place("own" if own else "sentence", "hedged")
    if lead and not announces(lead) and _explained(text, line, start, end, lead):
        return Place("own", "example")
    if own:
        veto = "in_sentence" if not listed and _goes_on(after) else None
        return Place("own", veto)
    meant = exact and not shown(text, start)
    if _QUOTE_BEFORE.search(before) and not (meant and _OPENED.search(before) and _CLOSED.match(text, end)):
        return Place("sentence", "quoted")
    if not listed and not (before.rstrip().endswith(":") and not after.strip(" `.;*")):
        return Place("sentence", "in_sentence")
    return Place("sentence", None if meant or _ENDS_SENTENCE.search(before) else "in_sentence")


def _explained(text: str, line: int, start: int, end: int, lead: str) -> bool:
    """Tell whether a call below a line that does not announce it is part of an explanation.

    So is a bare one below words for a reader, one in an indented block, and one in the middle of a sentence.
    """
    if text[start].isalpha() and explains(lead):
        return True
    if lead.endswith(":") and _INDENTED.match(text, line) and not _LIST_ITEM.match(lead):
        return True
    return lead[-1] not in ".!?" and _SENTENCE_BELOW.match(text, end) is not None


def marked_place(text: str, start: int) -> Place:
    """Judge the place of a call that a marker announces; none in a block quote, nor where a code span shows one."""
    line = text.rfind("\n", max(0, start - _LONGEST_LINE), start) + 1
    if (line or start < _LONGEST_LINE) and _QUOTED_LINE.match(text, line, start):
        return Place("own", "quoted")
    shows = text.startswith("`", start - 1) and start > line and hedged(text[max(line, start - _FAR) : start])
    return Place("own", "hedged" if shows else None)


def shown(text: str, start: int) -> bool:
    """Tell whether the marked line that begins at `start` is only shown, as the line that leads in to it says."""
    line = text.rfind("\n", max(0, start - _FAR), start) + 1
    if _QUOTED_LINE.match(text, line):
        return True
    lead = lead_line(text, line, 0)
    return hedged(lead if _INDENTED.match(text, line) else "", lead=lead)


def rest_of_line(text: str, end: int) -> str:
    """Return what follows on the same line."""
    stop = text.find("\n", end, end + _FAR)
    return text[end : stop if stop >= 0 else end + _FAR]


def lead_line(text: str, line: int, floor: int) -> str:
    """Return the line that leads in to the one that begins at `line`, over one blank line."""
    head = text[max(floor, line - _FAR) : line].rstrip()
    return head[head.rfind("\n") + 1 :] if head else ""


def _goes_on(after: str) -> bool:
    """Tell whether a sentence, or a template, goes on behind a call that stands at the start of a line."""
    return (
        after.lstrip().startswith("{") or re.match(r"(?!\s*+#\s|[\s;.,]*+<[|/｜])\W*+[^\W\d_]{2,}", after) is not None
    )


def named(source: Source, start: int, end: int, hides: bool) -> bool:
    """Tell whether the mark text[start:end] is only named, in a code span or in a sentence about it.

    One that `hides` text, such as the end of a thought, needs a word for it, or else ends the thought.
    """
    if source.in_code(start, end) or marked_place(source.text, start).veto == "quoted":
        return True
    text, before = source.text, source.text[max(0, start - 24) : start]
    if end + 1 >= source.limit:
        source.touch_end()
    if _AROUND_NAME.get(before[-1:], "?") == text[end : end + 1]:
        return True
    if _NAME_GOES_ON.match(text, end, source.limit) is None:
        return False
    return (_NAMED if hides else _AFTER_WORD).search(before) is not None or (
        not hides and _ITEM.search(before) is not None
    )
