"""Fix what every model gives back (Reply), takes (ChatRequest, Options) and can do (ChatModel).

Not here: the back ends (`embedded`, `ollama`, `openai`, `scripted`) and the store of replies (`store`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

from toolkit.errors import ConfigError, did_you_mean
from toolkit.messages import ChatMessage, ToolCall, as_messages
from toolkit.models.schemas import request_schema
from toolkit.tools import Tool, as_tools
from toolkit.traces.json_text import in_html

FinishReason = Literal["stop", "length", "tool_calls", "overflow", "error"]
FaultKind = Literal["server", "overflow", "timeout", "schema_not_honoured", "parse", "tools_unsupported"]
Limit = Literal["", "num_predict", "num_ctx", "thinking"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Say how model or server failed on one request; a value, not an exception.

    Attributes:
        kind: `overflow` is a prompt that does not fit the window, whether refused or silently cut;
            `parse` a server that could not read its own model's call (its raw text is in `Reply.text`);
            `tools_unsupported` a model whose chat template has no place for `tools=`.
        message: what the server said.
    """

    kind: FaultKind
    message: str


# llama.cpp aborts the process at 1; no prompt with its chat markers fits into fewer than this
_LEAST_CTX = 16
_MOST = 2**32  # no option of any back end holds more
_NUMBERS: dict[str, Any] = {
    **dict.fromkeys(("seed", "num_ctx", "num_predict", "top_k"), int),
    **dict.fromkeys(("temperature", "top_p", "min_p", "repeat_penalty", "timeout_s"), (int, float)),
}


@dataclass(frozen=True)
class Options:
    """Hold the settings of one request; unknown names are refused, never passed on (Source: ollama-python#663).

    Attributes:
        temperature: 0 is greedy.
        seed: reaches the sampler on every back end.
        num_ctx: context window in tokens, at least 16; always sent, constant within a sweep so that models are not
            reloaded.
        num_predict: most tokens to write; always finite (Source: ollama#7814).
        stop: strings at which writing ends; the text is cut there even if the server ignored them.
        think: None leaves the server's default; True, False, or a level "low" / "medium" / "high".
        keep_alive: how long Ollama keeps the model loaded, such as "10m".
        timeout_s: seconds without a token after which the request is given up.
    """

    temperature: float = 0.0
    seed: int = 0
    num_ctx: int = 8192
    num_predict: int = 512
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    stop: tuple[str, ...] = ()
    think: bool | str | None = None
    keep_alive: str | None = None
    timeout_s: float = 300.0

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        if not isinstance(stop, (list, tuple)) or not all(isinstance(word, str) for word in stop):
            raise ConfigError(f"stop must be a text, or a list of texts, not {self.stop!r}.")
        object.__setattr__(self, "stop", tuple(stop))
        for name, kinds in _NUMBERS.items():
            value = getattr(self, name)
            fits = isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < _MOST
            if not fits and not (value is None and _PLAIN[name] is None):
                wanted = "a whole number" if kinds is int else "a number"
                raise ConfigError(f"Option {name} must be {wanted}, not {value!r:.100}.")
        if self.keep_alive is not None and not isinstance(self.keep_alive, str):
            raise ConfigError(f'keep_alive must be a text, such as "10m", not {self.keep_alive!r}.')
        if self.num_predict <= 0:
            raise ConfigError(f"num_predict must be a positive number of tokens, not {self.num_predict!r}.")
        if self.num_ctx < _LEAST_CTX:
            raise ConfigError(f"num_ctx must be at least {_LEAST_CTX} tokens, not {self.num_ctx!r}.")
        if not (self.think is None or isinstance(self.think, bool) or self.think in ("low", "medium", "high")):
            raise ConfigError(f"think must be true, false, 'low', 'medium' or 'high', not {self.think!r}.")

    @classmethod
    def of(cls, value: Options | Mapping[str, Any] | None, defaults: Options | None = None) -> Options:
        """Read options from a dict laid over `defaults`; an `Options` is taken whole; ConfigError if unusable."""
        if value is None:
            return defaults or cls()
        if isinstance(value, Options):
            return value
        known = [item.name for item in fields(cls)]
        for name in value:
            if name not in known:
                raise ConfigError(f"Unknown option {name!r}. {did_you_mean(str(name), known)}")
        return replace(defaults or cls(), **value)

    def for_key(self) -> dict[str, Any]:
        """Return what can change the words of a reply: all options but `timeout_s` and `keep_alive`."""
        return {name: value for name, value in self.to_dict().items() if name not in ("timeout_s", "keep_alive")}

    def to_dict(self) -> dict[str, Any]:
        """Return the options that are set, as plain JSON data."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}  # asdict copies, ten times slower
        if found["stop"]:
            found["stop"] = list(self.stop)
        return {name: value for name, value in found.items() if value not in (None, ())}


_PLAIN = {item.name: item.default for item in fields(Options)}


@dataclass(frozen=True)
class Reply:
    """Hold what a model server returned for one request.

    Attributes:
        text: the raw text, exactly as written.
        thinking: reasoning that the server kept apart; inline tags stay in `text`.
        tool_calls: calls that the server itself read (native arm).
        finish_reason: `stop`, `length` (see `limit`), `tool_calls`, `overflow`, `error`.
        limit: where `finish_reason` is `length`, which limit it was: `num_predict` the cap on writing, `num_ctx`
            the window, `thinking` a cap that was spent before any answer (Source: chatlas#327).
        prompt_tokens: tokens of the prompt; None where the server does not say.
        cached_tokens: how many of them came from the prefix cache.
        completion_tokens: tokens written.
        seconds: wall time of the request, without loading.
        load_seconds: time spent loading the model.
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
    **dict.fromkeys(("seconds", "load_seconds"), ((int, float), "a number")),
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
        """Yield the reply piece by piece without blocking the event loop."""
        chunks = self.stream(messages, **request)
        try:
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield chunk
        finally:
            getattr(chunks, "close", lambda: None)()

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

    def run() -> Reply:
        try:
            return ask()
        except StopIteration as error:
            raise RuntimeError(f"The model raised {error!r}. Give next() a default.") from error

    return await asyncio.to_thread(run)


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
