"""Which actions does a tool-mode reply ask for, or why does it ask for none?

Calls are found by `toolkit.extraction`: balanced, aware of strings and thoughts, with recorded repairs. What is added
here is the meaning of `action_input` and one typed reason for every reply without an action.

Not here: running the actions (`toolkit.agents.two_mode.actions.Runner`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.agents.two_mode.actions import MISSING, MOST_ACTIONS, NONE_NEEDED, Action, AnyAction
from toolkit.agents.two_mode.turn import Reason
from toolkit.errors import ToolArgumentsError, did_you_mean
from toolkit.extraction import extract
from toolkit.extraction.shapes import ARGUMENT_KEYS
from toolkit.extraction.types import ExtractedCall, Extraction
from toolkit.models.base import Reply
from toolkit.tools import Tool

_INPUT = "action_input"
_ONE_TEXT: dict[str, Any] = {"type": "object", "properties": {_INPUT: {"type": "string"}}}
_NO_INPUT: dict[str, Any] = {"type": "object", "properties": {}}
# reasons of a rejected candidate -> ours; what is not listed was not meant as a call
_REASONS: dict[str, Reason] = {
    "undeclared": "unknown_action",
    "truncated": "truncated",
    "bad_json": "parse_error",
    "not_finite": "parse_error",
    "too_deep": "parse_error",
    "bad_arguments": "bad_arguments",
    "no_arguments": "bad_arguments",
    "no_tool_wanted": "none_needed",
}
_MENDABLE = ("parse_error", "not_a_call", "unknown_action", "bad_arguments", "truncated")


@dataclass(frozen=True)
class Syntax:
    """Say how tool-mode replies are read: the published form first, then what models write instead."""

    syntax: str = "action_json"
    fallbacks: tuple[str, ...] = ("md_json", "json_list", "bare_json", "hermes", "react")


@dataclass(frozen=True)
class WantedAction:
    """Hold one action that a reply asks for, its input checked."""

    name: str
    input: Any
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """Hold what a tool-mode reply asks for: actions, or the reason why there are none.

    Attributes:
        actions: the actions, in order.
        reason: why there are none; None if there are some.
        detail: one sentence to the reason, or about what was left out.
    """

    actions: tuple[WantedAction, ...] = ()
    reason: Reason | None = None
    detail: str = ""

    @property
    def mendable(self) -> bool:
        """Tell whether the model meant an action and could be asked to write it again."""
        return self.reason in _MENDABLE


def read_actions(reply: Reply, actions: Mapping[str, AnyAction], several: bool = False) -> Wanted:
    """Read a tool-mode reply.

    Args:
        reply: the reply, cut at the stop strings.
        actions: the actions there are.
        several: run all actions of a reply; otherwise the first alone.
    """
    found = extract(reply.text, tools=_as_tools(actions), protocol=Syntax(), finish_reason=reply.finish_reason)
    calls = [call for call in found.calls if call.tool_name != NONE_NEEDED]
    if not calls:
        return _without(found, actions)
    wanted: list[WantedAction] = []
    for call in calls[: MOST_ACTIONS if several else 1]:
        if call.tool_name not in actions:
            return Wanted((), "unknown_action", _unknown(call.tool_name, actions))
        if "duplicate_keys" in call.repairs:
            return Wanted((), "parse_error", "A key stands twice in the JSON, so its meaning is open.")
        if "missing_closers" in call.repairs and _open_brackets(found.source[slice(*call.span)]) > 1:
            return Wanted((), "truncated", "The reply was cut off inside the input of the action.")
        try:
            value = actions[call.tool_name].checked(_input(call, actions[call.tool_name], found.source))
        except ToolArgumentsError as error:
            return Wanted((), "bad_arguments", str(error))
        wanted.append(WantedAction(call.tool_name, value, call.repairs))
    left = len(calls) - len(wanted)
    return Wanted(tuple(wanted), None, f"{left} more asked for and not run." if left else "")


def _as_tools(actions: Mapping[str, AnyAction]) -> list[Tool]:
    """Return what extraction is to look for."""
    return [*(_as_tool(action) for action in actions.values()), Tool(NONE_NEEDED, "No action is needed.", _NO_INPUT)]


def _as_tool(action: AnyAction) -> Tool:
    if isinstance(action, Action):
        return Tool(action.name, action.description, _ONE_TEXT)
    return action.tool


def _input(call: ExtractedCall, action: AnyAction, source: str) -> Any:
    """Return the input as written: a bare text was read as the one argument."""
    if not isinstance(action, Action):
        return call.arguments
    if set(call.arguments) == {_INPUT}:
        return call.arguments[_INPUT]
    written = source[slice(*call.span)]
    return call.arguments if any(key in written for key in ARGUMENT_KEYS) else MISSING


def _open_brackets(text: str) -> int:
    """Count the brackets that are never closed; those in strings do not count.

    >>> _open_brackets('{"a": {"b": "}"')
    2
    """
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    return sum(bare.count(char) for char in "{[") - sum(bare.count(char) for char in "}]")


def _without(found: Extraction, actions: Mapping[str, AnyAction]) -> Wanted:
    """Say why a reply asks for no action."""
    if found.calls:
        return Wanted((), "none_needed", "The model said that no action is needed.")
    if found.status == "truncated":
        return Wanted((), "truncated", "The reply was cut off inside the JSON.")
    for rejected in found.rejected:
        if rejected.reason == "undeclared" and rejected.name:
            return Wanted((), "unknown_action", _unknown(rejected.name, actions))
        if reason := _REASONS.get(rejected.reason):
            return Wanted((), reason, rejected.detail or rejected.reason)
    if found.rejected or re.search(r"[{\[]\s*[\"'{}\]]", found.text):
        detail = found.rejected[0].detail if found.rejected else ""
        return Wanted((), "not_a_call", detail or "There is JSON, but it names no action.")
    return Wanted((), "no_json", "The reply holds no JSON.")


def _unknown(name: str, actions: Mapping[str, AnyAction]) -> str:
    return f"There is no action {name!r}. {did_you_mean(name, actions)}"
