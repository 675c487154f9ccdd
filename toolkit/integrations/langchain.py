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

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from toolkit.agents.airgap.chat import AirgapChat, kept
from toolkit.agents.airgap.rounds import AirgapChunk, AirgapReply
from toolkit.errors import UserError, install_hint
from toolkit.messages import ChatMessage, ChatRole
from toolkit.models.base import ChatModel, Chunk, Reply
from toolkit.prompting.protocols import load_protocol
from toolkit.tools import as_tools

try:
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_openai import ChatOpenAI
    from pydantic import Field, PrivateAttr
except ImportError as missing:
    raise UserError(f"AirgapChatOpenAI needs LangChain ({missing}). {install_hint('langchain')}") from None

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

    _warned: set[str] = PrivateAttr(default_factory=set)  # shared by copies, so that each name is warned about once

    def model_post_init(self, context: Any, /) -> None:
        """Check the protocol."""
        super().model_post_init(context)
        load_protocol(self.protocol)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> AirgapChatOpenAI:
        """Return a copy that may call these tools, and no others.

        Raises:
            ConfigError: something in it is no tool, or two share a name.
        """
        self._keep({name: value for name, value in kwargs.items() if value is not None})
        return self.model_copy(update={"bound_tools": tuple(as_tools(tools))})

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
        return _result(self._airgap(stop, kwargs).invoke(messages))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return _result(await self._airgap(stop, kwargs).ainvoke(messages))

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for piece in self._airgap(stop, kwargs).stream(messages):
            if chunk := _chunk(piece):
                if run_manager and chunk.text:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for piece in self._airgap(stop, kwargs).astream(messages):
            if chunk := _chunk(piece):
                if run_manager and chunk.text:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _airgap(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> AirgapChat:
        """Return the chat that goes this chat's rounds, with its own server as the model."""
        chat = AirgapChat(
            _Server(self, stop, self._keep(kwargs)),
            protocol=self.protocol,
            max_rounds=self.max_rounds,
            max_result_chars=self.max_result_chars,
        )
        return chat.bind_tools(self.bound_tools)

    def _keep(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return kept(kwargs, frozenset(self.allowed_options), self._warned, "AirgapChatOpenAI")


class _Server(ChatModel):
    """Be the server behind a `ChatOpenAI`: its own requests, with this run's stop strings and options."""

    def __init__(self, chat: ChatOpenAI, stop: list[str] | None, options: dict[str, Any]) -> None:
        self.name = f"openai/{chat.model_name}"
        self.chat_openai, self.request = chat, {"stop": stop, **options}

    def chat(self, messages: Any, *ignored: Any, **also_ignored: Any) -> Reply:
        [said] = ChatOpenAI._generate(self.chat_openai, _wire(messages), **self.request).generations
        return _reply(said, said.message.response_metadata)

    async def achat(self, messages: Any, *ignored: Any, **also_ignored: Any) -> Reply:
        [said] = (await ChatOpenAI._agenerate(self.chat_openai, _wire(messages), **self.request)).generations
        return _reply(said, said.message.response_metadata)

    def stream(self, messages: Any, **ignored: Any) -> Iterator[Chunk]:
        whole = ChatGenerationChunk(message=AIMessageChunk(content=""))
        for piece in ChatOpenAI._stream(self.chat_openai, _wire(messages), **self.request):
            whole += piece
            yield Chunk(_text(piece))
        yield Chunk(reply=_reply(whole, whole.generation_info or {}))

    async def astream(self, messages: Any, **ignored: Any) -> AsyncIterator[Chunk]:
        whole = ChatGenerationChunk(message=AIMessageChunk(content=""))
        async for piece in ChatOpenAI._astream(self.chat_openai, _wire(messages), **self.request):
            whole += piece
            yield Chunk(_text(piece))
        yield Chunk(reply=_reply(whole, whole.generation_info or {}))

    def fingerprint(self) -> dict[str, Any]:
        return {"backend": "langchain", "name": self.name}


def _chunk(piece: AirgapChunk) -> ChatGenerationChunk | None:
    """Return what LangChain's callers get of a piece: words as they come, at the end the record of the run."""
    record = {} if piece.reply is None else _record(piece.reply)
    return ChatGenerationChunk(message=AIMessageChunk(content=piece.text, **record)) if piece.text or record else None


def _wire(messages: Sequence[ChatMessage]) -> list[BaseMessage]:
    return [_CLASSES[message.role](content="\n".join(message.texts)) for message in messages]


def _text(said: ChatGeneration) -> str:
    content = said.message.content
    return content if isinstance(content, str) else str(said.message.text)


def _reply(said: ChatGeneration, told: Mapping[str, Any]) -> Reply:
    usage = getattr(said.message, "usage_metadata", None) or {}
    return Reply(
        _text(said),
        finish_reason="length" if told.get("finish_reason") == "length" else "stop",
        prompt_tokens=usage.get("input_tokens"),
        completion_tokens=usage.get("output_tokens"),
        model=str(told.get("model_name", "")),
    )


def _result(reply: AirgapReply) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=AIMessage(content=reply.text, **_record(reply)))])


def _record(reply: AirgapReply) -> dict[str, Any]:
    """Return what a message tells of the run beside its text."""
    record = {
        "calls": [call.to_dict() for call in reply.calls],
        "results": [result.to_dict() for result in reply.results],
        "stop_reason": reply.stop_reason,
        "raw_texts": list(reply.raw_texts),
    }
    names = {"model_name": reply.replies[-1].model} if reply.replies and reply.replies[-1].model else {}
    read, written = reply.trace.prompt_tokens, reply.trace.completion_tokens
    usage = {"input_tokens": read or 0, "output_tokens": written or 0, "total_tokens": (read or 0) + (written or 0)}
    told = read is not None or written is not None  # not every server does
    return {"response_metadata": {**names, "airgap": record}, "usage_metadata": usage if told else None}
