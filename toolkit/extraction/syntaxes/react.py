"""Read `Action: NAME` and `Action Input: …`, or `Action:` and JSON.

Only the first action counts: what follows it, an observation above all, is invented.

Not here: thoughts, observations and final answers (`marks`).
"""

import re

from toolkit.extraction.bodies import json_call, read_body
from toolkit.extraction.drafts import NOTHING, Draft, Reading, Syntax, refusal, spread
from toolkit.extraction.lenient_json import FENCE
from toolkit.extraction.places import shown
from toolkit.extraction.python_calls import CALL, read_calls
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.syntaxes.marks import COLON, DRESS

_NAME = re.compile(
    r"[ \t]*+[`*\"'\[]{0,3}(N/A|Final Answer|[^\W\d][\w.\-:/\\]*+)[`*\"'\]]{0,3}(?:\(\s*+\))?[`*\"'\]]{0,3}[ \t.]*+"
)
_INPUT = re.compile(rf"\s*+{DRESS}(?:Action[ _]?)?Input{COLON}[*_]{{0,2}}[ \t]*+", re.IGNORECASE)
_LABEL = re.compile(rf"\n{DRESS}(?:Observation|Thought|Action|Final Answer|Answer){COLON}|<\||</s>|\n[ \t]*+\n")
_JSON_AHEAD = re.compile(r"[{~]|```|`\{|\[\s*+\{|&quot;")
_LISTED = re.compile(r"\[\s*+\w++\(")
_EMPTY_CALL = re.compile(r"[`*]{0,3}[\w.\-]++\(\s*+\)[`*]{0,3}[^\S\n]*+\n")  # the input is on the next line
_AFTER = re.compile(r"\s*+<end_code>|[}\]]++")


@syntax(
    "react", 'Action: f\nAction Input: {"a": 1}',
    rf"\n{DRESS}(?:Action|ACTION){COLON}[*_]{{0,2}}",
    labels="action_json smolagents_action command_r", starts="Action ACTION",
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `Action: NAME` and `Action Input: …`, or `Action:` and JSON: ReAct, smolagents, Command R."""
    start = found.start() + (1 if found[0].startswith("\n") else 0)
    reading = _action(source, start, found.end(), syntax)
    if reading is None or not reading.drafts:
        return reading
    if shown(source.text, start):
        return reading._replace(drafts=tuple(draft._replace(doubtful="example") for draft in reading.drafts))
    return reading._replace(final=True)


def _action(source: Source, start: int, pos: int, syntax: Syntax) -> Reading | None:
    text, at = source.text, source.skip(pos)
    if _JSON_AHEAD.match(text, at, source.limit):
        return _blob(source, start, at, syntax)
    called = CALL.match(text, at, source.limit) or _LISTED.match(text, at, source.limit)
    if called is not None and not _EMPTY_CALL.match(text, at, source.limit):
        calls = read_calls(source, at, "react")
        if not calls.drafts or not source.tools.may_be(calls.drafts[0].name):
            return None
        return Reading(calls.end, (calls.drafts[0].at((start, calls.end)),))
    return _named(source, start, pos)


def _blob(source: Source, start: int, at: int, syntax: Syntax) -> Reading | None:
    """Read JSON behind the label."""
    body = read_body(source, at, syntax)
    if body is None:
        return None
    if body.problem is not None or not body.drafts:
        return refusal(source, start, body.end, body.problem or "empty", "react") if body.problem != "no_name" else None
    end = source.past(_AFTER, body.end)
    label = _blob_label(source.text[at:end])
    return Reading(end, spread([draft._replace(syntax=label) for draft in body.drafts], start, end))


def _blob_label(text: str) -> str:
    if '"action"' in text or "action_input" in text:
        return "action_json"
    return "command_r" if "tool_name" in text else "smolagents_action"


def _named(source: Source, start: int, pos: int) -> Reading | None:
    """Read a name, and the input on the same or the next line."""
    name = source.match(_NAME, source.skip(pos))
    if name is None:
        return None
    given = source.match(_INPUT, name.end())
    if given is None:
        return _without_input(source, start, name)
    at = given.end()
    value = source.skip(at)
    fence = source.match(FENCE, value)
    if source.text.startswith(("{", "[", '"{', "&quot;", "'{"), source.skip(fence.end()) if fence else value):
        reading = json_call(source, start, value, name[1], "react")
        return reading._replace(drafts=tuple(draft._replace(text_argument=True) for draft in reading.drafts))
    label = _LABEL.search(source.text, given.end() - 1 if given[0].endswith("\n") else at, source.limit)
    end = label.start() if label else source.limit
    text = source.text[at:end].strip()
    if label is None and text and (text.count("```") == 1 or (text[0] in "'\"" and text.count(text[0]) == 1)):
        return refusal(source, start, end, "truncated", "react", name[1])
    text = text.strip("`").strip()
    draft = Draft(name[1], text or NOTHING, (start, end), "react", closed=label is not None, text_argument=True)
    return Reading(end, (draft,))


def _without_input(source: Source, start: int, name: re.Match[str]) -> Reading | None:
    """Read a name that stands alone, or with JSON behind it."""
    text, at = source.text, name.end()
    if text.startswith("{", source.skip(at)) and source.tools.may_be(name[1]):
        reading = json_call(source, start, source.skip(at), name[1], "react")
        return reading if reading.drafts else None
    tool = source.tools.resolve(name[1]).tool
    if tool is None or not (at >= source.limit or text[at] in "\r\n" or text.startswith("<", at)):
        return None
    if tool.required:
        reason = "truncated" if source.skip(at) >= source.limit else "no_arguments"
        return refusal(source, start, at, reason, "react", tool.name)
    return Reading(at, (Draft(name[1], NOTHING, (start, at), "react"),))
