"""Keep what happened in one run, in order: Trace.

A trace is the value of a run. It holds the final messages and state, and the events that led there: each model
call with the exact prompt, the raw reply and what was read out of it, each tool call and its result, jumps, changes
of the state, errors. Given a file it is also written there as it goes, one JSON line an event, so that a process
killed in the middle of a tool call leaves everything up to that call.
Not here: its file (`toolkit.traces.file`), how it looks in a notebook (`toolkit.traces.view`) and in a terminal
(`toolkit.traces.text`), who records it (`toolkit.agents`).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult
from toolkit.secrets import scrub
from toolkit.traces.file import Journal, Table, caught_up, runs_in
from toolkit.traces.json_text import DEEPEST, as_json, as_text, plainly

VERSION = 1
_TEXT, _NUMBER = (str, type(None)), (int, float)
_PARTS: dict[str, Any] = {
    **dict.fromkeys(("id", "stop_reason"), str), **dict.fromkeys(("agent", "error"), _TEXT), "state": dict,
    **dict.fromkeys(("started", "seconds"), _NUMBER), **dict.fromkeys(("events", "messages", "table"), list),
}  # fmt: skip


@dataclass(slots=True)
class Event:
    """Hold one thing that happened.

    Attributes:
        kind: `model_call`, `model_reply`, `tool_call`, `tool_result`, `update`, `jump`, `refused`, `edit`, `paused`,
            `error`, `end`; with a file also `started`, right before a tool runs that is no mere reader.
        at: seconds since the run started.
        source: "agent", or the middleware on whose behalf it happened.
        data: what belongs to the kind, such as `messages`, `reply`, `call`, `result`, `seconds`.
    """

    kind: str
    at: float
    source: str = "agent"
    data: dict[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the data as plain JSON values, messages left as they are."""
        return {key: _plain(value) for key, value in self.data.items()}


def _plain(value: Any, above: tuple[int, ...] = ()) -> Any:
    if isinstance(value, ChatMessage):
        return value
    if isinstance(value, ToolCall):
        return ToolCall.to_dict(value)
    if hasattr(value, "to_dict"):
        try:
            return value.to_dict()
        except Exception:  # a class, or another library's idea of to_dict
            return plainly(value)
    if isinstance(value, (list, tuple)):
        if id(value) in above or len(above) > DEEPEST:
            return plainly(value)  # which cuts what holds itself, or goes on without end
        return [_plain(item, (*above, id(value))) for item in value]
    return value


class Trace:
    """Hold one run: its events, and the messages and state it ended with.

    >>> trace = Trace(agent="demo")
    >>> trace.record("jump", to="end")
    >>> trace.finish([ChatMessage.from_assistant("Hello.")], "done")
    >>> trace
    Trace(done: 'Hello.' 0 model calls, 0 tool calls)
    >>> Trace.from_json(trace.to_json()).text
    'Hello.'

    Attributes:
        id: 12 hex digits.
        agent: the agent's name, if it has one.
        events: what happened, in order.
        messages: the final history.
        state: the final public state fields beside the messages.
        structured_response: the value in the shape of `response_format`, or None.
        stop_reason: `done`, `return_direct`, `jump`, `paused`, `error`; `invalid_calls`, `tool_choice`,
            `response_format`, `empty_answer` where asking again did not help; `unfinished` until then.
        next_stage: where `agent.run(trace)` goes on: `model`; `after_model` or `tools`, where calls are `pending`.
        error: what ended the run, as text, or None.
        traceback: where it did, of a run in a sweep; not written to files.
        started: wall-clock time of the start, seconds since 1970.
        seconds: how long the run took.
        has_file: whether it is written to a file as it goes.
        listeners: what is told of each event as it happens; its file first, if it has one.
    """

    def __init__(self, agent: str | None = None, file: str | Path | None = None) -> None:
        self.id = os.urandom(6).hex()
        self.agent = agent
        self.events: list[Event] = []
        self.messages: list[ChatMessage] = []
        self.state: dict[str, Any] = {}
        self.structured_response: Any = None
        self.stop_reason = "unfinished"
        self.next_stage = "model"
        self.error: str | None = None
        self.traceback = ""
        self.started = time.time()
        self.seconds = 0.0
        self.listeners: list[Callable[[Event], None]] = []
        self._zero = perf_counter()
        self._file: Journal | None = None
        self.has_file = file is not None
        if file is not None:
            self._file = Journal(Path(file), self.id, {"version": VERSION, **self._head()})
            self.listeners.append(self._write_event)

    def record(self, kind: str, source: str = "agent", **data: Any) -> None:
        """Add an event and tell the listeners of it; the file, if there is one, is the first of them."""
        event = Event(kind, perf_counter() - self._zero, source, data)
        self.events.append(event)
        for told in self.listeners:
            told(event)

    def _write_event(self, event: Event) -> None:
        self._write("event", lambda table: _event_line(event, table))

    def keep(self, messages: Iterable[ChatMessage], state: Mapping[str, Any], next_stage: str) -> None:
        """Write the history as it is now to the file: what a run goes on from that was killed."""
        told = list(messages)
        self._write(
            "history",
            lambda table: {"messages": table.numbers(told), "state": dict(state), "next_stage": next_stage},
        )

    def finish(self, messages: Iterable[ChatMessage], reason: str, state: Mapping[str, Any] | None = None) -> None:
        """Note how the run ended."""
        self.messages = list(messages)
        self.state = dict(state or {})
        self.structured_response = self.state.pop("structured_response", None)
        self.stop_reason = reason
        self.seconds = perf_counter() - self._zero
        if reason != "error":
            self.error = None  # a wrapper tried again, and this time it went well
        self._write("end", self._tail)

    def fail(
        self, error: BaseException, messages: Iterable[ChatMessage], state: Mapping[str, Any] | None = None
    ) -> None:
        """Note what ended the run, and put the trace on the error as its `trace`."""
        self.error = str(scrub(f"{type(error).__name__}: {as_text(error)}"))
        self.record("error", error=self.error)
        self.finish(messages, "error", state)
        with contextlib.suppress(AttributeError):  # an exception class with slots
            error.trace = self  # type: ignore[attr-defined]

    def _write(self, key: str, make: Callable[[Table], dict[str, Any]]) -> None:
        fault = self._file.add(key, make) if self._file is not None else None
        if fault is not None:
            self.events.append(Event("error", perf_counter() - self._zero, "trace file", {"error": fault}))

    def close(self) -> None:
        """Close the file, if there is one; a trace that was not finished stays readable."""
        if self._file is not None:
            self._file.close()

    def of_kind(self, kind: str) -> list[Event]:
        """Return the events of one kind."""
        return [event for event in self.events if event.kind == kind]

    @property
    def text(self) -> str:
        """Return the last assistant message's text: the answer."""
        for message in reversed(self.messages):
            if message.is_from(ChatRole.ASSISTANT):
                return message.text or ""
        return ""

    @property
    def tool_results(self) -> list[ToolCallResult]:
        """Return the results of all calls in the final history, in order."""
        return [result for message in self.messages for result in message.tool_call_results]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Return all calls in the final history, in order."""
        return [call for message in self.messages for call in message.tool_calls]

    @property
    def pending(self) -> list[ToolCall]:
        """Return the calls at the end of the history that have no result: those of a paused or killed run."""
        return unanswered(self.messages)

    @property
    def prompt_tokens(self) -> int | None:
        """Return the prompt tokens of all model calls, as far as the server said; None where it never did."""
        return self._tokens("prompt_tokens")

    @property
    def completion_tokens(self) -> int | None:
        """Return the tokens written in all model calls, as far as the server said; None where it never did."""
        return self._tokens("completion_tokens")

    def _tokens(self, key: str) -> int | None:
        counts = [_read(event.data.get("reply"), key) for event in self.of_kind("model_reply")]
        known = [count for count in counts if isinstance(count, int)]
        return sum(known) if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain JSON data; each message is stored once and referred to by number."""
        table = Table()
        events = [_event_line(event, table) for event in self.events]
        return {"version": VERSION, **self._head(), "events": events, **self._tail(table), "table": table.lines}

    def _head(self) -> dict[str, Any]:
        return {"id": self.id, "agent": self.agent, "started": self.started}

    def _tail(self, table: Table) -> dict[str, Any]:
        return {
            "messages": table.numbers(self.messages),
            "state": self.state,
            "structured_response": self.structured_response,
            "stop_reason": self.stop_reason,
            "next_stage": self.next_stage,
            "error": self.error,
            "seconds": self.seconds,
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return the trace as JSON text; what JSON cannot hold becomes text."""
        return as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trace:
        """Build a trace from what `to_dict` gave; replies and extractions stay plain data.

        Raises:
            ConfigError: it is no trace, or of a newer version.
        """
        version = data.get("version") if isinstance(data, Mapping) else None
        if version != VERSION:
            raise ConfigError(f"This is no trace of version {VERSION}: its version is {version!r}.")
        try:
            return cls._of(caught_up(data))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"This trace is damaged: {type(error).__name__}: {error}. Save it again.") from error

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> Trace:
        table = [ChatMessage.from_dict(line) for line in data["table"]]
        for key, kind in _PARTS.items():
            if not isinstance(data[key], kind):
                raise TypeError(f"{key} cannot be {data[key]!r:.60}")
        trace = cls(data["agent"])
        trace.id, trace.started = data["id"], data["started"]
        trace.events = [_read_event(line, table) for line in data["events"]]
        trace.messages = [table[number] for number in data["messages"]]
        for key in ("state", "structured_response", "stop_reason", "error", "seconds"):
            setattr(trace, key, data[key])
        trace.next_stage = str(data.get("next_stage", "model"))  # older files have none
        return trace

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Build a trace from what `to_json` gave.

        Raises:
            ConfigError: it is no trace, or of a newer version.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"This is no trace: it is no JSON ({error}).") from None
        return cls.from_dict(data)

    @classmethod
    def load(cls, path: str | Path, run: int = -1) -> Trace:
        """Read a trace from the file it was written to, also after the process was killed.

        Its messages are then the history up to there, with every result that was there; `agent.run(trace)` goes on.

        Args:
            path: the file; several runs may follow each other in it.
            run: which run; -1 is the last.

        Raises:
            ConfigError: no such file, or no such run in it.
        """
        runs = runs_in(Path(path))
        try:
            data = runs[run]
        except IndexError:
            raise ConfigError(f"{str(path)!r} holds {len(runs)} runs; there is no run {run}.") from None
        return cls.from_dict(data)

    def to_text(self) -> str:
        """Return the run as lines for a terminal: one for each step, then the answer or error, then how it ended."""
        from toolkit.traces.text import render

        return render(self)

    __str__ = to_text

    def __repr__(self) -> str:
        calls, tools = len(self.of_kind("model_reply")), len(self.of_kind("tool_result"))
        said = self.error or self.text
        said = said if len(said) <= 40 else said[:39] + "…"
        return f"Trace({self.stop_reason}: {said!r} {_count(calls, 'model call')}, {_count(tools, 'tool call')})"

    def _repr_html_(self) -> str:
        from toolkit.traces.view import render

        return render(self)


def unanswered(messages: Sequence[ChatMessage]) -> list[ToolCall]:
    """Return the calls at the end of a history that have no result yet."""
    answered: set[str | None] = set()
    for message in reversed(messages):
        if message.role is not ChatRole.TOOL:
            return [call for call in message.tool_calls if call.id not in answered]
        answered.update(result.origin.id for result in message.tool_call_results)
    return []


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _read(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def _event_line(event: Event, table: Table) -> dict[str, Any]:
    data = event.plain()
    if isinstance(data.get("messages"), list):
        data["messages"] = table.numbers(data["messages"])
    return {"kind": event.kind, "at": round(event.at, 6), "source": event.source, "data": data}


def _read_event(line: Mapping[str, Any], table: Sequence[ChatMessage]) -> Event:
    kind, at, source, data = (line[key] for key in ("kind", "at", "source", "data"))
    if not (isinstance(kind, str) and isinstance(at, (int, float)) and isinstance(source, str)):
        raise TypeError(f"no event can be {line!r:.60}")
    data = dict(data)
    if isinstance(data.get("messages"), list):
        data["messages"] = tuple(table[number] for number in data["messages"])
    return Event(kind, at, source, data)
