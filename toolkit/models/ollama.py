"""Ask a model of an Ollama server, through its native API.

Never its `/v1` route: only the native one takes `num_ctx`, `think`, `format` and raw mode and gives token
counts and load times (Source: ollama#17911).

Not here: the server's errors and lists (`ollama_server`), the notice of a cut prompt (`window`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import ModelNotFoundError
from toolkit.messages import ChatMessage, ChatRole, ToolCall, to_openai
from toolkit.models.base import ChatModel, Chunk, Fault, FinishReason, Options, Reply, cut_at_stop, request_messages
from toolkit.models.ollama_server import OllamaServer, fault_of, same_model
from toolkit.models.schemas import request_schema, with_schema_checked
from toolkit.models.window import WindowAudit
from toolkit.models.wire import ServerError, answer_limit, call_id, read_arguments, sent_text, tool_specs

_SAMPLING = ("temperature", "seed", "num_ctx", "num_predict", "top_p", "top_k", "min_p", "repeat_penalty")
_SECONDS_A_LOOK_HOLDS = 60.0


class OllamaModel(ChatModel):
    """Answer from an Ollama server. Nothing is contacted before the first request.

    Args:
        name: such as `qwen3:4b`.
        host: where the server is; the environment variable OLLAMA_HOST if None.
        defaults: options of a request that sets none.
    """

    def __init__(self, name: str, host: str | None = None, defaults: Options | None = None) -> None:
        self.name = f"ollama/{name}"
        self.defaults = defaults or Options()
        self.audit = WindowAudit()
        self._model = name
        self._host = host
        self._open_server: OllamaServer | None = None
        self._looked: tuple[float, dict[str, Any]] | None = None
        self._last_ctx: int | None = None

    @property
    def server(self) -> OllamaServer:
        """Return the connection to the server."""
        if self._open_server is None:
            self._open_server = OllamaServer(self._host)
        return self._open_server

    def stream(
        self,
        messages: Any,
        *,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        tool_choice: str | None = None,
    ) -> Iterator[Chunk]:
        """Yield the reply piece by piece; closing the stream stops the server.

        `tool_choice` is not sent: Ollama accepts and ignores it (Source: ollama#11171, ollama#17921).
        """
        said, specs = request_messages(messages), tool_specs(tools)
        settings, held_to = Options.of(options, self.defaults), request_schema(schema)
        body = self._body(settings, held_to) | {"messages": [wire for message in said for wire in to_ollama(message)]}
        if specs:
            body["tools"] = specs
        notes = [f"tool_choice={tool_choice!r} was not sent: Ollama ignores it"] if tool_choice else []
        return self._answer("/api/chat", body, settings, held_to, len(said), notes)

    def complete_stream(self, prompt: str, *, schema: Any = None, options: Any = None) -> Iterator[Chunk]:
        """Yield the continuation of a raw prompt piece by piece, with no template and no parsing by the server."""
        settings, held_to = Options.of(options, self.defaults), request_schema(schema)
        body = self._body(settings, held_to) | {"prompt": prompt, "raw": True}
        return self._answer("/api/generate", body, settings, held_to, 0, [])

    def _body(self, options: Options, schema: Any) -> dict[str, Any]:
        """Return the common part; sampling must sit in `options`, at top level it is ignored (Source: ollama#5274)."""
        inner = {name: value for name in _SAMPLING if (value := getattr(options, name)) is not None}
        if options.stop:
            inner["stop"] = list(options.stop)
        body: dict[str, Any] = {"model": self._model, "stream": True, "options": inner}
        if schema is not None:
            body["format"] = schema
        if options.think is not None:
            body["think"] = options.think
        if options.keep_alive is not None:
            body["keep_alive"] = options.keep_alive
        return body

    def _answer(
        self, route: str, body: dict[str, Any], options: Options, schema: Any, turn: int, notes: list[str]
    ) -> Iterator[Chunk]:
        if self._last_ctx not in (None, options.num_ctx):
            notes.append(f"num_ctx changed from {self._last_ctx} to {options.num_ctx}: Ollama loads the model again")
        self._last_ctx = options.num_ctx
        answer, fault, raw_text = NativeAnswer(turn), None, ""
        started = time.perf_counter()
        try:
            for piece in self.server.answer(route, body, options.timeout_s):
                yield from answer.feed(piece)
        except TimeoutError:
            fault = Fault("timeout", f"No token came for {options.timeout_s:g} s (timeout_s).")
        except ServerError as error:
            if error.status == 404:
                raise self.server.not_pulled(self._model) from None
            fault, raw_text = fault_of(error)
        reply = answer.reply(self.name, options, time.perf_counter() - started, raw_text, fault)
        reply = self._audited(reply, body, options)
        notes += _thinking_notes(reply, options, answer)
        raw = {"request": body, "response": answer.last, "notes": notes}
        yield Chunk(reply=with_schema_checked(reply.replace(raw=raw), schema))

    def _audited(self, reply: Reply, body: Mapping[str, Any], options: Options) -> Reply:
        """Return the reply, with an overflow fault if the server cut the prompt without a word."""
        if reply.fault:
            return reply
        tools = json.dumps(body["tools"]) if body.get("tools") else ""
        cut = self.audit.cut(sent_text(body), reply.prompt_tokens, options.num_ctx, tools)
        if not cut:
            return reply
        fault = Fault("overflow", f"The prompt was silently cut: {cut}. Shorten it, or raise num_ctx.")
        return reply.replace(fault=fault, finish_reason="overflow")

    @property
    def supports_tools(self) -> bool:  # type: ignore[override]
        """Tell whether the model takes `tools=`; an old server does not say, then its template does."""
        shown = self._facts()
        capabilities = shown.get("capabilities")  # Source: ollama-python#494
        return "tools" in capabilities if capabilities is not None else ".Tools" in (shown.get("template") or "")

    def contexts(self) -> dict[str, int | None]:
        """Return three windows in tokens: `trained`, `configured` (what requests ask for), `loaded`.

        None where the server does not say (Source: ollama#2732, ollama-python#538).
        """
        info = self._facts().get("model_info") or {}
        trained = next((value for key, value in info.items() if key.endswith(".context_length")), None)
        names = [(str(model.get("name") or model.get("model")), model) for model in self.server.loaded()]
        loaded = next((model.get("context_length") for name, model in names if same_model(name, self._model)), None)
        return {"trained": trained, "configured": self.defaults.num_ctx, "loaded": loaded}

    def fingerprint(self) -> dict[str, Any]:
        """Return back end, name, digest of the model, version of the server; looked up once a minute."""
        facts = self._facts()
        return {
            "backend": "ollama",
            "name": self.name,
            "digest": facts["digest"],
            "server": f"ollama {facts['version']}",
        }

    def _facts(self) -> dict[str, Any]:
        """Return what `show` says, with digest and version.

        Raises:
            ModelNotFoundError: no server, or the model is not pulled.
        """
        if self._looked and time.monotonic() - self._looked[0] < _SECONDS_A_LOOK_HOLDS:
            return self._looked[1]
        models = [(str(model.get("name") or model.get("model")), model) for model in self.server.models()]
        found = next((model for name, model in models if same_model(name, self._model)), None)
        if found is None:
            raise self.server.not_pulled(self._model)
        facts = {**self.server.show(self._model), "digest": found.get("digest"), "version": self.server.version()}
        self._looked = (time.monotonic(), facts)
        return facts

    def check(self) -> None:
        """Raise now if the model cannot answer.

        Raises:
            ModelNotFoundError: no server, or the model is not pulled.
        """
        self._looked = None
        self._facts()

    def close(self) -> None:
        """Close the connections and forget what the server said; the server unloads by `keep_alive`."""
        server, self._open_server, self._looked = self._open_server, None, None
        if server is not None:
            server.close()


def to_ollama(message: ChatMessage) -> list[dict[str, Any]]:
    """Return a message in Ollama's wire form: arguments as an object, results under `tool_name`."""
    wires = to_openai(message)
    if message.role is ChatRole.TOOL:
        return [
            {
                "role": "tool",
                "content": wire["content"],
                "tool_name": wire["name"],
                "tool_call_id": wire["tool_call_id"],
            }
            for wire in wires
        ]
    if message.tool_calls:
        wires[0]["tool_calls"] = [
            {"id": call.id or "", "function": {"name": call.tool_name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return wires


@dataclass
class NativeAnswer:
    """Collect the pieces of one streamed answer of `/api/chat` or `/api/generate`.

    Attributes:
        turn: number of messages before the answer, for call ids.
        last: the closing piece, with counts and durations in nanoseconds.
    """

    turn: int = 0
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)

    def feed(self, piece: Mapping[str, Any]) -> Iterator[Chunk]:
        """Take one piece and yield what can be shown of it."""
        message = piece.get("message") or {}
        text = message.get("content") or piece.get("response") or ""
        thinking = message.get("thinking") or piece.get("thinking") or ""
        self._take_calls(message.get("tool_calls") or ())
        if piece.get("done"):
            self.last = {key: value for key, value in piece.items() if key not in ("message", "response", "context")}
        if text or thinking:
            self.text.append(text)
            self.thinking.append(thinking)
            yield Chunk(text, thinking)

    def _take_calls(self, calls: Sequence[Mapping[str, Any]]) -> None:
        for call in calls:
            function = call.get("function") or {}
            name, arguments = str(function.get("name") or ""), read_arguments(function.get("arguments"))
            if arguments is None:
                self.unreadable.append(f'{{"name": "{name}", "arguments": {function.get("arguments")}}}')
                continue
            made = call_id(self.turn, len(self.calls), name, arguments)  # Source: ollama#6708
            self.calls.append(ToolCall(name, arguments, call.get("id") or made))

    def reply(self, model: str, options: Options, seconds: float, raw_text: str, fault: Fault | None) -> Reply:
        """Return the whole answer."""
        text, thinking = "".join(self.text), "".join(self.thinking)
        if fault is None and not self.last:
            fault = Fault("server", "The answer broke off: its last piece is missing.")
        if fault is None and self.unreadable:
            fault = Fault("parse", f"The server gave a call that is no JSON: {self.unreadable[0][:200]}")
        finish = _finish(self.last.get("done_reason"), bool(self.calls), fault)
        load = (self.last.get("load_duration") or 0) / 1e9
        written = self.last.get("eval_count")
        limit = answer_limit(finish, text, bool(self.calls), thinking, written, options)
        whole = cut_at_stop(text, options.stop) + raw_text + "\n".join(self.unreadable)
        return Reply(
            whole, thinking, tuple(self.calls), finish, limit, self.last.get("prompt_eval_count"), None, written,
            max(0.0, seconds - load), load, model, fault,
        )  # fmt: skip


def _finish(done_reason: str | None, called: bool, fault: Fault | None) -> FinishReason:
    if fault and fault.kind != "parse":
        return "overflow" if fault.kind == "overflow" else "error"
    if done_reason == "length":
        return "length"
    return "tool_calls" if called else "stop"


def _thinking_notes(reply: Reply, options: Options, answer: NativeAnswer) -> list[str]:
    """Say where the server did otherwise than told (Source: ollama#13154, ollama#17588)."""
    notes = []
    if options.think is False and (reply.thinking or "<think>" in reply.text):
        notes.append("think=False was not honoured: the reply holds thinking")
    written = reply.completion_tokens or 0
    visible = len(reply.text) + len(reply.thinking) + sum(len(repr(call.arguments)) for call in reply.tool_calls)
    if written > 64 and written > 2 * visible and not answer.unreadable and not reply.fault:
        notes.append(f"{written} tokens were written but only {visible} characters came: hidden thinking?")
    return notes


def server_models(host: str | None = None) -> list[tuple[str, int | None, str]]:
    """Return name, bytes and description of each model that an Ollama server holds.

    Raises:
        ModelNotFoundError: no server there.
    """
    server = OllamaServer(host)
    try:
        return [
            (str(model.get("name") or model.get("model")), model.get("size"), _about(model))
            for model in server.models()
        ]
    except ServerError as error:
        raise ModelNotFoundError(f"The Ollama server at {server.host} does not list its models: {error}.") from None
    finally:
        server.close()


def _about(model: Mapping[str, Any]) -> str:
    details = model.get("details") or {}
    return " ".join(str(details[key]) for key in ("family", "parameter_size", "quantization_level") if details.get(key))
