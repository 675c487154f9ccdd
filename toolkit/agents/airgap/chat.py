"""How does a plain chat model get tools through its prompt alone? AirgapChat.

    chat = AirgapChat("ollama/llama3.2", temperature=0).bind_tools([weather])
    reply = chat.invoke("Is it raining in Oslo?")       # also ainvoke, stream, astream
    reply.text, reply.calls, reply.results, reply.raw_texts

The default repairs what the original AirgapChatOpenAI gets wrong; `mode="compat"` keeps its rules.
Not here: the rounds (`rounds`), the original's rules (`compat`), LangChain's class
(`toolkit.integrations.langchain`), an agent with middleware (`toolkit.agents.loop`).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

from toolkit.agents.airgap.reply import AirgapChunk, AirgapReply
from toolkit.agents.airgap.rounds import Ask, Rounds, Run, Steps
from toolkit.agents.airgap.stream import Shown
from toolkit.agents.airgap.tools import with_tools
from toolkit.agents.foreign import as_any_tools, as_chat_messages, as_model, as_spoken, link_results, warn_of_blocks
from toolkit.agents.originals import airgap as compat
from toolkit.agents.partial import telling
from toolkit.errors import ConfigError, did_you_mean
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel, Options
from toolkit.prompting.protocols import Protocol, load_protocol

Mode = Literal["default", "compat"]
ALLOWED_OPTIONS = ("max_tokens", *(item.name for item in fields(Options)))


class AirgapChat:
    """Chat with a model that has no tool support of its own; calls are read from its text and run.

    Args:
        model: a ChatModel, or a name that `load_model` reads.
        temperature: 0 is greedy.
        mode: "default", or "compat" for the original's rules: one prompt, one round, shared tools.
        protocol: how tools are shown and calls are read; a name in `prompts/`, a folder or a Protocol.
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

    def __init__(
        self,
        model: ChatModel | str,
        temperature: float = 0.0,
        mode: Mode = "default",
        *,
        protocol: str | Protocol = "airgap",
        max_rounds: int = 5,
        max_result_chars: int = 4000,
        ignore_fenced: bool = False,
        allowed: Sequence[str] = ALLOWED_OPTIONS,
        **options: Any,
    ) -> None:
        if mode not in ("default", "compat"):
            raise ConfigError(f"Unknown mode {mode!r} of AirgapChat. {did_you_mean(str(mode), ('default', 'compat'))}")
        for name in allowed:
            if name not in ALLOWED_OPTIONS:
                raise ConfigError(f"allowed= names an unknown option {name!r}. {did_you_mean(name, ALLOWED_OPTIONS)}")
        if max_rounds < 1 or max_result_chars < 1:
            raise ConfigError(f"max_rounds ({max_rounds!r}) and max_result_chars ({max_result_chars!r}) start at 1.")
        self.model: ChatModel = as_model(model)
        self.mode = mode
        self.tools: Sequence[Any] = []
        self.options: dict[str, Any] = {"temperature": temperature, **_renamed(options)}
        Options.of(self.options)
        self._allowed = frozenset(allowed if mode == "default" else compat.KEPT_OPTIONS)
        limits = {"max_rounds": max_rounds, "max_result_chars": max_result_chars, "ignore_fenced": ignore_fenced}
        self._rounds = Rounds(load_protocol(protocol), **limits)  # type: ignore[arg-type] # two numbers and a flag
        self._invoker: Any = None
        self._warned: set[str] = set()  # shared by all copies, so that each name is warned about once

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> AirgapChat:
        """Return a copy that may call these tools, and no others.

        In compat mode the tools are replaced in place and the same object comes back.

        Args:
            tools: Tools, typed functions, LangChain tools, or objects with `name` and `invoke(args)` or `__call__`.
            kwargs: what LangChain passes along, such as `tool_choice`; dropped with a warning.

        Raises:
            ConfigError: something in it is no tool, or two share a name.
        """
        if self.mode == "compat":
            self.tools = tools  # no copy: what the caller adds to the list later is there too
            return self
        self._keep(kwargs)
        bound = copy.copy(self)
        bound.tools = as_any_tools(tools)
        bound._rounds, bound._invoker = with_tools(self._rounds, bound.tools)
        return bound

    def bind(self, **kwargs: Any) -> AirgapChat | compat.Bound:
        """Return a copy with other options.

        Names that hold "tool" are dropped. In compat mode nothing left gives the same object, and something left gives
        a `Bound`, as the original gives a wrapper.
        """
        if self.mode == "compat":
            kept = {name: value for name, value in kwargs.items() if "tool" not in name.casefold()}
            return compat.Bound(self, kept) if kept else self
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
            ModelError: the model or its server failed; `partial` on it, as on whatever the model raises, holds the run
                so far.
        """
        spoken, options = as_spoken(messages), self._options(stop, kwargs)
        if self.mode == "compat":
            return compat.drive(self.model, spoken, self.tools, options)
        steps, answer = self.steps(spoken), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return _reply(end)
            with telling(steps):
                answer = self.model.chat(step.messages, options=options) if isinstance(step, Ask) else self.run(step)

    async def ainvoke(self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any) -> AirgapReply:
        """Answer a conversation without blocking the event loop; see `invoke`.

        In compat mode this goes to the model directly, without tools or prompt, and with every option that the model
        knows, as the original's does.
        """
        spoken = as_spoken(messages)
        if self.mode == "compat":
            request = self._bare_request(stop, kwargs)
            return compat.bare(await self.model.achat(as_chat_messages(spoken), **request), spoken)
        options = self._options(stop, kwargs)
        steps, answer = self.steps(spoken), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return _reply(end)
            with telling(steps):
                answer = await (
                    self.model.achat(step.messages, options=options) if isinstance(step, Ask) else self.arun(step)
                )

    def stream(self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any) -> Iterator[AirgapChunk]:
        """Yield the words for the user as they are written, the result of each call, and at the end the reply.

        Text that may become a call is held back until it is clear what it is. In compat mode this goes to the model
        directly, without tools or prompt, and with every option that the model knows, as the original's does.
        """
        spoken = as_spoken(messages)
        if self.mode == "compat":
            request = self._bare_request(stop, kwargs)
            for piece in self.model.stream(as_chat_messages(spoken), **request):
                if chunk := compat.bare_chunk(piece, spoken):
                    yield chunk
            return
        options = self._options(stop, kwargs)
        steps, answer, shown = self.steps(spoken), None, Shown(self._rounds.protocol, self._rounds.tools)
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                yield AirgapChunk(reply=_reply(end))
                return
            if isinstance(step, Run):
                answer = self.run(step)
                yield AirgapChunk(result=answer)
                continue
            with telling(steps):
                for piece in self.model.stream(step.messages, options=options):
                    answer = piece.reply or answer
                    if text := shown.take(piece):
                        yield AirgapChunk(text)

    async def astream(
        self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any
    ) -> AsyncIterator[AirgapChunk]:
        """Yield what `stream` yields, without blocking the event loop."""
        spoken = as_spoken(messages)
        if self.mode == "compat":
            request = self._bare_request(stop, kwargs)
            async for piece in self.model.astream(as_chat_messages(spoken), **request):
                if chunk := compat.bare_chunk(piece, spoken):
                    yield chunk
            return
        options = self._options(stop, kwargs)
        steps, answer, shown = self.steps(spoken), None, Shown(self._rounds.protocol, self._rounds.tools)
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                yield AirgapChunk(reply=_reply(end))
                return
            if isinstance(step, Run):
                answer = await self.arun(step)
                yield AirgapChunk(result=answer)
                continue
            with telling(steps):
                async for piece in self.model.astream(step.messages, options=options):
                    answer = piece.reply or answer
                    if text := shown.take(piece):
                        yield AirgapChunk(text)

    def prompt(self, messages: Any) -> list[ChatMessage]:
        """Return exactly what the first request would send."""
        spoken = as_spoken(messages)
        if self.mode == "compat":
            return compat.first_prompt(spoken, self.tools)
        step = next(self.steps(spoken))
        assert isinstance(step, Ask)
        return step.messages

    def steps(self, messages: Any) -> Steps:
        """Return the run as a generator without I/O, for a driver of your own; see `Rounds.steps`."""
        spoken = as_spoken(messages)
        warn_of_blocks(spoken, self._warned, "AirgapChat")
        return self._rounds.steps(link_results(as_chat_messages(spoken)))

    def run(self, step: Run) -> Any:
        """Run one call of a run; a failure is a result too."""
        return self._invoker.invoke(step.call)

    async def arun(self, step: Run) -> Any:
        """Run one call of a run without blocking the event loop."""
        return await self._invoker.ainvoke(step.call)

    def _options(self, stop: str | Sequence[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return self._asked(stop, self._keep(kwargs))

    def _bare_request(self, stop: str | Sequence[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a request round the prompt holds: the original cleans only the options of its own requests."""
        request = {name: kwargs[name] for name in ("tools", "tool_choice") if name in kwargs}
        if not isinstance(request.get("tool_choice") or "", str):  # a ChatModel takes a name or a word
            del request["tool_choice"]
        rest = {name: value for name, value in kwargs.items() if name not in request}
        return {"options": self._asked(stop, self._keep(rest, ALLOWED_OPTIONS)), **request}

    def _asked(self, stop: str | Sequence[str] | None, kept: Mapping[str, Any]) -> dict[str, Any]:
        asked = {**self.options, **kept}
        if stop is not None:
            asked["stop"] = stop
        Options.of(asked)
        return asked  # a dict leaves the model's own defaults in force

    def _keep(self, kwargs: Mapping[str, Any], passed: Sequence[str] = ()) -> dict[str, Any]:
        """Return the allowed options, or those passed, and warn once about each other one.

        What the original drops, compat mode drops without a word.
        """
        allowed = passed or self._allowed
        for name in kwargs:
            if name not in allowed and (passed or self.mode == "default") and name not in self._warned:
                self._warned.add(name)
                warnings.warn(
                    f"AirgapChat drops {name}={kwargs[name]!r}: it passes on {', '.join(sorted(allowed))}.",
                    UserWarning,
                    stacklevel=4,
                )
        return _renamed({name: value for name, value in kwargs.items() if name in allowed})

    def __repr__(self) -> str:
        names = ", ".join(str(getattr(tool, "name", tool)) for tool in self.tools or ()) or "no tools"
        return f"AirgapChat({self.model.name!r}, mode={self.mode!r}, {names})"


def _renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"num_predict" if name == "max_tokens" else name: value for name, value in options.items()}


def _reply(end: StopIteration) -> AirgapReply:
    reply: AirgapReply = end.value
    return reply
