"""How does a LangChain program get tools from a model without tool support? AirgapChatOpenAI, a true ChatOpenAI.

    from toolkit.integrations.langchain import AirgapChatOpenAI

    llm = AirgapChatOpenAI(model="llama3.2", base_url="http://127.0.0.1:8080/v1", api_key="none").bind_tools([echo])
    llm.invoke("Use the echo tool.").response_metadata["airgap"]["calls"]

`invoke`, `ainvoke`, `stream` and `astream` all go the same path: the rounds of `toolkit.agents.airgap.rounds`. The
message that comes back holds the answer; the calls, their results and the raw texts are in its
`response_metadata["airgap"]`, since LangChain would run calls in `tool_calls` once more.

Not here: the original's rules, fault for fault: `AirgapChat(mode="compat")`.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from toolkit.agents.airgap.reply import AirgapReply
from toolkit.agents.airgap.rounds import Rounds, Run, Steps
from toolkit.agents.airgap.stream import Shown
from toolkit.agents.airgap.tools import with_tools
from toolkit.agents.foreign import as_any_tools, as_chat_messages, as_spoken, link_results, warn_of_blocks
from toolkit.agents.partial import telling
from toolkit.errors import UserError
from toolkit.messages import ChatMessage, ChatRole
from toolkit.models.base import Chunk, Reply
from toolkit.prompting.protocols import load_protocol

try:
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_openai import ChatOpenAI
    from pydantic import Field, PrivateAttr
except ImportError as missing:
    raise UserError(
        f"AirgapChatOpenAI needs LangChain ({missing}). Install it: pip install 'local-tool-calling[langchain]'"
    ) from None

_CLASSES = {ChatRole.SYSTEM: SystemMessage, ChatRole.USER: HumanMessage, ChatRole.ASSISTANT: AIMessage}


class AirgapChatOpenAI(ChatOpenAI):
    """Chat with an OpenAI-compatible server; tools are called through the prompt alone.

    Attributes:
        protocol: how tools are shown and calls are read; a name in `prompts/`.
        max_rounds: how often tools may be run before the model must answer.
        max_result_chars: longest result that is shown to the model whole.
        allowed_options: which keyword arguments of a request reach the server; others are dropped with one warning.
        bound_tools: what may be called; set by `bind_tools`.
    """

    protocol: str = "airgap"
    max_rounds: int = 5
    max_result_chars: int = 4000
    allowed_options: tuple[str, ...] = ("temperature", "max_tokens", "max_completion_tokens", "stop", "top_p", "seed")
    # a field, since LangChain makes configured copies of fields alone
    bound_tools: tuple[Any, ...] = Field(default=(), exclude=True, repr=False)

    _ready: tuple[Any, Rounds, Any] | None = PrivateAttr(default=None)
    _warned: set[str] = PrivateAttr(default_factory=set)  # shared by copies, so that each name is warned about once

    def model_post_init(self, context: Any, /) -> None:
        """Load the protocol."""
        super().model_post_init(context)
        self._prepared()

    def _prepared(self) -> tuple[Rounds, Any]:
        """Return the rounds and what runs their tools, made anew where a copy has other fields."""
        key = (self.protocol, self.max_rounds, self.max_result_chars, self.bound_tools)
        if self._ready is None or self._ready[0] != key:
            rounds = Rounds(
                load_protocol(self.protocol), max_rounds=self.max_rounds, max_result_chars=self.max_result_chars
            )
            self._ready = (key, *with_tools(rounds, self.bound_tools))
        return self._ready[1:]

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> AirgapChatOpenAI:
        """Return a copy that may call these tools, and no others.

        Raises:
            ConfigError: something in it is no tool, or two share a name.
        """
        self._keep({name: value for name, value in kwargs.items() if value is not None})
        return self.model_copy(update={"bound_tools": tuple(as_any_tools(tools))})

    def bind(self, **kwargs: Any) -> Any:
        """Return a binding of the allowed options; the same object where none is left."""
        kept = self._keep(kwargs)
        return super().bind(**kept) if kept else self

    def with_structured_output(self, schema: Any = None, **kwargs: Any) -> Any:
        """Refuse: the answer of a run with prompted tools is free text.

        Raises:
            UserError: always.
        """
        raise UserError(
            "AirgapChatOpenAI has no structured output: its server is asked for text alone. Use Agent(model, "
            "response_format=…) with arm='constrained', or ChatOpenAI itself where the server supports it."
        )

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        steps, answer, options = self._steps(messages), None, self._keep(kwargs)
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return _result(end.value)
            if isinstance(step, Run):
                answer = self._prepared()[1].invoke(step.call)
            else:
                with telling(steps):
                    answer = _reply(super()._generate(_wire(step.messages), stop=stop, **options))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        steps, answer, options = self._steps(messages), None, self._keep(kwargs)
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return _result(end.value)
            if isinstance(step, Run):
                answer = await self._prepared()[1].ainvoke(step.call)
            else:
                with telling(steps):
                    answer = _reply(await super()._agenerate(_wire(step.messages), stop=stop, **options))

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        steps, answer, options = self._steps(messages), None, self._keep(kwargs)
        shown = Shown(self._prepared()[0].protocol, self._prepared()[0].tools)
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                yield _last_chunk(end.value)
                return
            if isinstance(step, Run):
                answer = self._prepared()[1].invoke(step.call)
                continue
            heard = _Heard(shown)
            with telling(steps):
                for piece in super()._stream(_wire(step.messages), stop=stop, **options):
                    if chunk := heard.take(piece):
                        if run_manager:
                            run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        yield chunk
            answer, chunk = heard.close()
            if chunk:
                yield chunk

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        steps, answer, options = self._steps(messages), None, self._keep(kwargs)
        shown = Shown(self._prepared()[0].protocol, self._prepared()[0].tools)
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                yield _last_chunk(end.value)
                return
            if isinstance(step, Run):
                answer = await self._prepared()[1].ainvoke(step.call)
                continue
            heard = _Heard(shown)
            with telling(steps):
                async for piece in super()._astream(_wire(step.messages), stop=stop, **options):
                    if chunk := heard.take(piece):
                        if run_manager:
                            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        yield chunk
            answer, chunk = heard.close()
            if chunk:
                yield chunk

    def _steps(self, messages: Sequence[BaseMessage]) -> Steps:
        spoken = as_spoken(list(messages))
        warn_of_blocks(spoken, self._warned, "AirgapChatOpenAI")
        return self._prepared()[0].steps(link_results(as_chat_messages(spoken)))

    def _keep(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the allowed options, and warn once about each other one."""
        for name in kwargs:
            if name not in self.allowed_options and name not in self._warned:
                self._warned.add(name)
                allowed = ", ".join(self.allowed_options)
                warnings.warn(f"AirgapChatOpenAI drops {name!r}: it passes on {allowed}.", UserWarning, stacklevel=3)
        return {name: value for name, value in kwargs.items() if name in self.allowed_options}


class _Heard:
    """Gather one streamed reply and pass on what may be shown of it."""

    def __init__(self, shown: Shown) -> None:
        self.shown = shown
        self.text, self.reason, self.tokens = "", "stop", {}  # type: tuple[str, str, dict[str, Any]]

    def take(self, piece: ChatGenerationChunk) -> ChatGenerationChunk | None:
        """Take a chunk of the server and return the chunk to show, if any."""
        said = piece.message.content if isinstance(piece.message.content, str) else piece.text
        self.text += said
        self.reason = (piece.generation_info or {}).get("finish_reason") or self.reason
        self.tokens = dict(getattr(piece.message, "usage_metadata", None) or self.tokens)
        return _chunk(self.shown.take(Chunk(said)))

    def close(self) -> tuple[Reply, ChatGenerationChunk | None]:
        """Return the whole reply and the chunk that was held back, if any."""
        reply = Reply(
            self.text,
            finish_reason="length" if self.reason == "length" else "stop",
            prompt_tokens=self.tokens.get("input_tokens"),
            completion_tokens=self.tokens.get("output_tokens"),
        )
        return reply, _chunk(self.shown.take(Chunk(reply=reply)))


def _chunk(text: str) -> ChatGenerationChunk | None:
    return ChatGenerationChunk(message=AIMessageChunk(content=text)) if text else None


def _last_chunk(reply: AirgapReply) -> ChatGenerationChunk:
    message = AIMessageChunk(content="", response_metadata=_metadata(reply), usage_metadata=_usage(reply))
    return ChatGenerationChunk(message=message)


def _wire(messages: Sequence[ChatMessage]) -> list[BaseMessage]:
    return [_CLASSES[message.role](content="\n".join(message.texts)) for message in messages]


def _reply(result: ChatResult) -> Reply:
    message = result.generations[0].message
    said = message.content if isinstance(message.content, str) else str(message.text)
    usage = getattr(message, "usage_metadata", None) or {}
    reason = message.response_metadata.get("finish_reason")
    return Reply(
        said,
        finish_reason="length" if reason == "length" else "stop",
        prompt_tokens=usage.get("input_tokens"),
        completion_tokens=usage.get("output_tokens"),
        model=str(message.response_metadata.get("model_name", "")),
    )


def _result(reply: AirgapReply) -> ChatResult:
    message = AIMessage(content=reply.text, response_metadata=_metadata(reply), usage_metadata=_usage(reply))
    return ChatResult(generations=[ChatGeneration(message=message)])


def _metadata(reply: AirgapReply) -> dict[str, Any]:
    record = {key: value for key, value in reply.to_dict().items() if key in ("calls", "results", "stopped")}
    names = {"model_name": reply.replies[-1].model} if reply.replies and reply.replies[-1].model else {}
    return {**names, "airgap": {**record, "raw_texts": list(reply.raw_texts)}}


def _usage(reply: AirgapReply) -> Any:
    """Return the tokens of all requests together, or None where the server does not say."""
    read, written = (
        [getattr(one, key) for one in reply.replies if getattr(one, key) is not None]
        for key in ("prompt_tokens", "completion_tokens")
    )
    if not read and not written:
        return None
    return {"input_tokens": sum(read), "output_tokens": sum(written), "total_tokens": sum(read) + sum(written)}
