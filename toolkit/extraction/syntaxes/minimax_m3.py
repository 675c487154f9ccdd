"""Read `]<]minimax[>[<tool_call>`, where that token stands before each tag and parameters are tags.

Not here: MiniMax M2 (`wrappers`).
"""

import re
from typing import Any

from toolkit.extraction.drafts import Draft, Reading, Syntax, refusal, spread
from toolkit.extraction.parameters import put, trim
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_BEFORE_TAG = "]<]minimax[>["  # in a value, before the elements of a list or an object
_MARK = r"\s*+\]<\]minimax\[>\["
_INVOKE = re.compile(rf"{_MARK}<invoke\s++name=\"([^\">\n]*+)\"\s*+>")
_INVOKE_END = re.compile(rf"{_MARK}</invoke>")
_PARAMETER = re.compile(rf"{_MARK}<([^\s<>/\"]++)>")
_PARAMETER_END = re.compile(r"\]<\]minimax\[>\[</([^\s<>/\"]++)>")
_END = re.compile(rf"{_MARK}</tool_call>")
_TAGS = ["<tool_call>", '<invoke name="f">', "<a>1", "</a>", "</invoke>", "</tool_call>"]


@syntax("minimax_m3", "".join("]<]minimax[>[" + tag for tag in _TAGS), r"\]<\]minimax\[>\[<tool_call>")
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `]<]minimax[>[<tool_call>`, where that token stands before each tag and parameters are tags: MiniMax M3."""
    text, limit, start, end = source.text, source.limit, found.start(), found.end()
    drafts: list[Draft] = []
    while (opened := _INVOKE.match(text, end, limit)) is not None:
        arguments, stop = _arguments(source, opened.end())
        closed = _INVOKE_END.match(text, stop, limit) if stop >= 0 else None
        if closed is None:
            return _cut(source, drafts, start, end, opened[1])
        drafts.append(Draft(opened[1], arguments, (opened.start(), closed.end()), "minimax_m3", untyped=True))
        end = closed.end()
    if not drafts:
        return _cut(source, drafts, start, end, None) if source.skip(end) >= limit else None
    stop = source.past(_END, end)
    if stop == end:
        drafts[-1] = drafts[-1].mended("missing_close_tag")._replace(closed=False)
    return Reading(stop, spread(drafts, start, stop))


def _arguments(source: Source, pos: int) -> tuple[dict[str, Any], int]:
    """Return the parameters from `pos` on and where they end, or -1 where one is cut."""
    arguments: dict[str, Any] = {}
    while (opened := source.match(_PARAMETER, pos)) is not None:
        closing = source.find(_PARAMETER_END, opened.end())
        while closing is not None and closing[1] != opened[1]:
            closing = source.find(_PARAMETER_END, closing.end())
        if closing is None:
            return arguments, -1
        put(arguments, opened[1], trim(source.text[opened.end() : closing.start()].replace(_BEFORE_TAG, "")))
        pos = closing.end()
    return arguments, pos


def _cut(source: Source, drafts: list[Draft], start: int, end: int, name: str | None) -> Reading:
    """Report a call without its end; whole ones before it are kept."""
    kept = spread(drafts, start, end)
    return refusal(source, end if drafts else start, source.limit, "truncated", "minimax_m3", name, kept)
