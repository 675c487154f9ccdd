"""How do names, and messages and tools of other libraries, become ours?

A message may be text, a ChatMessage, an OpenAI dict or a LangChain message; a tool may be a Tool, a function, a
LangChain tool, or any object with a name that has `invoke(args)` or can be called.

Not here: messages and tools themselves (`toolkit.messages`, `toolkit.tools`).
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage, ChatRole, ToolCall
from toolkit.tools import Tool, Toolset, as_tool

# LangChain's and chat servers' words for the four roles
_ROLES = {"human": "user", "ai": "assistant", "developer": "system", "function": "tool"}
# blocks that are text, or that say again what a message's calls say
_SPOKEN_BLOCKS = ("text", "thinking", "reasoning", "tool_use", "tool_call", "function_call")
_OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


@dataclass(frozen=True)
class Spoken:
    """Hold one message before its content is turned into text.

    Attributes:
        role: system, user, assistant or tool.
        content: text, or a list of content blocks.
        message: the same message as a ChatMessage.
    """

    role: str
    content: Any
    message: ChatMessage = field(compare=False)


def as_spoken(messages: Any) -> list[Spoken]:
    """Read a conversation and keep each content as it was given.

    Raises:
        ConfigError: something in it is no message.
    """
    if isinstance(messages, (str, ChatMessage, Mapping)) or _is_langchain(messages):
        messages = [messages]
    if not isinstance(messages, Iterable):
        raise ConfigError(f"{messages!r} is no conversation. Give text, a message, or a list of messages.")
    return [_spoken(item) for item in messages]


def as_chat_messages(spoken: Sequence[Spoken]) -> list[ChatMessage]:
    """Return the messages as ChatMessages."""
    return [item.message for item in spoken]


def warn_of_blocks(spoken: Sequence[Spoken], warned: set[str], who: str) -> None:
    """Warn once of each kind of content block that does not reach the model: only text does."""
    blocks = [block for item in spoken if isinstance(item.content, list) for block in item.content]
    for kind in (str(block.get("type")) for block in blocks if isinstance(block, Mapping)):
        if kind not in _SPOKEN_BLOCKS and f"{kind} block" not in warned:
            warned.add(f"{kind} block")
            warnings.warn(
                f"{who} drops content blocks of type {kind!r}: only text reaches the model.", UserWarning, stacklevel=4
            )


def _is_langchain(value: Any) -> bool:
    return isinstance(getattr(value, "type", None), str) and hasattr(value, "content")


def _spoken(item: Any) -> Spoken:  # one line per kind of message
    if isinstance(item, Spoken):
        return item
    if isinstance(item, str):
        return Spoken("user", item, ChatMessage.from_user(item))
    if isinstance(item, ChatMessage):
        return Spoken(item.role.value, item.text or "", item)
    if isinstance(item, tuple) and len(item) == 2:  # LangChain's ("human", "text")
        item = {"role": item[0], "content": item[1]}
    if _is_langchain(item):
        item = _wire_form(item)
    if isinstance(item, Mapping) and "_role" in item:
        return _spoken(ChatMessage.from_dict(item))
    if isinstance(item, Mapping) and "role" in item:
        role = _ROLES.get(item["role"], item["role"])
        return Spoken(str(role), item.get("content"), ChatMessage.from_dict({**item, "role": role}))
    raise ConfigError(
        f"{item!r} is no message. Give text, a ChatMessage, a dict with role and content, or a list of these."
    )


def _wire_form(message: Any) -> dict[str, Any]:
    """Return a LangChain message in OpenAI's form."""
    content = message.content
    if isinstance(content, list):  # LangChain allows bare text among the blocks
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    data: dict[str, Any] = {"role": getattr(message, "role", message.type), "content": content}
    if calls := getattr(message, "tool_calls", None):
        data["tool_calls"] = [{"id": c.get("id"), "name": c["name"], "arguments": c.get("args") or {}} for c in calls]
    for name in ("tool_call_id", "name"):
        if value := getattr(message, name, None):
            data[name] = value
    return data


def link_results(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Give each tool result the call it answers, found by its id among the earlier calls.

    A result on the wire carries an id only, while a prompt needs the tool's name.
    """
    calls: dict[str, ToolCall] = {}
    linked: list[ChatMessage] = []
    for message in messages:
        calls.update({call.id: call for call in message.tool_calls if call.id})
        result = message.tool_call_result
        if message.is_from(ChatRole.TOOL) and result and not result.origin.tool_name:
            origin = calls.get(result.origin.id or "", result.origin)
            message = ChatMessage.from_tool(result.result, origin, result.error)  # noqa: PLW2901 - same message, named
        linked.append(message)
    return linked


def as_model(model: Any) -> Any:
    """Return the model that a name stands for; anything else comes back as it is.

    Raises:
        ModelNotFoundError: the name is of no known form.
    """
    if not isinstance(model, str):
        return model
    from toolkit.models.registry import load_model

    return load_model(model)


def as_any_tool(value: Any) -> Tool:
    """Read anything that can be called by name.

    Args:
        value: a Tool, a typed function, a LangChain tool, or an object with `name` and `invoke(args)` or `__call__`.

    Raises:
        ConfigError: it has no name, or nothing to run.
    """
    if isinstance(value, (Tool, Mapping)) or (inspect.isroutine(value) and not hasattr(value, "name")):
        return as_tool(value)
    name = getattr(value, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{value!r} is no tool: it has no name. Give a Tool, a typed function, or set its .name.")
    run = _runner(value)
    description = getattr(value, "description", None) or ""
    return Tool(name, str(description), _schema(value), run)


def as_any_tools(values: Any) -> list[Tool]:
    """Read a list of tools of any kind; several toolsets may be mixed in.

    Raises:
        ConfigError: it is no list, something in it is no tool, or two share a name.
    """
    if isinstance(values, (str, Mapping, Tool)) or not isinstance(values, Iterable):
        raise ConfigError(f"Expected a list of tools, got {values!r}. Put it in brackets.")
    items = [tool for value in values for tool in (value if isinstance(value, Toolset) else [value])]
    return list(Toolset([as_any_tool(item) for item in items]))


def _runner(value: Any) -> Callable[..., Any]:
    """Return a function of keyword arguments that runs the object."""
    for method in ("ainvoke", "invoke"):
        bound = getattr(value, method, None)
        if callable(bound) and (method == "invoke" or not hasattr(value, "invoke")):
            return _keywords(bound)
    if callable(value):
        function: Callable[..., Any] = value
        return function
    raise ConfigError(f"Tool {value.name!r} can be neither invoked nor called. Give it invoke(self, args).")


def _keywords(bound: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    def run(**arguments: Any) -> Any:
        return bound(arguments)

    async def arun(**arguments: Any) -> Any:
        return await bound(arguments)

    return arun if inspect.iscoroutinefunction(bound) else run


def _schema(value: Any) -> dict[str, Any]:
    """Find the schema of a foreign tool: `parameters`, LangChain's `args_schema`, the signature, or anything goes."""
    for attribute in ("parameters", "args_schema", "input_schema"):
        found = getattr(value, attribute, None)
        if isinstance(found, Mapping):
            return {"type": "object", **found}
        make = getattr(found, "model_json_schema", None)
        if callable(make):
            return json.loads(json.dumps(make()))  # type: ignore[no-any-return] # a plain copy that can be changed
    if not hasattr(value, "invoke") and callable(value):
        try:
            return Tool.from_function(value, name=value.name).parameters
        except ConfigError:  # an untyped signature says nothing; the tool then takes what the model gives
            return dict(_OPEN_SCHEMA)
    return dict(_OPEN_SCHEMA)
