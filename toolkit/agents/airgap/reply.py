"""What comes back from AirgapChat? The answer, with every call, result, raw text and prompt that led to it.

Not here: the rounds that make it (`toolkit.agents.airgap.rounds`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from toolkit.extraction.types import Extraction
from toolkit.messages import ChatMessage, ToolCall, ToolCallResult
from toolkit.models.base import Reply
from toolkit.prompting import templates

_PRE = "<pre style='white-space:pre-wrap;margin:0.3em 0'>{}</pre>"


@dataclass(frozen=True)
class AirgapReply:
    """Hold the answer of one run and everything that led to it.

    Attributes:
        text: the words for the user.
        calls: every call that was answered, in order.
        results: the result of each call, in the same order: what the tool returned, as JSON data, or how it failed.
        replies: each reply of the model.
        extractions: what was read out of each reply; rejected candidates stand there with their reasons.
        prompts: the exact messages of each request.
        messages: the conversation so far, to continue from.
        stopped: `answered`; `rounds` where the model still called after the last round; `fault` on an error.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolCallResult, ...] = ()
    replies: tuple[Reply, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    prompts: tuple[tuple[ChatMessage, ...], ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    stopped: str = "answered"

    @property
    def content(self) -> str:
        """Return the words for the user, under LangChain's name."""
        return self.text

    @property
    def message(self) -> ChatMessage:
        """Return the answer as an assistant message."""
        return ChatMessage.from_assistant(self.text)

    @property
    def raw_texts(self) -> tuple[str, ...]:
        """Return the text of each reply, exactly as written."""
        return tuple(reply.text for reply in self.replies)

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain JSON data."""
        return {
            "text": self.text,
            "stopped": self.stopped,
            "calls": [ToolCall.to_dict(call) for call in self.calls],
            "results": [result.to_dict() for result in self.results],
            "replies": [reply.to_dict() for reply in self.replies],
            "extractions": [found.to_dict() for found in self.extractions],
            "prompts": [[message.to_dict() for message in prompt] for prompt in self.prompts],
            "messages": [message.to_dict() for message in self.messages],
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        names = ", ".join(call.tool_name for call in self.calls) or "no calls"
        said = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        return f"AirgapReply({said!r}, {self.stopped}, {len(self.replies)} requests, {names}"[:99] + ")"

    def _repr_html_(self) -> str:
        runs = zip(self.calls, self.results, strict=True)
        rows = "".join(f"<li>{_row(call, result)}</li>" for call, result in runs)
        asked = enumerate(zip(self.prompts, self.replies, strict=True), 1)
        rounds = "".join(_request(number, prompt, reply) for number, (prompt, reply) in asked)
        return f"<div>{_PRE.format(escape(self.text))}<ol>{rows}</ol>{rounds}</div>"


@dataclass(frozen=True)
class AirgapChunk:
    """Carry one piece of a streamed run: words for the user, the result of a call, or at the end the reply."""

    text: str = ""
    result: ToolCallResult | None = None
    reply: AirgapReply | None = None


def _row(call: ToolCall, result: ToolCallResult) -> str:
    said = f"{call.tool_name} {templates.as_json(call.arguments)}"
    shown = result.result if isinstance(result.result, str) else templates.as_json(result.result)
    return f"<code>{escape(said)}</code> {'failed:' if result.error else 'gave'} <code>{escape(shown[:500])}</code>"


def _request(number: int, prompt: Iterable[ChatMessage], reply: Reply) -> str:
    sent = "\n\n".join(f"[{message.role}]\n{message.text or ''}" for message in prompt)
    return (
        f"<details><summary>request {number}: {escape(repr(reply))}</summary>"
        f"{_PRE.format(escape(sent))}<b>reply</b>{_PRE.format(escape(reply.text))}</details>"
    )
