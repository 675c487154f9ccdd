"""Lead a request over one road to a server and back: body, pieces, faults, notes, `Reply`.

`Backend` is the road, `Answer` collects what comes.
Not here: the formats (`openai`, `ollama`), their parts and errors (`wire`), how pieces come (`connection`, `llama`).
"""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.errors import ConfigError, ServerGoneError, UserError
from toolkit.messages import ToolCall
from toolkit.models.base import (
    ChatModel,
    ChatRequest,
    Chunk,
    Fault,
    FinishReason,
    Limit,
    Options,
    Reply,
    UnshownError,
    cut_at_stop,
)
from toolkit.models.call_pieces import CallPieces, read_arguments
from toolkit.models.schemas import schema_problem
from toolkit.models.waiting import Waiting
from toolkit.models.window import WindowAudit
from toolkit.models.wire import ServerError, checked, fault_of, part
from toolkit.secrets import Mask

_ATTEMPTS = 3  # where a server says that another time it would go well
_SHORTEST_CALL = 5  # tokens
_LOOP = 30  # equal pieces in a row after which Ollama gives a reply up


@dataclass
class Answer(ABC):
    """Collect one streamed answer; each wire format says in `feed` what its pieces hold.

    Attributes:
        options: those of the request.
        turn: number of messages before the answer, for call ids.
        calls: as far as they came.
        unread: raw text of calls that the server could not read.
        finish: why writing ended, in the server's word.
        ended: whether the server said that it had come to its end.
        invalid: calls that were tried and cannot be run: {"name", "id", "error"}.
        counts: tokens and seconds, by the names that `Reply` gives them.
        first_s: seconds from sending the request to its first sign of work.
        closing: counts and durations as the server sent them.
        fault: how the request failed.
        body: what was sent.
        transport: how it was sent; see `Options`.
        rendering_s: seconds until the server had rendered the prompt, loading included; of raw transport.
    """

    options: Options = field(default_factory=Options)
    turn: int = 0
    calls: CallPieces = field(default_factory=CallPieces)
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    finish: str = ""
    ended: bool = False
    invalid: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    first_s: float | None = None
    closing: dict[str, Any] = field(default_factory=dict)
    fault: Fault | None = None
    body: dict[str, Any] = field(default_factory=dict)
    rendering_s: float = 0.0
    transport: str = "chat"

    @abstractmethod
    def feed(self, piece: Mapping[str, Any]) -> Iterator[Chunk]:
        """Take one piece and yield what can be shown of it.

        Raises:
            ServerError: the piece is an error.
        """

    def say(self, text: str, thinking: str) -> Iterator[Chunk]:
        """Keep a piece of text or thinking, and yield it."""
        if text or thinking:
            self.text.append(text)
            self.thinking.append(thinking)
            yield Chunk(text, thinking)

    def add_call(self, index: int | None, wire: Mapping[str, Any], apart: bool = False) -> None:
        """Take a call, or a piece of one, in OpenAI's form; see `CallPieces.add`."""
        function = part(wire, "function", dict)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # Ollama sends an object, and so do some servers where the format says text
            arguments = json.dumps(arguments)
        name, arguments = part(function, "name", str), checked(arguments, str, "arguments")
        self.calls.add(index, part(wire, "id", str), name, arguments, apart)

    def fail(self, error: ServerError) -> None:
        """End the answer with an error of the server."""
        self.fault, raw = fault_of(error)
        if raw:
            self.unread.append(raw)
        elif self.fault.kind == "parse":
            self._lose(f"{error.said} (What the model wrote is lost.)", name=error.tool)
        if error.prompt_tokens:
            self.counts["prompt_tokens"] = error.prompt_tokens

    def close(self) -> None:
        """Take note that nothing more comes.

        QUIRK ollama#8786: a reply that loops is ended by the server without a last piece; where it did not loop,
        something broke, and what came is no answer (Source: hermes-agent#11984).

        Raises:
            ServerError: the answer broke off.
        """
        if self.ended:
            return
        if not self._loops():
            raise ServerError(0, "The answer broke off: its last piece is missing.")
        self.finish = "loop"

    def _loops(self) -> bool:
        said = [text + thought for text, thought in zip(self.text, self.thinking, strict=True)]
        if len(said) >= _LOOP and len({piece.strip() for piece in said[-_LOOP:]}) == 1:
            return True
        end = "".join(said[-_LOOP:])[-40 * _LOOP :]  # or in one piece
        return any(end.endswith(end[-size:] * _LOOP) for size in range(1, 41) if end)

    def reply(self, model: str, seconds: float, waited: float = 0.0) -> Reply:
        """Return the whole answer of a request that took so long, loading and waiting to be sent included."""
        text, thinking, calls = "".join(self.text), "".join(self.thinking), self._read_calls()
        finish = self._finish_reason(bool(calls))
        if finish in ("length", "error"):  # what was cut is not run, however whole a parser made it look
            if calls:
                self._lose("The reply was cut off.", calls)
            calls = ()
        self.counts["queue_seconds"] = queue = self._queued(seconds - waited - self.rendering_s, waited)
        self.counts["load_seconds"] = self.counts.get("load_seconds", 0.0) + self.rendering_s
        seconds = max(0.0, seconds - self.counts["load_seconds"] - (queue or 0.0))
        unread = "\n".join(self.unread)
        if unread and self.fault is None and finish != "length":
            self.fault = Fault("parse", f"The server gave a call that is no JSON: {unread[:200]}")
        if self.calls.known and not (calls or unread or self.invalid or text.strip() or thinking or self.fault):
            self._swallowed()
        limit = self._limit(finish, bool(text.strip() or calls), bool(thinking))
        text = cut_at_stop(text, self.options.stop) + unread
        return Reply(
            text, thinking, calls, finish, limit, seconds=seconds, model=model, fault=self.fault,
            transport=self.transport, **self.counts
        )  # fmt: skip

    def _queued(self, seconds: float, waited: float) -> float | None:
        """Return the seconds in which nothing was done, for servers that tell what they did; None for others.

        What comes after the first sign of work is no waiting: with some models a server writes twice, and tells the
        times of the second.
        """
        prompt: float | None = self.counts.get("prompt_seconds")
        if prompt is None:
            return waited or None
        writing, loading = self.counts.get("write_seconds", 0.0), self.counts.get("load_seconds", 0.0)
        before = seconds if self.first_s is None else self.first_s
        return waited + max(0.0, float(min(before, seconds - writing) - prompt - loading))

    def _lose(self, why: str, calls: tuple[ToolCall, ...] = (), name: str = "") -> None:
        """Note calls that were tried and are not in the reply; by default one of which no more than a name is known."""
        known = [{"name": call.tool_name, "id": call.id, "args": call.arguments, "error": why} for call in calls]
        self.invalid += known or [{"name": name, "id": call_id(self.turn, 0, name, why), "error": why}]

    def _swallowed(self) -> None:
        """Note a reply of which nothing came: a server drops a call that it cannot read (Source: ollama#17588)."""
        written = self.counts.get("completion_tokens") or 0
        if written >= _SHORTEST_CALL:
            why = f"{written} tokens were written and nothing came: the server lost what it could not read."
            self.fault = Fault("parse", why)
            self._lose(why)

    def _read_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls; the text of those whose arguments are no JSON object goes to `unread`."""
        calls: dict[str, ToolCall] = {}  # by id: two calls of one answer never share one
        for place, draft in enumerate(self.calls):
            name, wire = self.calls.name(draft), draft.arguments
            arguments = read_arguments(wire)
            if arguments is None:
                self.unread.append(f'{{"name": {json.dumps(name)}, "arguments": {wire}}}')
                continue
            known = draft.id if draft.id and draft.id not in calls else call_id(self.turn, place, name, arguments)
            calls[known] = ToolCall(name, arguments, known)  # Source: ollama#6708
        return tuple(calls.values())

    def _finish_reason(self, called: bool) -> FinishReason:
        if self.fault and self.fault.kind != "parse":
            return "overflow" if self.fault.kind == "overflow" else "error"
        if self.finish in ("length", "max_tokens", "loop"):
            return "length"
        return "tool_calls" if called else "stop"

    def _limit(self, finish: FinishReason, answered: bool, thought: bool) -> Limit:
        """Name the limit that ended an answer (Source: chatlas#327)."""
        if finish != "length":
            return ""
        if self.finish == "loop":
            return "loop"
        written = self.counts.get("completion_tokens")
        if written is not None and written < self.options.num_predict:
            return "num_ctx"
        return "thinking" if thought and not answered else "num_predict"


def call_id(turn: int, index: int, name: str, arguments: Any) -> str:
    """Make the id of a call that the server gave none; the same request gives the same id again.

    `turn` is the number of messages before the reply, so that the same call of two turns has two ids.
    """
    known = json.dumps([turn, index, name, arguments], sort_keys=True, default=str)
    return "call_" + hashlib.sha256(known.encode()).hexdigest()[:8]


class Backend(ChatModel):
    """Answer with what a server streams: one road from the request to the `Reply`, faults and notes included.

    Attributes:
        collects: the kind of answer that reads the server's pieces.
        audit: notices prompts that the server cut without a word; None where it never does.
        mask: hides the credentials of the server in what it wrote, also where its pieces came one by one.
    """

    collects: type[Answer]
    audit: WindowAudit | None = None
    mask: Mask = Mask()

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

    def again(self, error: ServerError) -> bool:
        """Tell whether to ask anew after an error, from the start."""
        return False

    def mistake(self, error: ServerError) -> UserError | None:
        """Return what the user has to mend, if that is what the server's error means."""
        return None

    def gone(self) -> ServerGoneError | None:
        """Return, within a sweep, that the server has gone away, so that it is waited for."""
        return None

    def judged(self, reply: Reply, body: dict[str, Any]) -> Reply:
        """Return the reply, with a fault if the server cut the prompt without a word."""
        return self.audit.judged(reply, body, None) if self.audit else reply

    def check_request(self, request: ChatRequest) -> None:
        """Raise ConfigError if the model takes no tools that a request offers, or cannot be held to its schema."""
        if request.tools and not self.supports_tools:
            raise ConfigError(f"Model {self.name!r} takes no tools. Use the arm prompted or constrained.")
        self.body(request)

    def notes(self, request: ChatRequest, reply: Reply) -> list[str]:
        """Say where the server did, or will do, otherwise than asked."""
        return []

    def answer(self, request: ChatRequest) -> Iterator[Chunk]:
        """Yield the reply piece by piece; closing the stream stops the server."""
        options, names = request.options, [tool.name for tool in request.tools]
        started, waiting, left = time.perf_counter(), Waiting(options.timeout_s), _ATTEMPTS
        while True:
            answer, sent = self.collects(options, len(request.messages), CallPieces(names)), time.perf_counter()
            error = yield from self._collect(answer, request)
            left -= 1
            if error is None or not (self._anew(error, left) or waiting.again(self.gone() or error)):
                break
        if isinstance(error, ServerError):
            self._fail(answer, error)
        elif error is not None:
            raise error
        reply = answer.reply(self.name, time.perf_counter() - started, sent - started)
        reply = self.judged(reply.replace(raw={"request": answer.body, "response": answer.closing}), answer.body)
        notes = [*_notes(reply), *self.notes(request, reply)]
        lost = {"invalid_tool_calls": answer.invalid} if answer.invalid else {}
        reply = with_schema_checked(reply.replace(raw={**reply.raw, "notes": notes, **lost}), request.schema)
        yield Chunk(reply=Reply.from_dict(self.mask(reply.to_dict())) if self.mask else reply)

    def _anew(self, error: ServerError | ServerGoneError, left: int) -> bool:
        return left > 0 and isinstance(error, ServerError) and self.again(error)

    def _collect(
        self, answer: Answer, request: ChatRequest
    ) -> Generator[Chunk, None, ServerError | ServerGoneError | None]:
        """Ask, and yield what can be shown of the answer; return the error that the server gave."""
        route, answer.body = self.body(request)
        try:
            if self.transport(request) == "raw" and (raw := self._as_raw(answer, request)) is not None:
                route, answer.body = self.body(raw)
            sent = time.perf_counter()
            for found in self.pieces(route, answer.body, answer.options):
                piece = checked(found, dict, "a piece")
                if answer.first_s is None and "load_seconds" not in piece:
                    answer.first_s = time.perf_counter() - sent
                yield from answer.feed(piece)
            answer.close()
        except TimeoutError:
            answer.fault = Fault("timeout", f"No token came for {answer.options.timeout_s:g} s (timeout_s).")
        except (ServerError, ServerGoneError) as error:
            return error
        return None

    def _as_raw(self, answer: Answer, request: ChatRequest) -> ChatRequest | None:
        """Return a conversation as the raw prompt that the server makes of it; None where it does not show that.

        Raises:
            ConfigError: `raw` was asked for and cannot be.
        """
        if any(message.images for message in request.messages):
            raise ConfigError("Images do not go through raw completion. Set transport = 'chat'.")
        started = time.perf_counter()
        try:
            prompt = self.render(request)
        except UnshownError:
            if request.options.transport == "raw":
                raise
            return None
        answer.rendering_s, answer.transport = time.perf_counter() - started, "raw"
        # a server that splits thoughts off would do so here, too; what comes is to be what was written
        return replace(request, prompt=prompt, options=replace(request.options, think=False))

    def _fail(self, answer: Answer, error: ServerError) -> None:
        """End an answer with an error of the server.

        Raises:
            UserError: the user has to mend something.
        """
        if mistake := self.mistake(error):
            raise mistake
        if error.misuse:
            raise UserError(f"Model {self.name!r} refused: {error.said}. {error.misuse}")
        answer.fail(error)


def _notes(reply: Reply) -> list[str]:
    """Say what is odd about a reply of any server (Source: ollama#17588)."""
    visible = len((reply.text + reply.thinking).encode(errors="replace"))
    visible += sum(len(repr(call.arguments)) for call in reply.tool_calls)
    # one token ends a turn; no other is less than a byte, but some templates write a few that are not shown
    written, most = reply.completion_tokens or 0, visible + 16 if visible else 1
    if reply.fault or written <= most:
        return []
    return [f"{written} tokens were written but only {visible} bytes came: hidden thinking, or a lost call?"]


def with_schema_checked(reply: Reply, schema: Mapping[str, Any] | None) -> Reply:
    """Return the reply, with a fault if a finished text breaks the schema it was held to.

    A text that a limit cut off is left alone: there the limit is to blame, not the schema.
    """
    if schema is None or reply.fault or reply.finish_reason != "stop":
        return reply
    problem = schema_problem(reply.text, schema)
    return reply.replace(fault=Fault("schema_not_honoured", problem)) if problem else reply
