"""Tell where thoughts begin and end, for every pair of tags that models use.

Not here: what becomes of calls in them (`walk`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS = (
    "think|thinking|thought|thoughts|reasoning|reason|scratch_?pad|seed:think|inner_monologue|analysis|reflection"
    "|ant_?thinking"
)
_PAIRS = [
    ("tag", re.compile(rf"<({WORDS})\s*>", re.IGNORECASE), re.compile(rf"</(?:{WORDS})\s*>", re.IGNORECASE)),
    ("bracket", re.compile(r"\[THINK\]"), re.compile(r"\[/THINK\]")),
    ("command", re.compile(r"<\|START_THINKING\|>"), re.compile(r"<\|END_THINKING\|>")),
    (
        "thought",
        re.compile(r"<\|(?:thought_start|begin_of_thought|think_start)\|>"),
        re.compile(r"<\|(?:thought_end|end_of_thought|think_end)\|>"),
    ),
    ("gemma", re.compile(r"<\|channel>\s*thought\b"), re.compile(r"<channel\|>")),
    ("kimi", re.compile(r"◁think▷"), re.compile(r"◁/think▷")),
    (
        "granite",
        re.compile(r"Here is my thought process:", re.IGNORECASE),
        re.compile(r"Here is my response:", re.IGNORECASE),
    ),
]


@dataclass(frozen=True, slots=True)
class Thought:
    """Hold a thought's inside and the end of its closing tag; `closed` is False if there is none."""

    start: int
    inner_end: int
    end: int
    closed: bool


def read_thought(text: str, pos: int, limit: int) -> Thought | None:
    """Read the thought that opens at `pos`; nested and repeated closing tags belong to it."""
    for _, opener, closer in _PAIRS:
        opened = opener.match(text, pos, limit)
        if opened is None:
            continue
        closing = _closing(text, opened.end(), limit, opener, closer)
        if closing is None:
            return Thought(opened.end(), limit, limit, closed=False)
        return Thought(opened.end(), closing.start(), closing.end(), closed=True)
    return None


def _closing(text: str, pos: int, limit: int, opener: re.Pattern[str], closer: re.Pattern[str]) -> re.Match[str] | None:
    """Return the closing tag of the outermost of nested thoughts, or the last one there is."""
    depth, last = 1, None
    both = re.compile(f"(?P<open>{opener.pattern})|(?:{closer.pattern})", opener.flags)
    for found in both.finditer(text, pos, limit):
        if found["open"]:
            depth += 1
            continue
        depth -= 1
        last = found
        if depth == 0:
            return found
    return last
