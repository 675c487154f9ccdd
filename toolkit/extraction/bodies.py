"""Read what stands inside a wrapper: JSON calls, Python calls, tagged parameters, or a name and its arguments.

Models mix the wrapper of one family with the body of another, so every explicit wrapper takes every body, and the
body names the syntax where it is more telling than the wrapper.

Not here: which wrappers there are (`syntaxes`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from toolkit.extraction.drafts import NOTHING, Draft, Reading, Source, spread
from toolkit.extraction.lenient_json import JsonRead, mend, read_json
from toolkit.extraction.parameters import Members, Tags, read_members
from toolkit.extraction.python_calls import PythonCall, read_calls
from toolkit.extraction.shapes import drafts_in
from toolkit.extraction.types import Rejected

FENCE = re.compile(r"(?:```|~~~)[ \t]*[\w+-]*[ \t]*\n?|`(?=[{\[])|(?:json|python|xml)[ \t]*\n")
FENCE_END = re.compile(r"\s*(?:```|~~~|`)")
_JSON_START = re.compile(r"(?!\[/?[A-Z_]{3,}\])[{\[\"'“‘]|&quot;|&#34;")
_OPEN_PAIR = re.compile(r"[\"'“](?:name|tool|tool_name|function|action|function_name)[\"'”]\s*:")
_PYTHON = re.compile(r"\[*\s*[`'\"]?\s*(?:print\(|\w+\s*=\s*(?=\w))?[A-Za-z_][\w.\\\-/:]*[ \t]*\(")
_SEPARATOR = re.compile(r"\s*[,;]?\s*")
_EXTRA = re.compile(r"(?:\s*[}\]])+")
_NAME_THEN = re.compile(r"[ \t]*(?:functions?[.:])?([^\W\d](?:[\w.\-:/]|\\_)*)[ \t]*(?:\(\))?(?:<tool_sep>)?")
_ARG_KEY = re.compile(r"<(?:\w+_|\w+:)?arg_key>")
_ARGS_MARK = re.compile(r"(?:\s*\[CALL_ID\]\s*[\w-]*\s*)?\s*\[ARGS\]")
_GLM = Tags(
    re.compile(r"<(?:\w+_|\w+:)?arg_key>(?P<key>[^<]*)</(?:\w+_|\w+:)?arg_key>(?:\s|\\n)*<(?:\w+_|\w+:)?arg_value>"),
    re.compile(r"</(?:\w+_|\w+:)?arg_value>"),
    re.compile(r"</?(?:\w+_|\w+:)?tool_calls?>|<\||</s>|<｜"),
)
_CALL_TAG = re.compile(
    r"<(?:\w+:|[｜|]DSML[｜|] ?)?(?:function|invoke)(?:\s*=\s*|\s+name\s*=\s*)[\"']?(?P<name>[^>\"'\n]*?)[\"']?\s*/?>"
)
TAGGED = Tags(
    re.compile(
        r"<(?:\w+:|[｜|]DSML[｜|] ?)?(?:parameter|param|arg)(?:\s*=\s*[\"']?|\s+name\s*=\s*[\"']?)"
        r"(?P<key>[^>\"'\n]+?)[\"']?"
        r"(?:\s+value\s*=\s*(?P<quote>[\"'])(?P<value>(?:(?!(?P=quote))[\s\S])*+)(?P=quote)[^>]*/?|\s+[^>]*)?\s*>"
    ),
    re.compile(r"</(?:\w+:|[｜|]DSML[｜|] ?)?(?:parameter|param|arg)(?:=[^>]*)?>"),
    re.compile(
        r"</(?:\w+:|[｜|]DSML[｜|] ?)?(?:function|invoke|params|parameters|function_calls|functions"
        r"|tool_calls?|tool| ?calls)>"
        r"|<(?:\w+:|[｜|]DSML[｜|] ?)?(?:function=|function name|invoke |tool_call>)|<\||<｜tool|</s>"
    ),
)
CALL_TAG_END = re.compile(r"\s*</(?:\w+:|[｜|]DSML[｜|] ?)?(?:params|parameters|function|invoke)>")


@dataclass(slots=True)
class Body:
    """Hold what was read of a body so far."""

    end: int
    drafts: list[Draft] = field(default_factory=list)
    problem: str | None = None
    repairs: list[str] = field(default_factory=list)
    empty: bool = False


def read_body(source: Source, pos: int, syntax: str) -> Body | None:
    """Read calls from `pos` on; None if nothing there looks like the body of a call."""
    start = source.skip(pos)
    body = Body(start)
    fence = FENCE.match(source.text, start, source.limit)
    if fence is not None:
        body.repairs.append("fence_removed")
        body.end = source.skip(fence.end())
    started = False
    while body.end < source.limit and body.problem is None:
        before, known = body.end, len(body.drafts)
        found = _one(source, before, syntax, body)
        if not found:
            break
        if known and body.problem == "no_name":  # data behind a call, such as a result that the model made up
            body.problem, body.end = None, before
            break
        started = True
        separator = _SEPARATOR.match(source.text, body.end, source.limit)
        after = separator.end() if separator else body.end
        if not _JSON_START.match(source.text, after, source.limit) and not source.text.startswith("<", after):
            break
        body.end = after
    if not started:
        return None
    body.end = pos + len(source.text[pos : body.end].rstrip()) if body.drafts and body.end - pos < 10_000 else body.end
    if fence is not None and (closing := FENCE_END.match(source.text, body.end, source.limit)) is not None:
        body.end = closing.end()
    if body.repairs:
        body.drafts = [draft.mended(*body.repairs) for draft in body.drafts]
    return body


def _one(source: Source, pos: int, syntax: str, body: Body) -> bool:
    """Read one member of a body into `body`; False if none begins at `pos`."""
    text = source.text
    if text.startswith("{", pos):
        return _json(source, pos, read_json(text, pos, source.limit), syntax, body)
    if text.startswith("<", pos):
        return _tagged(source, pos, body, syntax)
    if _OPEN_PAIR.match(text, pos, source.limit):
        return _json(source, pos, mend(text, pos, source.limit, opened=False), syntax, body)
    if _PYTHON.match(text, pos, source.limit):
        return _python(source, pos, syntax, body)
    if _JSON_START.match(text, pos, source.limit):
        return _json(source, pos, read_json(text, pos, source.limit), syntax, body)
    return not body.drafts and _named(source, pos, syntax, body)


def _json(source: Source, pos: int, read: JsonRead, syntax: str, body: Body) -> bool:
    """Take the calls of one JSON value."""
    body.end = read.end
    if read.problem is not None:
        body.problem = read.problem
        span = (pos, read.end)
        body.drafts += drafts_in(list(read.members), source.tools, span, syntax, explicit=True, repairs=read.repairs)
        return True
    end = read.end
    repairs = read.repairs
    extra = _EXTRA.match(source.text, end, source.limit)
    if extra is not None and source.text[pos] in "{[":
        end, repairs = extra.end(), (*repairs, "extra_closers")
    body.end = end
    found = drafts_in(read.value, source.tools, (pos, end), syntax, explicit=True, repairs=repairs)
    if not found:
        body.empty = body.empty or read.value in ([], {}, None, "")
        body.problem = None if body.empty else "no_name"
    body.drafts += [draft if read.closed else _open(draft) for draft in found]
    return True


def _open(draft: Draft) -> Draft:
    return draft._replace(closed=False)


def _python(source: Source, pos: int, syntax: str, body: Body) -> bool:
    """Take Python-like calls."""
    read = read_calls(source.text, pos, source.limit)
    body.end = max(read.end, pos)
    body.drafts += [python_draft(call, syntax, read.closed, source.cut) for call in read.calls]
    body.problem = read.problem
    return bool(read.calls) or read.problem is not None


def python_draft(call: PythonCall, syntax: str, list_closed: bool = True, cut: bool = False) -> Draft:
    """Return the draft of a Python-like call; that its list is not closed counts only where the reply was `cut`."""
    repairs = call.repairs if list_closed else (*call.repairs, "missing_closers")
    return Draft(
        call.name, call.keywords, (call.start, call.end), syntax, tuple(dict.fromkeys(repairs)),
        positional=call.positional, sources=dict(call.sources), closed=call.closed and (list_closed or not cut),
        doubtful=None if call.literal else "expression",
    )  # fmt: skip


def _tagged(source: Source, pos: int, body: Body, syntax: str) -> bool:
    """Take `<function=NAME>` or `<invoke name="NAME">` with what is in it."""
    opening = _CALL_TAG.match(source.text, pos, source.limit)
    if opening is None:
        return False
    family = syntax
    if opening[0].startswith("<function="):
        family = syntax if syntax in ("seed_oss",) else "qwen3_coder"
    elif syntax in ("hermes", "tool_tag"):
        family = "anthropic_xml"
    before = len(body.drafts)
    read_invocation(source, opening.end(), opening["name"], family, body, pos)
    return len(body.drafts) > before or body.problem is not None


def read_invocation(source: Source, pos: int, name: str, syntax: str, body: Body, start: int) -> None:
    """Read the content of an opened call tag: JSON, or parameters in tags."""
    name = name.strip()
    inner = source.skip(pos)
    fence = FENCE.match(source.text, inner, source.limit)
    json_at = source.skip(fence.end()) if fence else inner
    if source.text.startswith(("{", '"{', "&"), json_at):
        read = read_json(source.text, json_at, source.limit)
        body.end, body.problem = read.end, read.problem
        if read.problem is None:
            label = "functionary_v31" if syntax == "qwen3_coder" and not fence else syntax
            draft = Draft(name, read.value, (start, read.end), label, read.repairs, closed=read.closed)
            body.drafts.append(draft)
            _close(source, body)
        return
    wrapper = re.compile(r"\s*<(?:\w+:|[｜|]DSML[｜|] ?)?(?:params|parameters)>").match(source.text, pos, source.limit)
    members = read_members(source, wrapper.end() if wrapper else pos, TAGGED, source.tools.resolve(name).tool)
    body.end = members.end
    if members.cut or (not members.values and source.skip(members.end) >= source.limit):
        body.problem, body.end = "truncated", source.limit
        return
    if not members.values and not wrapper and not TAGGED.stop.match(source.text, source.skip(pos), source.limit):
        return
    draft = Draft(name, dict(members.values), (start, members.end), syntax, tuple(members.repairs), untyped=True)
    body.drafts.append(_typed_by_flag(draft, members))
    _close(source, body)


_FLAG = re.compile(r"string\s*=\s*[\"'](true|false)[\"']")
_TYPE_FLAG = re.compile(r"\btype\s*=\s*[\"'](\w+)[\"']")


def _typed_by_flag(draft: Draft, members: Members) -> Draft:
    """Decode values whose tag says that they are JSON or of a type."""
    for key, opener in members.openers.items():
        flag, kind = _FLAG.search(opener), _TYPE_FLAG.search(opener)
        wants_json = flag[1] == "false" if flag else kind is not None and kind[1] not in ("string", "str")
        if wants_json and key in members.values:
            read = read_json(members.values[key], 0)
            if read.problem is None and not members.values[key][read.end :].strip():
                draft.arguments[key] = read.value
    return draft


def _close(source: Source, body: Body) -> None:
    """Step over the closing tags of a call."""
    closing = CALL_TAG_END.match(source.text, body.end, source.limit)
    if closing is None:
        body.drafts[-1] = _open(body.drafts[-1].mended("missing_close_tag"))
        return
    while closing is not None:
        body.end = closing.end()
        closing = CALL_TAG_END.match(source.text, body.end, source.limit)


def _named(source: Source, pos: int, syntax: str, body: Body) -> bool:
    """Take `NAME` with `<arg_key>` pairs, with JSON, or, if declared, alone."""
    head = _NAME_THEN.match(source.text, pos, source.limit)
    if head is None:
        return False
    after = source.skip(head.end())
    if _ARG_KEY.match(source.text, after, source.limit):
        _pairs(source, pos, after, head[1], syntax, body)
        return True
    marks = _ARGS_MARK.match(source.text, head.end(), source.limit)
    after = source.skip(marks.end()) if marks else after
    if source.text.startswith(("{", "&quot;", "[{") if marks is None else ("{", "&quot;", "[{", '"{'), after):
        label = syntax if not syntax.startswith("mistral") else "mistral_args" if marks else "mistral_compact"
        _arguments(source, pos, after, head[1], label, body)
        return True
    if marks is not None and after >= source.limit:
        body.problem, body.end = "truncated", source.limit
        return True
    if not source.tools.declared(head[1]) or not (after >= source.limit or source.text.startswith(("</", "<|"), after)):
        return False
    body.end = head.end()
    label = "glm45" if syntax == "hermes" else syntax
    body.drafts.append(Draft(head[1], NOTHING, (pos, head.end()), label, closed=after < source.limit))
    return True


def _pairs(source: Source, start: int, pos: int, name: str, syntax: str, body: Body) -> None:
    """Take `<arg_key>` and `<arg_value>` pairs behind a name."""
    members = read_members(source, pos, _GLM, source.tools.resolve(name).tool)
    if members.cut:
        body.problem, body.end = "truncated", source.limit
        return
    body.end = members.end
    label = "longcat" if syntax == "longcat" else "glm45"
    draft = Draft(name, members.values, (start, members.end), label, tuple(members.repairs), untyped=True)
    body.drafts.append(draft)


def _arguments(source: Source, start: int, pos: int, name: str, label: str, body: Body) -> None:
    """Take JSON arguments behind a name."""
    read = read_json(source.text, pos, source.limit)
    body.end, body.problem = read.end, read.problem
    if read.problem is not None:
        return
    extra = _EXTRA.match(source.text, read.end, source.limit)
    body.end, more = (extra.end(), ("extra_closers",)) if extra else (read.end, ())
    draft = Draft(name, read.value, (start, body.end), label, (*read.repairs, *more), closed=read.closed)
    body.drafts.append(draft)


def tagged_calls(source: Source, start: int, syntax: str, closer: re.Pattern[str]) -> Reading | None:
    """Read call tags that stand without their wrapper; the wrapper's closing tag may be left over."""
    body = read_body(source, start, syntax)
    if body is None:
        return None
    if body.problem is not None:
        return _failed(source, start, body, syntax, closer)
    closing = closer.match(source.text, source.skip(body.end), source.limit)
    end = closing.end() if closing else body.end
    return Reading(end, spread(body.drafts, start, end))


def wrapped(source: Source, start: int, pos: int, syntax: str, closer: re.Pattern[str]) -> Reading | None:
    """Read a body and its closing tag.

    Args:
        source: the text.
        start: where the wrapper begins.
        pos: where the body begins.
        syntax: the wrapper's name.
        closer: what closes the wrapper.
    """
    body = read_body(source, pos, syntax)
    if body is None:
        after = closer.match(source.text, source.skip(pos), source.limit)
        if after is None:
            return _cut_open(source, start, pos, syntax)
        return Reading(after.end(), (), (Rejected((start, after.end()), syntax, "empty", "Nothing in it."),))
    if body.problem is not None:
        return _failed(source, start, body, syntax, closer)
    closing = closer.match(source.text, source.skip(body.end), source.limit)
    end = closing.end() if closing else body.end
    if not body.drafts:
        return Reading(end, (), (Rejected((start, end), syntax, "empty", "No call in it."),))
    drafts = list(body.drafts)
    if closing is None and (source.cut or drafts[-1].untyped):  # JSON that is closed itself is whole
        drafts[-1] = _open(drafts[-1])
    return Reading(end, spread(drafts, start, end))


def _cut_open(source: Source, start: int, pos: int, syntax: str) -> Reading | None:
    """Report a marker at the very end of the text, behind which the call was cut."""
    if source.skip(pos) < source.limit:
        return None
    return Reading(source.limit, (), (Rejected((start, source.limit), syntax, "truncated", "Cut behind the marker."),))


def _failed(source: Source, start: int, body: Body, syntax: str, closer: re.Pattern[str]) -> Reading:
    """Report a body that could not be read; what was complete before it is kept."""
    reason = body.problem or "bad_json"
    if reason == "truncated" and source.find(closer, start) is not None:
        reason = "bad_json"  # it was closed, so nothing was cut: the body is wrong
    end = source.limit if reason == "truncated" else body.end
    if reason != "truncated":
        closing = source.find(closer, body.end)
        marker = source.text[start : start + 8]
        if closing is not None and source.text.find(marker, body.end, closing.start()) < 0:
            end = closing.end()
    kept = list(body.drafts)
    cut_from = kept[-1].span[1] if kept else start
    rejected = Rejected((cut_from, end), syntax, reason, "The call was cut." if reason == "truncated" else "")
    drafts = spread(kept, start, cut_from) if kept else ()
    return Reading(max(end, start + 1), drafts, (rejected,))
