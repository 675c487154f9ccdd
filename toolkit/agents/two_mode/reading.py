"""Which actions does a tool-mode reply ask for, or why does it ask for none?

Calls are found by `toolkit.extraction`: balanced, aware of strings and thoughts, with recorded repairs. What is added
here is the meaning of `action_input` and one typed reason for every reply without an action.

Not here: running the actions (`toolkit.agents.two_mode.actions.Runner`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolkit.agents.two_mode.actions import KEYS, MISSING, MOST_ACTIONS, NONE_NEEDED, Action, AnyAction, decoded
from toolkit.agents.two_mode.published import REACT_INPUT, Found, Meant, open_brackets
from toolkit.agents.two_mode.turn import Reason
from toolkit.asking import read
from toolkit.errors import ToolArgumentsError, did_you_mean
from toolkit.extraction.resolve import tool_index
from toolkit.extraction.shapes import ARGUMENT_KEYS
from toolkit.extraction.types import ExtractedCall, Extraction
from toolkit.models.base import Reply
from toolkit.prompting.protocols import Protocol, load_protocol
from toolkit.recipes import Recipe
from toolkit.tools import Tool

_INPUT = KEYS[1]
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


FALLBACKS = ("md_json", "json_list", "bare_json", "hermes", "react")  # what models write instead of the published form


def reading_protocol() -> Protocol:
    """Return how tool-mode replies are read: the published form first, then what models write instead."""
    return replace(load_protocol("action_json"), name="two_mode", fallbacks=FALLBACKS)


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


def read_actions(
    reply: Reply, actions: Mapping[str, AnyAction], several: bool = False, recipe: Recipe | None = None
) -> Wanted:
    """Read a tool-mode reply.

    Args:
        reply: the reply, cut at the stop strings.
        actions: the actions there are.
        several: run all actions of a reply; otherwise the first alone.
        recipe: how tool mode is asked and read; by default as `reading_protocol` says.
    """
    recipe = recipe or Recipe("any").using(reading_protocol())
    tools = tool_index(_as_tools(actions))

    def look(text: str) -> Extraction:
        return read(recipe, reply.replace(text=text), tools)

    def takes(name: str, text: str) -> bool:
        tool = tools.resolve(name).tool
        return tool is not None and tool.name in actions and _takes(actions[tool.name], text)

    found = Found(reply.text, look, takes)
    source, calls = found.extraction.source, [one for one in found.calls() if one.call.tool_name != NONE_NEEDED]
    if not found.extraction.calls:
        mentioned = ((one, _wanted(one, actions, source)) for one in found.mentioned())
        calls = [one for one, outcome in mentioned if isinstance(outcome, WantedAction)]
    if not calls:
        return _without(found, actions)
    wanted: list[WantedAction] = []
    for one in calls[: MOST_ACTIONS if several else 1]:
        outcome = _wanted(one, actions, source)
        if isinstance(outcome, Wanted):
            return outcome
        wanted.append(outcome)
    left = len(calls) - len(wanted)
    return Wanted(tuple(wanted), None, f"{left} more asked for and not run." if left else "")


def _wanted(one: Meant, actions: Mapping[str, AnyAction], source: str) -> WantedAction | Wanted:
    """Return the action that a call means, its input checked, or why it is none."""
    call = one.call
    if one.nameless:
        return Wanted((), "not_a_call", "There is JSON, but its action is no name.")
    if call.tool_name not in actions:
        return Wanted((), "unknown_action", _unknown(call.tool_name, actions))
    if "missing_closers" in call.repairs and open_brackets(source[slice(*call.span)]) > 1:
        return Wanted((), "truncated", "The reply was cut off inside the input of the action.")
    action = actions[call.tool_name]
    try:
        value, codes = _input(one, action, source)
        if "duplicate_keys" in (*one.repairs, *codes):
            return Wanted((), "parse_error", "A key stands twice in the JSON, so its meaning is open.")
        return WantedAction(call.tool_name, action.checked(value), tuple(dict.fromkeys((*one.repairs, *codes))))
    except ToolArgumentsError as error:
        return Wanted((), "bad_arguments", str(error))


def _as_tools(actions: Mapping[str, AnyAction]) -> list[Tool]:
    """Return what extraction is to look for."""
    return [*(_as_tool(action) for action in actions.values()), Tool(NONE_NEEDED, "No action is needed.", _NO_INPUT)]


def _as_tool(action: AnyAction) -> Tool:
    if isinstance(action, Action):
        return Tool(action.name, action.description, _ONE_TEXT)
    return action.tool


def _takes(action: AnyAction, text: str) -> bool:
    """Tell whether an action takes a text as it is."""
    if isinstance(action, Action):
        return True
    try:
        return text in action.checked(text).values()
    except ToolArgumentsError:
        return False


def _input(one: Meant, action: AnyAction, source: str) -> tuple[Any, tuple[str, ...]]:
    """Return the input as written, and what was mended in it.

    Raises:
        ToolArgumentsError: it is neither an object nor a text.
    """
    if one.written is None:
        return (one.held if one.held is not None else _other_input(one.call, action, source)), ()
    given, codes = decoded(one.written[_INPUT])
    if not isinstance(action, Action):
        return (one.call.arguments if one.held is None else given), codes
    if given is None or given == "":
        return {}, codes
    if not isinstance(given, (dict, str)):
        raise ToolArgumentsError(f"{_INPUT} of {action.name!r} must be an object or a text, not {repr(given)[:60]}.")
    return given, codes


def _other_input(call: ExtractedCall, action: AnyAction, source: str) -> Any:
    """Return the input of a call in another spelling: a bare text was read as the one argument."""
    if not isinstance(action, Action):
        return call.arguments
    if set(call.arguments) == {_INPUT}:
        return call.arguments[_INPUT]
    written = source[slice(*call.span)]
    given = call.syntax == "react" and (call.arguments or REACT_INPUT.search(written))
    return call.arguments if given or any(key in written for key in ARGUMENT_KEYS) else MISSING


def _without(looked: Found, actions: Mapping[str, AnyAction]) -> Wanted:
    """Say why a reply asks for no action."""
    found = looked.extraction
    if found.calls:
        return Wanted((), "none_needed", "The model said that no action is needed.")
    if found.status == "truncated":
        return Wanted((), "truncated", "The reply was cut off inside the JSON.")
    for rejected in found.rejected:
        named = rejected.name is not None and rejected.name.strip()
        if named and (rejected.reason == "undeclared" or (rejected.reason == "no_name" and looked.published(rejected))):
            return Wanted((), "unknown_action", _unknown(rejected.name or "", actions))
        if reason := _REASONS.get(rejected.reason):
            return Wanted((), reason, rejected.detail or rejected.reason)
    if found.rejected or re.search(r"[{\[]\s*[\"'{}\]]", found.text):
        detail = found.rejected[0].detail if found.rejected else ""
        return Wanted((), "not_a_call", detail or "There is JSON, but it names no action.")
    return Wanted((), "no_json", "The reply holds no JSON.")


def _unknown(name: str, actions: Mapping[str, AnyAction]) -> str:
    return f"There is no action {name!r}. {did_you_mean(name, actions)}"
