"""Read a reply: `extract` gives its calls with provenance, what was turned down and why, the text and the thoughts.

Not here: single syntaxes (`syntaxes`), streaming (`stream`), the HTML view (`html`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

from toolkit.extraction.budget import Budget
from toolkit.extraction.coerce import SURE
from toolkit.extraction.drafts import Draft
from toolkit.extraction.escapes import one_for_one
from toolkit.extraction.lenient_json import nested, plain
from toolkit.extraction.negatives import is_template
from toolkit.extraction.resolve import ToolIndex, tool_index
from toolkit.extraction.scan import syntax_names, triggers
from toolkit.extraction.settle import TAIL, settle
from toolkit.extraction.source import Source
from toolkit.extraction.types import CallKeys, ExtractedCall, Extraction, Rejected, Status
from toolkit.extraction.walk import Candidate, Walk, refused
from toolkit.messages import ToolCall

CallsInThought = Literal["never", "if_only"]
# Reasons that mean that the model tried to call a tool and failed; the others mean that it did not try.
BROKEN = {
    "bad_json", "bad_arguments", "no_name", "not_finite", "too_deep", "bad_body", "no_arguments_given", "budget",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]{3}")
_LEAD = re.compile(r"(?:print\s*+\(|\bawait|\b\w++\s*+=)\s*+$")  # belongs to the call behind it


def extract(
    text: str | None,
    tools: Iterable[Any] | ToolIndex | None = None,
    protocol: Any = "auto",
    *,
    finish_reason: str | None = None,
    native_calls: Iterable[Any] = (),
    calls_in_thought: CallsInThought = "never",
) -> Extraction:
    """Read the calls in a model's reply; never raises on any text.

    >>> reply = '<tool_call>{"name": "f", "arguments": {"a": "1",}}</tool_call>'
    >>> call = extract(reply, tools=[{"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}]).calls[0]
    >>> call.tool_name, call.arguments, call.repairs
    ('f', {'a': 1}, ('trailing_comma', 'coerced'))

    Args:
        text: the reply, with its thoughts if the server left them in.
        tools: what may be called; None if that is not known, so that any name in a marked call will do.
        protocol: `auto` reads every syntax; a name, or an object with `syntax` and `fallbacks`, only that. An object
            may also state the `keys` of a call, and with `aliases` the only others that count.
        finish_reason: what the server said; with `length` a call without its last closer is cut.
        native_calls: calls that the server read; they come first, and the text adds none to them.
        calls_in_thought: `if_only` takes a call in a closed thought with nothing behind it.

    Raises:
        ConfigError: no such syntax, or something in `tools` is no tool.
    """
    index = tool_index(tools)
    if not text and native_calls:  # nothing to walk through
        return read_by_server(native_calls, index, finish_reason)
    names = syntax_names(protocol)
    if text and not native_calls and triggers(names).is_prose(text):
        return Extraction((), (), text.strip(), "", "abstained", text)
    source = new_source(text or "", index, finish_reason, protocol)
    walk = Walk(source, names).run()
    return finish(walk, source, native_calls, calls_in_thought)


def new_source(text: str, index: ToolIndex, finish_reason: str | None, protocol: Any = "auto") -> Source:
    """Return a fresh source for a reply; it can be written as UTF-8, which spans do not notice."""
    if (keys := CallKeys.of(protocol)).pairs:
        index = replace(index, keys=keys)
    if not text.isascii():
        text = one_for_one(text)
    return Source(text, len(text), index, Budget(len(text)), cut=finish_reason == "length")


def finish(walk: Walk, source: Source, native_calls: Iterable[Any], calls_in_thought: str = "never") -> Extraction:
    """Make an Extraction of a walk that is at its end."""
    found, rejected = list(walk.candidates), list(walk.rejected)
    if calls_in_thought == "if_only" and not found and walk.thought_last:
        found = list(walk.thought_last)
        rejected = [one for one in rejected if one.reason != "in_thinking"]
    found = _judged(found, rejected, source)
    calls = [one.call for one in found]
    native = [_native(call, source) for call in native_calls]
    if native:
        rejected += [refused(call, "beside_native", "The server's own reading counts.") for call in calls]
        calls = native
    if len(calls) > 1:
        calls = _flag_repeats(calls)
    said = "".join(walk.text).strip()
    thoughts = "\n".join(piece for piece in walk.thinking if piece)
    return Extraction(tuple(calls), tuple(rejected), said, thoughts, _status(calls, rejected), source.text)


def _judged(found: list[Candidate], rejected: list[Rejected], source: Source) -> list[Candidate]:
    """Return the candidates that are calls in the light of the whole reply, and add the others to `rejected`."""

    def drop(unwanted: Callable[[Candidate], bool], reason: str, detail: str) -> None:
        kept: list[Candidate] = []
        for one in found:
            if unwanted(one):
                rejected.append(refused(one.call, reason, detail))
            else:
                kept.append(one)
        found[:] = kept

    if len(found) > 1 and not all(one.in_sentence for one in found):
        drop(lambda one: one.in_sentence, "in_sentence", "A clearer call stands elsewhere.")
    if found and any(one.reason == "signature" for one in rejected):  # `now()` among signatures is one of them
        drop(lambda one: one.bare and not one.call.arguments, "signature", "It stands among signatures.")
    if found and not found[-1].closed and _is_cut(found[-1].call, source):
        rejected.append(refused(found.pop().call, "truncated", "Cut before its closer."))
    if len(found) > 1:
        wishes = Wishes()
        drop(lambda one: wishes.again(one, source.text), "duplicate", "The same call once more.")
    return found


def _is_cut(call: ExtractedCall, source: Source) -> bool:
    """Tell whether a last call whose closer is missing was cut for certain, with the end of the text.

    That is so if the server says it, or if the call lacks what it needs: a declared name, a required argument.
    """
    if not TAIL.match(source.text, call.span[1]):
        return False
    tool = source.tools.tools.get(call.tool_name)
    whole = source.tools.open or (tool is not None and all(name in call.arguments for name in tool.required))
    return source.cut or not whole


class Wishes:
    """Remember the calls of a reply, to tell a call that is meant twice from one that is only told again."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], Candidate] = {}
        self.end = 0

    def again(self, one: Candidate, text: str) -> bool:
        """Tell whether a call repeats an earlier one in another format, or without a marker behind some prose."""
        key = (one.call.tool_name, json.dumps(one.call.arguments, sort_keys=True))
        twin = self.first.setdefault(key, one)
        between, self.end = _LEAD.sub("", text[self.end : one.call.span[0]]), one.call.span[1]
        if twin is one:
            return False
        if twin.explicit != one.explicit:
            return True
        return not one.explicit and (twin.call.syntax != one.call.syntax or _WORD.search(between) is not None)


def _flag_repeats(calls: list[ExtractedCall]) -> list[ExtractedCall]:
    """Note calls that repeat an earlier one exactly."""
    result: list[ExtractedCall] = []
    for call in calls:
        repeated = any(call.tool_name == one.tool_name and call.arguments == one.arguments for one in result[-8:])
        result.append(replace(call, notes=(*call.notes, "duplicate")) if repeated else call)
    return result


def read_by_server(
    native_calls: Iterable[Any], index: ToolIndex | None, finish_reason: str | None = None
) -> Extraction:
    """Return what a reply without text holds: the calls that the server read."""
    index = index if type(index) is ToolIndex else tool_index(index)
    calls: list[ExtractedCall] = []
    for call in native_calls:
        stands = type(call) is ToolCall and _stands(call, index)
        calls.append(ExtractedCall.of_server(call) if stands else _native(call, new_source("", index, finish_reason)))
    return Extraction.of_calls(tuple(_flag_repeats(calls) if len(calls) > 1 else calls))


def _native(call: Any, source: Source) -> ExtractedCall:
    """Settle a call that the server read."""
    if isinstance(call, ToolCall):
        name, arguments, identity = call.tool_name, call.arguments, call.id
    else:
        function = call.get("function") or call
        name = function.get("name") or function.get("tool_name") or ""
        arguments, identity = function.get("arguments"), call.get("id")
    if nested(arguments):
        return ExtractedCall(name, {}, identity, syntax="native", notes=("too_deep",))
    whole = plain(arguments)
    repairs = () if whole == arguments else ("lone_surrogate",)
    outcome = settle(Draft(name, whole, (0, 0), "native", repairs), source, explicit=True)
    if isinstance(outcome, ExtractedCall):
        return replace(outcome, id=identity)
    given = whole if isinstance(whole, dict) else {}
    return ExtractedCall(name, given, identity, syntax="native", notes=(outcome.reason,))


def _stands(call: ToolCall, index: ToolIndex) -> bool:
    """Tell at a glance whether a call needs no settling, as nearly always: plain values of the declared types."""
    tool, given, words = index.tools.get(call.tool_name), call.arguments, 0
    if tool is None or type(given) is not dict:
        return False
    try:
        schemas = tool.parameters["properties"] if given else {}
        for name, value in given.items():
            schema, kind = schemas[name], type(value)
            if schema["type"] not in SURE[kind] or "$ref" in schema:
                return False
            if kind is str:
                words += 1
                if not value.isascii():
                    return False
    except (KeyError, TypeError):  # no such parameter, no simple type, or no schema
        return False
    return not words or words < len(given) or not is_template(given, tool)


def _status(calls: list[ExtractedCall], rejected: list[Rejected]) -> Status:
    if calls:
        return "called"
    reasons = {one.reason for one in rejected}
    if "truncated" in reasons:
        return "truncated"
    return "broken" if reasons & BROKEN else "abstained"
