"""Read calls between special tokens: a name or an id, a separator, arguments, an end (DeepSeek, Kimi, Step 3).

Not here: DeepSeek's tags (`wrappers`), Kimi K3 (`kimi_k3`).
"""

from __future__ import annotations

import re

from toolkit.extraction.drafts import Body, Draft, Reading, Syntax, refusal, spread
from toolkit.extraction.elements import read_element
from toolkit.extraction.lenient_json import FENCE, FENCE_END, read_arguments
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import register

_BAR, _GAP = "[｜|]", "[▁_ ]"
_BEGIN = re.compile(rf"\s*+<{_BAR}tool{_GAP}call{_GAP}begin{_BAR}>\s*+")
_SEPARATOR = rf"<{_BAR}tool{_GAP}sep{_BAR}>|<\|tool_call_argument_begin\|>"
_HEAD = re.compile(
    rf"(?:function\s*+(?=<))?(?P<before>{_SEPARATOR})?\s*+(?P<name>[^\s<{{]{{1,200}})?(?:\s*+(?P<behind>{_SEPARATOR})\s*+)?"
)
_UNMARKED = re.compile(rf"\s*+(?=[\w.\-:/]{{1,200}}+\s?(?:{_SEPARATOR}))")  # a call whose own first token is lost
_NAME_BEFORE = re.compile(r"[\w.\-:/]{1,200}+\s?$")
_LANGUAGE = re.compile(r"json\s*+(?=[{\n])")
_END = re.compile(rf"\s*+<{_BAR}tool{_GAP}call{_GAP}end{_BAR}>")
_FENCED_END = re.compile(rf"\s*+```\s*+<{_BAR}tool{_GAP}call{_GAP}end{_BAR}>")
_ALL_END = re.compile(rf"\s*+<{_BAR}tool{_GAP}calls?{_GAP}(?:section{_GAP})?end{_BAR}>")
_INVOKE = re.compile(r"<steptml:invoke\b")
_TOKEN = re.compile(rf"<{_BAR}[^<>｜|]++{_BAR}>|</?\w++>|</s>")
_HALF = re.compile(r"(?:<[^<>]{0,40}|`{1,3})$")
_OWN_ID = re.compile(r"functions\.([^\s:]++):\d++")  # as Kimi is trained to write it
_ID = re.compile(r"^(?:functions?)?[._:]?(.{0,200}?)[._:]?\d*+$")


def _read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read calls behind an outer marker, or from the first call's own where that is missing."""
    start = found.start()
    end = pos = start if _BEGIN.match(found[0]) else found.end()
    drafts: list[Draft] = []
    while (begin := (marked := source.match(_BEGIN, end)) or source.match(_UNMARKED, end)) is not None:
        body = Body(begin.end())
        _one(source, begin.end(), syntax, body)
        if marked is None and not source.match(_END, body.end):
            body.problem = body.problem or "bad_body"  # neither its first token nor its last
        if body.problem is not None or not body.drafts:
            cut_from, kept = (end, spread(drafts, start, end)) if drafts else (start, ())
            problem = body.problem or "bad_json"
            return refusal(source, cut_from, max(body.end, end + 1), problem, syntax.name, kept=kept)
        drafts += body.drafts
        end = source.past(_END, body.end)
    end = source.past(_ALL_END, end)
    if drafts:
        return Reading(end, spread(drafts, start, end))
    cut = source.skip(end) >= source.limit
    return refusal(source, start, max(end, pos), "truncated" if cut else "empty", syntax.name)


def _read_unmarked(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read calls from the first separator on, before or behind which a declared name stands."""
    before = _NAME_BEFORE.search(source.text, max(0, found.start() - 200), found.start())
    start = before.start() if before else found.start()
    body = Body(start)
    _one(source, start, syntax, body)
    if body.problem is not None:
        head = source.match(_HEAD, start)
        named = head is not None and source.tools.declared(_tool_name(source, head["name"] or "", None))
        return refusal(source, start, body.end, body.problem, syntax.name) if named else None
    if not body.drafts or not source.tools.may_be(body.drafts[0].name):
        return None
    end = source.past(_ALL_END, source.past(_END, body.end))
    return Reading(end, (body.drafts[0].at((start, end)).mended("missing_open_tag"),))


def _one(source: Source, pos: int, syntax: Syntax, body: Body) -> None:
    """Read the name and the arguments of one call."""
    head = source.match(_HEAD, pos)
    if head is None:
        return
    at, behind = head.end(), head["behind"] if not head["before"] else None
    if source.match(_INVOKE, source.skip(at)) is not None:
        read_element(source, source.skip(at), syntax, body)
        return
    label = syntax.name
    if behind is not None:
        label = "deepseek_v31" if "sep" in behind else "kimi_k2"
    name = head["name"] or ""
    own = _OWN_ID.fullmatch(name)
    _arguments(source, pos, at, own[1] if own else name, label, body)


def _arguments(source: Source, start: int, pos: int, name: str, label: str, body: Body) -> None:
    """Read arguments, fenced or not."""
    at = source.skip(source.past(_LANGUAGE, source.skip(pos)))
    fence = source.match(FENCE, at)
    at = source.skip(fence.end()) if fence else at
    if at >= source.limit or source.match(_HALF, at):
        body.problem, body.end = "truncated", source.limit
        return
    read = read_arguments(source, at)
    body.end, body.problem = read.end, read.problem
    if read.problem is not None:
        if source.match(_TOKEN, at):  # no arguments at all
            body.end, body.problem = at, None
            closed = source.match(_END, at) is not None
            body.drafts.append(Draft(_tool_name(source, name, {}), {}, (start, at), label, closed=closed))
        return
    if fence is not None and not read.closed and source.match(_FENCED_END, body.end):
        body.problem = "bad_json"  # fence and end token stand, so nothing was cut: the arguments are wrong
        return
    if fence is not None:
        body.end = source.past(FENCE_END, body.end)
    found = _tool_name(source, name, read.value)
    codes = read.repairs if found == name else (*read.repairs, "name_from_id")
    body.drafts.append(Draft(found, read.value, (start, body.end), label, codes, closed=read.closed))


def _tool_name(source: Source, written: str, arguments: object) -> str:
    """Return the name in an id such as `functions.NAME:0`; a bare counter means the only tool that fits."""
    if source.tools.open or source.tools.declared(written):
        return written
    inner = _ID.match(written)
    if inner is not None and inner[1]:
        return inner[1] if source.tools.declared(inner[1]) else written
    if isinstance(arguments, dict):
        fitting = [
            tool.name
            for tool in source.tools.tools.values()
            if set(arguments) <= set(tool.properties) and set(tool.required) <= set(arguments)
        ]
        if len(fitting) == 1:
            return fitting[0]
    return written


register(
    "deepseek_v3", _read, '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>',
    rf"<{_BAR}tool{_GAP}call(?:s{_GAP}(?:begin|start)|{_GAP}begin){_BAR}>(?![^<\n]*+<\|tool_call_argument)",
    labels="deepseek_v31 step3", forms={"invoke": "step3"},
    summary="Read `<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME` and its arguments: DeepSeek R1, V3, V3.1; Step 3.",
)  # fmt: skip
register(
    "kimi_k2", _read, '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
    r"<\|tool_call(?:s?_section)?_begin\|>",
    summary="Read `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`: Kimi K2.",
)  # fmt: skip
register(
    "deepseek_v3", _read_unmarked, 'f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>', rf"<{_BAR}tool{_GAP}sep{_BAR}>",
    labels="deepseek_v31 step3",
)  # fmt: skip
register(
    "kimi_k2", _read_unmarked, 'functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
    r"<\|tool_call_argument_begin\|>",
)  # fmt: skip
