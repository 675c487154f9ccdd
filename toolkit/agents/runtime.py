"""Give hooks what belongs to a run but not to its state: context, limits used, side calls of models.

Not here: the state (`toolkit.agents.state`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import ModelError
from toolkit.models.base import ChatModel, Reply
from toolkit.traces import Trace


@dataclass
class Runtime:
    """Hold what hooks may look at during one run.

    Attributes:
        agent_name: the agent's name, or None.
        context: whatever the caller gave as `context=`.
        trace: the trace being recorded.
        model_calls: turns of the loop so far.
        tokens: tokens used so far, as far as the server said.
    """

    agent_name: str | None
    context: Any
    trace: Trace
    model_calls: int = 0
    tokens: int = 0
    _zero: float = field(default_factory=time.perf_counter, repr=False)

    @property
    def seconds(self) -> float:
        """Return how long the run has taken."""
        return time.perf_counter() - self._zero

    def call_model(self, model: ChatModel, messages: Any, *, source: str, **request: Any) -> Reply:
        """Ask a model on behalf of a middleware; the trace marks the call with `source` (Source: langchain#34382).

        Raises:
            ModelError: the server failed.
        """
        self._asked(model, messages, source)
        return self._replied(model.chat(messages, **request), source)

    async def acall_model(self, model: ChatModel, messages: Any, *, source: str, **request: Any) -> Reply:
        """Ask a model on behalf of a middleware, without blocking.

        Raises:
            ModelError: the server failed.
        """
        self._asked(model, messages, source)
        return self._replied(await model.achat(messages, **request), source)

    def _asked(self, model: ChatModel, messages: Any, source: str) -> None:
        from toolkit.messages import as_messages

        self.trace.record("model_call", source, model=model.name, messages=tuple(as_messages(messages)), number=source)

    def _replied(self, reply: Reply, source: str) -> Reply:
        self.trace.record("model_reply", source, reply=reply, number=source)
        self.count(reply)
        if reply.fault is not None:
            raise ModelError(f"Model {reply.model!r} failed: {reply.fault.kind}: {reply.fault.message}", reply.fault)
        return reply

    def count(self, reply: Reply) -> None:
        """Add a reply's tokens to those used."""
        self.tokens += (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
