"""Find the calls in a decoded value: under the keys that a protocol states, else in every spelling that models use.

Not here: whether a name is declared and arguments fit (`settle`), what is an example or a schema (`negatives`).
"""

from __future__ import annotations

from typing import Any

from toolkit.extraction.drafts import Draft
from toolkit.extraction.lenient_json import decode
from toolkit.extraction.resolve import ToolIndex
from toolkit.extraction.source import Source

NAME_KEYS = (
    "name", "tool", "tool_name", "function", "function_name", "action", "func", "command", "recipient_name",
    "toolName", "functionName", "tool_call", "api", "method", "call",
)  # fmt: skip
ARGUMENT_KEYS = (
    "arguments", "parameters", "args", "input", "action_input", "tool_input", "kwargs", "params",
    "function_arguments", "tool_args", "toolInput", "function_args", "tool_arguments", "tool_parameters",
)  # fmt: skip
_NAME_RANK = {key: rank for rank, key in enumerate(NAME_KEYS)}
_ARGUMENT_RANK = {key: rank for rank, key in enumerate(ARGUMENT_KEYS)}
_TEXT_KEYS = {"action_input", "tool_input", "input"}
_IGNORED = {"id", "type", "thought", "confidence", "tool_call_id", "reasoning", "index", "call_id"}
_RESULT_KEYS = frozenset({"content", "result", "output", "observation", "response", "error"})
_LISTS = ("tool_calls", "function_calls", "calls", "tools", "functions", "actions", "tool_uses")
_WRAPPERS = ("function_call", "tool_call", "function", "tool", "action", "call", "tool_use")
_DEEPEST = 6


def drafts_in(value: Any, source: Source, blank: Draft, *, explicit: bool, depth: int = 0) -> list[Draft]:
    """Return the drafts that a decoded value holds, made of a `blank` one; none if it is data."""
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        return [one for item in value for one in drafts_in(item, source, blank, explicit=explicit, depth=depth + 1)]
    if isinstance(value, str):
        return _encoded(value, source, blank, depth) if explicit and depth < 3 else []
    if not isinstance(value, dict):
        return []
    named = _named(value, source.tools, blank, explicit)
    if named is not None:
        return [named]
    for key in (*_LISTS, *_WRAPPERS):
        wrapped = value.get(key)
        if isinstance(wrapped, (dict, list)) and wrapped:
            found = drafts_in(wrapped, source, blank, explicit=explicit, depth=depth + 1)
            if found:
                return found
    return _single_keys(value, source.tools, blank, explicit)


def _encoded(value: str, source: Source, blank: Draft, depth: int) -> list[Draft]:
    """Read a whole call that was written as a JSON string."""
    read = decode(value.strip(), source.budget) if value.lstrip().startswith(("{", "[", '"')) else None
    if read is None:
        return []
    blank = blank._replace(repairs=(*blank.repairs, "double_encoded", *read.repairs))
    return drafts_in(read.value, source, blank, explicit=True, depth=depth + 1)


def _named(value: dict[str, Any], tools: ToolIndex, blank: Draft, explicit: bool) -> Draft | None:
    """Read an object that has a name under a key for names."""
    key, chosen = _keys(value, tools)
    if key is None:
        return None
    name = value[key] if isinstance(value[key], str) else ""
    span, syntax, repairs = blank[2:5]
    if chosen is not None:
        given, exact = value[chosen], tools.keys.only and value.keys() == set(tools.keys.pairs[0])
        if "description" in value and _is_schema(given):
            return blank._replace(name=name, arguments={}, doubtful="schema_echo")
        text = tools.keys.only or chosen in _TEXT_KEYS
        return Draft(name, given, span, syntax, repairs, text_argument=text, exact=exact)
    if "description" in value and not tools.declared(name):
        return None
    rest = {one: inner for one, inner in value.items() if one != key and one not in _IGNORED}
    tool = tools.resolve(name).tool
    known = tool is not None and bool(rest) and all(one in tool.properties for one in rest)
    if tool is not None and known and all(one in rest for one in tool.required):
        return Draft(name, rest, span, syntax, (*repairs, "flat_arguments"))
    if rest and (not explicit or tools.keys.only):
        return None
    if blank.syntax == "md_json" and not _RESULT_KEYS.isdisjoint(rest):  # no marker says that it is a call
        return None
    return blank._replace(name=name, doubtful="schema_echo" if "description" in rest else None)


def _keys(value: dict[str, Any], tools: ToolIndex) -> tuple[str | None, str | None]:
    """Return the keys of name and arguments: those the protocol states, else the likeliest of the usual ones."""
    stated = tools.keys
    for pair in stated.pairs:
        if pair[0] in value and pair[1] in value:
            return pair
    usual = (stated.pairs[0][0],) if stated.only else _NAME_RANK
    keys = [key for key in value if key in usual and isinstance(value[key], str) and value[key].strip()]
    if not keys:
        return None, None
    key = keys[0] if len(keys) == 1 else _best_name(keys, value, tools)
    given = [] if stated.only else [one for one in value if one in _ARGUMENT_RANK and one != key]
    return key, _best_arguments(given, value) if given else None


def _best_name(keys: list[str], value: dict[str, Any], tools: ToolIndex) -> str:
    """Return the key with a declared name, else the most usual one."""
    keys.sort(key=_NAME_RANK.__getitem__)
    return next((one for one in keys if tools.declared(value[one])), keys[0])


def _best_arguments(given: list[str], value: dict[str, Any]) -> str:
    """Return the key with an object, else the most usual one."""
    given.sort(key=_ARGUMENT_RANK.__getitem__)
    return next((one for one in given if isinstance(value[one], dict)), given[0])


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and ("properties" in value or value.get("type") == "object" or not value)


def _single_keys(value: dict[str, Any], tools: ToolIndex, blank: Draft, explicit: bool) -> list[Draft]:
    """Read `{NAME: ARGS}`: every key is a tool's name."""
    if not 0 < len(value) <= 64 or tools.keys.only or not all(tools.declared(key) for key in value):
        return []
    written = [inner for inner in value.values() if not isinstance(inner, dict)]
    if not all(one is None or (isinstance(one, str) and one.strip()[:1] in ("{", "")) for one in written):
        return []
    if len(value) > 1 and not explicit and any(one in (None, "") for one in written):
        return []  # a table of tools, not several calls
    label = blank.syntax if explicit else "single_key"
    return [Draft(key, inner, blank.span, label, blank.repairs) for key, inner in value.items()]
