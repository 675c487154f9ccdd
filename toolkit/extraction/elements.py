r"""Read a call that is written in elements: one grammar for every spelling of its name and of its arguments.

    the name        <function=NAME>, <invoke name="NAME">, <tool_call tool="NAME">, <NAME> if declared: its own element;
                    <tool_name>NAME</tool_name>, before or behind the arguments
    the arguments   an object, perhaps in a fence; <parameter=KEY>, <param name="KEY">, <arg_key>KEY</arg_key> with its
                    value; <KEY> elements; attributes; or <arguments>, <args>, <parameters> with any of these in it

Not here: the values of parameters (`parameters`), what is no element (`bodies`), which wrappers there are (`syntaxes`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from toolkit.extraction.budget import LOOK
from toolkit.extraction.drafts import NOTHING, Body, Draft, Syntax
from toolkit.extraction.lenient_json import FENCE, FENCE_END, read_arguments
from toolkit.extraction.parameters import NS, Tags, put, read_members
from toolkit.extraction.resolve import NAME, ToolSpec
from toolkit.extraction.shapes import ARGUMENT_KEYS, NAME_KEYS
from toolkit.extraction.source import Source

# elements of a call that may name its tool in an attribute
CALLERS = (
    "function|invoke|tool|tool_?call|function_?call|tool_?use|use_?tool|use_mcp_tool|tool_?request|call|action|api_call"
    "|tool_?invocation|tool_?invoke"
)
# elements that hold nothing but a tool's name; those of the first kind are nothing else
NAMERS = "tool_?name|function_?name|invoke_?name|action_?name|api_?name|recipient_name|name|func"
_NAMER = re.compile(rf"(?i:{NAMERS}|{CALLERS}|{'|'.join(NAME_KEYS)})")
_CALLER = re.compile(f"(?i:{CALLERS})")
_GIVEN = re.compile(rf"(?i:{'|'.join(ARGUMENT_KEYS)}|argument|arg)")
_ATTRIBUTE = r"\s++[\w:.-]++\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+'|[^\s\"'<>]++)"
# The bracket of <function=NAME> may be lost before the next tag.
_TAG = re.compile(
    rf"<\s*+{NS}(?P<tag>[^\W\d][\w.\-]*+)"
    rf"(?:(?P<equals>\s*+=\s*+)[\"']?(?P<name>[^<>\"'\n]*+)[\"']?|(?P<attributes>(?:{_ATTRIBUTE})*+))"
    r"\s*+(?P<alone>/)?(?(equals)(?:>|(?=</?(?:function|parameter)\b))|>)"
)
_KEYED = re.compile(r"\s(?:name|key)\s*+=")
_PAIRS = re.compile(r"\s([\w:.-]++)\s*+=\s*+(?:\"([^\"<]*+)\"|'([^'<]*+)'|([^\s\"'<>]++))")
_NAME_ATTRIBUTES = {"name", "tool", "function", "tool_name", "function_name", "toolname"}
_GLM = r"(?:\w{1,40}[_:])?(?:arg|param|parameter|argument)_"
# a whole key with the tag of its value: a key whose value never opens is cut, or its value stands there all the same
PAIRS = Tags(
    re.compile(
        rf"<{_GLM}(?:key|name)>(?P<key>[^<]*+)</{_GLM}(?:key|name)>(?:\s|\\n)*+"
        rf"(?:<{_GLM}value>|(?=[^<\s][^<]*+</{_GLM}value>))"
    ),
    re.compile(rf"</{_GLM}value>"),
    re.compile(rf"</?(?:\w{{1,40}}[_:])?tool_calls?>|</?{_GLM}key>|<\||</s>|<｜"),
    tight=True,
)
_STOP = (
    # what ends the parameters: a closer of the call or of its wrapper, the next call, a special token. Not other
    # markup, such as <div> or </b>, which belongs to a value
    rf"</{NS}(?:function|invoke|params|parameters|function_calls|functions|tool_calls?|tool| ?calls)>"
    rf"|<{NS}(?:function=|function name|invoke |tool_call>)|<\||<｜tool|</s>"
)
_TAGGED = Tags(
    # <parameter=KEY>, <parameter name="KEY">, both with further attributes; <param name="KEY" value="…"/> holds its
    # value itself, in which any character but its own quote may stand. Not <parameters>, which is a wrapper.
    re.compile(
        rf"<{NS}(?:parameter|param|argument|arg)(?:\s*+=\s*+[\"']?|\s++(?:name|key)\s*+=\s*+[\"']?)"
        r"(?P<key>[ \t]*+[^<>\"'\s]++)[\"']?"
        r"(?:\s++value\s*+=\s*+(?P<quote>[\"'])(?P<value>(?:(?!(?P=quote))[\s\S])*+)(?P=quote)[^<>]*+/?|\s++[^<>]*+)?\s*+>"
    ),
    re.compile(rf"</{NS}(?:parameter|param|argument|arg)(?:=[^<>]*+|/|\d|_?function)?>"),  # as models misspell it
    re.compile(_STOP),
)
_SPELT = Tags(  # <parameter><name>KEY</name><value>…</value></parameter>
    re.compile(r"<(?:parameter|param|argument|arg)>\s*+<(?:name|key)>(?P<key>[^<]*+)</(?:name|key)>\s*+<value>"),
    re.compile(r"</value>\s*+</(?:parameter|param|argument|arg)>"),
    re.compile(_STOP),
)
_LOOSE = re.compile(rf"</?{_GLM}(?:key|name|value)>")  # a tag of a pair whose other tags are lost
_PARAMETER = re.compile(rf"<{NS}(?:parameter|param|argument|arg)\b")
_CDATA, _CDATA_END = re.compile(r"<!\[CDATA\[\s*+"), re.compile(r"\s*+\]\]>")
_CALL_ENDS = re.compile(rf"(?:\s*+</{NS}(?:function|invoke)>)++")
_ASIDE = re.compile(  # what may stand between the parts of a call
    r"<(?P<tag>(?i:server_?name|server|id|call_id|tool_call_id|type|index|thought|reason|reasoning|explanation))>"
    r"[^<]{0,2000}+</(?P=tag)>"
)
_CUT = re.compile(r"<[\w:]{0,40}+(?:$|>[\w.\-:/\s]{0,200}+$)")  # half a tag, or half a name in an element
_LINE = re.compile(r"[ \t]*+[\"']?([^\W\d]\w*+)[\"']?[ \t]*+[:=][ \t]*+([^<\n]{0,400}[^<\s])[ \t]*+(?:\n\s*+|(?=<|$))")
_DESCRIBED = re.compile(r"\s*+<description\b")
_LONGEST_NAME, _DEEPEST = 200, 3
_NO_TOOL = ToolSpec("", {})


class Given(NamedTuple):
    """Hold arguments as they were written."""

    value: Any  # as in a Draft: an object, a text that holds one, texts by name (`untyped`), or NOTHING
    end: int
    repairs: tuple[str, ...] = ()
    problem: str | None = None
    closed: bool = True
    untyped: bool = False
    form: str = ""  # `json`, `fenced`, `pairs`, or `text`, which may be the single text parameter


class _Element(NamedTuple):
    """Hold the opening tag of a call's own element."""

    start: int  # where the call begins
    end: int
    tag: str
    name: str
    attributes: dict[str, str]
    alone: bool  # it closes itself
    form: str  # `function`, `invoke`, or `tag` where HTML may have it too, so that it must look like a call


def read_element(source: Source, pos: int, syntax: Syntax, body: Body) -> bool:
    """Read one call in elements into `body`; False if none begins at `pos`."""
    source.budget.spend(LOOK)
    at = _past_asides(source, pos, None) if body.inside else pos
    if body.inside and not body.drafts and source.match(_CUT, at):
        source.touch_end()
        return _problem(body, Given(NOTHING, source.limit, problem="truncated"))
    opened = source.match(_TAG, at)
    if opened is None:
        return False
    tag, found = opened["tag"], _PAIRS.finditer(opened["attributes"] or "")
    attributes = {pair[1]: pair[2] or pair[3] or pair[4] or "" for pair in found}
    named = [value for key, value in attributes.items() if key.lower() in _NAME_ATTRIBUTES]
    if (opened["equals"] or named) and _CALLER.fullmatch(tag):
        written = (opened["name"] if opened["equals"] else named[0]).strip()
        name, form = written.removesuffix("/").rstrip(), "function" if opened["equals"] else "invoke"
        alone = opened["alone"] is not None or name != written
        return _own(source, _Element(pos, opened.end(), tag, name, attributes, alone, form), syntax, body)
    if not attributes and (held := _held_name(source, opened)) is not None:
        return _apart(source, pos, *held, syntax, body)
    if _GIVEN.fullmatch(tag) and not attributes and body.inside:
        return _name_behind(source, pos, syntax, body)
    alone = opened["alone"] is not None
    element = _Element(pos, opened.end(), tag, tag, attributes, alone, "tag")
    return source.tools.declared(tag) and _own(source, element, syntax, body)


def _held_name(source: Source, opened: re.Match[str]) -> tuple[str, int] | None:
    """Return the name that an element holds and nothing else, and where the element ends."""
    if opened["alone"] or not _NAMER.fullmatch(opened["tag"]):
        return None
    text, at = source.text, source.skip(opened.end())
    stop = text.find("<", at, min(source.limit, at + _LONGEST_NAME))
    closing = source.match(_closer(opened["tag"]), stop) if stop > at else None
    name = text[at:stop].strip().replace("\\_", "_")
    return (name, closing.end()) if closing and NAME.fullmatch(name) else None


def _own(source: Source, element: _Element, syntax: Syntax, body: Body) -> bool:
    """Read a call whose own element was opened."""
    tool, by_tag = source.tools.resolve(element.name).tool, element.form == "tag"
    given = Given(NOTHING, element.end) if element.alone else read_given(source, element.end, tool, element.tag)
    if given.problem is not None:
        return not (by_tag and given.problem != "truncated") and _problem(body, given)
    end = given.end if element.alone else _past_closer(source, given.end, element.tag)
    closed = element.alone or end > given.end
    if given.value is NOTHING:
        given = _in_attributes(element, tool) or given
    if given.value is NOTHING:
        after = source.skip(end)
        if not closed and not by_tag and after >= source.limit:
            source.touch_end()
            return _problem(body, given._replace(problem="truncated", end=source.limit))
        required = by_tag and tool is not None and tool.required
        loose = _PARAMETER.match(source.text, after, source.limit) or _TAGGED.stop.match(
            source.text, after, source.limit
        )
        if required or not (closed or (not by_tag and loose)):
            return False
        given = given._replace(value={}, untyped=True)
    if given.value == {} and not by_tag and _PARAMETER.match(source.text, source.skip(element.end), source.limit):
        return _problem(body, given._replace(problem="bad_body"))
    given = _bare(given, tool)
    if by_tag and tool and isinstance(given.value, dict) and given.value and not _known(given.value, tool):
        return False
    label = syntax.label("function_json" if (element.form, given.form) == ("function", "json") else element.form)
    add(body, element.start, element.name, given, label, end)
    if not closed:
        body.drafts[-1] = body.drafts[-1].mended("missing_close_tag")._replace(closed=False)
    return True


def _problem(body: Body, given: Given) -> bool:
    """Report arguments that could not be read."""
    body.end, body.problem = given.end, given.problem
    return True


def _known(value: dict[str, Any], tool: ToolSpec) -> bool:
    return not value.keys().isdisjoint(tool.properties)


def _bare(given: Given, tool: ToolSpec | None) -> Given:
    """Return the arguments alone where they stand in an object under a key of their own, as in a call's JSON."""
    value = given.value
    if tool is None or not isinstance(value, dict) or value.keys() <= tool.properties.keys():
        return given
    inner = [value[key] for key in ARGUMENT_KEYS if isinstance(value.get(key), dict) and key not in tool.properties]
    return given._replace(value=inner[0]) if inner else given


def _in_attributes(element: _Element, tool: ToolSpec | None) -> Given | None:
    """Return the arguments that stand in attributes of the tag that names the tool."""
    known = {}
    for key, value in element.attributes.items():
        if _GIVEN.fullmatch(key) and value.lstrip().startswith("{"):
            return Given(value, element.end)
        if tool and key in tool.properties and (element.form == "tag" or key not in _NAME_ATTRIBUTES):
            known[key] = value
    return Given(known, element.end, untyped=True) if known else None


def _past_closer(source: Source, pos: int, tag: str) -> int:
    """Return the position behind the closing tag of a call."""
    if tag in ("function", "invoke"):  # which models mix up
        return source.past(_CALL_ENDS, pos)
    return source.past(_closer(tag), source.skip(pos))


@lru_cache(maxsize=256)
def _closer(tag: str) -> re.Pattern[str]:
    return re.compile(rf"</\s*+{NS}{re.escape(tag)}\s*+>")


def _past_asides(source: Source, pos: int, tool: ToolSpec | None) -> int:
    """Return the position behind elements that say nothing of the call."""
    while (aside := source.match(_ASIDE, source.skip(pos))) is not None:
        if tool is not None and aside["tag"] in tool.properties:
            break
        pos = aside.end()
    return source.skip(pos)


def _apart(source: Source, start: int, name: str, end: int, syntax: Syntax, body: Body) -> bool:
    """Read the arguments behind an element that holds the name."""
    tool = source.tools.resolve(name).tool
    if tool is None and not (body.inside or source.tools.open):
        return False
    given = read_behind(source, _past_asides(source, end, tool), tool, body.inside)
    if given.problem is not None:
        return _problem(body, given)
    if given.value is NOTHING:
        if tool is None:
            return False
        given = given._replace(end=end)
    add(body, start, name, given, syntax.label(given.form))
    if source.match(_DESCRIBED, end):
        body.drafts[-1] = body.drafts[-1]._replace(doubtful="schema_echo")
    return True


def _name_behind(source: Source, start: int, syntax: Syntax, body: Body) -> bool:
    """Read arguments in an element, and the name in another behind it."""
    given = read_given(source, start, None)
    if given.value is NOTHING or given.problem is not None:
        return False
    opened = source.match(_TAG, _past_asides(source, given.end, None))
    held = _held_name(source, opened) if opened else None
    if held is not None:
        add(body, start, held[0], given, syntax.label(given.form), held[1])
    return held is not None


def add(body: Body, start: int, name: str, given: Given, label: str, end: int | None = None) -> None:
    """Take a call with these arguments; it ends with them, if nothing else is said."""
    body.end = given.end if end is None else end
    draft = Draft(name, given.value, (start, body.end), label, given.repairs, given.untyped, closed=given.closed)
    body.drafts.append(draft._replace(text_argument=True) if given.form == "text" else draft)


def read_behind(source: Source, pos: int, tool: ToolSpec | None, inside: bool) -> Given:
    """Read arguments behind a name; where no wrapper holds both, only what can be nothing else is taken for them."""
    given = _bare(read_given(source, pos, tool, "" if inside and tool is not None else None), tool)
    after = source.skip(pos)
    if after >= source.limit or (source.text[after] == "<" and source.text.find(">", after, source.limit) < 0):
        source.touch_end()
    if inside or given.form not in ("json", "fenced"):
        return given
    if given.problem is not None:
        return given if tool and tool.required else Given(NOTHING, pos)
    whole = tool and isinstance(given.value, dict) and given.value and given.value.keys() <= tool.properties.keys()
    return given if whole else Given(NOTHING, pos)


def read_given(source: Source, pos: int, tool: ToolSpec | None, own: str | None = None, depth: int = 0) -> Given:
    """Read arguments in any form; NOTHING if there are none.

    Args:
        source: where they stand.
        pos: where they begin, perhaps behind blanks.
        tool: whose they are, if it is declared.
        own: the tag whose element holds them and nothing else, so that any element in it is a parameter; "" if that
            element has no name, None if only declared parameters count.
        depth: how many elements for arguments are open.
    """
    at = source.skip(pos)
    cdata = source.past(_CDATA, at)
    fence = source.match(FENCE, cdata)
    json_at = source.skip(fence.end()) if fence else cdata
    if source.text.startswith(("{", '"{', "&quot;", "&#34;", "[{"), json_at):
        return _object(source, json_at, fence is not None, cdata > at)
    if source.match(_LOOSE, at):
        return _members(source, at, _within(PAIRS, own), tool, own)
    opened = source.match(_TAG, at)
    if opened is None:
        return _lines(source, at, tool) if tool and own is not None else Given(NOTHING, pos)
    held = _GIVEN.fullmatch(opened["tag"]) and not opened["equals"] and not _KEYED.search(opened["attributes"] or "")
    spelt = _SPELT.opener.match(source.text, at, source.limit)
    if held and depth < _DEEPEST and not spelt and not (tool and opened["tag"] in tool.properties):
        return _enclosed(source, opened, tool, depth + 1)
    for tags in (_TAGGED, _SPELT):
        if tags.opener.match(source.text, at, source.limit):
            return _members(source, at, _within(tags, own), tool, own)
    if own is None and (tool is None or opened["tag"] not in tool.properties):
        return Given(NOTHING, pos)
    declared = tuple(tool.properties) if tool and own is None else None
    return _members(source, at, _children(own, declared), tool or _NO_TOOL, own)


def _object(source: Source, pos: int, fenced: bool, cdata: bool) -> Given:
    """Read arguments in JSON."""
    read = read_arguments(source, pos)
    end = source.past(FENCE_END, read.end) if fenced and read.problem is None else read.end
    end = source.past(_CDATA_END, end) if cdata else end
    return Given(read.value, end, read.repairs, read.problem, read.closed, form="fenced" if fenced else "json")


def _enclosed(source: Source, opened: re.Match[str], tool: ToolSpec | None, depth: int) -> Given:
    """Read what an element such as `<arguments>` holds: arguments in any form, or plain text."""
    if opened["alone"]:
        return Given({}, opened.end())
    closer = _closer(opened["tag"])
    given = read_given(source, opened.end(), tool, opened["tag"], depth)
    if given.problem is not None:
        return given
    end = source.past(closer, source.skip(given.end))
    if given.value is not NOTHING and end > given.end:
        return given._replace(end=end)
    if given.value is not NOTHING:
        return given._replace(closed=False, repairs=(*given.repairs, "missing_close_tag"))
    closing = source.find(closer, opened.end())
    if closing is None:
        source.touch_end()
        return given._replace(problem="truncated", end=source.limit)
    text = source.text[opened.end() : closing.start()].strip()
    return Given(text, closing.end(), form="text") if text else Given({}, closing.end())


def _members(source: Source, pos: int, tags: Tags, tool: ToolSpec | None, own: str | None) -> Given:
    """Read arguments in elements; other elements behind them in the call's own would be lost, so that it is broken."""
    members = read_members(source, pos, tags, tool)
    problem = "truncated" if members.cut else "bad_body" if members.torn else None
    pairs = tags.opener is PAIRS.opener
    after = source.skip(members.end)
    other = source.match(_TAG, after) if own is not None and problem is None and members.values else None
    if other and not (_CALLER.fullmatch(other["tag"].removesuffix("s")) or source.tools.declared(other["tag"])):
        problem = "bad_body"
    if problem is None and pairs and source.match(_LOOSE, after):
        problem = "bad_body"
    if not (members.values or problem):
        return Given(NOTHING, pos)
    form = "pairs" if pairs else ""
    end = source.limit if members.cut else members.end
    return Given(members.values, end, tuple(members.repairs), problem, untyped=True, form=form)


def _lines(source: Source, pos: int, tool: ToolSpec) -> Given:
    """Read arguments in lines such as `KEY: VALUE`, which fill the element that they stand in."""
    values: dict[str, Any] = {}
    end = pos
    while (line := source.match(_LINE, end)) is not None and line[1] in tool.properties:
        put(values, line[1], line[2])
        end = line.end()
    if not values or not source.text.startswith("</", end):
        return Given(NOTHING, pos)
    return Given(values, end, untyped=True)


@lru_cache(maxsize=256)
def _children(own: str | None, keys: tuple[str, ...] | None) -> Tags:
    """Return the tags of parameters that are elements of their own, each closed by its name."""
    key = r"[^\W\d][\w.\-]*+" if keys is None else "|".join(map(re.escape, keys))
    return _within(Tags(re.compile(rf"<[ \t]*+(?P<key>{key})(?:{_ATTRIBUTE})*+[ \t]*+>"), None, re.compile(_STOP)), own)


@lru_cache(maxsize=256)
def _within(tags: Tags, own: str | None) -> Tags:
    """Return the tags of parameters that stand in an element of this name, whose closing tag ends them."""
    if not own:
        return tags
    return replace(tags, stop=re.compile(rf"</\s*+{NS}{re.escape(own)}\s*+>|{tags.stop.pattern}"))
