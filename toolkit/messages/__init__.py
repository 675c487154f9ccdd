"""Hold a conversation as values: ChatMessage, ToolCall, ToolCallResult; read one of any form: as_messages.

The shapes are Haystack's: a message is a role and a tuple of parts, where a part is text, a call or the
result of a call. Everything is frozen, so a message can be shared between a trace, a store and a widget.

Not here: reading calls out of text (`toolkit.extraction`), running them (`toolkit.execution`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolkit.errors import ConfigError
from toolkit.messages.parts import (
    ImageContent,
    Part,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolCallResult,
    image_of,
    part_from_dict,
    part_to_dict,
)

__all__ = [
    "ChatMessage", "ChatRole", "HumanMessage", "ImageContent", "Part", "ReasoningContent", "SystemMessage",
    "TextContent", "ToolCall", "ToolCallResult", "as_messages", "from_openai", "to_openai", "to_wire",
]  # fmt: skip


class ChatRole(StrEnum):
    """Name who speaks."""

    USER = "user"
    SYSTEM = "system"
    ASSISTANT = "assistant"
    TOOL = "tool"
    FUNCTION = "function"  # OpenAI's older word for the result of a function; see OpenAIFunctionCaller


# content blocks that hold no text of their own, or say again what a message's calls say
_SAID_ELSEWHERE = {"thinking", "reasoning", "tool_use", "tool_call", "function_call"}


@dataclass(frozen=True)
class ChatMessage:
    """Say one thing in a conversation; build it with `from_user`, `from_assistant` and the like.

    Attributes:
        role: who speaks.
        parts: what is said: texts, images, calls, results of calls, and reasoning before calls.
        name: the speaker's name, if one was given.
        meta: what was noted beside the message; never sent to a model. `as_messages` keeps the `id` of a message
            there, and under `content` a content that was given as blocks.
    """

    role: ChatRole
    parts: tuple[Part, ...] = ()
    name: str | None = None
    meta: dict[str, Any] = field(default_factory=dict, compare=False)

    def __init__(
        self, role: ChatRole, parts: tuple[Part, ...] = (), name: str | None = None, meta: dict[str, Any] | None = None
    ) -> None:
        # made in each turn of a loop: a frozen dataclass's own way takes half as long again
        self.__dict__.update(role=role, parts=parts, name=name, meta={} if meta is None else meta)

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
    def content(self) -> str:
        """Return the first text, or else the first result as text, or else ""; LangChain's word."""
        result = self.tool_call_result
        return self.text or ("" if result is None else _as_text(result.result))

    @property
    def texts(self) -> list[str]:
        """Return all text parts."""
        return [part.text for part in self.parts if isinstance(part, TextContent)]

    @property
    def text(self) -> str | None:
        """Return the first text part, or None."""
        return next((part.text for part in self.parts if isinstance(part, TextContent)), None)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Return all calls, in order."""
        return [part for part in self.parts if isinstance(part, ToolCall)]

    @property
    def tool_call(self) -> ToolCall | None:
        """Return the first call, or None."""
        return next((part for part in self.parts if isinstance(part, ToolCall)), None)

    @property
    def tool_call_results(self) -> list[ToolCallResult]:
        """Return all results of calls, in order."""
        return [part for part in self.parts if isinstance(part, ToolCallResult)]

    @property
    def tool_call_result(self) -> ToolCallResult | None:
        """Return the first result of a call, or None."""
        return next((part for part in self.parts if isinstance(part, ToolCallResult)), None)

    @property
    def images(self) -> list[ImageContent]:
        """Return all images."""
        return [part for part in self.parts if isinstance(part, ImageContent)]

    def is_from(self, role: ChatRole | str) -> bool:
        """Tell whether `role` speaks."""
        return self.role == role

    def to_dict(self) -> dict[str, Any]:
        """Return the message as plain JSON data: `_role`, `_name`, `_meta`, `_content`."""
        content = [part_to_dict(part) for part in self.parts]
        return {"_role": str(self.role), "_name": self.name, "_meta": dict(self.meta), "_content": content}

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
        parts = tuple(part_from_dict(part) for part in data.get("_content", ()))
        return cls(_role(data["_role"], _ROLES), parts, data.get("_name"), dict(data.get("_meta") or {}))

    def __repr__(self) -> str:
        said = (getattr(part, "text", getattr(part, "result", part)) for part in self.parts)
        text = f"ChatMessage({self.role.value}: {', '.join(map(repr, said))})"
        return text if len(text) <= 100 else text[:98] + "…)"


def SystemMessage(content: str) -> ChatMessage:  # noqa: N802 - the name that LangChain users know
    """Build a system message; LangChain's word for `ChatMessage.from_system`."""
    return ChatMessage.from_system(content)


def HumanMessage(content: str) -> ChatMessage:  # noqa: N802
    """Build a user message; LangChain's word for `ChatMessage.from_user`."""
    return ChatMessage.from_user(content)


_ROLES = {role.value: role for role in ChatRole}
# the words of chat servers and LangChain; a function's result in OpenAI's older form is a tool's
_WORDS = {**_ROLES, "human": ChatRole.USER, "ai": ChatRole.ASSISTANT, "developer": ChatRole.SYSTEM}
_WORDS["function"] = ChatRole.TOOL


def _role(value: Any, words: Mapping[str, ChatRole]) -> ChatRole:
    if not isinstance(value, str) or value not in words:
        raise ConfigError(f"Role {value!r} is unknown. Use one of: {', '.join(words)}.")
    return words[value]


class _Unlinked(ChatMessage):
    """Answer a call of which only the id is known, until `as_messages` finds it; its class costs others no look."""


def from_openai(data: Mapping[str, Any]) -> ChatMessage:
    """Build a message from OpenAI's wire form.

    Arguments may be an object or JSON text (Source: ollama#6155).

    Raises:
        ConfigError: unknown role, or arguments that are no JSON object.
    """
    role, content = _role(data["role"], _WORDS), data.get("content")
    meta: dict[str, Any] = {"id": data["id"]} if data.get("id") else {}
    images = _images(data)
    if isinstance(content, list):
        meta["content"] = content
        content = _text_of(content)
    if role is ChatRole.TOOL:
        origin = ToolCall(data.get("name") or data.get("tool_name") or "", {}, data.get("tool_call_id"))
        kind = ChatMessage if origin.tool_name else _Unlinked
        return kind.from_tool(content or "", origin, data.get("status") == "error", meta)
    calls = tuple(_call_from_openai(call) for call in data.get("tool_calls") or ())
    said: tuple[Part, ...] = (TextContent(content),) if content is not None and (content or not calls) else ()
    thought = next((data[key] for key in _THOUGHT if calls and data.get(key)), None)
    thoughts: tuple[Part, ...] = (ReasoningContent(thought),) if isinstance(thought, str) else ()
    return ChatMessage(role, thoughts + said + images + calls, data.get("name"), meta)


_THOUGHT = ("reasoning_content", "reasoning", "thinking")  # llama.cpp, vLLM, Ollama


def _images(data: Mapping[str, Any]) -> tuple[ImageContent, ...]:
    """Return the images of a message: blocks of its content, or Ollama's `images`."""
    content = data.get("content")
    blocks = [block for block in content if not isinstance(block, str)] if isinstance(content, list) else []
    return tuple(image for block in (*blocks, *(data.get("images") or ())) if (image := image_of(block)))


def _text_of(blocks: list[Any]) -> str:
    """Return the text of a content in blocks, and warn of blocks that hold anything else."""
    said = [{"text": block} if isinstance(block, str) else block for block in blocks]
    for kind in sorted(
        {str(block.get("type")) for block in said if "text" not in block and not image_of(block)} - _SAID_ELSEWHERE
    ):
        warnings.warn(f"Content blocks of type {kind!r} are dropped: only text reaches the model.", stacklevel=2)
    return "".join(str(block.get("text", "")) for block in said)


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
        answered = [(_as_text(result.result), result.origin) for result in message.tool_call_results]
        return [
            {"role": "tool", "content": said, "tool_call_id": call.id or "", "name": call.tool_name}
            for said, call in answered
        ]
    wire: dict[str, Any] = {"role": message.role.value, "content": "\n".join(message.texts)}
    if message.role is ChatRole.FUNCTION:
        wire["name"] = message.name
    if images := message.images:
        urls = [f"data:{image.mime_type};base64,{image.base64_image}" for image in images]
        blocks = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        wire["content"] = [{"type": "text", "text": wire["content"]}, *blocks]
    if thought := "".join(part.text for part in message.parts if isinstance(part, ReasoningContent)):
        wire["reasoning_content"] = thought
    if message.tool_calls:
        wire["tool_calls"] = [_call_to_openai(call, index) for index, call in enumerate(message.tool_calls)]
    return [wire]


def to_wire(
    messages: Iterable[ChatMessage], form: Callable[[ChatMessage], list[dict[str, Any]]] = to_openai
) -> list[dict[str, Any]]:
    """Return a conversation in wire form; reasoning is sent within the loop of its calls only, not once it is over."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if message.role is ChatRole.USER:
            for wire in found:
                wire.pop("reasoning_content", None)
                wire.pop("thinking", None)
        found += form(message)
    return found


def _call_to_openai(call: ToolCall, index: int) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": call.id or f"call_{index}", "type": "function", "function": function}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def as_messages(value: str | ChatMessage | Mapping[str, Any] | Iterable[Any]) -> list[ChatMessage]:
    """Read anything that stands for a conversation, of this or another library.

    Text, a ChatMessage, a dict (`to_dict`'s or OpenAI's), a pair of role and text, a LangChain message, or a list of
    these. A tool result that carries only an id is given the earlier call of that id, since a prompt needs its name.
    Text and images reach a model: of a content in blocks the others are kept in `meta["content"]`, with a warning.

    >>> as_messages("hello")
    [ChatMessage(user: 'hello')]
    >>> as_messages([("system", "Be brief."), ("human", "hello")])
    [ChatMessage(system: 'Be brief.'), ChatMessage(user: 'hello')]

    Raises:
        ConfigError: something in it is none of these.
    """
    if isinstance(value, (list, tuple)) and set(map(type, value)) == {ChatMessage}:  # the common case, at C speed
        return list(value)
    found = list(_read(value))
    return list(_linked(found)) if _Unlinked in map(type, found) else found


def _read(value: Any) -> Iterator[ChatMessage]:
    if isinstance(value, ChatMessage):
        yield value
    elif isinstance(value, str):
        yield ChatMessage.from_user(value)
    elif isinstance(value, Mapping):
        yield ChatMessage.from_dict(value)
    elif isinstance(value, tuple) and len(value) == 2 and type(value[0]) is str and isinstance(value[1], (str, list)):
        yield from_openai({"role": value[0], "content": value[1]})
    elif isinstance(getattr(value, "type", None), str) and hasattr(value, "content"):
        yield from_openai(_langchain_wire(value))
    elif isinstance(value, Iterable):
        for item in value:
            yield from _read(item)
    else:
        raise ConfigError(
            f"{value!r} is no message. Give text, a ChatMessage, a dict with role and content, or a list of these."
        )


def _langchain_wire(message: Any) -> dict[str, Any]:
    """Return a LangChain message, told by its `type` and `content`, in OpenAI's form."""
    kind = message.type.removesuffix("MessageChunk").lower()  # what streams calls itself AIMessageChunk
    wire = {key: getattr(message, key, None) for key in ("name", "id", "tool_calls", "tool_call_id", "status")}
    return {**wire, "role": getattr(message, "role", kind), "content": message.content}


def _linked(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    """Yield the messages, each unlinked result with the latest earlier call of its id."""
    calls: dict[str | None, ToolCall] = {}
    for message in messages:
        calls.update((call.id, call) for call in message.tool_calls if call.id)
        if isinstance(message, _Unlinked):
            [result] = message.tool_call_results
            origin = calls.get(result.origin.id, result.origin)
            yield ChatMessage.from_tool(result.result, origin, result.error, message.meta)
        else:
            yield message
