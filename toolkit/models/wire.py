"""Speak OpenAI's chat format: the body of a request, and the pieces of a streamed answer.

The in-process llama.cpp and every OpenAI-compatible server use it, so both back ends share this file.

Not here: sending it (`embedded`, `openai`); Ollama's own format (`ollama`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import ModelError
from toolkit.messages import ChatMessage, ToolCall, to_openai
from toolkit.models.base import Chunk, Fault, FinishReason, Limit, Options, Reply, cut_at_stop
from toolkit.tools import as_tools

_SAMPLING = ("temperature", "seed", "top_p", "top_k", "min_p", "repeat_penalty")


class ServerError(ModelError):
    """Carry an error that the server gave in place of an answer.

    Attributes:
        status: HTTP status, or 200 for an error within a stream.
        said: what the server said.
    """

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"HTTP {status}: {said}")
        self.status = status
        self.said = said


def tool_specs(tools: Any) -> list[dict[str, Any]]:
    """Return tools as OpenAI's `{"type": "function", "function": …}`."""
    return [{"type": "function", "function": tool.tool_spec} for tool in as_tools(tools or ())]


def sampling(options: Options) -> dict[str, Any]:
    """Return the options of one request in OpenAI's and llama.cpp's words."""
    body = {name: value for name in _SAMPLING if (value := getattr(options, name)) is not None}
    body["max_tokens"] = options.num_predict
    if options.stop:
        body["stop"] = list(options.stop)
    return body


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field that holds decoding to a schema."""
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": dict(schema)}}


def chat_body(
    messages: Sequence[ChatMessage],
    tools: Sequence[dict[str, Any]],
    schema: Mapping[str, Any] | None,
    options: Options,
    tool_choice: str | None,
) -> dict[str, Any]:
    """Return the body of a streamed chat request."""
    body: dict[str, Any] = {"messages": [wire for message in messages for wire in to_openai(message)]}
    if tools:
        body["tools"] = list(tools)
        if tool_choice:
            body["tool_choice"] = _choice(tool_choice)
    if schema is not None:
        body["response_format"] = response_format(schema)
    body |= sampling(options) | {"stream": True, "stream_options": {"include_usage": True}}
    if isinstance(options.think, bool):
        body["chat_template_kwargs"] = {"enable_thinking": options.think}
    elif options.think:
        body["chat_template_kwargs"] = {"reasoning_effort": options.think}
    return body


def sendable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request with lone surrogates replaced: a model can write them, UTF-8 cannot carry them.

    >>> sendable({"prompt": chr(0xD83D) + "!"})
    {'prompt': '?!'}
    """
    text = json.dumps(body, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return dict(json.loads(text.encode("utf-8", "replace")))
    return dict(body)


def _choice(tool_choice: str) -> Any:
    if tool_choice in ("auto", "none", "required"):
        return tool_choice
    if tool_choice == "any":
        return "required"
    return {"type": "function", "function": {"name": tool_choice}}


def call_id(turn: int, index: int, name: str, arguments: Any) -> str:
    """Make the id of a call that the server gave none; the same request gives the same id again.

    Args:
        turn: number of messages before the reply, so that the same call of two turns has two ids.
        index: place of the call in the reply.
        name: the tool.
        arguments: its arguments.
    """
    known = json.dumps([turn, index, name, arguments], sort_keys=True, default=str)
    return "call_" + hashlib.sha256(known.encode()).hexdigest()[:8]


def sent_text(body: Mapping[str, Any]) -> str:
    """Return what is said in a request, for an estimate of its tokens."""
    if "prompt" in body:
        return str(body["prompt"])
    said = [str(message.get("content") or "") for message in body["messages"]]
    calls = [json.dumps(message["tool_calls"]) for message in body["messages"] if message.get("tool_calls")]
    return "\n".join([*said, *calls])


def read_arguments(wire: Any) -> dict[str, Any] | None:
    """Return the arguments of a call, sent as an object or as JSON text; None if unreadable (Source: ollama#6155)."""
    if isinstance(wire, str):
        try:
            wire = json.loads(wire or "{}")
        except ValueError:
            return None
    wire = {} if wire is None else wire
    return wire if isinstance(wire, dict) else None


@dataclass
class StreamedAnswer:
    """Collect the pieces of one streamed answer and give them out as chunks, then as a `Reply`.

    Attributes:
        turn: number of messages before the answer, for call ids.
    """

    turn: int = 0
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)  # index -> {"id", "name", "arguments"}
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None

    def feed(self, piece: Mapping[str, Any]) -> Iterator[Chunk]:
        """Take one piece and yield what can be shown of it."""
        if piece.get("error"):
            error = piece["error"]
            self.error = dict(error) if isinstance(error, Mapping) else {"message": str(error)}
            return
        self.usage = piece.get("usage") or self.usage
        self.timings = piece.get("timings") or self.timings
        for choice in piece.get("choices") or ():
            self.finish = choice.get("finish_reason") or self.finish
            delta = choice.get("delta") or choice.get("message") or {}
            text = choice.get("text") or delta.get("content") or ""
            thinking = delta.get("reasoning_content") or delta.get("reasoning") or ""
            self._take_calls(delta.get("tool_calls") or ())
            if text or thinking:
                self.text.append(text)
                self.thinking.append(thinking)
                yield Chunk(text, thinking)

    def _take_calls(self, deltas: Sequence[Mapping[str, Any]]) -> None:
        for place, delta in enumerate(deltas):
            index = delta.get("index")
            call = self.calls.setdefault(place if index is None else index, {"id": "", "name": "", "arguments": ""})
            function = delta.get("function") or {}
            call["id"] = delta.get("id") or call["id"]
            call["name"] += function.get("name") or ""
            arguments = function.get("arguments") or ""
            # some servers send an object where the format says text
            call["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def reply(self, model: str, options: Options, seconds: float, load_seconds: float = 0.0) -> Reply:
        """Return the whole answer."""
        if self.error is not None:
            return self._failed(model, seconds, load_seconds)
        calls, unreadable = self._read_calls()
        text = "".join(self.text)
        details = self.usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens", self.timings.get("cache_n"))
        prompt, written = self.usage.get("prompt_tokens"), self.usage.get("completion_tokens")
        finish = _finish(self.finish, bool(calls))
        limit = answer_limit(finish, text, bool(calls), "".join(self.thinking), written, options)
        reply = Reply(
            cut_at_stop(text, options.stop) + "\n".join(unreadable),
            "".join(self.thinking), calls, finish, limit, prompt, cached, written, seconds, load_seconds, model,
        )  # fmt: skip
        if unreadable and finish != "length":
            reply = reply.replace(
                fault=Fault("parse", f"The server gave a call that is no JSON: {unreadable[0][:200]}")
            )
        return reply

    def _read_calls(self) -> tuple[tuple[ToolCall, ...], list[str]]:
        """Return the calls, and the raw text of those whose arguments are no JSON object."""
        calls, unreadable = [], []
        for index, call in sorted(self.calls.items()):
            arguments = read_arguments(call["arguments"])
            if arguments is None:
                unreadable.append(f'{{"name": {json.dumps(call["name"])}, "arguments": {call["arguments"]}}}')
                continue
            made = call["id"] or call_id(self.turn, index, call["name"], arguments)
            calls.append(ToolCall(call["name"], arguments, made))
        return tuple(calls), unreadable

    def _failed(self, model: str, seconds: float, load_seconds: float) -> Reply:
        error = self.error or {}
        message = str(error.get("message") or error)
        overflow = is_overflow(message, str(error.get("type")))
        return Reply(
            "".join(self.text),
            "".join(self.thinking),
            finish_reason="overflow" if overflow else "error",
            prompt_tokens=error.get("n_prompt_tokens"),
            seconds=seconds,
            load_seconds=load_seconds,
            model=model,
            fault=Fault("overflow" if overflow else "server", message),
        )


def is_overflow(message: str, kind: str = "") -> bool:
    """Tell whether a server's error says that the prompt does not fit its window.

    >>> is_overflow("This model's maximum context length is 4096 tokens. However, you requested 5000")
    True
    """
    said = f"{kind} {message}".casefold()
    signs = ("exceed_context_size", "context size", "context length", "context window", "maximum context", "num_ctx",
             "prompt is too long", "prompt too long")  # fmt: skip
    return any(sign in said for sign in signs)


def _finish(wire: str | None, called: bool) -> FinishReason:
    if wire in ("length", "max_tokens"):
        return "length"
    return "tool_calls" if called else "stop"


def answer_limit(
    finish: FinishReason, text: str, called: bool, thinking: str, written: int | None, options: Options
) -> Limit:
    """Name the limit that ended an answer (Source: chatlas#327)."""
    if finish != "length":
        return ""
    if written is not None and written < options.num_predict:
        return "num_ctx"
    return "thinking" if thinking and not text.strip() and not called else "num_predict"
