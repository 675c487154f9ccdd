"""Hold what passes between the stages of reading: Syntax, Draft, Reading.

A Syntax reads a Source at a position and gives a Reading: a region of text and the Drafts in it. A Draft becomes a
call once its name is resolved, its arguments are decoded and no veto falls (`settle`).

What is made anew for each call is a NamedTuple here and in the readers: as fixed as a frozen dataclass, and made in a
quarter of the time.

Not here: the text that is read (`source`), what the user gets (`types`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from toolkit.extraction.source import Source
from toolkit.extraction.types import Rejected, Span

_NO_SOURCES: dict[str, str] = {}
NOTHING = object()  # an argument key that is not there at all
_DETAILS = {"truncated": "The call was cut.", "empty": "No call in it."}

Kind = Literal["call", "thought", "thought_end", "echo", "noise", "end"]
Read = Callable[[Source, re.Match[str], "Syntax"], "Reading | None"]


@dataclass(frozen=True, slots=True)
class Syntax:
    """Hold one thing that can be read: a call syntax, or a mark of what holds no calls."""

    name: str  # what recipes and results call it
    # pattern that opens it; begins with a literal character, where `\n` also stands for the start of the text
    # and for the end of the construct before. It must have no capturing groups
    opener: str
    read: Read  # reads on from a match of `opener`; None if it is nothing after all
    summary: str  # one line about it
    example: str  # a short text in it; a call in it calls `f` with `a` as 1, or with nothing
    forms: Mapping[str, str]  # form of body -> the label of calls in it, where that is not the name (see `bodies`)
    # `call`; `thought` or `thought_end`; `echo` of a result or a declaration; `noise`, a leaked token; `end`,
    # behind which nothing is read. All but calls are read beside every chosen syntax
    kind: Kind = "call"
    closer: re.Pattern[str] | None = None  # pattern of what closes it, if it has a wrapper
    labels: tuple[str, ...] = ()  # names that select it, its own first; its calls may carry them
    late: bool = False  # its opener is so wide that it is tried after all others
    # it begins with a bracket behind a tool's name, which is searched for by the names' last letters
    by_name: bool = False
    # words of which one begins the line, if no sign does; a test that makes the search cheap
    starts: tuple[str, ...] = ()

    def label(self, form: str) -> str:
        """Return what a call is called whose body has this form."""
        return self.forms.get(form, self.name)


class Draft(NamedTuple):
    """Hold one call as written."""

    name: str  # the name as written
    arguments: Any  # an object, text that holds one, plain texts by name (`untyped`), None, or NOTHING
    span: Span  # where it stands
    syntax: str  # what it was written in
    repairs: tuple[str, ...] = ()  # what was mended so far
    untyped: bool = False  # values are plain text and take their types from the schema
    positional: tuple[Any, ...] = ()  # arguments without names
    sources: dict[str, str] = _NO_SOURCES  # source text of values, by name or index
    closed: bool = True  # whether every closer was there
    doubtful: str | None = None  # reason code for turning it down, such as `signature`
    text_argument: bool = False  # text that is no object may be the single text parameter
    exact: bool = False  # it is an object with the two keys that the protocol states and no others

    def at(self, span: Span) -> Draft:
        """Return the draft with another span."""
        rest: tuple[Any, ...] = self[3:]  # several times as fast as `_replace`, and done for each call
        return Draft(self.name, self.arguments, span, *rest)

    def mended(self, *codes: str) -> Draft:
        """Return the draft with further repairs."""
        return self._replace(repairs=(*codes, *self.repairs))


@dataclass(slots=True)
class Body:
    """Hold what was read of a body so far, and why reading stopped, if it did."""

    end: int
    drafts: list[Draft] = field(default_factory=list)
    problem: str | None = None
    inside: bool = True  # whether a wrapper holds it


class Reading(NamedTuple):
    """Hold what a syntax read at one place."""

    end: int  # where the region ends
    drafts: tuple[Draft, ...] = ()  # the calls in it, in order
    rejected: tuple[Rejected, ...] = ()  # candidates that failed
    explicit: bool = True  # its marker is one that no prose would use
    text: str = ""  # what of the region is for the user
    thinking: str = ""  # what of the region is thought
    open: bool = False  # it was open where the text ends, so that more text may change it
    final: bool = False  # it is an action that waits for a result, so that what the model wrote behind it is invented
    # a region in it that is to be walked as if it stood alone, such as what a thought or a fence holds
    inner: Span | None = None


def spread(drafts: Sequence[Draft], start: int, end: int) -> tuple[Draft, ...]:
    """Give the wrapper's text to the first and the last of its drafts, so that spans cover the whole region."""
    if len(drafts) < 2:
        return (drafts[0].at((start, end)),) if drafts else ()
    first, *between, last = drafts
    return (first.at((start, first.span[1])), *between, last.at((last.span[0], end)))


def refusal(
    source: Source, start: int, end: int, problem: str, syntax: str, name: str | None = None, kept: Sequence[Draft] = ()
) -> Reading:
    """Report what began at `start` and could not be read up to `end`; what is cut reaches to the end of the text."""
    cut = problem == "truncated"
    stop = source.limit if cut else end
    rejected = Rejected((start, stop), syntax, problem, _DETAILS.get(problem, ""), name)
    return Reading(stop, tuple(kept), (rejected,), open=cut)
