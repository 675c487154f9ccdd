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
from toolkit.extraction.lenient_json import JsonRead, decode, mend, read_value
from toolkit.extraction.parameters import Members, Tags, read_members
from toolkit.extraction.python_calls import read_calls
from toolkit.extraction.shapes import drafts_in
from toolkit.extraction.source import Source

_NS = r"(?:\w++:|[｜|]DSML[｜|] ?)?"  # a namespace before a tag's name
_GLM_NS = r"(?:\w{1,40}[_:])?"
# A fence, or one back-tick or a word for it. A back-tick only before a bracket, a word only before a line break: in
# "`f`(a=1)" and "json.loads(x)" neither is a fence.
FENCE = re.compile(r"(?:```|~~~)[ \t]*+[\w+-]*+[ \t]*+\n?|`(?=[{\[])|(?:json|python|xml)[ \t]*+\n")
FENCE_END = re.compile(r"\s*+(?:```|~~~|`)")
# An object, a list or a text, also with curly or escaped quotes; no marker such as [/INST] or [TOOL_CALLS].
_JSON_START = re.compile(r"(?!\[/?[A-Z_]{3,40}\])[{\[\"'“‘]|&quot;|&#34;")
# The first pair of an object whose brace is missing. Only a key that names a tool: "a": 1 alone may be anything.
_OPEN_PAIR = re.compile(r"[\"'“](?:name|tool|tool_name|function|action|function_name)[\"'”]\s*+:")
# The head of a Python-like call, in brackets, quotes, print() or an assignment; not `f {`, which is NAME and JSON.
_PYTHON = re.compile(r"\[*+\s*+[`'\"]?\s*+(?:print\(|\w++\s*+=\s*+(?=\w))?[A-Za-z_][\w.\\\-/:]*+[ \t]*+\(")
_SEPARATOR = re.compile(r"\s*+[,;]?\s*+")
SURPLUS = re.compile(r"(?:\s*+[}\]])++")
# A name and nothing else, so that what stands behind it decides; it may end in `()` but has no arguments there.
_NAME_THEN = re.compile(r"[ \t]*+(?:functions?[.:])?([^\W\d](?:[\w.\-:/]++|\\_)*+)[ \t]*+(?:\(\))?(?:<tool_sep>)?")
_ARG_KEY = re.compile(rf"<{_GLM_NS}arg_key>")
# [ARGS], perhaps with a call's id before it; an id alone announces nothing.
_ARGS_MARK = re.compile(r"(?:\s*+\[CALL_ID\]\s*+[\w-]*+\s*+)?\s*+\[ARGS\]")
_GLM = Tags(
    # A whole key with the tag of its value: a key whose value never opens is cut, not empty.
    re.compile(rf"<{_GLM_NS}arg_key>(?P<key>[^<]*+)</{_GLM_NS}arg_key>(?:\s|\\n)*+<{_GLM_NS}arg_value>"),
    re.compile(rf"</{_GLM_NS}arg_value>"),
    re.compile(rf"</?{_GLM_NS}tool_calls?>|<\||</s>|<｜"),
)
# <function=NAME>, <invoke name="NAME"> and mixtures of both, self-closed too. Not <function> without a name, which is
# a wrapper, and no attribute behind the name. The name may be empty, since the call must then be reported as nameless.
_CALL_TAG = re.compile(
    rf"<{_NS}(?:function|invoke)(?:(?P<equals>\s*+=\s*+)|\s++name\s*+=\s*+)[\"']?(?P<name>[^<>\"'\n]*+)[\"']?\s*+/?>"
)
TAGGED = Tags(
    # <parameter=KEY>, <parameter name="KEY">, both with further attributes; <param name="KEY" value="…"/> holds its
    # value itself, in which any character but its own quote may stand. Not <parameters>, which is a wrapper.
    re.compile(
        rf"<{_NS}(?:parameter|param|arg)(?:\s*+=\s*+[\"']?|\s++name\s*+=\s*+[\"']?)(?P<key>[ \t]*+[^<>\"'\s]++)[\"']?"
        r"(?:\s++value\s*+=\s*+(?P<quote>[\"'])(?P<value>(?:(?!(?P=quote))[\s\S])*+)(?P=quote)[^<>]*+/?|\s++[^<>]*+)?\s*+>"
    ),
    re.compile(rf"</{_NS}(?:parameter|param|arg)(?:=[^<>]*+)?>"),
    # What ends the parameters: a closer of the call or of its wrapper, the next call, a special token. Not other
    # markup, such as <div> or </b>, which belongs to a value.
    re.compile(
        rf"</{_NS}(?:function|invoke|params|parameters|function_calls|functions|tool_calls?|tool| ?calls)>"
        rf"|<{_NS}(?:function=|function name|invoke |tool_call>)|<\||<｜tool|</s>"
    ),
)
_PARAMETERS = re.compile(rf"\s*+<{_NS}(?:params|parameters)>")
_CALL_TAG_ENDS = re.compile(rf"(?:\s*+</{_NS}(?:params|parameters|function|invoke)>)++")
_FAR_CLOSER = 2_000  # characters behind a broken body after which a closer is not its own
_FLAG = re.compile(r"string\s*+=\s*+[\"'](true|false)[\"']")
_TYPE_FLAG = re.compile(r"\btype\s*+=\s*+[\"'](\w++)[\"']")


def read_body(source: Source, pos: int, syntax: Syntax) -> Body | None:
    """Read calls from `pos` on; None if nothing there looks like the body of a call."""
    start = source.skip(pos)
    body = Body(start)
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
        return _tagged(source, pos, syntax, body)
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
        read = _with_surplus(source, read)
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


def read_arguments(source: Source, pos: int) -> JsonRead:
    """Read one JSON value, and step over closers behind it that are too many."""
    return _with_surplus(source, read_value(source, pos))


def _with_surplus(source: Source, read: JsonRead) -> JsonRead:
    surplus = SURPLUS.match(source.text, read.end, source.limit) if read.problem is None else None
    return read if surplus is None else read._replace(end=surplus.end(), repairs=(*read.repairs, "extra_closers"))


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


def _tagged(source: Source, pos: int, syntax: Syntax, body: Body) -> bool:
    """Take `<function=NAME>` or `<invoke name="NAME">` with what is in it."""
    opening = source.match(_CALL_TAG, pos)
    if opening is None:
        return False
    forms = ("function", "function_json") if opening["equals"] else ("invoke", "invoke")
    before = len(body.drafts)
    read_invocation(source, opening.end(), opening["name"], tuple(map(syntax.label, forms)), body, pos)
    return len(body.drafts) > before or body.problem is not None


def read_invocation(source: Source, pos: int, name: str, labels: tuple[str, ...], body: Body, start: int) -> None:
    """Read the content of an opened call tag: parameters in tags, or bare JSON, for which the second label is."""
    name = name.strip().removesuffix("/").rstrip()
    at = source.skip(pos)
    fence = source.match(FENCE, at)
    json_at = source.skip(fence.end()) if fence else at
    if source.text.startswith(("{", '"{', "&"), json_at):
        read = read_value(source, json_at)
        if _take(body, read, start, name, labels[0] if fence else labels[1]):
            _close(source, body)
        return
    inner = source.past(_PARAMETERS, pos)
    members = read_members(source, inner, TAGGED, source.tools.resolve(name).tool)
    body.end = members.end
    if members.cut or (not members.values and source.skip(members.end) >= source.limit):
        body.problem, body.end = "truncated", source.limit
        return
    if not members.values and inner == pos and not source.match(TAGGED.stop, source.skip(pos)):
        return
    draft = Draft(name, dict(members.values), (start, members.end), labels[0], tuple(members.repairs), untyped=True)
    body.drafts.append(_typed_by_flag(source, draft, members))
    _close(source, body)


def _take(body: Body, read: JsonRead, start: int, name: str, label: str) -> bool:
    """Take one call by its arguments; False if they could not be read."""
    body.end, body.problem = read.end, read.problem
    if read.problem is None:
        body.drafts.append(Draft(name, read.value, (start, read.end), label, read.repairs, closed=read.closed))
    return read.problem is None


def _typed_by_flag(source: Source, draft: Draft, members: Members) -> Draft:
    """Decode values whose tag says that they are JSON or of a type."""
    for key, opener in members.openers.items():
        flag, kind = _FLAG.search(opener), _TYPE_FLAG.search(opener)
        wants_json = flag[1] == "false" if flag else kind is not None and kind[1] not in ("string", "str")
        if wants_json and key in members.values:
            read = decode(members.values[key], source.budget)
            draft.arguments[key] = draft.arguments[key] if read is None else read.value
    return draft


def _close(source: Source, body: Body) -> None:
    """Step over the closing tags of a call."""
    end = source.past(_CALL_TAG_ENDS, body.end)
    if end == body.end:
        body.drafts[-1] = _open(body.drafts[-1].mended("missing_close_tag"))
    body.end = end


def _named(source: Source, pos: int, syntax: Syntax, body: Body) -> bool:
    """Take `NAME` with `<arg_key>` pairs, with JSON, or, if declared, alone."""
    text, limit = source.text, source.limit
    head = source.match(_NAME_THEN, pos)
    if head is None:
        return False
    after = source.skip(head.end())
    if source.match(_ARG_KEY, after):
        members = read_members(source, after, _GLM, source.tools.resolve(head[1]).tool)
        body.problem, body.end = ("truncated", limit) if members.cut else (None, members.end)
        if not members.cut:
            span, label = (pos, members.end), syntax.label("pairs")
            body.drafts.append(Draft(head[1], members.values, span, label, tuple(members.repairs), untyped=True))
        return True
    marks = source.match(_ARGS_MARK, head.end())
    after = source.skip(marks.end()) if marks else after
    if text.startswith(("{", "&quot;", "[{") if marks is None else ("{", "&quot;", "[{", '"{'), after):
        _take(body, read_arguments(source, after), pos, head[1], syntax.label("args" if marks else "compact"))
        return True
    if marks is not None and after >= limit:
        body.problem, body.end = "truncated", limit
        return True
    if not source.tools.declared(head[1]) or not (after >= limit or text.startswith(("</", "<|"), after)):
        return False
    body.end = head.end()
    body.drafts.append(Draft(head[1], NOTHING, (pos, head.end()), syntax.label("name"), closed=after < limit))
    return True


def wrapped(source: Source, start: int, pos: int, syntax: Syntax) -> Reading | None:
    """Read a body that begins at `pos`, and what closes it; where that is `start`, the call's own tag opened it."""
    body = read_body(source, pos, syntax)
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
