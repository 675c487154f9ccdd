"""Fix what every model gives back (Reply), takes (ChatRequest) and can do (ChatModel).

Not here: the settings of a request (`options`), the back ends (`embedded`, `ollama`, `openai`, `scripted`), the store.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage, ToolCall, as_messages
from toolkit.models.abort import Abort
from toolkit.models.options import Options as Options  # noqa: PLC0414 - many ask for it here
from toolkit.models.schemas import request_schema
from toolkit.tools import Tool, as_tools
from toolkit.traces.json_text import in_html

FinishReason = Literal["stop", "length", "tool_calls", "overflow", "error"]
FaultKind = Literal["server", "overflow", "timeout", "schema_not_honoured", "parse", "tools_unsupported"]
Limit = Literal["", "num_predict", "num_ctx", "thinking", "loop"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Say how model or server failed on one request; a value, not an exception.

    Attributes:
        kind: `overflow` is a prompt that does not fit the window, whether refused or silently cut;
            `parse` a server that could not read its own model's call (its raw text is in `Reply.text`);
            `tools_unsupported` a model whose chat template has no place for `tools=`.
        message: what the server said.
        prompt_tokens: of an overflow, the length of the prompt where the server tells it.
        window: of an overflow, how many tokens fit where the server tells it.
    """

    kind: FaultKind
    message: str
    prompt_tokens: int | None = None
    window: int | None = None


@dataclass(frozen=True)
class Reply:
    """Hold what a model server returned for one request.

    Attributes:
        text: the raw text, exactly as written.
        thinking: reasoning that the server kept apart; inline tags stay in `text`.
        tool_calls: calls that the server itself read (native arm).
        finish_reason: `stop`, `length` (see `limit`), `tool_calls`, `overflow`, `error`.
        limit: where `finish_reason` is `length`, which limit it was: `num_predict` the cap on writing, `num_ctx`
            the window, `thinking` a cap that was spent before any answer (Source: chatlas#327), `loop` a server's
            patience with a reply that repeats itself (Source: ollama#8786).
        prompt_tokens: tokens of the prompt; None where the server does not say.
        cached_tokens: how many of them came from the prefix cache.
        completion_tokens: tokens written.
        seconds: wall time of the request, without loading and queueing.
        load_seconds: time spent loading the model.
        queue_seconds: time until the server took the request up: it was gone or busy, or others came first; None
            where the server does not say what it did meanwhile.
        prompt_seconds: time spent reading the prompt, as far as it was not cached; None where the server is silent.
        write_seconds: time spent writing; None where the server is silent.
        model: the model's full name, such as `embedded/smollm2-135m`.
        fault: how it failed, or None.
        from_store: whether it was answered from a store.
        raw: what came over the wire, for the curious; holds no credentials.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    limit: Limit = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    load_seconds: float = 0.0
    model: str = ""
    fault: Fault | None = None
    from_store: bool = False
    raw: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    queue_seconds: float | None = None
    prompt_seconds: float | None = None
    write_seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the reply as plain JSON data, without `from_store`."""
        data = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "from_store"}
        data["tool_calls"] = [ToolCall.to_dict(call) for call in self.tool_calls]
        data["fault"] = asdict(self.fault) if self.fault else None
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reply:
        """Build a reply from what `to_dict` gave; ConfigError if it is none, or a part is of the wrong kind."""
        try:
            values = {k: v for k, v in data.items() if k in cls.__dataclass_fields__ and v is not None}
            values["tool_calls"] = tuple(map(ToolCall.from_dict, values.get("tool_calls", ())))
            if "fault" in values:
                values["fault"] = Fault(**values["fault"])
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise ConfigError(f"This is no reply of a model ({type(error).__name__}: {error}).") from None
        for key, (kind, words) in _KINDS.items():
            value = values.get(key, "")
            known = words if isinstance(words, tuple) else (value,)
            if key in values and (not isinstance(value, kind) or isinstance(value, bool) or value not in known):
                wanted = words if isinstance(words, str) else f"one of {words}"
                raise ConfigError(f"reply.{key} must be {wanted}, not {value!r:.100}.")
        return cls(**values)

    def replace(self, **changes: Any) -> Reply:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def __repr__(self) -> str:
        fault = f" fault={self.fault.kind}" if self.fault else ""
        said = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        return f"Reply({said!r} {self.finish_reason} {self.prompt_tokens}+{self.completion_tokens} tokens{fault})"

    def _repr_html_(self) -> str:
        return f"<pre style='white-space:pre-wrap'>{in_html(self.text)}</pre><small>{in_html(repr(self))}</small>"


_KINDS: dict[str, tuple[Any, Any]] = {  # part of a reply -> its type, and the type in words or the words it may be
    **dict.fromkeys(("text", "thinking", "model"), (str, "text")),
    **dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), (int, "a whole number")),
    **dict.fromkeys(
        ("seconds", "load_seconds", "queue_seconds", "prompt_seconds", "write_seconds"), ((int, float), "a number")
    ),
    "finish_reason": (str, get_args(FinishReason)),
    "limit": (str, get_args(Limit)),
    "raw": (dict, "an object"),
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Carry one piece of a stream; the last one carries the whole `reply` and no text."""

    text: str = ""
    thinking: str = ""
    reply: Reply | None = None


@dataclass(frozen=True)
class ChatRequest:
    """Hold one request, read and checked.

    Attributes:
        options: all of them, the model's defaults included.
        schema: JSON Schema that decoding is held to.
        messages: the conversation; empty for a raw completion.
        tools: tools to offer natively.
        tool_choice: as the caller gave it.
        prompt: the text to continue; None for a conversation.
    """

    options: Options
    schema: dict[str, Any] | None = None
    messages: Sequence[ChatMessage] = ()
    tools: Sequence[Tool] = ()
    tool_choice: str | None = None
    prompt: str | None = None

    @property
    def think(self) -> bool | str | None:
        """Return whether the model is to think: not where decoding is held to a schema, unless that was asked."""
        return False if self.options.think is None and self.schema is not None else self.options.think

    @property
    def tool_specs(self) -> list[dict[str, Any]]:
        """Return the tools as OpenAI's `{"type": "function", "function": …}`."""
        return [{"type": "function", "function": tool.tool_spec} for tool in self.tools]

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain JSON data: whatever can change the reply, nothing else."""
        held = {"schema": self.schema, "options": self.options.for_key()}
        if self.prompt is not None:
            return {"kind": "complete", "prompt": self.prompt, **held}
        said = [message.to_dict() for message in self.messages]
        for message in said:
            message.pop("_meta")  # never sent
        tools = [tool.tool_spec for tool in self.tools]
        return {"kind": "chat", "messages": said, "tools": tools, **held, "tool_choice": self.tool_choice}


class ChatModel(ABC):
    """Answer requests; the one interface of every back end.

    A back end implements `answer` and `fingerprint`; the rest follows. Faults of model and server come back in
    `Reply.fault`; a mistake of the user (no server, unknown model) raises `UserError`.

    Attributes:
        name: what `load_model` was given.
        supports_tools: whether `tools=` reaches the model natively.
        defaults: options of a request that sets none; a dict of options is laid over them.
    """

    name: str = ""
    supports_tools: bool = False
    defaults: Options = Options()

    def answer(self, request: ChatRequest) -> Iterator[Chunk]:
        """Yield the reply piece by piece; the last chunk carries the whole `reply`. Closing it stops the server."""
        raise NotImplementedError(f"{type(self).__name__} must implement answer(request).")

    def stream(
        self,
        messages: Any,
        *,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        tool_choice: str | None = None,
    ) -> Iterator[Chunk]:
        """Yield the reply piece by piece; the last chunk carries the whole `reply`. Closing it stops the server.

        Args:
            messages: anything `as_messages` reads.
            tools: tools to offer natively; None in the prompted and constrained arms.
            schema: JSON Schema that decoding is held to; also put it in the prompt.
            options: `Options` or a dict of them.
            tool_choice: sent only to servers that enforce it; others ignore it here and say so in `raw`.

        Raises:
            ConfigError: no message, or something in the request that cannot be read.
        """
        settings, said = Options.of(options, self.defaults), self.conversation(messages)
        return self.answer(ChatRequest(settings, request_schema(schema), said, as_tools(tools or ()), tool_choice))

    @staticmethod
    def conversation(messages: Any) -> list[ChatMessage]:
        """Return the messages of a request; ConfigError where there are none, or something in it is none."""
        said = as_messages(messages)
        if not said:
            raise ConfigError("A request needs at least one message; got none.")
        return said

    def complete_stream(self, prompt: str, *, schema: Any = None, options: Any = None) -> Iterator[Chunk]:
        """Yield the continuation of a raw prompt, with no chat template; stop strings come from `options.stop`."""
        return self.answer(ChatRequest(Options.of(options, self.defaults), request_schema(schema), prompt=prompt))

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return what decides the replies beside the request: back end, name, digest, server version."""

    def chat(
        self,
        messages: Any,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        *,
        tool_choice: str | None = None,
    ) -> Reply:
        """Answer a conversation; see `stream` for the arguments."""
        return last_reply(self.stream(messages, tools=tools, schema=schema, options=options, tool_choice=tool_choice))

    def complete(self, prompt: str, schema: Any = None, options: Any = None) -> Reply:
        """Continue a raw prompt; see `complete_stream` for the arguments."""
        return last_reply(self.complete_stream(prompt, schema=schema, options=options))

    async def achat(
        self, messages: Any, tools: Any = None, schema: Any = None, options: Any = None, **more: Any
    ) -> Reply:
        """Answer a conversation without blocking the event loop."""
        return await _on_thread(lambda: self.chat(messages, tools, schema, options, **more))

    async def acomplete(self, prompt: str, schema: Any = None, options: Any = None) -> Reply:
        """Continue a raw prompt without blocking the event loop."""
        return await _on_thread(lambda: self.complete(prompt, schema, options))

    async def astream(self, messages: Any, **request: Any) -> AsyncIterator[Chunk]:
        """Yield the reply piece by piece without blocking the event loop; leaving early or being cancelled stops it."""
        chunks, abort, busy = self.stream(messages, **request), Abort(), threading.Lock()

        def following() -> Chunk | None:
            with busy, abort:
                return next(chunks, None)

        def end() -> None:
            with busy:
                getattr(chunks, "close", lambda: None)()

        try:
            while (chunk := await asyncio.to_thread(following)) is not None:
                yield chunk
        finally:
            abort.ask()
            if busy.locked():  # a thread waits for the server, and sees now that it is gone
                asyncio.get_running_loop().run_in_executor(None, end)
            else:
                end()

    def check_request(self, request: ChatRequest) -> None:  # noqa: B027 - most back ends take anything
        """Raise ConfigError if the model cannot do what a request asks; nothing is asked."""

    def check(self) -> None:  # noqa: B027 - most back ends have nothing to check
        """Raise `UserError` now if the model cannot answer (no server, not pulled); else do nothing."""

    def close(self) -> None:  # noqa: B027 - nor anything to free
        """Free what the model holds; afterwards it loads again on use."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


async def _on_thread(ask: Callable[[], Reply]) -> Reply:
    """Run a request on a thread; a StopIteration, which would hang its waiter, becomes a RuntimeError."""
    abort = Abort()

    def run() -> Reply:
        try:
            with abort:
                return ask()
        except StopIteration as error:
            raise RuntimeError(f"The model raised {error!r}. Give next() a default.") from error

    try:
        return await asyncio.to_thread(run)
    except asyncio.CancelledError:
        abort.ask()
        raise


def last_reply(chunks: Iterator[Chunk]) -> Reply:
    """Run a stream to its end and return its reply."""
    reply = None
    for chunk in chunks:
        reply = chunk.reply or reply
    if reply is None:
        raise RuntimeError("A model's stream ended without a reply; its last chunk must carry one.")
    return reply


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """Cut a text at the first stop string, for servers that ignore them.

    >>> cut_at_stop("It rains. User: and", ["User:"])
    'It rains. '
    """
    ends = [place for word in stop if word and (place := text.find(word)) >= 0]
    return text[: min(ends)] if ends else text
