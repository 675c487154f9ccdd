"""What comes back from AirgapChat? A view of the run's trace: the answer, each call, result, raw text and prompt.

Not here: the rounds that make it (`toolkit.agents.airgap.rounds`), the trace itself (`toolkit.traces`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolkit.extraction.types import Extraction
from toolkit.messages import ChatMessage, ToolCall, ToolCallResult
from toolkit.models.base import Reply
from toolkit.traces import Trace


@dataclass(frozen=True)
class AirgapReply:
    """Show a run of AirgapChat; `AirgapReply(error.trace)` shows one that failed.

    Attributes:
        trace: the run.
    """

    trace: Trace

    @property
    def text(self) -> str:
        """Return the words for the user."""
        return self.trace.text

    @property
    def content(self) -> str:
        """Return the words for the user, under LangChain's name."""
        return self.text

    @property
    def message(self) -> ChatMessage:
        """Return the answer as an assistant message."""
        return ChatMessage.from_assistant(self.text)

    @property
    def results(self) -> tuple[ToolCallResult, ...]:
        """Return the result of each answered call, in order: what the tool returned, as JSON data, or how it failed."""
        return tuple(event.data["result"] for event in self.trace.of_kind("tool_result"))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return every call that was answered, in order, under the names that the tools were given."""
        return tuple(result.origin for result in self.results)

    @property
    def replies(self) -> tuple[Reply, ...]:
        """Return each reply of the model."""
        return tuple(event.data["reply"] for event in self.trace.of_kind("model_reply"))

    @property
    def extractions(self) -> tuple[Extraction, ...]:
        """Return what was read out of each reply; rejected candidates stand there with their reasons."""
        found = (event.data.get("extraction") for event in self.trace.of_kind("model_reply"))
        return tuple(one for one in found if one is not None)

    @property
    def prompts(self) -> tuple[tuple[ChatMessage, ...], ...]:
        """Return the exact messages of each request."""
        return tuple(event.data["messages"] for event in self.trace.of_kind("model_call"))

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """Return the conversation so far, to continue from."""
        return tuple(self.trace.messages)

    @property
    def stop_reason(self) -> str:
        """Return `done`; `rounds` where the model still called after the last round; `error`."""
        return self.trace.stop_reason

    @property
    def raw_texts(self) -> tuple[str, ...]:
        """Return the text of each reply, exactly as written."""
        return tuple(reply.text for reply in self.replies)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain JSON data."""
        return self.trace.to_dict()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        names = ", ".join(call.tool_name for call in self.calls) or "no calls"
        said = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        return f"AirgapReply({said!r}, {self.stop_reason}, {len(self.replies)} requests, {names}"[:99] + ")"

    def _repr_html_(self) -> str:
        return self.trace._repr_html_()


@dataclass(frozen=True)
class AirgapChunk:
    """Carry one piece of a streamed run: words for the user, the result of a call, or at the end the reply."""

    text: str = ""
    result: ToolCallResult | None = None
    reply: AirgapReply | None = None
