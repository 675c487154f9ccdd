"""Lead a request over one road to a server and back: body, pieces, faults, notes, `Reply`.

Not here: collecting an answer (`answers`), the formats (`wire`, `ollama`), the key of a request (`keys`).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.errors import UserError
from toolkit.models.answers import Answer, ServerError
from toolkit.models.base import ChatModel, ChatRequest, Chunk, Fault, Options, Reply
from toolkit.models.schemas import schema_problem
from toolkit.models.window import WindowAudit


class Backend(ChatModel):
    """Answer with what a server streams: one road from the request to the `Reply`, faults and notes included.

    Attributes:
        collects: the kind of answer that reads the server's pieces.
        audit: notices prompts that the server cut without a word; None where it never does.
    """

    collects: type[Answer]
    audit: WindowAudit | None = None

    @abstractmethod
    def body(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
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

    def notes(self, request: ChatRequest, reply: Reply) -> list[str]:
        """Say where the server did, or will do, otherwise than asked."""
        return []

    def answer(self, request: ChatRequest) -> Iterator[Chunk]:
        """Yield the reply piece by piece; closing the stream stops the server."""
        options = request.options
        route, body = self.body(request)
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


def with_schema_checked(reply: Reply, schema: Mapping[str, Any] | None) -> Reply:
    """Return the reply, with a fault if a finished text breaks the schema it was held to.

    A text that a limit cut off is left alone: there the limit is to blame, not the schema.
    """
    if schema is None or reply.fault or reply.finish_reason != "stop":
        return reply
    problem = schema_problem(reply.text, schema)
    return reply.replace(fault=Fault("schema_not_honoured", problem)) if problem else reply
