"""Read a request once, and lead it over one road to a server and back.

Not here: collecting an answer (`answers`), the formats (`wire`, `ollama`), the key of a request (`keys`).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import ConfigError, UserError
from toolkit.messages import ChatMessage, as_messages
from toolkit.models.answers import Answer, ServerError
from toolkit.models.base import ChatModel, Chunk, Fault, Options, Reply
from toolkit.models.schemas import request_schema, with_schema_checked
from toolkit.models.window import WindowAudit
from toolkit.tools import Tool, as_tools


@dataclass(frozen=True)
class Request:
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


class Backend(ChatModel):
    """Answer requests that were read already; every model of this package does."""

    @abstractmethod
    def answer(self, request: Request) -> Iterator[Chunk]:
        """Yield the reply piece by piece; the last chunk carries the whole `reply`. Closing it stops the server."""

    def stream(
        self,
        messages: Any,
        *,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        tool_choice: str | None = None,
    ) -> Iterator[Chunk]:
        """Yield the reply piece by piece; see `ChatModel.stream`.

        Raises:
            ConfigError: no message, or something in the request that cannot be read.
        """
        said = as_messages(messages)
        if not said:
            raise ConfigError("A request needs at least one message; got none.")
        settings, held_to = Options.of(options, self.defaults), request_schema(schema)
        return self.answer(Request(settings, held_to, said, as_tools(tools or ()), tool_choice))

    def complete_stream(self, prompt: str, *, schema: Any = None, options: Any = None) -> Iterator[Chunk]:
        """Yield the continuation of a raw prompt piece by piece, with no chat template.

        Raises:
            ConfigError: a schema or an option that cannot be read.
        """
        return self.answer(Request(Options.of(options, self.defaults), request_schema(schema), prompt=prompt))


class StreamingBackend(Backend):
    """Answer with what a server streams: one road from the request to the `Reply`, faults and notes included.

    Attributes:
        collects: the kind of answer that reads the server's pieces.
        audit: notices prompts that the server cut without a word; None where it never does.
    """

    collects: type[Answer]
    audit: WindowAudit | None = None

    @abstractmethod
    def body(self, request: Request) -> tuple[str, dict[str, Any]]:
        """Return where a request goes, and its body."""

    @abstractmethod
    def pieces(self, route: str, body: dict[str, Any], options: Options) -> Iterator[dict[str, Any]]:
        """Send a body and yield the pieces of the answer.

        Raises:
            TimeoutError: nothing came for `timeout_s` seconds.
            ServerError: the server gave an error.
        """

    def mistake(self, error: ServerError) -> UserError | None:
        """Return what the user has to mend, if that is what the server's error means."""
        return None

    def notes(self, request: Request, reply: Reply) -> list[str]:
        """Say where the server did, or will do, otherwise than asked."""
        return []

    def answer(self, request: Request) -> Iterator[Chunk]:
        """Yield the reply piece by piece; closing the stream stops the server."""
        return self._answer(request, *self.body(request))

    def _answer(self, request: Request, route: str, body: dict[str, Any]) -> Iterator[Chunk]:
        options = request.options
        answer = self.collects(options, len(request.messages))
        started = time.perf_counter()
        try:
            for piece in self.pieces(route, body, options):
                yield from answer.feed(piece)
        except TimeoutError:
            answer.fault = Fault("timeout", f"No token came for {options.timeout_s:g} s (timeout_s).")
        except ServerError as error:
            if mistake := self.mistake(error):
                raise mistake from None
            answer.fail(error)
        reply = answer.reply(self.name, time.perf_counter() - started)
        if self.audit is not None:
            reply = self.audit.judged(reply, body)
        raw = {"request": body, "response": answer.closing, "notes": self.notes(request, reply)}
        yield Chunk(reply=with_schema_checked(reply.replace(raw=raw), request.schema))
