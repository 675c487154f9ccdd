"""Answer from a script: for tests of agents, without any model.

Not here: replies recorded from a real model (`toolkit.models.store`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolkit.errors import UserError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models.base import ChatModel, ChatRequest, Chunk, Options, Reply, cut_at_stop
from toolkit.models.schemas import request_schema
from toolkit.tools import Tool, as_tools

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
        self._tools: Any = None
        self._offered: list[Tool] | None = None
        self._turns = itertools.count()  # the next number is atomic, so threads may share a script
        self._made: dict[int, tuple[Line, Reply]] = {}  # id of a line -> the line and its reply, which never changes

    def chat(
        self,
        messages: Any,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        *,
        tool_choice: str | None = None,
    ) -> Reply:
        """Answer with the next line, not by way of a stream: a loop's own time is measured with this model."""
        said = self.conversation(messages)
        settings = options if type(options) is Options else Options.of(options, self.defaults)
        held_to = None if schema is None else request_schema(schema)
        if tools is not self._tools or type(tools) is list:  # a tuple stays as it was read
            self._tools, self._offered = tools, as_tools(tools) if tools else None
        noted = {
            "messages": said,
            "tools": self._offered,
            "schema": held_to,
            "options": settings,
            "tool_choice": tool_choice,
        }
        self.requests.append(noted)
        return self._reply(said, settings, next(self._turns))

    def answer(self, request: ChatRequest) -> Iterator[Chunk]:
        """Yield the next line piece by piece, then its reply."""
        return self._play(self._note(request), request.options, next(self._turns))

    def _note(self, request: ChatRequest) -> list[ChatMessage]:
        noted: dict[str, Any] = {"schema": request.schema, "options": request.options}
        if request.prompt is None:
            said = list(request.messages)
            noted |= {"messages": said, "tools": request.tools or None, "tool_choice": request.tool_choice}
        else:
            said = [ChatMessage.from_user(request.prompt)]
            noted["prompt"] = request.prompt
        self.requests.append(noted)
        return said

    def _play(self, messages: list[ChatMessage], options: Options, turn: int) -> Iterator[Chunk]:
        reply = self._reply(messages, options, turn)
        for piece in reply.text.splitlines(keepends=True):
            yield Chunk(piece)
        yield Chunk(reply=reply)

    def _reply(self, messages: list[ChatMessage], options: Options, turn: int) -> Reply:
        lines = self.lines
        if turn >= len(lines):
            if not (self.cycle and lines):
                many = "" if len(lines) == 1 else "s"
                raise UserError(
                    f"The script of {self.name!r} has {len(lines)} line{many}; one more was asked for. "
                    "Add a line, or cycle=True."
                )
            turn %= len(lines)
        line = lines[turn]
        made = self._made.get(id(line))
        if made is not None and made[0] is line:
            reply = made[1]
        else:
            reply = _as_reply(line, messages).replace(model=self.name)
            if not callable(line):
                self._made[id(line)] = line, reply  # holding the line keeps its id from being used again
        return reply.replace(text=cut_at_stop(reply.text, options.stop)) if options.stop else reply

    def fingerprint(self) -> dict[str, Any]:
        """Return the back end and a digest of the script."""
        import hashlib

        digest = hashlib.sha256(repr(self.lines).encode()).hexdigest()[:16]
        return {"backend": "scripted", "name": self.name, "digest": digest}


def _as_reply(line: Line, messages: list[ChatMessage]) -> Reply:
    if isinstance(line, BaseException):
        raise line
    if isinstance(line, Reply):
        return line
    if isinstance(line, str):
        return Reply(line)
    if isinstance(line, ToolCall):
        return Reply(tool_calls=(line,), finish_reason="tool_calls")
    if isinstance(line, ChatMessage):
        calls = tuple(line.tool_calls)
        return Reply(line.text or "", tool_calls=calls, finish_reason="tool_calls" if calls else "stop")
    if callable(line):
        return _as_reply(line(messages), messages)
    raise UserError(f"{line!r} is no line of a script. Give text, a Reply, a ToolCall, a ChatMessage or a function.")
