"""Shape what llama.cpp's server sends: the pieces of an answer, the list of models, what it says of itself.

Not here: routes, slots and window (`llama_server`).
"""

from __future__ import annotations

import json
import random
import string
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from toolkit.testing.loopback import CutError, Response
from toolkit.testing.models import FakeModel
from toolkit.testing.parsers import Event, LlamaReader, ParserError, PlainReader, Reader, ThinkingReader
from toolkit.testing.script import RunnerDiedError, ScriptedReply, Writing

_BUILD = "b0-unknown"
_TOLD = json.loads((Path(__file__).with_name("templates") / "llama_props.json").read_text(encoding="utf-8"))


def compact(value: Any) -> str:
    """Return JSON as llama.cpp writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def refusal(status: int, message: str, kind: str) -> Response:
    """Return an error that comes before a request is read."""
    return Response(status, compact({"error": {"message": message, "type": kind, "code": status}}))


def described(model: FakeModel, window: int, slots: int) -> dict[str, Any]:
    """Return the answer of `/props`."""
    told = json.loads(json.dumps(_TOLD["props"]))
    told["default_generation_settings"]["n_ctx"] = window
    told |= {"total_slots": slots, "model_alias": model.name, "model_path": model.name}
    told |= {"model_ftype": model.quantization, "chat_template": model.template}
    able = ("supports_object_arguments", "supports_parallel_tool_calls", "supports_tool_calls", "supports_tools")
    told["chat_template_caps"] |= dict.fromkeys(able, model.tools)
    return dict(told)


def listed(model: FakeModel, window: int, others: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer of `/v1/models`, in Ollama's shape and in OpenAI's."""
    details = {"parent_model": "", "format": "gguf", "family": "", "families": [""], "parameter_size": "",
               "quantization_level": ""}  # fmt: skip
    one = {"name": model.name, "model": model.name, "modified_at": "", "size": "", "digest": "", "type": "model",
           "description": "", "tags": [""], "capabilities": ["completion"], "parameters": "",
           "details": details}  # fmt: skip
    meta = {"vocab_type": 2, "n_vocab": 49152, "n_ctx": window, "n_ctx_train": model.trained, "n_embd": 576,
            "n_params": 134_515_008, "size": model.size, "ftype": model.quantization}  # fmt: skip
    data = {"id": model.name, "aliases": [model.name], "tags": [], "object": "model", "created": int(time.time()),
            "owned_by": "llamacpp", "meta": meta}  # fmt: skip
    return {"models": [one], "object": "list", "data": [data, *others]}


class LlamaAnswer:
    """Write the answer to one request as events.

    Attributes:
        size: tokens of the prompt.
        count: tokens written so far.
    """

    def __init__(
        self, model: FakeModel, body: dict[str, Any], path: str, prompt: str, size: int, held: bool, cached: int
    ) -> None:
        self.model, self.body, self.size, self.count = model, body, size, 0
        self._chat, self._openai = "chat" in path, "/v1/" in path or "chat" in path
        self._prompt, self._held, self._cached = prompt, held, cached
        self._id = "chatcmpl-" + _letters()
        self._reason = ""
        self._calls: list[list[str]] = []  # id, name, arguments
        self._last: Mapping[str, Any] = {}
        self._said = {"content": "", "reasoning_content": ""}

    def events(self, reply: ScriptedReply, room: int, gone: Callable[[], bool]) -> Generator[str]:
        """Yield the events of the stream, to `[DONE]` or an error."""
        if reply.error is not None:
            yield self.error(*reply.error)
            return
        self._last = reply.last
        stops = self._stops()
        pieces = [] if "" in stops else reply.written(self._held, sort=False)
        writing = Writing(pieces, stops, min(self._limit(), room))
        if self._chat:
            quirk = {"timings": self._timings(1)} if "" in stops else {}  # where the first token is the last
            yield self._event(self._chunk({"role": "assistant", "content": None}) | quirk)
        try:
            yield from self._written(writing, reply, gone)
        except RunnerDiedError:
            raise CutError from None
        except ParserError as error:
            yield self.error(500, str(error))
            return
        self.count = writing.count
        if writing.reason:
            self._reason = reply.last.get("finish_reason", "stop" if "" in stops else writing.reason)
            yield from self._ending()

    def _written(self, writing: Writing, reply: ScriptedReply, gone: Callable[[], bool]) -> Iterator[str]:
        reader = self._reader()
        prefill = self._prefill()
        for shown in writing.run(reply, gone):
            self.count = writing.count
            events = list(reader.feed(shown)) if shown else []
            if prefill and events and events[0][0] == "text":
                events[0], prefill = ("text", prefill + events[0][1]), ""
            yield from (self._event(piece) for event in events for piece in self._pieces(event, shown))
        yield from (self._event(piece) for event in reader.close() for piece in self._pieces(event, ""))

    def _reader(self) -> Reader:
        names = [tool["function"]["name"] for tool in self.body.get("tools") or ()]
        if not self._chat or not names or not self.model.tools or self.body.get("tool_choice") == "none":
            rest: Reader = PlainReader()
        else:
            rest = LlamaReader(names)
        return ThinkingReader(rest) if self._chat and self.model.parses_thinking else rest

    def _prefill(self) -> str:
        last = (self.body.get("messages") or [{}])[-1] if self._chat else {}
        return str(last.get("content") or "") if last.get("role") == "assistant" else ""

    def _stops(self) -> list[str]:
        stops = self.body.get("stop") or []
        return [stops] if isinstance(stops, str) else list(stops)

    def _limit(self) -> float:
        wanted = self.body.get("max_tokens", self.body.get("n_predict", -1))
        return float(wanted) if wanted is not None and wanted >= 0 else float("inf")

    def _pieces(self, event: Event, shown: str) -> Iterator[dict[str, Any]]:
        if event[0] == "delta":
            yield self._chunk({"tool_calls": [self._call(*event[1:])]})
            return
        key = "reasoning_content" if event[0] == "thinking" else "content"
        self._said[key] += event[1]
        if self._chat:
            yield self._chunk({key: event[1]}, self._logprobs(shown))
        elif self._openai:
            yield self._text(event[1], None)
        else:
            yield {"index": 0, "content": event[1], "tokens": [0], "stop": False, "id_slot": -1,
                   "tokens_predicted": self.count, "tokens_evaluated": self.size}  # fmt: skip

    def _call(self, index: int, name: str | None, arguments: str) -> dict[str, Any]:
        if name is None:
            self._calls[index][2] += arguments
            return {"index": index, "function": {"arguments": arguments}}
        self._calls.append([_letters(), name, arguments])
        function = {"name": name, "arguments": arguments}
        return {"index": index, "id": self._calls[-1][0], "type": "function", "function": function}

    def _ending(self) -> Iterator[str]:
        """Yield what comes after the last token."""
        reason = "tool_calls" if self._calls and self._reason == "stop" else self._reason
        timings = {"timings": self._timings(self.count)}
        if not self._openai:
            yield self._event(self._closing() | timings)
            return
        if not self._chat:
            piece = self._text("", reason)
            name = piece.pop("id")
            yield self._event(piece | {"usage": self._usage(), "id": name} | timings)
        else:
            usage = bool((self.body.get("stream_options") or {}).get("include_usage"))
            yield self._event(self._chunk({}, reason=reason) | ({} if usage else timings))
            if usage:
                yield self._event(self._head([]) | {"usage": self._usage()} | timings)
        yield "data: [DONE]\n\n"

    def whole(self, events: Generator[str]) -> Response:
        """Return the answer in one piece, as it comes without streaming."""
        for event in events:
            piece = json.loads(event.removeprefix("data: ")) if event.startswith("data: {") else {}
            if "error" in piece:
                return Response(piece["error"]["code"], compact(piece))
        timings = {"timings": self._timings(self.count)}
        if not self._openai:
            return Response(200, compact(self._closing() | {"content": self._said["content"]} | timings))
        reason = "tool_calls" if self._calls and self._reason == "stop" else self._reason
        said = {key: text for key, text in self._said.items() if text or key == "content"}
        message: dict[str, Any] = {"role": "assistant", **said}
        if self._calls:
            message["tool_calls"] = [
                {"type": "function", "function": {"name": name, "arguments": arguments}, "id": made}
                for made, name, arguments in self._calls
            ]
        choice = {"finish_reason": reason, "index": 0, "message": message}
        if not self._chat:
            choice = {"text": self._said["content"], "index": 0, "logprobs": None, "finish_reason": reason}
        head = self._head([choice])
        head["object"] = "chat.completion" if self._chat else "text_completion"
        name = head.pop("id")
        return Response(200, compact(head | {"usage": self._usage(), "id": name} | timings))

    def error(self, status: int, said: Any) -> str:
        """Return the event of an error."""
        error = said if isinstance(said, dict) else {"code": status, "message": said, "type": "server_error"}
        return self._event({"error": error})

    def _event(self, value: Any) -> str:
        return f"data: {compact(value)}\n\n"

    def _head(self, choices: list[Any]) -> dict[str, Any]:
        return {"choices": choices, "created": int(time.time()), "id": self._id, "model": self.model.name,
                "system_fingerprint": _BUILD, "object": "chat.completion.chunk"}  # fmt: skip

    def _chunk(self, delta: dict[str, Any], logprobs: Any = None, reason: str | None = None) -> dict[str, Any]:
        choice = {"finish_reason": reason, "index": 0, "delta": delta}
        return self._head([choice | ({"logprobs": logprobs} if logprobs else {})])

    def _text(self, text: str, reason: str | None) -> dict[str, Any]:
        head = self._head([{"text": text, "index": 0, "logprobs": None, "finish_reason": reason}])
        return {**{key: head[key] for key in ("choices", "created", "model", "system_fingerprint")},
                "object": "text_completion", "id": self._id}  # fmt: skip

    def _logprobs(self, shown: str) -> dict[str, Any] | None:
        if not self.body.get("logprobs") or not shown:
            return None
        one = {"id": 0, "token": shown, "bytes": list(shown.encode()), "logprob": -0.25}
        others = [{**one, "logprob": -0.25 - place} for place in range(self.body.get("top_logprobs", 0))]
        return {"content": [{**one, "top_logprobs": others}]}

    def _usage(self) -> dict[str, Any]:
        usage = {"completion_tokens": self.count, "prompt_tokens": self.size, "total_tokens": self.size + self.count,
                 "prompt_tokens_details": {"cached_tokens": self._cached}}  # fmt: skip
        return usage | {key: value for key, value in self._last.items() if key in usage}

    def _timings(self, count: int) -> dict[str, Any]:
        count = self._last.get("completion_tokens", count)
        return {"cache_n": self._cached, "prompt_n": self.size - self._cached, "prompt_ms": 20.0,
                "prompt_per_token_ms": 20.0, "prompt_per_second": 50.0, "predicted_n": count,
                "predicted_ms": 10.0 * count, "predicted_per_token_ms": 10.0,
                "predicted_per_second": 100.0}  # fmt: skip

    def _closing(self) -> dict[str, Any]:
        """Return the last piece of the route without /v1."""
        settings = dict(_TOLD["settings"]) | {"max_tokens": self._limit(), "n_predict": self._limit()}
        ends = {"stop": "eos", "length": "limit"}
        return {
            "index": 0, "content": "", "tokens": [], "id_slot": 0, "stop": True, "model": self.model.name,
            "tokens_predicted": self.count, "tokens_evaluated": self.size,
            "generation_settings": {key: -1 if value == float("inf") else value for key, value in settings.items()},
            "prompt": self._prompt, "has_new_line": "\n" in self._said["content"], "truncated": False,
            "stop_type": ends.get(self._reason, "none"), "stopping_word": "",
            "tokens_cached": self.size + self.count - 1,
        }  # fmt: skip


def _letters() -> str:
    return "".join(random.choices(string.ascii_letters + string.digits, k=32))  # noqa: S311 - no secret
