"""Hold what a message is made of: text, reasoning, images, calls and their results.

Not here: messages (`toolkit.messages`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.errors import ConfigError


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


@dataclass(frozen=True, slots=True)
class ReasoningContent:
    """Hold what a model thought before it called tools; sent back to it within the loop of these calls."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageContent:
    """Hold an image.

    Attributes:
        base64_image: the file's bytes in Base64.
        mime_type: such as `image/png`.
    """

    base64_image: str = field(repr=False)
    mime_type: str = "image/png"

    def to_dict(self) -> dict[str, Any]:
        """Return the image as plain JSON data."""
        return {"base64_image": self.base64_image, "mime_type": self.mime_type}


Part = TextContent | ReasoningContent | ImageContent | ToolCall | ToolCallResult


def part_to_dict(part: Part) -> dict[str, Any]:
    """Return a part as plain JSON data, under a key that names its kind."""
    if isinstance(part, TextContent):
        return {"text": part.text}
    if isinstance(part, ToolCall):
        return {"tool_call": ToolCall.to_dict(part)}
    if isinstance(part, ReasoningContent):
        return {"reasoning": part.text}
    return {"image" if isinstance(part, ImageContent) else "tool_call_result": part.to_dict()}


_READERS: dict[str, Callable[[Any], Part]] = {
    "text": TextContent,
    "reasoning": ReasoningContent,
    "image": lambda data: ImageContent(**data),
    "tool_call": ToolCall.from_dict,
    "tool_call_result": ToolCallResult.from_dict,
}


def part_from_dict(data: Mapping[str, Any]) -> Part:
    """Build a part from what `part_to_dict` gave; ConfigError where it is none."""
    for key in _READERS.keys() & data.keys():
        return _READERS[key](data[key])
    raise ConfigError(f"{dict(data)!r} is no part of a message: expected {', '.join(_READERS)}.")


_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)


def image_of(block: Any) -> ImageContent | None:
    """Return the image of a content block of OpenAI, Anthropic, LangChain or Ollama; None where it holds none.

    >>> image_of({"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lG"}}).mime_type
    'image/gif'

    Raises:
        ConfigError: it is given by an address. A local server fetches nothing.
    """
    if isinstance(block, (bytes, bytearray)):
        return ImageContent(base64.b64encode(block).decode())
    if isinstance(block, str):
        url = _DATA_URL.fullmatch(block)
        if url is None and "://" in block[:12]:
            raise ConfigError(f"The image {block[:60]!r} is an address. Give its bytes, or a data: URL of them.")
        return ImageContent(url[2], url[1]) if url else ImageContent(block) if block else None
    if not isinstance(block, Mapping):
        return None
    kind = str(block.get("type"))
    inner = block.get(kind, block.get("source", block)) if kind.startswith(("image", "input_image")) else None
    if isinstance(inner, str):
        return image_of(inner)
    if not isinstance(inner, Mapping):
        return None
    found = image_of(next((inner[key] for key in ("url", "data", "base64", "image_url") if inner.get(key)), ""))
    mime = inner.get("mime_type") or inner.get("media_type")
    return replace(found, mime_type=str(mime)) if found and mime else found
