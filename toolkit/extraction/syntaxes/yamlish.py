"""Read `tool: NAME` and `arguments:` with indented `key: value` lines.

Not here: types of the values (`toolkit.extraction.coerce`).
"""

import re
from collections.abc import Callable
from textwrap import dedent
from typing import Any

from toolkit.extraction.drafts import Draft, Reading, Syntax, spread
from toolkit.extraction.lenient_json import FENCE_END, decode, read_json, read_value
from toolkit.extraction.shapes import ARGUMENT_KEYS
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.types import Rejected

_NAME_LINE = re.compile(
    r"(?:---[^\S\n]*+\n)?(?:-[ ])?[ \t]*+(?:tool|name|function|action|tool_name|function_name)[ \t]*+:[ \t]*+"
    r"[\"'`]?(\w[\w.\-:/]*+)[\"'`]?[ \t]*+(?:\r?\n|$)",
    re.IGNORECASE,
)
_ARGUMENTS_LINE = re.compile(rf"[ \t]*+(?:{'|'.join(ARGUMENT_KEYS)})[ \t]*+:[ \t]*+", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*+(?:---\s*+)?")
_PAIR = re.compile(
    r"(?P<indent>[ \t]*+)[\"']?(?P<key>[^\W\d][\w.\-]*+)[\"']?[ \t]*+:"
    r"(?:[ \t]++(?P<value>[^\n]*+)|[ \t]*+(?=\r?\n|$))(?:\n|$)"
)
_ITEM = re.compile(r"[ \t]*+-[ \t]++(?P<value>[^\n]*+)(?:\n|$)")
_HALF_LINE = re.compile(r"\n?[ \t]++[^\s:]++:?")  # an indented key where the text ends
_COMMENT = re.compile(r"\s++#[^\"'\n]*+$")


@syntax(
    "yamlish", "tool: f\narguments:\n  a: 1\n",
    r"\n(?:---[ \t]*+\n)?(?:-[ ])?[ \t]*+(?:[tT]ool|[nN]ame|[fF]unction|[aA]ction|[tT]ool_name|function_name)"
    r"[ \t]*+:[ \t]*+(?=[\w`\"'])",
    starts="tool Tool name Name function Function action Action",
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `tool: NAME` and `arguments:` with indented `key: value` lines, as 1B to 3B models write calls."""
    at = found.start() + (1 if found[0].startswith("\n") else 0)
    return read_yaml(source, at, at)


def read_yaml(source: Source, start: int, at: int, fenced: bool = False) -> Reading | None:
    """Read calls from `at` on, with `---` or blank lines between; the region begins at `start`."""
    drafts: list[Draft] = []
    end = at
    while True:
        draft = _one(source, source.past(_BETWEEN, end))
        if draft is None:
            break
        if isinstance(draft, Rejected):
            return Reading(source.limit, tuple(drafts), (draft,), explicit=False, open=True)
        drafts.append(draft)
        end = draft.span[1]
    if not drafts:
        return None
    if fenced:
        stop = source.past(FENCE_END, end)
        if stop == end and source.skip(end) < source.limit:
            return None
        end = stop
    return Reading(end, spread(drafts, start, end), explicit=False)


def _one(source: Source, pos: int) -> Draft | Rejected | None:
    """Read one call; its name must be declared and its second line must announce arguments."""
    text, limit = source.text, source.limit
    head = _NAME_LINE.match(text, pos, limit)
    if head is None or not source.tools.may_be(head[1]):
        return None
    announced = _ARGUMENTS_LINE.match(text, head.end(), limit)
    if announced is None:
        return None
    if text.startswith("{", announced.end()):
        read = read_value(source, announced.end())
        if read.problem == "truncated":
            return Rejected((pos, limit), "yamlish", "truncated", "", head[1])
        if read.problem is not None:
            return None
        return Draft(head[1], read.value, (pos, read.end), "yamlish", read.repairs)
    if announced.end() < limit and text[announced.end()] not in "\r\n":
        return None
    values, end = _block(text, source.skip_line(announced.end()), limit, 0, _text)
    values = values or {}
    end = pos + len(text[pos:end].rstrip("\n"))
    if _HALF_LINE.fullmatch(text, end, limit) or (end >= limit and values and _cut([*values.values()][-1])):
        return Rejected((pos, limit), "yamlish", "truncated", "", head[1])
    return Draft(head[1], values, (pos, end), "yamlish", untyped=True, closed=source.skip(end) < limit)


def _cut(value: Any) -> bool:
    """Tell whether a last value cannot be all: it is empty, or the quote that opens it stays open."""
    return value == "" or (isinstance(value, str) and value[0] in "\"'" and value.count(value[0]) % 2 == 1)


def _block(text: str, pos: int, limit: int, outer: int, read: Callable[[str], Any]) -> tuple[Any, int]:
    """Read list items or pairs that are indented deeper than `outer`; a key without a value holds such a block."""
    items: list[Any] = []
    while outer and (item := _ITEM.match(text, pos, limit)) is not None:
        items.append(_typed(item["value"].strip()))
        pos = item.end()
    values: dict[str, Any] = {}
    indent = outer + 1
    while not items and (pair := _PAIR.match(text, pos, limit)) is not None and len(pair["indent"]) >= indent:
        depth = len(pair["indent"])
        indent = indent if values else depth
        key, written, pos = pair["key"], (pair["value"] or "").strip(), pair.end()
        if written in ("|", ">", "|-", ">-"):
            values[key], pos = _lines(text, pos, limit, depth)
        elif written:
            values[key] = read(written)
        else:
            values[key], pos = _block(text, pos, limit, depth, _typed)
    return items or values or "", pos


def _lines(text: str, pos: int, limit: int, depth: int) -> tuple[str, int]:
    """Read a block of text below `key: |`, whose own indent goes and whose further indents stay."""
    lines = []
    while pos < limit:
        stop = text.find("\n", pos, limit)
        stop = limit if stop < 0 else stop
        line = text[pos:stop]
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        lines.append(line.rstrip())
        pos = min(stop + 1, limit)
    return dedent("\n".join(lines)).strip("\n"), pos


def _text(written: str) -> str:
    """Return a value as plain text: what its quotes hold, or all but a comment behind it."""
    if written[:1] not in ("'", '"'):
        return _COMMENT.sub("", written)
    read = read_json(written) if len(written) > 1 and written[-1] == written[0] else None
    return read.value if read is not None and isinstance(read.value, str) else written


def _typed(written: str) -> Any:
    """Return a member of a list or map with its own type, since no schema reaches it as text."""
    text = _text(written)
    read = None if written[:1] in ("'", '"') else decode(text)
    return text if read is None or read.repairs else read.value
