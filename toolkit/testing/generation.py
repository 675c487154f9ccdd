"""Write one answer of a fake Ollama server: from a checked request to the objects that go over the wire.

Not here: routes and models (`ollama`), what is refused before (`requests`).
"""

from __future__ import annotations

import json
import random
import string
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from toolkit.testing.builtin_parsers import reader_for
from toolkit.testing.models import FakeModel, stamp
from toolkit.testing.parsers import Event, GenericReader, LlamaReader, ParserError, PlainReader, Reader, ThinkingReader
from toolkit.testing.prompts import tool_as_kept
from toolkit.testing.runners import Runner
from toolkit.testing.script import ScriptedReply, Writing

DIED = "an error was encountered while running the model: unexpected EOF"
_MISMATCH = "The model produced output that does not match the expected peg-native format"


@dataclass
class Job:
    """Hold what is known of a request once its prompt is made.

    Attributes:
        body: the request, its keys in lower case.
        options: of the Modelfile and the request.
        schema: what decoding is held to.
        size: tokens of the prompt that are read.
        prefill: text of the assistant that llama.cpp repeats.
    """

    model: FakeModel
    runner: Runner
    reply: ScriptedReply
    body: Mapping[str, Any]
    options: Mapping[str, Any]
    chat: bool
    prompt: str
    size: int
    schema: Any = None
    prefill: str = ""
    loading_s: float = 1e-3
    started: float = field(default_factory=time.perf_counter)
    gone: Callable[[], bool] = lambda: False

    @property
    def native(self) -> bool:
        """Tell whether llama.cpp reads the answer of this chat."""
        return self.model.road == "native" and self.chat

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Return the offered tools as Ollama keeps them."""
        return [tool_as_kept(tool) for tool in self.body.get("tools") or ()] if self.chat else []

    @property
    def thinks(self) -> bool:
        """Tell whether thinking is on: unset counts as on."""
        return self.model.thinking and self.body.get("think", True) is not False

    def limit(self) -> float:
        """Return after how many tokens writing ends: the cap, ten windows, or the end of the window."""
        wanted = self.options.get("num_predict", -1)
        most = 10 * self.runner.window
        cap = float(wanted) if 0 < wanted <= most else float(most)
        if wanted == 0:
            cap = 1.0 if self.native else float(most)
        return cap if self.body.get("shift", True) else min(cap, self.runner.window - self.size)


def reader_of(job: Job) -> Reader:
    """Return the reader of a road: which parser, and whether thinking is split off."""
    model, tools = job.model, job.tools
    names = [tool["function"]["name"] for tool in tools]
    if not job.chat and (model.road != "builtin" or job.body.get("raw")):
        rest: Reader = PlainReader()
    elif model.road == "builtin":
        rest = reader_for(model.parser, tools)
    elif not names or (job.native and job.schema is not None):
        rest = PlainReader()
    else:
        rest = LlamaReader(names) if job.native else GenericReader(model.tag, names)
    splits = model.parses_thinking if job.native else model.road == "go" or (job.chat and model.parser != "passthrough")
    return ThinkingReader(rest) if job.thinks and splits and (job.chat or model.road == "go") else rest


class Generation:
    """Write the answer to one job.

    Attributes:
        done: whether it came to an end with counts; False after a silent stop.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.done = False
        self._calls: list[dict[str, Any]] = []
        self._arguments: list[list[str]] = []
        self._writing = Writing((), (), 0)
        self._size = job.size
        self._began = time.perf_counter()

    def pieces(self) -> Generator[dict[str, Any]]:
        """Yield the objects of the stream; those of calls and the last one included.

        Raises:
            ParserError: the model's own text is not readable for the server's parser.
            RunnerDiedError: the script lets the runner die.
        """
        job = self.job
        waits = job.thinks and job.schema is not None and not job.native and job.chat  # format comes after thinking
        thought = yield from self._run(job.schema is not None and not waits, stop_after_thinking=waits)
        if waits and thought and not self.done:
            yield self._piece({"content": ""})
            self._size += len(thought)
            yield from self._run(True, resumed=True)
        if self.done:
            yield self.last()

    def _run(self, held: bool, stop_after_thinking: bool = False, resumed: bool = False) -> Generator[Any, None, str]:
        job = self.job
        written = job.reply.written(held, sort=job.native)
        reader: Reader = PlainReader() if resumed else reader_of(job)
        self._writing = writing = Writing(written, job.options.get("stop", ()), job.limit())
        thought, same, before, text = "", 0, None, ""
        for shown in writing.run(job.reply, job.gone):
            same = same + 1 if shown.strip() == before else 0
            before = shown.strip()
            if same > 30 and not job.native:
                return thought  # a loop: no last piece, no error
            if not shown:
                continue
            text += shown
            events = self._read(reader, shown, text)
            thought += "".join(event[1] for event in events if event[0] == "thinking")
            if stop_after_thinking and thought and any(event[0] == "text" for event in events):
                return thought
            yield from self._events(events, shown)
        if not writing.reason:
            return thought  # the client left
        yield from self._events(list(reader.close()), "")
        self._finish_calls()
        self.done = True
        return thought

    def _read(self, reader: Reader, shown: str, text: str) -> list[Event]:
        """Return what a piece yields; where llama.cpp reads, its error comes wrapped in Ollama's."""
        job = self.job
        try:
            if job.native and job.tools and job.schema is not None:
                _check_json(text)
            return list(reader.feed(shown))
        except ParserError as error:
            if not job.native:
                raise
            raise ParserError(f"llama-server chat error: map[code:500 message:{error} type:server_error]") from None

    def _events(self, events: Sequence[Event], shown: str) -> Iterator[dict[str, Any]]:
        said = {kind: "".join(event[1] for event in events if event[0] == kind) for kind in ("text", "thinking")}
        calls = [event for event in events if event[0] == "call"]
        for event in events:
            if event[0] == "delta":
                self._delta(event)
        logprobs = self._logprobs(shown)
        if said["text"] and self.job.prefill:
            said["text"], self.job.prefill = self.job.prefill + said["text"], ""
        if calls and said["text"] and self.job.model.road == "go":
            calls = []  # content wins over calls that come with the same token
        made = {"tool_calls": [self._call(name, arguments) for _, name, arguments in calls]} if calls else {}
        thinking = {"thinking": said["thinking"]} if said["thinking"] else {}
        if made or thinking or said["text"] or logprobs:
            yield self._piece({"content": said["text"], **thinking, **made}, logprobs)

    def _call(self, name: str, arguments: Any) -> dict[str, Any]:
        letters = string.ascii_letters + string.digits
        native = self.job.native
        made = "".join(random.choices(letters, k=32)) if native else ""  # noqa: S311 - no secret
        made = made or "call_" + "".join(random.choices(string.ascii_lowercase + string.digits, k=8))  # noqa: S311
        call = {
            "id": made,
            "function": {"index": len(self._calls), "name": name, "arguments": _inner_sorted(arguments)},
        }
        self._calls.append(call)
        return call

    def _delta(self, event: Event) -> None:
        _, index, name, arguments = event
        if index == len(self._arguments):
            self._arguments.append([name, ""])
        self._arguments[index][1] += arguments

    def _finish_calls(self) -> None:
        """Read the arguments that llama.cpp handed over as text; a call that was cut is an error."""
        for name, arguments in self._arguments:
            try:
                value = json.loads(arguments, strict=False)
            except ValueError:
                said = f'llama-server returned invalid tool call arguments for "{name}": unexpected end of JSON input'
                raise ParserError(said) from None
            self._call(name, value)

    def _piece(self, message: dict[str, Any], logprobs: list[Any] | None = None) -> dict[str, Any]:
        head = {"model": self.job.body["model"], "created_at": stamp(datetime.now(UTC))}
        more = {"logprobs": logprobs} if logprobs else {}
        if self.job.chat:
            return head | {"message": {"role": "assistant", **message}, "done": False} | more
        thinking = {"thinking": message["thinking"]} if "thinking" in message else {}
        return head | {"response": message["content"], **thinking, "done": False} | more

    def last(self) -> dict[str, Any]:
        """Return the last object, with the reason, the counts and the durations in nanoseconds."""
        job, count = self.job, self._writing.count
        calls = {"tool_calls": self._calls} if job.native and self._calls else {}
        piece = self._piece({"content": job.prefill, **calls})
        piece |= {"done": True, "done_reason": self._writing.reason}
        if not job.chat and not job.body.get("raw"):
            piece["context"] = [zlib.crc32(token.encode()) % 49152 for token in (job.prompt, job.reply.text)]
        now = time.perf_counter()  # what is neither loading, reading nor writing was waiting for a slot
        counts = {
            "total_duration": now - job.started, "load_duration": job.loading_s, "prompt_eval_count": self._size,
            "prompt_eval_duration": 1e-6, "eval_count": count,
            "eval_duration": max(now - self._began, 1e-6) if count > 1 else 1e-6,
        }  # fmt: skip
        counts = {key: int(value * 1e9) if key.endswith("duration") else value for key, value in counts.items()}
        return piece | {key: value for key, value in counts.items() if value} | dict(job.reply.last)

    def _logprobs(self, shown: str) -> list[dict[str, Any]] | None:
        if not self.job.body.get("logprobs") or not shown:
            return None
        one = {"token": shown, "logprob": -0.25, "bytes": list(shown.encode("utf-8", "replace"))}
        if most := self.job.body.get("top_logprobs", 0):
            others = [{**one, "logprob": -0.25 - place} for place in range(most)]
            return [{**one, "top_logprobs": others}]
        return [one]


def whole(pieces: Iterator[dict[str, Any]], tools: bool) -> dict[str, Any]:
    """Return the pieces of a stream as one object, as it comes without streaming.

    Calls are kept only where tools were offered: those that a built-in parser finds without are lost.
    """
    said: dict[str, str] = {}
    calls: list[Any] = []
    logprobs: list[Any] = []
    piece: dict[str, Any] = {}
    for piece in pieces:
        part = piece.get("message", piece)
        for key in ("content", "response", "thinking"):
            if part.get(key) is not None:
                said[key] = said.get(key, "") + part[key]
        calls += part.get("tool_calls", [])
        logprobs += piece.get("logprobs", [])
    if calls and tools:
        said["tool_calls"] = calls  # type: ignore[assignment]
    last = {key: value for key, value in piece.items() if key not in ("message", "response", "thinking", "logprobs")}
    return _joined(last, said, logprobs, "message" in piece)


def _joined(last: dict[str, Any], said: dict[str, Any], logprobs: list[Any], chat: bool) -> dict[str, Any]:
    order = {key: said[key] for key in ("content", "thinking", "tool_calls", "response") if key in said}
    middle: dict[str, Any] = {"message": {"role": "assistant", **order}} if chat else {}
    if not chat:
        middle = {key: said[key] for key in ("response", "thinking") if key in said}
    head = {key: last.pop(key) for key in ("model", "created_at") if key in last}
    if logprobs and not chat:
        return head | middle | last | {"logprobs": logprobs}
    ends = {key: last.pop(key) for key in ("done", "done_reason") if key in last}
    return head | middle | ends | ({"logprobs": logprobs} if logprobs else {}) | last


def _inner_sorted(arguments: Any) -> Any:
    """Sort the keys inside nested values, not those of the arguments themselves."""
    if not isinstance(arguments, dict):
        return arguments
    return {key: json.loads(json.dumps(value, sort_keys=True)) for key, value in arguments.items()}


def _check_json(text: str) -> None:
    """Refuse a text that goes on after its JSON value, where llama.cpp reads calls and a schema holds."""
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text.lstrip())
    except ValueError:
        return
    if text.lstrip()[end:].strip():
        raise ParserError(_MISMATCH)
