"""What does a reply hold, read by the written rules alone and without the toolkit? A small reader, for the verdicts.

It knows three kinds of calls. A sure one is written exactly as the prompt asks, alone on its line, with strict JSON,
and must be run. A mentioned one stands behind words on its line, in a thought, or was copied from what a user or a
tool said, and must not be run. Anything else, such as a call whose JSON wants mending, may be run or not; if it is,
its arguments must be what stands there.

Not here: what follows from the calls (`airgap_fit`).
"""

from __future__ import annotations

import json
import re
from typing import Any

# a marker stands at the start of a line, or behind what was read there
_NAMED = re.compile(r"(?im)(?:^|[}\])]|</?think>)[^\w\n]*(?:TOOL[_ ]?CALLS?[*_`]*\s*:?[\s*_`\"']*)+(\w[\w.\-:/]*)")
_OPENED = re.compile(r"[\s*:\\\"']*([({\[]|`{1,3}(?:\w*\s*)?(?=\{))")
_SURE = re.compile(r"(?m)^TOOL_CALL: ?([\w.\-:/]+)[ \t\n]*(?=\{)")
_THOUGHT = re.compile(r"</?think>", re.IGNORECASE)
_NAMES = ("name", "tool", "action", "function")
_ARGUMENTS = ("arguments", "args", "parameters", "input", "action_input")
_UNSURE = ("<", "`", "{", "[", '"', "'", "“", ">", "(")


def spoken(reply: str) -> str:
    """Return a reply without its thoughts; a closing tag alone ends a thought that began with the reply."""
    depth, at, kept = 0, 0, ""
    for tag in _THOUGHT.finditer(reply):
        if tag[0][1] == "/":
            kept = kept if depth else ""
            depth, at = max(0, depth - 1), tag.end()
        else:
            kept += "" if depth else reply[at : tag.start()]
            depth += 1
    return kept if depth else kept + reply[at:]


def is_tangled(reply: str) -> bool:
    """Tell whether the rules leave open what is a thought: its tags are no pair, or in words given to a user."""
    tags = [tag[0][1] == "/" for tag in _THOUGHT.finditer(reply)]
    quoted = re.search(r"(?im)^\s*(?:user|human):[\s\S]*<think>", reply)
    return quoted is not None or tags != [False, True] * (len(tags) // 2)


def outside(reply: str) -> str:
    """Return what is no thought whatever the tags mean: what is behind a last closing or before a first opening one."""
    tags = list(_THOUGHT.finditer(reply))
    if tags and tags[-1][0][1] == "/":
        return reply[tags[-1].end() :]
    return reply[: tags[0].start()] if tags and tags[0][0][1] != "/" else ""


def visible(reply: str) -> str:
    """Return all that may be meant for the user or for a tool."""
    return reply if is_tangled(reply) else spoken(reply)


def strict_object(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Read the JSON object that begins there, by the standard: no NaN, no number beyond a float."""
    try:
        value, end = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    return float(text) if abs(float(text)) < float("inf") else _refuse(text)


def squeezed(text: str) -> str:
    return "".join(text.split()).casefold()


def sure_calls(reply: str, foreign: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls at the start of a reply that nobody can doubt, up to the first thing that one can.

    Args:
        reply: what the model wrote.
        foreign: what users and tools said; a call copied from there is none.
    """
    calls, at = [], 0
    while (found := _SURE.search(reply, at)) is not None:
        read = strict_object(reply, found.end())
        before = reply[at : found.start()]
        if read is None or any(sign in before for sign in _UNSURE) or re.search("(?i)tool_?call", before):
            break
        rest = reply[read[1] :].partition("\n")[0]
        if rest.strip() or any(squeezed(reply[found.start() : read[1]]) in squeezed(text) for text in foreign):
            break
        calls.append((found[1], read[0]))
        at = read[1]
    return calls


def copied(reply: str, name: str, arguments: dict[str, Any], foreign: list[str]) -> bool:
    """Tell whether every place where a reply holds this call, as the prompt asks for it, is somebody else's text."""
    places = []
    for found in _SURE.finditer(reply):
        read = strict_object(reply, found.end())
        if read is not None and (found[1], read[0]) == (name, arguments):
            places.append(squeezed(reply[found.start() : read[1]]))
    return bool(places) and all(any(place in squeezed(text) for text in foreign) for place in places)


def holds(reply: str, name: str, arguments: dict[str, Any]) -> bool:
    """Tell whether a call that was made stands in the reply where a call may stand."""
    said = visible(reply)
    for found in _NAMED.finditer(said):
        if same_name(found[1], name) and fits(said, found.end(), arguments):
            return True
    return any(as_object(said, brace.start(), name, arguments) for brace in re.finditer(r"\{", said))


def same_name(written: str, name: str) -> bool:
    """Tell whether a name is meant; a model may write it in other letters, and marks may stand round it."""
    return written.strip(":`*_").casefold() == name.strip("_").casefold()


def fits(text: str, at: int, arguments: dict[str, Any]) -> bool:
    """Tell whether arguments are what stands there: exactly, or each word of them in order if JSON is not strict."""
    opened = _OPENED.match(text, at)
    if opened is None:
        return arguments == {}
    at = opened.end() if opened[1][0] == "`" else opened.start(1)
    read = strict_object(text, at)
    if read is not None:
        return read[0] == arguments
    for word in re.findall(r"\w+", json.dumps(arguments, ensure_ascii=False).replace("\\n", "\n")):
        found = re.compile(re.escape(word), re.IGNORECASE).search(text, at)
        found = found or (re.search("None|True|False", text[at:]) if word in ("null", "true", "false") else None)
        if found is None:
            return False
        at = max(at, found.end()) if found.re.pattern != "None|True|False" else at
    return True


def as_object(text: str, at: int, name: str, arguments: dict[str, Any]) -> bool:
    """Tell whether a JSON object that begins there is this call."""
    read = strict_object(text, at)
    if read is None or all(read[0].get(key) != name for key in _NAMES):
        return False
    return any((read[0].get(key) or {}) == arguments for key in _ARGUMENTS)


def may_be_broken(reply: str) -> bool:
    """Tell whether a reply holds what looks like a call: only then may the model be asked to write it again."""
    return re.search(r"(?i)TOOL[_ ]?CALL|\{[^}]*\b(?:name|tool|action)\b", visible(reply)) is not None
