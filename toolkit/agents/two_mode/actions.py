"""What may the two-mode agent do, and what does an action's input mean?

An action is a tool whose input is an object of arguments, or a bare text: "all" for a tool that takes nothing, the
one text for a tool with one text parameter. An action of your own, `Action(name, …, run=f)`, gets its input as it is.

Not here: reading an action out of a reply (`toolkit.agents.two_mode.reading`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from toolkit.agents.modes import BLOCKING, Mode, invoked
from toolkit.errors import ConfigError, ToolArgumentsError
from toolkit.execution.invoker import ToolInvoker
from toolkit.execution.threads import run_coroutine
from toolkit.extraction.lenient_json import read_json
from toolkit.messages import ToolCall
from toolkit.prompting import templates
from toolkit.tools import Tool, as_tool, schemas, single_tools

MISSING: Any = object()  # the reply had no action_input at all
NONE_NEEDED = "none"
KEYS = ("action", "action_input")
MOST_ACTIONS = 5  # of one turn, where several are allowed


@dataclass(frozen=True)
class Action:
    """Describe one action with a free input: an object, a text, whatever `run` takes.

    What `run` raises is the action's failure; it may be async.
    """

    name: str  # what the model writes under "action"
    description: str = ""  # when to use it
    run: Callable[[Any], Any] | None = None

    @property
    def shown(self) -> dict[str, Any]:
        """Return what the tool prompt shows of it."""
        return {"name": self.name, "description": self.description, "arguments": [], "example": '"all"'}

    def checked(self, value: Any) -> Any:
        """Return the input as it will be passed.

        Raises:
            ToolArgumentsError: there is none, or a number in its JSON is not finite.
        """
        if value is MISSING:
            raise ToolArgumentsError(f"{self.name!r} needs action_input. Give an object or a text.")
        return decoded(value)[0]


@dataclass(frozen=True)
class ToolAction:
    """Describe an action that is a tool; its input is checked against the tool's schema."""

    tool: Tool

    @property
    def name(self) -> str:
        """Return the tool's name."""
        return self.tool.name

    @property
    def shown(self) -> dict[str, Any]:
        """Return what the tool prompt shows of it."""
        return {
            "name": self.tool.name,
            "description": self.tool.description,
            "arguments": templates.argument_lines(self.tool),
            "example": templates.example(self.tool) if self.tool.required else "{}",
        }

    def checked(self, value: Any) -> Any:
        """Return the arguments as an object that fits the schema.

        Raises:
            ToolArgumentsError: they do not fit; the message names the place.
        """
        return self._ready.checked(self._arguments(decoded(value)[0]))

    @cached_property
    def _ready(self) -> Any:
        from toolkit.execution.ready import make_ready

        return make_ready(self.tool)

    def _arguments(self, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        kinds = self.tool.properties.items()
        texts = [n for n, s in kinds if isinstance(s, Mapping) and s.get("type") == "string" and "enum" not in s]
        needed = self.tool.required or texts
        if isinstance(value, str) and value and len(needed) == 1 and needed[0] in texts:
            return {needed[0]: value}
        if not self.tool.required and (value is MISSING or value is None or isinstance(value, (str, bool))):
            return {}  # "all", "", true and the like: nothing was asked for in particular
        if value is MISSING:
            raise ToolArgumentsError(f"{self.name!r} needs action_input with {', '.join(self.tool.required)}.")
        raise ToolArgumentsError(f"action_input of {self.name!r} must be an object with its arguments, not {value!r}.")


AnyAction = Action | ToolAction


def decoded(value: Any) -> tuple[Any, tuple[str, ...]]:
    """Return an object that was written as JSON text as the object, and what was mended (Source: ollama#6155).

    >>> decoded('{"id": 7}'), decoded("7")
    (({'id': 7}, ('string_arguments',)), ('7', ()))

    Raises:
        ToolArgumentsError: a number in it is not finite.
    """
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value, ()
    text = value.strip()
    read = read_json(text, 0)
    if read.problem == "not_finite":
        raise ToolArgumentsError(f"The JSON in action_input holds a number that is not finite: {text[:60]!r}.")
    if not isinstance(read.value, dict) or not read.closed or text[read.end :].strip():
        return value, ()
    return read.value, ("string_arguments", *read.repairs)


def as_actions(values: Iterable[Any]) -> dict[str, AnyAction]:
    """Read a list of Actions and of whatever `as_tools` reads; return them by name.

    Raises:
        ConfigError: something in it is none of these, two share a name, or one is called "none".
    """
    if isinstance(values, (str, Mapping, Action, Tool)) or not isinstance(values, Iterable):
        raise ConfigError(f"Expected a list of actions, got {values!r}. Put it in brackets.")
    actions: dict[str, AnyAction] = {}
    for value in single_tools(values):
        action = value if isinstance(value, Action) else ToolAction(as_tool(value))
        if action.name in actions or action.name == NONE_NEEDED:
            raise ConfigError(f"An action cannot be called {action.name!r}: the name is taken. Rename it.")
        actions[action.name] = action
    return actions


def reply_schema(actions: Iterable[AnyAction], several: bool = False) -> dict[str, Any]:
    """Return the JSON Schema that holds a tool-mode reply to one action, or to none."""
    known = list(actions)
    tools = [action.tool for action in known if isinstance(action, ToolAction)]
    found = schemas.response_schema(tools, KEYS, "any", parallel=False) if tools else {}
    definitions = found.pop("$defs", {})
    branches = found.get("anyOf", [found] if found else [])
    branches += [
        _object({"action": {"const": action.name}, "action_input": {"anyOf": [{"type": "object"}, {"type": "string"}]}})
        for action in known
        if isinstance(action, Action)
    ]
    if several and branches:
        branches.append({"type": "array", "items": {"anyOf": list(branches)}, "minItems": 2, "maxItems": MOST_ACTIONS})
    schema: dict[str, Any] = {"anyOf": [*branches, _object({"action": {"const": NONE_NEEDED}})]}
    return {**schema, "$defs": definitions} if definitions else schema


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


class Runner:
    """Run actions: by `dispatch(name, input)` where there is one; else free ones directly, tools by a ToolInvoker."""

    def __init__(self, actions: Mapping[str, AnyAction], dispatch: Callable[[str, Any], Any] | None = None) -> None:
        self.actions = actions
        self.dispatch = dispatch
        tools = [action.tool for action in actions.values() if isinstance(action, ToolAction)]
        wanted = tools and dispatch is None
        self._invoker = ToolInvoker(tools, False, True, max_result_chars=None) if wanted else None

    async def run(self, name: str, value: Any, mode: Mode) -> tuple[Any, str | None]:
        """Return (data, None), or (None, how it failed)."""
        action = self.actions[name]
        if self._invoker is not None and isinstance(action, ToolAction):
            result = await invoked(self._invoker, ToolCall(name, value), mode)
            if result.error:
                return None, str(result.result)
            try:
                return json.loads(result.result), None
            except (ValueError, TypeError):  # a tool with a text form of its own
                return result.result, None
        run = getattr(action, "run", None) if self.dispatch is None else partial(self.dispatch, name)
        if run is None:
            return None, f"ConfigError: Action {name!r} has nothing to run. Give it run=, or give the agent dispatch=."
        try:
            data = run(value)
            if hasattr(data, "__await__"):
                data = run_coroutine(data) if mode is BLOCKING else await data
        except Exception as error:  # an action's failure is told to the chat mode
            return None, f"{type(error).__name__}: {error}"
        return data, None
