"""Hold a conversation as values: ChatMessage, ToolCall, ToolCallResult.

The shapes are Haystack's: a message is a role and a tuple of parts, where a part is text, a call or the
result of a call. Everything is frozen, so a message can be shared between a trace, a store and a widget.

Not here: reading calls out of text (`toolkit.extraction`), running them (`toolkit.execution`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolkit.errors import ConfigError


class ChatRole(StrEnum):
    """Name who speaks."""

    USER = "user"
    SYSTEM = "system"
    ASSISTANT = "assistant"
    TOOL = "tool"
    FUNCTION = "function"  # OpenAI's older word for the result of a function; see OpenAIFunctionCaller


@dataclass(frozen=True, slots=True)
class TextContent:
    """Hold the text part of a message."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """Ask for one run of a tool.

    Attributes:
        tool_name: the tool's name.
        arguments: the arguments by name, JSON types only.
        id: what a result refers to; None where the model gave none.
    """

    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str | None = None

    @property
    def name(self) -> str:
        """Return the tool's name."""
        return self.tool_name

    def to_dict(self) -> dict[str, Any]:
        """Return the call as plain JSON data."""
        return {"tool_name": self.tool_name, "arguments": self.arguments, "id": self.id}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolCall:
        """Build a call from what `to_dict` gave."""
        return cls(data["tool_name"], dict(data.get("arguments") or {}), data.get("id"))


@dataclass(frozen=True, slots=True)
class ToolCallResult:
    """Hold the outcome of one call.

    Attributes:
        result: the result as text, or an object where the tool asked for raw results.
        origin: the call it answers.
        error: whether the call failed; `result` then says how.
        traceback: where the tool itself raised, for traces and people; never sent to a model, never compared.
    """

    result: Any
    origin: ToolCall
    error: bool = False
    traceback: str | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON data."""
        return {"result": self.result, "origin": ToolCall.to_dict(self.origin), "error": self.error}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolCallResult:
        """Build a result from what `to_dict` gave."""
        return cls(data["result"], ToolCall.from_dict(data["origin"]), bool(data.get("error")))


Part = TextContent | ToolCall | ToolCallResult


@dataclass(frozen=True)
class ChatMessage:
    """Say one thing in a conversation; build it with `from_user`, `from_assistant` and the like."""

    _role: ChatRole
    _content: tuple[Part, ...] = ()
    _name: str | None = None
    _meta: dict[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def from_system(cls, text: str, meta: dict[str, Any] | None = None, name: str | None = None) -> ChatMessage:
        """Build a system message."""
        return cls(ChatRole.SYSTEM, (TextContent(text),), name, meta or {})

    @classmethod
    def from_user(cls, text: str, meta: dict[str, Any] | None = None, name: str | None = None) -> ChatMessage:
        """Build a user message."""
        return cls(ChatRole.USER, (TextContent(text),), name, meta or {})

    @classmethod
    def from_assistant(
        cls,
        text: str | None = None,
        meta: dict[str, Any] | None = None,
        name: str | None = None,
        tool_calls: Iterable[ToolCall] | None = None,
    ) -> ChatMessage:
        """Build an assistant message with text, calls, both or neither."""
        said: tuple[Part, ...] = (TextContent(text),) if text is not None else ()
        return cls(ChatRole.ASSISTANT, said + tuple(tool_calls or ()), name, meta or {})

    @classmethod
    def from_tool(
        cls,
        tool_result: Any = None,
        origin: ToolCall | None = None,
        error: bool = False,
        meta: dict[str, Any] | None = None,
        *,
        result: Any = None,
    ) -> ChatMessage:
        """Build the message that answers the call `origin`; `result=` is another word for the first argument."""
        if origin is None:
            raise ConfigError("ChatMessage.from_tool needs origin=, the ToolCall that this result answers.")
        value = tool_result if result is None else result
        return cls(ChatRole.TOOL, (ToolCallResult(value, origin, error),), None, meta or {})

    @classmethod
    def from_function(cls, content: str, name: str, meta: dict[str, Any] | None = None) -> ChatMessage:
        """Build OpenAI's older form of a function's result: a text under the function's name."""
        return cls(ChatRole.FUNCTION, (TextContent(content),), name, meta or {})

    @property
    def role(self) -> ChatRole:
        """Return who speaks."""
        return self._role

    @property
    def name(self) -> str | None:
        """Return the speaker's name, if one was given."""
        return self._name

    @property
    def content(self) -> str | None:
        """Return the first text part, or None; the older word for `text`."""
        return self.text

    @property
    def meta(self) -> dict[str, Any]:
        """Return what was noted beside the message; never sent to a model."""
        return self._meta

    @property
    def texts(self) -> list[str]:
        """Return all text parts."""
        return [part.text for part in self._content if isinstance(part, TextContent)]

    @property
    def text(self) -> str | None:
        """Return the first text part, or None."""
        return next((part.text for part in self._content if isinstance(part, TextContent)), None)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Return all calls, in order."""
        return [part for part in self._content if isinstance(part, ToolCall)]

    @property
    def tool_call(self) -> ToolCall | None:
        """Return the first call, or None."""
        return next((part for part in self._content if isinstance(part, ToolCall)), None)

    @property
    def tool_call_results(self) -> list[ToolCallResult]:
        """Return all results of calls, in order."""
        return [part for part in self._content if isinstance(part, ToolCallResult)]

    @property
    def tool_call_result(self) -> ToolCallResult | None:
        """Return the first result of a call, or None."""
        return next((part for part in self._content if isinstance(part, ToolCallResult)), None)

    def is_from(self, role: ChatRole | str) -> bool:
        """Tell whether `role` speaks."""
        return self._role == role

    def to_dict(self) -> dict[str, Any]:
        """Return the message as plain JSON data: `_role`, `_name`, `_meta`, `_content`."""
        content = [_part_to_dict(part) for part in self._content]
        return {"_role": str(self._role), "_name": self._name, "_meta": dict(self._meta), "_content": content}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChatMessage:
        """Build a message from `to_dict`'s form, or from OpenAI's `{"role": …, "content": …}`.

        Raises:
            ConfigError: neither form.
        """
        if "role" in data:
            return from_openai(data)
        if "_role" not in data:
            raise ConfigError(f"{dict(data)!r} is no message: give 'role' and 'content'.")
        parts = tuple(_part_from_dict(part) for part in data.get("_content", ()))
        return cls(_role(data["_role"]), parts, data.get("_name"), dict(data.get("_meta") or {}))

    def __repr__(self) -> str:
        said = ", ".join(repr(part) if isinstance(part, ToolCall) else repr(_brief(part)) for part in self._content)
        text = f"ChatMessage({self._role.value}: {said})"
        return text if len(text) <= 100 else text[:98] + "…)"


def SystemMessage(content: str) -> ChatMessage:  # noqa: N802 - the name that LangChain users know
    """Build a system message; LangChain's word for `ChatMessage.from_system`.

    >>> SystemMessage(content="Be brief.")
    ChatMessage(system: 'Be brief.')
    """
    return ChatMessage.from_system(content)


def HumanMessage(content: str) -> ChatMessage:  # noqa: N802
    """Build a user message; LangChain's word for `ChatMessage.from_user`."""
    return ChatMessage.from_user(content)


def _brief(part: Part) -> Any:
    return part.text if isinstance(part, TextContent) else getattr(part, "result", part)


def _role(value: str) -> ChatRole:
    try:
        return ChatRole(value)
    except ValueError:
        raise ConfigError(f"Role {value!r} is unknown. Use one of: {', '.join(ChatRole)}.") from None


def _part_to_dict(part: Part) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"text": part.text}
    if isinstance(part, ToolCall):
        return {"tool_call": ToolCall.to_dict(part)}
    return {"tool_call_result": part.to_dict()}


def _part_from_dict(data: Mapping[str, Any]) -> Part:
    if "text" in data:
        return TextContent(data["text"])
    if "tool_call" in data:
        return ToolCall.from_dict(data["tool_call"])
    if "tool_call_result" in data:
        return ToolCallResult.from_dict(data["tool_call_result"])
    raise ConfigError(f"{dict(data)!r} is no part of a message: expected text, tool_call or tool_call_result.")


def from_openai(data: Mapping[str, Any]) -> ChatMessage:
    """Build a message from OpenAI's wire form.

    Arguments may be an object or JSON text (Source: ollama#6155).

    Raises:
        ConfigError: unknown role, or arguments that are no JSON object.
    """
    role, content = _role(data["role"]), data.get("content")
    if isinstance(content, list):  # blocks: keep the text ones
        content = "".join(block if isinstance(block, str) else _block_text(block) for block in content)
    if role is ChatRole.TOOL:
        origin = ToolCall(data.get("name") or data.get("tool_name") or "", {}, data.get("tool_call_id"))
        return ChatMessage.from_tool(content or "", origin)
    calls = tuple(_call_from_openai(call) for call in data.get("tool_calls") or ())
    said: tuple[Part, ...] = (TextContent(content),) if content is not None and (content or not calls) else ()
    return ChatMessage(role, said + calls, data.get("name"))


def _block_text(block: Any) -> str:
    return str(block.get("text", "")) if isinstance(block, Mapping) else ""


def _call_from_openai(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or call
    arguments = function.get("arguments", function.get("args"))  # the latter is LangChain's word
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError as error:
            raise ConfigError(f"Arguments of {function.get('name')!r} are no JSON: {arguments!r} ({error}).") from None
    if not isinstance(arguments or {}, dict):
        raise ConfigError(f"Arguments of {function.get('name')!r} must be an object, not {arguments!r}.")
    return ToolCall(function.get("name") or "", arguments or {}, call.get("id"))


def to_openai(message: ChatMessage) -> list[dict[str, Any]]:
    """Return the message in OpenAI's wire form; one dict for each result where it holds several."""
    if message.role is ChatRole.TOOL:
        return [
            {
                "role": "tool",
                "content": _as_text(r.result),
                "tool_call_id": r.origin.id or "",
                "name": r.origin.tool_name,
            }
            for r in message.tool_call_results
        ]
    wire: dict[str, Any] = {"role": message.role.value, "content": "\n".join(message.texts)}
    if message.role is ChatRole.FUNCTION:
        wire["name"] = message.name
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id or f"call_{index}",
                "type": "function",
                "function": {"name": call.tool_name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    return [wire]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


_LANGCHAIN_ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}


def _from_langchain(value: Any) -> ChatMessage:
    """Read a LangChain message, told by its `type` and `content`; LangChain itself is not needed."""
    calls = [
        {"id": call.get("id"), "function": {"name": call["name"], "arguments": call.get("args") or {}}}
        for call in getattr(value, "tool_calls", None) or ()
    ]
    wire = {"role": _LANGCHAIN_ROLES[value.type], "content": value.content, "tool_calls": calls}
    wire |= {"name": getattr(value, "name", None), "tool_call_id": getattr(value, "tool_call_id", None)}
    return from_openai(wire)


def as_messages(value: str | ChatMessage | Mapping[str, Any] | Iterable[Any]) -> list[ChatMessage]:
    """Read anything that stands for a conversation: text, a message, dicts, or a list of these.

    >>> as_messages("hello")
    [ChatMessage(user: 'hello')]

    Raises:
        ConfigError: something in it is none of these.
    """
    if isinstance(value, (list, tuple)) and set(map(type, value)) == {ChatMessage}:  # the common case, at C speed
        return list(value)
    if isinstance(value, str):
        return [ChatMessage.from_user(value)]
    if isinstance(value, ChatMessage):
        return [value]
    if isinstance(value, Mapping):
        return [ChatMessage.from_dict(value)]
    if getattr(value, "type", None) in _LANGCHAIN_ROLES and hasattr(value, "content"):
        return [_from_langchain(value)]
    if isinstance(value, Iterable):
        return [message for item in value for message in as_messages(item)]
    raise ConfigError(f"{value!r} is no message. Give text, a ChatMessage, or a list of them.")
