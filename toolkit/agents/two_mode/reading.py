"""Which actions does a tool-mode reply ask for, or why does it ask for none?

Calls are found by `toolkit.extraction`: balanced, aware of strings and thoughts, with recorded repairs. What is added
here is the meaning of `action_input` and one typed reason for every reply without an action.

Not here: running the actions (`toolkit.agents.two_mode.actions.Runner`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from toolkit.agents.two_mode.actions import KEYS, MISSING, MOST_ACTIONS, NONE_NEEDED, Action, AnyAction, decoded
from toolkit.agents.two_mode.turn import ActionRun, Reason
from toolkit.asking import read
from toolkit.errors import ToolArgumentsError, did_you_mean
from toolkit.extraction.types import ExtractedCall, Extraction
from toolkit.models.base import Reply
from toolkit.prompting.protocols import Protocol, load_protocol
from toolkit.recipes import Recipe
from toolkit.tools import Tool

_INPUT = KEYS[1]
_ANY_INPUT: dict[str, Any] = {"type": "object", "properties": {_INPUT: {}}}
_NO_INPUT: dict[str, Any] = {"type": "object", "properties": {}}
# reasons of a rejected candidate -> ours; what is not listed was not meant as a call
_REASONS: dict[str, Reason] = {
    "truncated": "truncated",
    "bad_json": "parse_error",
    "not_finite": "parse_error",
    "too_deep": "parse_error",
    "bad_arguments": "bad_arguments",
    "no_arguments": "bad_arguments",
    "no_tool_wanted": "none_needed",
}
_MENDABLE = ("parse_error", "not_a_call", "unknown_action", "bad_arguments", "truncated")
# repairs of arguments that were fitted to a schema, which a free input is not
_FITTING = {"bare_argument", "string_arguments", "double_encoded", "listed_arguments"}


FALLBACKS = ("md_json", "json_list", "bare_json", "hermes", "react")  # what models write instead of the published form
ALIASES = (("name", "arguments"), ("name", "parameters"))  # the other keys that count: what many models were trained on


@cache
def reading_protocol() -> Protocol:
    """Return how tool-mode replies are read: the published form first, then what models write instead."""
    return replace(load_protocol("action_json"), name="two_mode", fallbacks=FALLBACKS, aliases=ALIASES)


@dataclass(frozen=True)
class ToolModeReading:
    """Hold what a tool-mode reply asks for: actions in order, or the reason why there are none."""

    actions: tuple[ActionRun, ...] = ()
    reason: Reason | None = None
    detail: str = ""  # one sentence to the reason, or about what was left out

    @property
    def mendable(self) -> bool:
        """Tell whether the model meant an action and could be asked to write it again."""
        return self.reason in _MENDABLE


def read_actions(
    reply: Reply, actions: Mapping[str, AnyAction], several: bool = False, recipe: Recipe | None = None
) -> ToolModeReading:
    """Read a tool-mode reply that is cut at the stop strings; without a recipe as `reading_protocol` says."""
    recipe = recipe or Recipe("any").using(reading_protocol())
    tools = [Tool(a.name, "", _ANY_INPUT) if isinstance(a, Action) else a.tool for a in actions.values()]
    tools.append(Tool(NONE_NEEDED, "No action is needed.", _NO_INPUT))
    found = read(recipe, reply, tools)
    calls = [call for call in found.calls if call.tool_name != NONE_NEEDED]
    if not calls:
        return _without(found, actions)
    requests: list[ActionRun] = []
    for call in calls[: MOST_ACTIONS if several else 1]:
        if problem := _problem(call, actions, found.source):
            return problem
        try:
            requests.append(_request(call, actions[call.tool_name]))
        except ToolArgumentsError as error:
            return ToolModeReading((), "bad_arguments", str(error))
    left = len(calls) - len(requests)
    return ToolModeReading(tuple(requests), None, f"{left} more asked for and not run." if left else "")


def _problem(call: ExtractedCall, actions: Mapping[str, AnyAction], source: str) -> ToolModeReading | None:
    """Return why a call asks for no action, whatever its input; None if it does."""
    if call.tool_name not in actions:
        return ToolModeReading((), "unknown_action", _unknown(call.tool_name, actions))
    if "missing_closers" in call.repairs and open_brackets(source[slice(*call.span)]) > 1:
        return ToolModeReading((), "truncated", "The reply was cut off inside the input of the action.")
    if "duplicate_keys" in call.repairs:
        return ToolModeReading((), "parse_error", "A key stands twice in the JSON, so its meaning is open.")
    return None


def _request(call: ExtractedCall, action: AnyAction) -> ActionRun:
    """Return the action that a call asks for: a tool's input as it fits the schema, a free one word for word.

    Raises:
        ToolArgumentsError: the input is missing, or the action does not take it.
    """
    if not isinstance(action, Action):
        return ActionRun(action.name, action.checked(call.arguments), repairs=call.repairs)
    given, more = decoded(_free_input(call))
    if not isinstance(given, (dict, str)) and given is not MISSING:
        raise ToolArgumentsError(f"{_INPUT} of {action.name!r} must be an object or a text, not {repr(given)[:60]}.")
    repairs = [code for code in call.repairs if code not in _FITTING]
    return ActionRun(action.name, action.checked(given), repairs=tuple(dict.fromkeys([*repairs, *more])))


def _free_input(call: ExtractedCall) -> Any:
    """Return what a call gives, word for word where that is JSON; else a bare text was read as the one argument."""
    if call.written is None:
        return call.arguments.get(_INPUT, call.arguments or MISSING)
    return call.arguments.get(_INPUT, {}) if call.syntax == "react" and isinstance(call.written, str) else call.written


def _without(found: Extraction, actions: Mapping[str, AnyAction]) -> ToolModeReading:
    """Say why a reply asks for no action."""
    if found.calls:
        return ToolModeReading((), "none_needed", "The model said that no action is needed.")
    if found.status == "truncated":
        return ToolModeReading((), "truncated", "The reply was cut off inside the JSON.")
    for rejected in found.rejected:
        if rejected.name and rejected.name.strip() and rejected.reason in ("undeclared", "no_name"):
            return ToolModeReading((), "unknown_action", _unknown(rejected.name, actions))
        if reason := _REASONS.get(rejected.reason):
            return ToolModeReading((), reason, rejected.detail or rejected.reason)
    if found.rejected or re.search(r"[{\[]\s*[\"'{}\]]", found.text):
        detail = found.rejected[0].detail if found.rejected else ""
        return ToolModeReading((), "not_a_call", detail or f"There is JSON, but no object with {' and '.join(KEYS)}.")
    return ToolModeReading((), "no_json", "The reply holds no JSON.")


def _unknown(name: str, actions: Mapping[str, AnyAction]) -> str:
    return f"There is no action {name!r}. {did_you_mean(name, actions)}"


def open_brackets(text: str) -> int:
    """Count the brackets that are never closed; those in strings do not count.

    >>> open_brackets('{"a": {"b": "}"')
    2
    """
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    return sum(bare.count(char) for char in "{[") - sum(bare.count(char) for char in "}]")
