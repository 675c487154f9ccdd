r"""Read `Action: NAME` and `Action Input: …`, or `Action:` and JSON: ReAct, smolagents, Command R.

Only the first action counts: what follows it, an observation above all, is invented.

>>> from toolkit.extraction import extract
>>> extract('Thought: I look.\nAction: f\nAction Input: {"a": 1}\nObservation: 2').calls[0].arguments
{'a': 1}
"""

import re

from toolkit.extraction.bodies import FENCE, FENCE_END, python_draft, read_body
from toolkit.extraction.drafts import NOTHING, Draft, Reading, Source
from toolkit.extraction.lenient_json import read_json
from toolkit.extraction.places import shown
from toolkit.extraction.python_calls import CALL, read_calls
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.types import Rejected

_DRESS = r"[ \t]*(?:[*_#>-]{1,4}[ \t]*)?"
_NAME = re.compile(
    r"[ \t]*[`*\"'\[]{0,3}(N/A|Final Answer|[^\W\d][\w.\-:/\\]*)[`*\"'\]]{0,3}(?:\(\s*\))?[`*\"'\]]{0,3}[ \t.]*"
)
_INPUT = re.compile(
    rf"\s*{_DRESS}(?:Action[ _]?)?Input(?:[ \t]*\d+)?[*_]{{0,2}}[ \t]*:[*_]{{0,2}}[ \t]*", re.IGNORECASE
)
_LABEL = re.compile(
    rf"\n{_DRESS}(?:Observation|Thought|Action|Final Answer|Answer)(?:[ \t]*\d+)?[*_]{{0,2}}[ \t]*:|<\||</s>|\n[ \t]*\n"
)
_JSON_AHEAD = re.compile(r"[{~]|```|`\{|\[\s*\{|&quot;")
_LISTED = re.compile(r"\[\s*\w+\(")
_EMPTY_CALL = re.compile(r"[`*]{0,3}[\w.\-]+\(\s*\)[`*]{0,3}\s*\n")  # the input is on the next line
_AFTER = re.compile(r"\s*<end_code>|[}\]]+")


def _judged(source: Source, start: int, reading: Reading | None) -> Reading | None:
    """Mark the drafts of an action that is only shown."""
    if reading is None or not reading.drafts or not shown(source.text, start):
        return reading
    return reading._replace(drafts=tuple(draft._replace(doubtful="example") for draft in reading.drafts), final=False)


@syntax(
    "react",
    opener=rf"\n{_DRESS}(?:Action|ACTION)(?:[ \t]*\d+)?[*_]{{0,2}}[ \t]*:[*_]{{0,2}}",
    labels=("action_json", "smolagents_action", "command_r"),
    starts="Action ACTION",
)
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read one action."""
    start = found.start() + (1 if found[0].startswith("\n") else 0)
    return _judged(source, start, _action(source, start, found))


def _action(source: Source, start: int, found: re.Match[str]) -> Reading | None:
    at = source.skip(found.end())
    text = source.text
    if _JSON_AHEAD.match(text, at, source.limit):
        return _blob(source, start, at)
    called = CALL.match(text, at, source.limit) or _LISTED.match(text, at, source.limit)
    if called is not None and not _EMPTY_CALL.match(text, at, source.limit):
        calls = read_calls(text, at, source.limit)
        if not calls.calls or (not source.tools.open and not source.tools.declared(calls.calls[0].name)):
            return None
        draft = python_draft(calls.calls[0], "react", calls.closed).at((start, calls.end))
        return Reading(calls.end, (draft,), final=True)
    return _named(source, start, found.end())


def _blob(source: Source, start: int, at: int) -> Reading | None:
    """Read JSON behind the label."""
    body = read_body(source, at, "smolagents_action")
    if body is None:
        return None
    end = body.end
    if body.problem is not None or not body.drafts:
        reason = body.problem or "empty"
        stop = source.limit if reason == "truncated" else end
        return Reading(stop, (), (Rejected((start, stop), "react", reason),)) if reason != "no_name" else None
    if (after := _AFTER.match(source.text, end, source.limit)) is not None:
        end = after.end()
    label = _blob_label(source.text[at:end])
    drafts = [draft._replace(syntax=label) for draft in body.drafts]
    drafts[0] = drafts[0].at((start, drafts[0].span[1]))
    drafts[-1] = drafts[-1].at((drafts[-1].span[0], end))
    return Reading(end, tuple(drafts), final=True)


def _blob_label(text: str) -> str:
    if '"action"' in text or "action_input" in text:
        return "action_json"
    return "command_r" if "tool_name" in text else "smolagents_action"


def _named(source: Source, start: int, pos: int) -> Reading | None:
    """Read a name, and the input on the same or the next line."""
    name = _NAME.match(source.text, source.skip(pos), source.limit)
    if name is None:
        return None
    given = _INPUT.match(source.text, name.end(), source.limit)
    if given is None:
        return _without_input(source, start, name)
    at = given.end()
    value = source.skip(at)
    fence = FENCE.match(source.text, value, source.limit)
    value = source.skip(fence.end()) if fence else value
    if source.text.startswith(("{", "[", '"{', "&quot;", "'{"), value):
        read = read_json(source.text, value, source.limit)
        if read.problem is None:
            end, codes = read.end, read.repairs
            if (extra := re.compile(r"[}\]]+").match(source.text, end, source.limit)) is not None:
                end, codes = extra.end(), (*codes, "extra_closers")
            if fence and (closing := FENCE_END.match(source.text, end, source.limit)) is not None:
                end = closing.end()
            draft = Draft(name[1], read.value, (start, end), "react", codes, closed=read.closed, text_argument=True)
            return Reading(end, (draft,), final=True)
        stop = source.limit if read.problem == "truncated" else read.end
        return Reading(stop, (), (Rejected((start, stop), "react", read.problem, "", name[1]),))
    label = _LABEL.search(source.text, given.end() - 1 if given[0].endswith("\n") else at, source.limit)
    end = label.start() if label else source.limit
    text = source.text[at:end].strip()
    if label is None and text and (text.count("```") == 1 or (text[0] in "'\"" and text.count(text[0]) == 1)):
        return Reading(end, (), (Rejected((start, end), "react", "truncated", "", name[1]),))
    text = text.strip("`").strip()
    draft = Draft(name[1], text or NOTHING, (start, end), "react", closed=label is not None, text_argument=True)
    return Reading(end, (draft,), final=True)


def _without_input(source: Source, start: int, name: re.Match[str]) -> Reading | None:
    """Read a name that stands alone, or with JSON behind it."""
    text, at = source.text, name.end()
    known = source.tools.open or source.tools.declared(name[1])
    if known and text.startswith("{", source.skip(at)):
        read = read_json(text, source.skip(at), source.limit)
        if read.problem is None:
            return Reading(
                read.end, (Draft(name[1], read.value, (start, read.end), "react", read.repairs),), final=True
            )
        return None
    tool = source.tools.resolve(name[1]).tool
    ends = at >= source.limit or text[at] in "\r\n" or text.startswith("<", at)
    if tool is None or not ends:
        return None
    if tool.required:
        reason = "truncated" if source.skip(at) >= source.limit else "no_arguments"
        return Reading(at, (), (Rejected((start, at), "react", reason, "An action without an input.", tool.name),))
    return Reading(at, (Draft(name[1], NOTHING, (start, at), "react"),), final=True)
