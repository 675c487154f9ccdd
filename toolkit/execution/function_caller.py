"""Run the functions that an assistant's messages ask for, in OpenAI's older form: OpenAIFunctionCaller.

Calls are read from `tool_calls` of our messages, or from a message whose `meta["finish_reason"]` is "tool_calls" and
whose text is the JSON list of calls that OpenAI sent. Text of any other message is never read as a call.

Not here: the newer form, with results tied to their calls (`toolkit.execution.invoker`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from toolkit.errors import ConfigError, ToolArgumentsError, ToolError, ToolNotFoundException, did_you_mean
from toolkit.execution.arguments import as_object
from toolkit.execution.invoker import ToolInvoker
from toolkit.messages import ChatMessage, ChatRole, ToolCall, as_messages
from toolkit.tools import Tool
from toolkit.tools.import_paths import dotted_path, resolve_function, settings_in
from toolkit.tools.shown import safe_str, shown
from toolkit.tools.wiring import parameters_of

_TYPE = "toolkit.execution.function_caller.OpenAIFunctionCaller"
_FINISH = "tool_calls"


class OpenAIFunctionCaller:
    """Run the functions that messages ask for, and answer with messages of role `function`.

    >>> def weather_function(location: str) -> dict:
    ...     return {"temp": 20, "place": location}
    >>> caller = OpenAIFunctionCaller(available_functions={"weather_function": weather_function})
    >>> asked = ChatMessage.from_assistant(tool_calls=[ToolCall("weather_function", {"location": "Oslo"})])
    >>> caller.run([asked])["function_replies"][-1].text
    '{"temp": 20, "place": "Oslo"}'

    Args:
        available_functions: name -> function; sync or async. Typed parameters are checked before the call.

    Raises:
        ConfigError: something in it cannot be called.
    """

    def __init__(self, available_functions: Mapping[str, Callable[..., Any]]) -> None:
        self.available_functions = dict(available_functions)
        tools = [_as_tool(name, function) for name, function in self.available_functions.items()]
        self._invoker = ToolInvoker(tools, convert_result_to_json_string=True) if tools else None

    def run(self, messages: Iterable[Any]) -> dict[str, list[ChatMessage]]:
        """Run every call in the messages.

        The given list stays as it is; the returned one holds the same messages and, after them, one reply per call.

        Returns:
            {"function_replies": [...]} where a message asks for functions: a reply of role `function` per result, and
            an assistant message, saying what was wrong, per call that failed. Else {"assistant_replies": [...]}.
        """
        given = as_messages(messages)
        asked = [entries for entries in map(_asked, given) if entries is not None]
        if not asked:
            return {"assistant_replies": given}
        return {"function_replies": given + [self._answer(entry) for entries in asked for entry in entries]}

    def _answer(self, entry: Any) -> ChatMessage:
        """Run one call, or say why it cannot be read or run."""
        try:
            call = entry if isinstance(entry, ToolCall) else _call(entry)
            if self._invoker is None or call.tool_name not in self.available_functions:
                known = did_you_mean(str(call.tool_name), self.available_functions)
                raise ToolNotFoundException(f"No function is called {call.tool_name!r}. {known}")
            text = self._invoker.invoke(call).result
        except ToolError as error:
            return ChatMessage.from_assistant(safe_str(error), meta={"error": type(error).__name__})
        return ChatMessage.from_function(text, call.tool_name)

    def to_dict(self) -> dict[str, Any]:
        """Return the caller as plain JSON data, functions by import path.

        Raises:
            ConfigError: a function without an import path, such as a lambda.
        """
        paths = {name: dotted_path(function) for name, function in self.available_functions.items()}
        return {"type": _TYPE, "init_parameters": {"available_functions": paths}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OpenAIFunctionCaller:
        """Build a caller from what `to_dict` gave; the data stay as they are.

        This imports the modules that the data names, which runs them. Read only files you trust.

        Raises:
            ConfigError: data of something else, or a path that names no function.
        """
        paths = settings_in(data, _TYPE)["available_functions"]
        return cls({name: resolve_function(path) for name, path in paths.items()})

    def __repr__(self) -> str:
        return f"OpenAIFunctionCaller({', '.join(self.available_functions)})"[:100]


def _as_tool(name: str, function: Any) -> Tool:
    """Make a tool of a function; untyped parameters take any value, but their names are still checked."""
    if isinstance(function, Tool):
        function = function.function
    if not callable(function):
        raise ConfigError(f"available_functions[{name!r}] must be a function, not {function!r}.")
    try:
        return Tool.from_function(function, name=name, description="")
    except ConfigError:
        return Tool(name, "", _loose_schema(function), function)


def _loose_schema(function: Callable[..., Any]) -> dict[str, Any]:
    named = [p for p in (parameters_of(function) or {}).values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = [p.name for p in named if p.default is p.empty]
    return {"type": "object", "properties": {p.name: {} for p in named}, "required": required}


def _asked(message: ChatMessage) -> Sequence[Any] | None:
    """Return what a message asks for, call by call; None where it is a plain reply."""
    if message.tool_calls:
        return message.tool_calls
    if not message.is_from(ChatRole.ASSISTANT) or message.meta.get("finish_reason") != _FINISH:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(entries := json.loads(message.text or ""), list):
            return entries
    return [message.text]


def _call(entry: Any) -> ToolCall:
    """Read one of OpenAI's calls."""
    function = entry.get("function") if isinstance(entry, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        wanted = 'a JSON list of calls, as in [{"function": {"name": …, "arguments": …}}]'
        raise ToolArgumentsError(f"The calls cannot be read: expected {wanted}, got {shown(entry)}.")
    return ToolCall(function["name"], as_object(function.get("arguments"), function["name"]), entry.get("id"))
