"""Give hooks what belongs to a run but not to its state: context, tokens used or estimated, side calls of models.

Not here: the state (`toolkit.agents.state`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any, ClassVar

from toolkit.agents.modes import BLOCKING, YIELDING, Mode, at_once
from toolkit.errors import ModelError
from toolkit.messages import ChatMessage, ToolCall, as_messages
from toolkit.models.base import ChatModel, Reply
from toolkit.tools.injected import request_of
from toolkit.traces import Trace

CHARACTERS = 4  # per token, of English text and JSON in common vocabularies
FRAME = 3  # tokens that a chat template adds to a message


def estimate(messages: Iterable[ChatMessage]) -> int:
    """Return an estimate of the tokens of messages: four characters are one, and each message costs three more.

    >>> estimate([ChatMessage.from_user("four")])
    4
    """
    return sum(FRAME + tokens_of(_text(message)) for message in messages)


def tokens_of(text: str) -> int:
    """Return an estimate of the tokens of a text."""
    return -(-len(text) // CHARACTERS)


def _text(message: ChatMessage) -> str:
    calls = (
        json.dumps(call.arguments, ensure_ascii=False, default=str) + call.tool_name for call in message.tool_calls
    )
    return "".join([*message.texts, *calls, *(str(result.result) for result in message.tool_call_results)])


@dataclass
class Runtime:
    """Hold what hooks may look at during one run.

    Attributes:
        agent_name: the agent's name, or None.
        context: whatever the caller gave as `context=`.
        trace: the trace being recorded.
        model_calls: turns of the loop so far.
        tokens: tokens used so far, as the server said; where it does not say and `estimates` is set, by estimate.
        model: the agent's own model.
        estimates: whether tokens are estimated where a server reports none; a limit would never be reached otherwise.
        stage: where a run that ends now would go on; see `Trace.next_stage`.
        approved: the ids of calls that a person has approved before this run.
        updates: changes of the state that a crash kept from being merged.
        edits: call id -> the call that ran in the place of the model's; the history shows it too.
        fatal: an exception of a tool that ends the run, whatever `on_tool_error` says.
    """

    agent_name: str | None
    context: Any
    trace: Trace
    model_calls: int = 0
    tokens: int = 0
    model: Any = None
    estimates: bool = False
    stage: str = "model"
    approved: frozenset[str | None] = frozenset()
    updates: tuple[Mapping[str, Any], ...] = ()
    edits: dict[str | None, ToolCall] = field(default_factory=dict, repr=False)
    fatal: BaseException | None = None
    _zero: float = field(default_factory=time.perf_counter, repr=False)

    injected_into_tools = True  # read by `toolkit.tools.signatures`: a tool may ask for it
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    @staticmethod
    def for_tool(state: Any, call: Any) -> Any:
        """Return the runtime of the run that is given this state; see `ToolCallRequest`."""
        return request_of(state).runtime

    @property
    def seconds(self) -> float:
        """Return how long the run has taken."""
        return time.perf_counter() - self._zero

    def call_model(self, model: ChatModel, messages: Any, *, source: str, **request: Any) -> Reply:
        """Ask a model on behalf of a middleware; the trace marks the call with `source` (Source: langchain#34382).

        Raises:
            ModelError: the server failed.
        """
        return at_once(self.ask(model, messages, source, BLOCKING, **request))

    async def acall_model(self, model: ChatModel, messages: Any, *, source: str, **request: Any) -> Reply:
        """Ask a model on behalf of a middleware, without blocking; see `call_model`."""
        return await self.ask(model, messages, source, YIELDING, **request)

    async def ask(self, model: ChatModel, messages: Any, source: str, mode: Mode, **request: Any) -> Reply:
        """Ask a model on behalf of a middleware that serves both modes; see `call_model`."""
        asked = tuple(as_messages(messages))
        self.trace.record("model_call", source, model=model.name, messages=asked, number=source)
        reply = model.chat(messages, **request) if mode is BLOCKING else await model.achat(messages, **request)
        self.trace.record("model_reply", source, reply=reply, number=source)
        self.count(reply, asked)
        if reply.fault is not None:
            raise ModelError(f"Model {reply.model!r} failed: {reply.fault.kind}: {reply.fault.message}", reply.fault)
        return reply

    def count(self, reply: Reply, asked: Sequence[ChatMessage]) -> None:
        """Add a request's and its reply's tokens to those used."""
        if self.estimates:
            if reply.prompt_tokens is None:
                self.tokens += estimate(asked)
            if reply.completion_tokens is None:
                said = reply.text + (reply.thinking or "")
                self.tokens += estimate([ChatMessage.from_assistant(said, tool_calls=reply.tool_calls)])
        self.tokens += (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
