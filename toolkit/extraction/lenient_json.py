"""Read one JSON value from a text and say where it ends: strictly first, then with bounded, recorded repairs.

`json.JSONDecodeError` counts newlines from the start of its text, so decoding from every brace of a long text is
quadratic; here the strict decoder sees only a window that grows while the value goes on.

Not here: the repairs themselves (`values`, `quoted`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from toolkit.extraction.budget import LOOK, Budget, ExhaustedError
from toolkit.extraction.escapes import without_surrogates
from toolkit.extraction.resolve import ToolIndex
from toolkit.extraction.source import Source
from toolkit.extraction.values import Unreadable, ValueReader

WINDOW = 1024
# A fence, or one back-tick or a word for it. A back-tick only before a bracket, a word only before a line break: in
# "`f`(a=1)" and "json.loads(x)" neither is a fence.
FENCE = re.compile(r"(?:```|~~~)[ \t]*+[\w+-]*+[ \t]*+\n?|`(?=[{\[])|(?:json|python|xml)[ \t]*+\n")
FENCE_END = re.compile(r"\s*+(?:```|~~~|`)")
SURPLUS = re.compile(r"(?:\s*+[}\]])++")
_NO_TOOLS = ToolIndex({})
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_DEEPEST = 200
_ITEM_END = 16  # an error this near to the end of a window may be the window's fault


class JsonRead(NamedTuple):
    """Hold a value that was read, or why none could be."""

    value: Any  # the value; None if there is a problem
    end: int  # where it ends, or where reading stopped
    repairs: tuple[str, ...] = ()  # codes of what was mended
    problem: str | None = None  # None, or `truncated`, `bad_json`, `not_finite`, `placeholder`, `too_deep`
    closed: bool = True  # whether its last closer was there
    members: tuple[Any, ...] = ()  # the complete members of an array that is cut


class _RefusedError(ValueError):
    """Say that strict reading must give way to the lenient one."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _RefusedError
    return result


def _constant(name: str) -> Any:
    raise _RefusedError(name)


def _finite(written: str) -> float:
    number = float(written)
    if number in (float("inf"), float("-inf")):  # such as 1e999
        raise _RefusedError(written)
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_finite)


def read_json(text: str, pos: int = 0, budget: Budget | None = None) -> JsonRead:
    """Read the value that begins at `pos`, perhaps behind blanks; without a budget the text has one of its own.

    >>> read_json('{"a": 1, } tail')
    JsonRead(value={'a': 1}, end=10, repairs=('trailing_comma',), problem=None, closed=True, members=())
    """
    try:
        return read_value(Source(text, len(text), _NO_TOOLS, budget or Budget(len(text))), pos)
    except ExhaustedError:
        if budget is not None:
            raise
        return JsonRead(None, pos, (), "budget")


def decode(text: str, budget: Budget | None = None) -> JsonRead | None:
    """Return the one value that the whole text is; None if it is none."""
    read = read_json(text, 0, budget)
    return None if read.problem is not None or text[read.end :].strip() else read


def read_value(source: Source, pos: int) -> JsonRead:
    """Read the value that begins at `pos` of a reply."""
    strict = read_strict(source, pos)
    return strict if strict is not None else mend(source, pos)


def read_strict(source: Source, pos: int) -> JsonRead | None:
    """Read strict JSON only; None if it is not."""
    size, limit = WINDOW, source.limit
    while True:
        stop = min(pos + size, limit)
        window = source.text[pos:stop]
        try:
            value, end = _DECODER.raw_decode(window)
        except json.JSONDecodeError as error:
            cut = error.pos >= len(window) - _ITEM_END or error.msg.startswith("Unterminated")
            source.budget.spend(LOOK + 2 * (len(window) if cut else error.pos))
            if stop == limit or not cut:
                return None
            size *= 8
        except (ValueError, RecursionError):
            source.budget.spend(LOOK + 2 * len(window))
            return None
        else:
            source.budget.spend(LOOK + 2 * end)
            if window.count("{", 0, end) + window.count("[", 0, end) > _DEEPEST and nested(value):
                return JsonRead(None, pos + end, (), "too_deep")
            whole = plain(value) if "\\u" in window and _HALF_PAIR.search(window, 0, end) else value
            return JsonRead(whole, pos + end, () if whole == value else ("lone_surrogate",))


def plain(value: Any) -> Any:
    """Return a decoded value whose texts can be written as UTF-8: U+FFFD stands for each lone surrogate."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    return value


def nested(value: Any) -> bool:
    """Tell whether a value nests deeper than other code can follow."""
    layer = [value]
    for _ in range(_DEEPEST):
        layer = [inner for one in layer if isinstance(one, (dict, list)) for inner in _members(one)]
        if not layer:
            return False
    return True


def _members(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def read_arguments(source: Source, pos: int) -> JsonRead:
    """Read one JSON value, and step over closers behind it that are too many."""
    return with_surplus(source, read_value(source, pos))


def with_surplus(source: Source, read: JsonRead) -> JsonRead:
    """Step over closers behind a value that are too many."""
    surplus = SURPLUS.match(source.text, read.end, source.limit) if read.problem is None else None
    return read if surplus is None else read._replace(end=surplus.end(), repairs=(*read.repairs, "extra_closers"))


def mend(source: Source, pos: int, *, bare_values: bool = False, opened: bool = True) -> JsonRead:
    """Read a value with repairs; `opened=False` reads an object whose opening brace is missing."""
    reader = ValueReader(source, pos, bare_values=bare_values)
    try:
        value = reader.value() if opened else reader.object(0, opened=False)
        if not (opened or reader.closed):
            source.searches.dead.update((key, source.limit) for key in reader.keys)
    except Unreadable as stop:
        if not opened:
            source.searches.dead.update((key, source.limit) for key in reader.keys)
        members = tuple(reader.members) if stop.problem == "truncated" else ()
        return JsonRead(None, stop.position, tuple(reader.repairs), stop.problem, False, members)
    return JsonRead(value, reader.pos, tuple(reader.repairs), None, reader.closed)
