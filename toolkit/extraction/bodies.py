"""Read what stands inside a wrapper: JSON calls, Python calls, tagged parameters, or a name and its arguments.

Models mix the wrapper of one family with the body of another, so every explicit wrapper takes every body. The forms of
a body, by which a syntax labels its calls (`Syntax.label`):

    json            {"name": NAME, "arguments": {…}}, also in a list
    key             {NAME: {…}, …}, also with names that are not declared if a syntax labels it
    python          NAME(KEY=VALUE), also in a list
    function        <function=NAME> and parameters in tags; function_json with an object instead
    invoke          <invoke name="NAME"> and either
    pairs           NAME, <arg_key>KEY</arg_key>, <arg_value>VALUE</arg_value>
    args, compact   NAME[ARGS]{…} and NAME{…}
    name            NAME, if it is declared

Not here: which wrappers there are (`syntaxes`).
"""

from __future__ import annotations

import re
from typing import Any

from toolkit.extraction.drafts import NOTHING, Body, Draft, Reading, Syntax, refusal, spread
from toolkit.extraction.elements import add, read_behind, read_element, read_given
from toolkit.extraction.lenient_json import (
    FENCE,
    FENCE_END,
    JsonRead,
    mend,
    read_arguments,
    read_value,
    with_surplus,
)  # fmt: skip
from toolkit.extraction.places import place
from toolkit.extraction.python_calls import read_calls
from toolkit.extraction.shapes import drafts_in
from toolkit.extraction.source import Source

# An object, a list or a text, also with curly or escaped quotes; no marker such as [/INST] or [TOOL_CALLS].
_JSON_START = re.compile(r"(?!\[/?[A-Z_]{3,40}\])[{\[\"'“‘]|&quot;|&#34;")
# The first pair of an object whose brace is missing. Only a key that names a tool: "a": 1 alone may be anything.
_OPEN_PAIR = re.compile(r"[\"'“](?:name|tool|tool_name|function|action|function_name)[\"'”]\s*+:")
# The head of a Python-like call, in brackets, quotes, print() or an assignment; not `f {`, which is NAME and JSON.
_PYTHON = re.compile(r"\[*+\s*+[`'\"]?\s*+(?:print\(|\w++\s*+=\s*+(?=\w))?[A-Za-z_][\w.\\\-/:]*+[ \t]*+\(")
THOUGHT_END = re.compile(r"\s*+</(?i:think|thinking|thought)>")  # of a thought that ran into the call
_SEPARATOR = re.compile(r"\s*+[,;]?\s*+")
# A name and nothing else, so that what stands behind it decides; it may end in `()` but has no arguments there.
_NAME_THEN = re.compile(r"[ \t]*+(?:functions?[.:])?([^\W\d](?:[\w.\-:/]++|\\_)*+)[ \t]*+(?:\(\))?(?:<tool_sep>)?")
# [ARGS], perhaps with a call's id before it; an id alone announces nothing.
_ARGS_MARK = re.compile(r"(?:\s*+\[CALL_ID\]\s*+[\w-]*+\s*+)?\s*+\[ARGS\]")
_FAR_CLOSER = 2_000  # characters behind a broken body after which a closer is not its own


def read_body(source: Source, pos: int, syntax: Syntax, inside: bool = True) -> Body | None:
    """Read calls from `pos` on; None if nothing there looks like the body of a call."""
    start = source.skip(pos)
    body = Body(start, inside=inside)
    fence = source.match(FENCE, start)
    if fence is not None:
        body.end = source.skip(fence.end())
    started = False
    while body.end < source.limit and body.problem is None:
        before, known = body.end, len(body.drafts)
        if not _one(source, before, syntax, body):
            break
        if known and body.problem == "no_name":  # data behind a call, such as a result that the model made up
            body.problem, body.end = None, before
            break
        started = True
        after = source.past(_SEPARATOR, body.end)
        if not source.match(_JSON_START, after) and not source.text.startswith("<", after):
            break
        body.end = after
    if not started:
        return None
    body.end = pos + len(source.text[pos : body.end].rstrip()) if body.drafts and body.end - pos < 10_000 else body.end
    if fence is not None:
        body.end = source.past(FENCE_END, body.end)
        body.drafts = [draft.mended("fence_removed") for draft in body.drafts]
    return body


def _one(source: Source, pos: int, syntax: Syntax, body: Body) -> bool:
    """Read one member of a body into `body`; False if none begins at `pos`."""
    text = source.text
    if text.startswith("{", pos):
        return _json(source, pos, read_value(source, pos), syntax, body)
    if text.startswith("<", pos):
        return read_element(source, pos, syntax, body)
    if source.match(_OPEN_PAIR, pos):
        return _json(source, pos, mend(source, pos, opened=False), syntax, body)
    if source.match(_PYTHON, pos):
        return _python(source, pos, syntax, body)
    if source.match(_JSON_START, pos):
        return _json(source, pos, read_value(source, pos), syntax, body)
    return not body.drafts and _named(source, pos, syntax, body)


def _json(source: Source, pos: int, read: JsonRead, syntax: Syntax, body: Body) -> bool:
    """Take the calls of one JSON value."""
    if read.problem is None and source.text[pos] in "{[":
        read = with_surplus(source, read)
    body.end, body.problem = read.end, read.problem
    value = read.value if read.problem is None else list(read.members)
    blank = Draft("", NOTHING, (pos, read.end), syntax.label("json"), read.repairs)
    found = drafts_in(value, source, blank, explicit=True)
    if not found and "key" in syntax.forms:
        found = _by_key(value, blank._replace(syntax=syntax.forms["key"]))
    if not found and read.problem is None and value not in ([], {}, None, ""):
        body.problem = "no_name"
    body.drafts += found if read.closed or read.problem is not None else map(_open, found)
    return True


def _by_key(value: Any, blank: Draft) -> list[Draft]:
    """Take objects whose keys are names and whose values are arguments."""
    objects = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
    items = [item for one in objects for item in one.items() if isinstance(item[1], dict)]
    return [blank._replace(name=name, arguments=given) for name, given in items]


def json_call(source: Source, start: int, pos: int, name: str, label: str) -> Reading:
    """Read one call that begins at `start` and has its JSON arguments at `pos`, in a fence or not."""
    fence = source.match(FENCE, pos)
    read = read_arguments(source, source.skip(fence.end()) if fence else pos)
    if read.problem is not None:
        return refusal(source, start, read.end, read.problem, label, name)
    end = source.past(FENCE_END, read.end) if fence else read.end
    return Reading(end, (Draft(name, read.value, (start, end), label, read.repairs, closed=read.closed),))


def _open(draft: Draft) -> Draft:
    return draft._replace(closed=False)


def _python(source: Source, pos: int, syntax: Syntax, body: Body) -> bool:
    """Take Python-like calls."""
    read = read_calls(source, pos, syntax.label("python"))
    body.end, body.problem = max(read.end, pos), read.problem
    body.drafts += read.drafts
    return bool(read.drafts) or read.problem is not None


def _named(source: Source, pos: int, syntax: Syntax, body: Body) -> bool:
    """Take `NAME` with `<arg_key>` pairs, with JSON, or, if declared, alone."""
    head = source.match(_NAME_THEN, pos)
    if head is None:
        return False
    marks = source.match(_ARGS_MARK, head.end())
    if marks is not None:
        return _marked(source, pos, head[1], marks.end(), syntax, body)
    tool = source.tools.resolve(head[1]).tool
    given = read_behind(source, source.past(THOUGHT_END, head.end()), tool, inside=True)
    body.end, body.problem = given.end, given.problem
    if given.problem is not None:
        return True
    if given.value is NOTHING:
        after = source.skip(head.end())
        if tool is None or not (after >= source.limit or source.text.startswith(("</", "<|"), after)):
            return False
        given = given._replace(end=head.end(), form="name", closed=after < source.limit)
    add(body, pos, head[1], given, syntax.label("compact" if given.form in ("json", "fenced") else given.form))
    return True


def _marked(source: Source, start: int, name: str, pos: int, syntax: Syntax, body: Body) -> bool:
    """Take JSON arguments behind a name and `[ARGS]`."""
    at = source.skip(pos)
    if not source.text.startswith(("{", "&quot;", "[{", '"{'), at):
        body.problem, body.end = ("truncated", source.limit) if at >= source.limit else (None, body.end)
        return at >= source.limit
    given = read_given(source, at, None)
    body.end, body.problem = given.end, given.problem
    if given.problem is None:
        add(body, start, name, given, syntax.label("args"))
    return True


def wrapped(source: Source, start: int, pos: int, syntax: Syntax) -> Reading | None:
    """Read a body that begins at `pos`, and what closes it; where that is `start`, the call's own tag opened it."""
    body = read_body(source, pos, syntax, inside=pos > start)
    if body is None:
        return _nothing(source, start, pos, syntax) if pos > start else None
    if body.problem is not None:
        return _failed(source, start, body, syntax)
    closed, end = _closed(source, body.end, syntax)
    if not body.drafts:
        return refusal(source, start, end, "empty", syntax.name)
    drafts = body.drafts
    if not closed and syntax.closer and pos > start and (source.cut or drafts[-1].untyped):
        drafts[-1] = _open(drafts[-1])  # JSON that is closed itself is whole, if the server says nothing else
    return Reading(end, spread(drafts, start, end))


def told(source: Source, reading: Reading) -> Reading:
    """Leave it to its place whether an element that only holds a name is a call: a sentence may be about it."""
    if len(reading.drafts) == 1 and reading.drafts[0].arguments is NOTHING:
        start, end = reading.drafts[0].span
        if place(source.text, start, end, 0, listed=False).veto:
            return reading._replace(explicit=False)
    return reading


def _closed(source: Source, pos: int, syntax: Syntax) -> tuple[bool, int]:
    """Return whether the closer follows, and the position behind it, else `pos`."""
    closing = source.match(syntax.closer, source.skip(pos)) if syntax.closer else None
    return (False, pos) if closing is None else (True, closing.end())


def _nothing(source: Source, start: int, pos: int, syntax: Syntax) -> Reading | None:
    """Report a wrapper with nothing in it, or a marker at the very end of the text; None for one before prose."""
    closed, end = _closed(source, pos, syntax)
    if closed:
        return refusal(source, start, end, "empty", syntax.name)
    return refusal(source, start, source.limit, "truncated", syntax.name) if source.skip(pos) >= source.limit else None


def _failed(source: Source, start: int, body: Body, syntax: Syntax) -> Reading:
    """Report a body that could not be read; what was complete before it is kept."""
    reason, closer, end = body.problem or "bad_json", syntax.closer, body.end
    closing = source.find(closer, end) if closer is not None else None
    still_open = reason == "truncated" or (closing is None and closer is not None and source.limit - end < _FAR_CLOSER)
    if reason == "truncated" and closer is not None and source.find(closer, start) is not None:
        reason = "bad_json"  # it was closed, so nothing was cut: the body is wrong
    near = reason != "truncated" and closing is not None and closing.start() - end < _FAR_CLOSER
    if near and closing and source.text.find(source.text[start : start + 8], end, closing.start()) < 0:
        end = closing.end()
    cut_from = body.drafts[-1].span[1] if body.drafts else start
    kept = spread(body.drafts, start, cut_from)
    reading = refusal(source, cut_from, max(end, start + 1), reason, syntax.name, kept=kept)
    return reading._replace(open=still_open)
