"""How did the original AirgapChatOpenAI build its prompt, find calls and run them? Rule for rule, faults included.

The rules are those of `naas-abi-core`: one prompt, one round, calls cut at the nearest brace; async and streaming
callers get the bare model, without tools or prompt. `AirgapChat(mode="compat")` makes this class, so that old prompts
can be compared with new ones. Nothing here is repaired.

Not here: the repaired rules (`toolkit.agents.airgap.chat`).
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from toolkit.agents import drivers
from toolkit.agents.airgap.rounds import AirgapChunk, AirgapReply
from toolkit.agents.drivers import Ask, Send, Work, Worker, asked
from toolkit.agents.modes import Mode
from toolkit.asking import Request
from toolkit.messages import ChatMessage, as_messages
from toolkit.models.base import ChatModel, Chunk, Options, Reply
from toolkit.models.registry import as_model
from toolkit.tools import Tool
from toolkit.traces import Trace

KEPT_OPTIONS = ("temperature", "max_tokens", "stop")
KNOWN_OPTIONS = ("max_tokens", *(item.name for item in fields(Options)))
_CALL = re.compile(r"TOOL_CALL:\s*(\w+)\s*({.*?})", re.DOTALL)


def renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under the names that a ChatModel knows."""
    return {"num_predict" if name == "max_tokens" else name: value for name, value in options.items()}


class OriginalAirgapChat:
    """Chat as the original did.

    Args:
        model: a ChatModel, or a name that `load_model` reads.
        temperature: 0 is greedy.
        options: further options of the model.
    """

    mode = "compat"

    def __init__(self, model: ChatModel | str, temperature: float = 0.0, **options: Any) -> None:
        self.model: ChatModel = as_model(model)
        self.tools: Sequence[Any] = []
        self.options: dict[str, Any] = {"temperature": temperature, **renamed(options)}
        Options.of(self.options)
        self._warned: set[str] = set()

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> OriginalAirgapChat:
        """Replace the tools in place and return the same object."""
        self.tools = tools  # no copy: what the caller adds to the list later is there too
        return self

    def bind(self, **kwargs: Any) -> OriginalAirgapChat | Bound:
        """Return a `Bound` with the options whose names do not hold "tool"; nothing left gives the same object."""
        kept = {name: value for name, value in kwargs.items() if "tool" not in name.casefold()}
        return Bound(self, kept) if kept else self

    def invoke(self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any) -> AirgapReply:
        """Answer the last user text; the reply carries no calls and no results, as the original's does not."""
        history = as_messages(messages)
        kept = {name: value for name, value in kwargs.items() if name in KEPT_OPTIONS}
        first = Request(tuple(first_prompt(history, self.tools)), options=self._options(stop, kept))
        return drivers.drive(converse(self.model, first, self.tools), Worker())

    async def ainvoke(self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any) -> AirgapReply:
        """Ask the model directly, without tools or prompt, and with every option that the model knows."""
        history = as_messages(messages)
        return await drivers.adrive(converse(self.model, self._bare(history, stop, kwargs)), Worker())

    def stream(self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any) -> Iterator[AirgapChunk]:
        """Ask the model directly, as `ainvoke` does, and yield the pieces of its reply."""
        return drivers.stream(_pieces(converse(self.model, self._bare(as_messages(messages), stop, kwargs))))

    def astream(
        self, messages: Any, stop: str | Sequence[str] | None = None, **kwargs: Any
    ) -> AsyncIterator[AirgapChunk]:
        """Ask the model directly, as `ainvoke` does, and yield the pieces of its reply."""
        return drivers.astream(_pieces(converse(self.model, self._bare(as_messages(messages), stop, kwargs))))

    def prompt(self, messages: Any) -> list[ChatMessage]:
        """Return exactly what the first request would send."""
        return first_prompt(as_messages(messages), self.tools)

    def _bare(self, history: Sequence[ChatMessage], stop: Any, kwargs: Mapping[str, Any]) -> Request:
        """Return the request round the prompt: the original cleans only the options of its own requests."""
        taken = {name: value for name, value in kwargs.items() if name in KNOWN_OPTIONS or name == "tools"}
        choice = kwargs.get("tool_choice")
        taken |= {"tool_choice": choice} if isinstance(choice, str) else {}  # a ChatModel takes a name or a word
        for name in kwargs.keys() - taken.keys() - self._warned:
            self._warned.add(name)
            warnings.warn(f"AirgapChat drops {name}={kwargs[name]!r}: no model takes it.", UserWarning, stacklevel=3)
        tools, choice = taken.pop("tools", None), taken.pop("tool_choice", None)
        return Request(tuple(history), tools=tools, options=self._options(stop, taken), tool_choice=choice)

    def _options(self, stop: Any, kept: Mapping[str, Any]) -> Options:
        given = {} if stop is None else {"stop": stop}
        return Options.of({**self.options, **renamed(kept), **given}, self.model.defaults)

    def __repr__(self) -> str:
        names = ", ".join(str(getattr(tool, "name", tool)) for tool in self.tools or ()) or "no tools"
        return f"AirgapChat({self.model.name!r}, mode='compat', {names})"


def tool_list(tools: Sequence[Any]) -> str:
    """Return the lines that announce the tools; a tool without a description is left out but can be called."""
    lines = [f"- {t.name}: {t.description}" for t in tools if hasattr(t, "name") and hasattr(t, "description")]
    listed = "".join(f"{line}\n" for line in lines)
    return f"\nAvailable tools:\n{listed}\nTo use a tool, respond with: TOOL_CALL: tool_name {{json_args}}\n"


def first_prompt(history: Sequence[ChatMessage], tools: Sequence[Any]) -> list[ChatMessage]:
    """Build the one message of the first request: system texts, tools, and the last user text alone.

    Without a user text the messages pass unchanged, and no tool is announced.
    """
    user = next((_content(said) for said in reversed(history) if said.is_from("user")), None)
    if not user:
        return list(history)
    systems = [_content(said) for said in history if said.is_from("system")]
    system = "".join(f"{content}\n" for content in systems if isinstance(content, str))
    prompt = system.strip() + (tool_list(tools) if tools else "")
    return [ChatMessage.from_user(f"{prompt}\n\nUser: {user}")]


def _content(message: ChatMessage) -> Any:
    """Return the content as it was given: the original shows blocks as Python writes them."""
    return message.meta.get("content", message.text)


def run_calls(text: str, tools: Sequence[Any]) -> list[str]:
    """Run every call found in the reply, in order, and return one line for each that was not skipped.

    An unknown tool is skipped without a word, but only after its arguments were read: bad JSON is an error line.
    """
    results: list[str] = []
    for name, arguments in _CALL.findall(text):
        try:
            values = json.loads(arguments)
            tool = next((tool for tool in tools if getattr(tool, "name", None) == name), None)
            if tool is not None:
                results.append(f"{name}: {_run(tool, values)}")
        except Exception as error:  # the original swallows all of them
            results.append(f"{name}: Error - {error}")
    return results


def _run(tool: Any, values: dict[str, Any]) -> Any:
    if isinstance(tool, Tool):  # our own Tool takes keywords where the original's tools take one dict
        return tool.invoke(**values)
    return tool.invoke(values) if hasattr(tool, "invoke") else str(tool(**values))


Steps = Generator[Ask, Reply, AirgapReply]


def converse(model: ChatModel, first: Request, tools: Sequence[Any] = ()) -> Steps:
    """Yield the one or two requests, receive their replies, and return what the caller gets."""
    trace = Trace("AirgapChat")
    try:
        reply = yield from asked(trace, model, first)
        if tools and isinstance(reply.text, str) and (results := run_calls(reply.text, tools)):
            # no system text, no question, no tools
            told = "\n\nTool results:\n" + "\n".join(results) + "\n\nProvide a final response:"
            second = Request((ChatMessage.from_user(reply.text + told),), options=first.options)
            reply = yield from asked(trace, model, second)
    except Exception as error:
        trace.fail(error, [])
        raise
    trace.finish([ChatMessage.from_assistant(reply.text)], "done")
    return AirgapReply(trace)


def _pieces(steps: Steps) -> Work:
    """Return a run that sends the pieces of the reply."""

    async def work(send: Send, mode: Mode) -> AirgapChunk:
        def token(chunk: Chunk) -> None:
            if chunk.text:
                send(AirgapChunk(chunk.text))

        return AirgapChunk(reply=await drivers.driven(steps, Worker(token), mode))

    return work


@dataclass(frozen=True)
class Bound:
    """Carry options for an original chat, as the original's `bind` gives a wrapper; each run adds them."""

    chat: OriginalAirgapChat
    kwargs: dict[str, Any]

    def bind(self, **kwargs: Any) -> Bound:
        """Return a wrapper with these options too; unlike the chat's own `bind` it drops no name that holds "tool"."""
        return Bound(self.chat, {**self.kwargs, **kwargs})

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> OriginalAirgapChat:
        """Give the chat these tools and return the chat itself: the original's wrapper loses its options here."""
        return self.chat.bind_tools(tools, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return a way to run the chat (`invoke`, `ainvoke`, `stream`, `astream`), with the bound options."""
        if name not in ("invoke", "ainvoke", "stream", "astream"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return partial(getattr(self.chat, name), **self.kwargs)
