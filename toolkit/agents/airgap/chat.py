"""How does a plain chat model get tools through its prompt alone? AirgapChat.

    chat = AirgapChat("ollama/llama3.2", temperature=0).bind_tools([weather])
    reply = chat.invoke("Is it raining in Oslo?")       # also ainvoke, stream, astream
    reply.text, reply.calls, reply.results, reply.raw_texts

It repairs what the original AirgapChatOpenAI gets wrong; `mode="compat"` makes the original instead.
Not here: the rounds (`rounds`), the original (`toolkit.agents.originals.airgap`), LangChain's class
(`toolkit.integrations.langchain`), an agent with middleware (`toolkit.agents.loop`).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from toolkit.agents import drivers, modes
from toolkit.agents.airgap.rounds import AirgapChunk, AirgapReply, Rounds, Steps
from toolkit.agents.drivers import Send, Work, Worker
from toolkit.agents.originals.airgap import KNOWN_OPTIONS, OriginalAirgapChat, renamed
from toolkit.asking import stream_reader
from toolkit.errors import ConfigError, check_word
from toolkit.extraction.stream import StreamEvent, StreamExtractor
from toolkit.messages import ChatMessage, as_messages
from toolkit.models.base import ChatModel, Chunk, Options
from toolkit.models.registry import as_model
from toolkit.prompting.protocols import Protocol
from toolkit.recipes import Recipe
from toolkit.tools import Tool, as_tools
from toolkit.traces import Event, Trace

Mode = Literal["default", "compat"]


class AirgapChat:
    """Chat with a model that has no tool support of its own; calls are read from its text and run.

    Args:
        model: a ChatModel, or a name that `load_model` reads.
        temperature: 0 is greedy.
        mode: "default", or "compat" for the original, rule for rule: one prompt, one round, shared tools.
        protocol: how tools are shown and calls are read; a name in `prompts/`, a folder or a Protocol.
        recipe: how requests are put and replies are read, in place of temperature, protocol and options.
        max_rounds: how often tools may be run before the model must answer.
        max_result_chars: longest result that is shown to the model whole.
        ignore_fenced: take calls in code fences for examples; small models put real ones there too, so off by default.
        allowed: which keyword arguments of `bind` and `invoke` reach the model; others are dropped with one warning
            each. `max_tokens` is the original's word for `num_predict`.
        options: further options of the model, such as `num_ctx`.

    Raises:
        ConfigError: an unknown mode, option or protocol.
        ModelNotFoundError: no such model.
    """

    mode: Mode = "default"

    def __new__(cls, *given: Any, mode: Mode = "default", **more: Any) -> Any:
        """Make the original where `mode` asks for it."""
        asked = given[2] if len(given) > 2 else mode
        check_word("mode of AirgapChat", asked, ("default", "compat"))
        return OriginalAirgapChat(*given[:2], **more) if asked == "compat" else super().__new__(cls)

    def __init__(
        self,
        model: ChatModel | str,
        temperature: float = 0.0,
        mode: Mode = "default",
        *,
        protocol: str | Protocol = "airgap",
        recipe: Recipe | None = None,
        max_rounds: int = 5,
        max_result_chars: int = 4000,
        ignore_fenced: bool = False,
        allowed: Sequence[str] = KNOWN_OPTIONS,
        **options: Any,
    ) -> None:
        for name in allowed:
            check_word("option in allowed=", name, KNOWN_OPTIONS)
        if max_rounds < 1 or max_result_chars < 1:
            raise ConfigError(f"max_rounds ({max_rounds!r}) and max_result_chars ({max_result_chars!r}) start at 1.")
        self.model: ChatModel = as_model(model)
        self.tools: Sequence[Tool] = []
        self.options: dict[str, Any] = {"temperature": temperature, **renamed(options)} if recipe is None else {}
        recipe = recipe or Recipe.of_model(self.model, protocol, options=self.options)
        limits = {"max_rounds": max_rounds, "max_result_chars": max_result_chars, "ignore_fenced": ignore_fenced}
        self._rounds = Rounds(recipe, self.model, **limits)  # type: ignore[arg-type] # two numbers and a flag
        self._allowed = frozenset(allowed)
        self._warned: set[str] = set()  # shared by all copies, so that each name is warned about once

    @property
    def recipe(self) -> Recipe:
        """Return how requests are put and replies are read."""
        return self._rounds.recipe

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> AirgapChat:
        """Return a copy that may call these tools, and no others.

        Args:
            tools: Tools, typed functions, LangChain tools, or objects with `name` and `invoke(args)` or `__call__`.
            kwargs: what LangChain passes along, such as `tool_choice`; dropped with a warning.

        Raises:
            ConfigError: something in it is no tool, or two share a name.
        """
        self._keep(kwargs)
        bound = copy.copy(self)
        bound.tools = as_tools(tools)
        bound._rounds = self._rounds.with_tools(bound.tools)
        return bound

    def bind(self, **kwargs: Any) -> AirgapChat:
        """Return a copy with other options; names that hold "tool" are dropped."""
        bound = copy.copy(self)
        bound.options = {**self.options, **self._keep(kwargs)}
        Options.of(bound.options)
        return bound

    def invoke(self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any) -> AirgapReply:
        """Answer a conversation, running tools as the model asks for them.

        Args:
            messages: text, a ChatMessage, dicts with role and content, LangChain messages, or a list of these.
            stop: strings at which writing ends.
            kwargs: options of this run only.

        Raises:
            ConfigError: something in it is no message, or an option has an unusable value.
            ModelError: the model or its server failed; `trace` on it, as on whatever the model raises, holds the run
                so far.
        """
        return drivers.drive(self.steps(messages, stop, **kwargs), Worker())

    async def ainvoke(self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any) -> AirgapReply:
        """Answer a conversation without blocking the event loop; see `invoke`."""
        return await drivers.adrive(self.steps(messages, stop, **kwargs), Worker())

    def stream(self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any) -> Iterator[AirgapChunk]:
        """Yield the words for the user as they are written, the result of each call, and at the end the reply.

        Text that may become a call is held back until it is clear what it is. Closing the iterator stops the run.
        """
        return drivers.stream(self._streamed(messages, stop, kwargs))

    def astream(
        self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any
    ) -> AsyncIterator[AirgapChunk]:
        """Yield what `stream` yields, without blocking the event loop."""
        return drivers.astream(self._streamed(messages, stop, kwargs))

    def _streamed(self, messages: Any, stop: Any, kwargs: Mapping[str, Any]) -> Work:
        """Return a run that sends the words for the user, and each result, as chunks."""
        trace = Trace("AirgapChat")
        steps = self.steps(messages, stop, trace=trace, **kwargs)
        shown = VisibleText(lambda: stream_reader(self.recipe, self._rounds.tools))

        async def work(send: Send, mode: modes.Mode) -> AirgapChunk:
            def token(chunk: Chunk) -> None:
                if text := shown.take(chunk):
                    send(AirgapChunk(text))

            def listen(event: Event) -> None:
                if event.kind == "tool_result":
                    send(AirgapChunk(result=event.data["result"]))

            trace.listeners.append(listen)
            return AirgapChunk(reply=await drivers.driven(steps, Worker(token), mode))

        return work

    def prompt(self, messages: Any) -> list[ChatMessage]:
        """Return exactly what the first request would send."""
        return list(next(self.steps(messages)).request.messages)  # type: ignore[union-attr] # the first step asks

    def steps(
        self, messages: Any, stop: str | Sequence[str] | None = None, trace: Trace | None = None, **kwargs: Any
    ) -> Steps:
        """Return the run as a generator without I/O, for a driver of your own; see `Rounds.steps`."""
        options = {**self.options, **self._keep(kwargs), **({} if stop is None else {"stop": stop})}
        Options.of(options)
        return self._rounds.steps(as_messages(messages), trace or Trace("AirgapChat"), options)

    def _keep(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return renamed(kept(kwargs, self._allowed, self._warned, "AirgapChat"))

    def __repr__(self) -> str:
        names = ", ".join(tool.name for tool in self.tools) or "no tools"
        return f"AirgapChat({self.model.name!r}, {names})"


def kept(kwargs: Mapping[str, Any], allowed: Collection[str], warned: set[str], who: str) -> dict[str, Any]:
    """Return the allowed options, and warn once about each other one."""
    for name in sorted(kwargs.keys() - allowed - warned):
        warned.add(name)
        passed = ", ".join(sorted(allowed))
        warnings.warn(f"{who} drops {name}={kwargs[name]!r}: it passes on {passed}.", UserWarning, stacklevel=5)
    return {name: value for name, value in kwargs.items() if name in allowed}


class VisibleText:
    """Pass on the words of a run, reply after reply, as they come; `reader` makes what reads one reply."""

    def __init__(self, reader: Callable[[], StreamExtractor]) -> None:
        self._reader = reader
        self._stream = reader()
        self._last = "\n"  # what was shown last; words of the next reply start on a line of their own
        self._starts = True

    def take(self, chunk: Chunk) -> str:
        """Take a chunk and return what may be shown now; the last chunk of a reply gives the rest of it."""
        words = _words(self._stream.feed(chunk.text))
        if chunk.reply is not None:
            self._stream.close(chunk.reply.finish_reason)
            words += _words(self._stream.rest)
            self._stream = self._reader()
        if words:
            words = ("\n" if self._starts and not self._last.endswith("\n") else "") + words
            self._last = words
        self._starts = chunk.reply is not None or (self._starts and not words)
        return words


def _words(events: Iterable[StreamEvent]) -> str:
    return "".join(event.text for event in events if event.kind == "text")
