"""Answer from a script: for tests of agents, without any model.

Not here: replies recorded from a real model (`toolkit.models.store`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolkit.errors import UserError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models.base import ChatModel, Chunk, Options, Reply, cut_at_stop, request_messages

Line = str | Reply | ChatMessage | ToolCall | BaseException | Callable[[list[ChatMessage]], Any]


class ScriptedModel(ChatModel):
    """Give the lines of a script, one a request.

    A line is text, a `Reply`, a `ToolCall` or assistant `ChatMessage` (a native call), an exception to raise,
    or a function of the messages that gives one of these.

    >>> model = ScriptedModel(["Hello!"])
    >>> model.chat("Hi").text
    'Hello!'
    >>> model.requests[0]["messages"]
    [ChatMessage(user: 'Hi')]

    Attributes:
        requests: what each request held: messages or prompt, tools, schema, options, tool_choice.

    Raises:
        UserError: on a request after the last line, unless `cycle` is set.
    """

    supports_tools = True

    def __init__(self, lines: Iterable[Line], name: str = "scripted", cycle: bool = False) -> None:
        self.name = name
        self.lines = list(lines)
        self.cycle = cycle
        self.requests: list[dict[str, Any]] = []
        self._turns = itertools.count()  # the next number is atomic, so threads may share a script
        self._made: dict[int, tuple[Line, Reply]] = {}  # place -> line and its reply, which never changes

    def chat(
        self,
        messages: Any,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        *,
        tool_choice: str | None = None,
    ) -> Reply:
        """Answer with the next line."""
        said, settings = self._noted(messages, tools, schema, options, tool_choice)
        return self._said(said, settings, next(self._turns))

    def stream(
        self,
        messages: Any,
        *,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        tool_choice: str | None = None,
    ) -> Iterator[Chunk]:
        """Yield the next line word by word, then its reply."""
        said, settings = self._noted(messages, tools, schema, options, tool_choice)
        return self._play(said, settings, next(self._turns))

    def _noted(
        self, messages: Any, tools: Any, schema: Any, options: Any, choice: str | None
    ) -> tuple[list[ChatMessage], Options]:
        said = request_messages(messages)
        settings = Options.of(options, self.defaults)
        self.requests.append(
            {"messages": said, "tools": tools, "schema": schema, "options": settings, "tool_choice": choice}
        )
        return said, settings

    def complete_stream(self, prompt: str, *, schema: Any = None, options: Any = None) -> Iterator[Chunk]:
        """Yield the next line word by word, then its reply."""
        settings = Options.of(options, self.defaults)
        self.requests.append({"prompt": prompt, "schema": schema, "options": settings})
        return self._play([ChatMessage.from_user(prompt)], settings, next(self._turns))

    def _play(self, messages: list[ChatMessage], options: Options, turn: int) -> Iterator[Chunk]:
        reply = self._said(messages, options, turn)
        for word in reply.text.splitlines(keepends=True):
            yield Chunk(word)
        yield Chunk(reply=reply)

    def _said(self, messages: list[ChatMessage], options: Options, turn: int) -> Reply:
        reply = self._next(messages, turn)
        text = cut_at_stop(reply.text, options.stop) if options.stop else reply.text
        if reply.model != self.name or text != reply.text:
            return reply.replace(model=self.name, text=text)
        return reply

    def _next(self, messages: list[ChatMessage], turn: int) -> Reply:
        if turn >= len(self.lines) and not (self.cycle and self.lines):
            raise UserError(
                f"The script of {self.name!r} has {len(self.lines)} lines; one more was asked for. "
                "Add a line, or cycle=True."
            )
        place = turn % len(self.lines)
        line = self.lines[place]
        made = self._made.get(place)
        if made is not None and made[0] is line:
            return made[1]
        reply = _as_reply(line, messages, self.name)
        if not callable(line):
            self._made[place] = (line, reply)
        return reply

    def fingerprint(self) -> dict[str, Any]:
        """Return the back end and a digest of the script."""
        import hashlib

        digest = hashlib.sha256(repr(self.lines).encode()).hexdigest()[:16]
        return {"backend": "scripted", "name": self.name, "digest": digest}


def _as_reply(line: Line, messages: list[ChatMessage], model: str) -> Reply:
    if isinstance(line, BaseException):
        raise line
    if isinstance(line, Reply):
        return line
    if isinstance(line, str):
        return Reply(line, model=model)
    if isinstance(line, ToolCall):
        return Reply(tool_calls=(line,), finish_reason="tool_calls", model=model)
    if isinstance(line, ChatMessage):
        calls = tuple(line.tool_calls)
        return Reply(line.text or "", tool_calls=calls, finish_reason="tool_calls" if calls else "stop", model=model)
    if callable(line):
        return _as_reply(line(messages), messages, model)
    raise UserError(f"{line!r} is no line of a script. Give text, a Reply, a ToolCall, a ChatMessage or a function.")
