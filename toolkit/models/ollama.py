"""Ask a model of an Ollama server, through its native API.

Never its `/v1` route: only the native one takes `num_ctx`, `think`, `format` and raw mode and gives token
counts and load times (Source: ollama#17911).

Not here: the road of a request (`backend`), HTTP (`connection`), the notice of a cut prompt (`window`).
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any

from toolkit.errors import ConfigError, ModelNotFoundError, ServerGoneError, ToolkitError, UserError, closest
from toolkit.messages import ChatMessage, ChatRole, to_openai, to_wire
from toolkit.models.backend import Answer, Backend
from toolkit.models.base import ChatRequest, Chunk, Options, Reply
from toolkit.models.connection import Connection, public_name
from toolkit.models.hosts import client_settings, ollama_address
from toolkit.models.options import LOADING, SAMPLING
from toolkit.models.patterns import for_grammar
from toolkit.models.schemas import inlined
from toolkit.models.window import WindowAudit
from toolkit.models.wire import ServerError, checked, count, part, parts, seconds
from toolkit.secrets import Mask, header_text, scrub
from toolkit.traces.json_text import loads

# what Ollama takes where neither request nor Modelfile says anything
_PLAIN = {"top_k": 40, "top_p": 0.9, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0, "repeat_last_n": 64,
          "presence_penalty": 0.0, "frequency_penalty": 0.0}  # fmt: skip
_STOP = re.compile(r'^stop\s+("(?:[^"\\]|\\.)*")', re.MULTILINE)
_SECONDS_A_LOOK_HOLDS = 60.0
_KEY = "OLLAMA_API_KEY"  # which the official client sends


class OllamaAnswer(Answer):
    """Collect the pieces of `/api/chat` or `/api/generate`."""

    def feed(self, piece: Mapping[str, Any]) -> Iterator[Chunk]:
        """Take one piece and yield what can be shown of it."""
        message = part(piece, "message", dict)
        for call in parts(message, "tool_calls"):
            self.add_call(len(self.calls), call, apart=True)
        if piece.get("done") or piece.get("done_reason"):  # the latter alone is an end too (Source: ollama-vscode#61)
            self._count(piece)
            self.ended = True
        text = part(message, "content", str) or part(piece, "response", str)
        yield from self.say(text, part(message, "thinking", str) or part(piece, "thinking", str))
        if self.finish in ("load", "unload") and not (any(self.text) or any(self.thinking) or self.calls):
            raise ServerError(200, f"the server only did {self.finish} the model, and wrote nothing")

    def _count(self, piece: Mapping[str, Any]) -> None:
        self.closing = {key: value for key, value in piece.items() if key not in ("message", "response", "context")}
        self.finish = part(piece, "done_reason", str)
        self.counts = {
            "prompt_tokens": count(piece, "prompt_eval_count"),
            "completion_tokens": count(piece, "eval_count"),
            "cached_tokens": count(piece, "prompt_eval_cached_count"),  # Source: ollama#17943
            "load_seconds": seconds(piece, "load_duration") / 1e9,  # nanoseconds
        }
        for name, key in (("prompt_seconds", "prompt_eval_duration"), ("write_seconds", "eval_duration")):
            if key in piece:
                self.counts[name] = seconds(piece, key) / 1e9


class OllamaModel(Backend):
    """Answer from an Ollama server. Nothing is contacted before the first request.

    Args:
        name: such as `qwen3:4b`.
        host: where the server is; the environment variable OLLAMA_HOST if None.
        defaults: options of a request that sets none.
    """

    collects = OllamaAnswer
    audit: WindowAudit

    def __init__(self, name: str, host: str | None = None, defaults: Options | None = None) -> None:
        self.name = f"ollama/{name}"
        self.defaults = defaults or Options()
        self.audit = WindowAudit()
        self._model = name
        self._host = host
        self._open_server: OllamaServer | None = None
        self._looked: tuple[float, dict[str, Any]] | None = None
        self._last_loading: dict[str, Any] = {}

    @property
    def server(self) -> OllamaServer:
        """Return the connection to the server."""
        if self._open_server is None:
            self._open_server = OllamaServer(self._host)
            self.mask = self._open_server.mask
        return self._open_server

    def body(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        """Return the route and the body; sampling sits in `options`, at top level it is ignored (Source: ollama#5274).

        `tool_choice` is not sent: Ollama accepts and ignores it (Source: ollama#11171, ollama#17921).
        """
        options = request.options
        told = (*SAMPLING, *LOADING, "num_predict", "num_keep")
        inner = _PLAIN | {name: value for name in told if (value := getattr(options, name)) is not None}
        if options.stop:  # a list of one's own takes the place of the Modelfile's (Source: ollama#4524)
            inner["stop"] = list(dict.fromkeys([*options.stop, *self._stops()]))
        # never cut or slide in silence; always both, for another `shift` loads the model anew (Source: ollama#3839)
        body = {"model": self._model, "stream": True, "truncate": False, "shift": False, "options": inner}
        held = None if request.schema is None else for_grammar(request.schema)
        optional = {"format": held, "think": request.think, "keep_alive": options.keep_alive}
        body |= {name: value for name, value in optional.items() if value is not None}
        if request.prompt is not None:
            return "/api/generate", body | {"prompt": request.prompt, "raw": True}
        body["messages"] = to_wire(request.messages, to_ollama)
        if request.tools:
            body["tools"] = list(map(_shown, request.tool_specs))
        return "/api/chat", body

    def pieces(self, route: str, body: dict[str, Any], options: Options) -> Iterator[dict[str, Any]]:
        """Send a body and yield the pieces of the answer."""
        return self.server.answer(route, body, options.timeout_s)

    def judged(self, reply: Reply, body: dict[str, Any]) -> Reply:
        """Return the reply; of a server too old to refuse a long prompt, with a fault if it seems to have cut it."""
        asked, trained = body["options"]["num_ctx"], None
        if self._looked:  # not looked up for this alone
            trained = self._trained()
        judged = self.audit.judged(reply, body, min(asked, trained or asked))
        return reply if judged is reply or self.server.refuses else judged

    def gone(self) -> ServerGoneError | None:
        """Return, within a sweep, that the server has gone away."""
        return self.server.gone()

    def mistake(self, error: ServerError) -> UserError | None:
        """Return what the user has to mend: the model is not pulled, or the server refuses."""
        if found := self.server.mistake(error):
            return found
        return self.server.not_pulled(self._model) if error.status == 404 else None

    def notes(self, request: ChatRequest, reply: Reply) -> list[str]:
        """Say where the server did, or will do, otherwise than asked (Source: ollama#13154, ollama#17588)."""
        options, notes = request.options, []
        if request.tool_choice:
            notes.append(f"tool_choice={request.tool_choice!r} was not sent: Ollama ignores it")
        loading = {name: getattr(options, name) for name in LOADING}
        for name, before in self._last_loading.items():
            if before != loading[name]:
                notes.append(f"{name} changed from {before} to {loading[name]}: Ollama loads the model again")
        self._last_loading = loading
        if options.think is False and (reply.thinking or "<think>" in reply.text):
            notes.append("think=False was not honoured: the reply holds thinking")
        return notes

    @property
    def supports_tools(self) -> bool:  # type: ignore[override]
        """Tell whether the model takes `tools=`; an old server does not say, then its template does."""
        shown = self._facts()
        if shown.get("capabilities") is not None:  # Source: ollama-python#494
            return "tools" in part(shown, "capabilities", list)
        return ".Tools" in part(shown, "template", str)

    def check_request(self, request: ChatRequest) -> None:
        """Raise ConfigError if the model cannot do what a request asks: tools, thinking, schema, window."""
        can = self._facts().get("capabilities")
        if request.think and can is not None and "thinking" not in can:
            raise ConfigError(f"Model {self.name!r} cannot think. Leave the option think unset, or set it to False.")
        trained, asked = self._trained(), request.options.num_ctx
        if trained and asked > trained and asked != Options.num_ctx:  # the default is for any model, and lowered
            raise ConfigError(
                f"num_ctx={asked} is more than {self.name!r} was trained for. Set num_ctx to {trained} or less."
            )
        super().check_request(request)

    def contexts(self) -> dict[str, int | None]:
        """Return three windows in tokens: `trained`, `configured` (what requests ask for), `loaded`.

        None where the server does not say (Source: ollama#2732, ollama-python#538).
        """
        loaded = self._mine(self.server.models("/api/ps")) or {}
        return {"trained": self._trained(), "configured": self.defaults.num_ctx, "loaded": loaded.get("context_length")}

    def _stops(self) -> list[str]:
        """Return the stop strings of the Modelfile."""
        return [str(loads(word)) for word in _STOP.findall(part(self._facts(), "parameters", str))]

    def _trained(self) -> int | None:
        info = part(self._facts(), "model_info", dict)
        return next((count(info, key) for key in info if key.endswith(".context_length")), None)

    def fingerprint(self) -> dict[str, Any]:
        """Return back end, name, digest of the model, version of the server; looked up once a minute."""
        facts = self._facts()
        return {"backend": "ollama", "name": self.name, "digest": facts["digest"], "server": facts["server"]}

    def _facts(self) -> dict[str, Any]:
        """Return what `show` says, with the digest and the server's version."""
        if self._looked and time.monotonic() - self._looked[0] < _SECONDS_A_LOOK_HOLDS:
            return self._looked[1]
        found = self._mine(self.server.models())
        if found is None:
            raise self.server.not_pulled(self._model)
        shown = self.server.look("/api/show", {"model": self._model})
        version = part(self.server.look("/api/version"), "version", str) or "unknown"
        facts = {**shown, "digest": found.get("digest"), "server": f"ollama {version}"}
        self._looked = (time.monotonic(), facts)
        return facts

    def _mine(self, models: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
        return next((facts for name, facts in models.items() if same_model(name, self._model)), None)

    def check(self) -> None:
        """Raise ModelNotFoundError now if there is no server, or the model is not pulled."""
        self._looked = None
        self._facts()

    def close(self) -> None:
        """Close the connections and forget what the server said; the server unloads by `keep_alive`."""
        server, self._open_server, self._looked = self._open_server, None, None
        if server is not None:
            server.close()


def _shown(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as Ollama shows it whole: it drops references, and refuses some patterns within lists."""
    function = spec["function"]
    parameters = for_grammar(function.get("parameters") or {}, "drop")
    if '"$ref"' in json.dumps(parameters, default=str):
        parameters = inlined(parameters)
    return {**spec, "function": {**function, "parameters": parameters}}


def to_ollama(message: ChatMessage) -> list[dict[str, Any]]:
    """Return a message in Ollama's wire form: arguments as an object, results under `tool_name`."""
    wires = to_openai(message)
    if message.role is ChatRole.TOOL:
        for wire in wires:
            wire["tool_name"] = wire.pop("name")
    if message.images:
        wires[0]["content"] = "\n".join(message.texts)
        wires[0]["images"] = [image.base64_image for image in message.images]
    if "reasoning_content" in wires[0]:
        wires[0]["thinking"] = wires[0].pop("reasoning_content")
    if message.tool_calls:
        wires[0]["tool_calls"] = [
            {"id": call.id or "", "function": {"name": call.tool_name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return wires


class OllamaServer(Connection):
    """Speak to one Ollama server through the official client.

    Host, headers and the looks at the server are the client's. The two generating requests go through its
    connection with a body of our own: its `Tool` model drops nested properties, defaults and bounds, its
    `Message` drops call ids and refuses arguments sent as text. QUIRK ollama-python#718, ollama#6155.

    Args:
        host: such as `127.0.0.1:11434`; the environment variable OLLAMA_HOST if None.
    """

    def __init__(self, host: str | None = None) -> None:
        import httpx

        key = os.environ.get(_KEY, "")
        headers = {"authorization": f"Bearer {header_text(key, f'The key in {_KEY}')}"} if key else {}
        told = host or os.environ.get("OLLAMA_HOST", "")
        try:
            ollama = _imported()
            url, who = ollama_address(told)
            # what is asked is for this server only, so no redirect is followed
            settings = {**client_settings(url), "headers": {} if who else headers, "auth": who}
            client = ollama.Client(url or "127.0.0.1", follow_redirects=False, **settings)._client
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            told = public_name(told)
            raise ModelNotFoundError(
                f"{told!r} is no address of an Ollama server ({scrub(str(error))}). Set OLLAMA_HOST."
            ) from None
        if who:  # which the client would overwrite with a key of the environment
            client.headers.pop("authorization", None)
        self.host = public_name(str(client.base_url)).rstrip("/")
        super().__init__(
            client,
            f"No Ollama server answers at {self.host}",
            "Start it with `ollama serve`, or set OLLAMA_HOST to where it runs. "
            "Without Ollama: load_model('embedded/smollm2-135m').",
            Mask([key, *(who or ())[1:]]),
        )

    def answer(self, route: str, body: Mapping[str, Any], idle_s: float) -> Iterator[dict[str, Any]]:
        """Yield the pieces of a streamed answer, or the one of an answer in one piece, over some lines."""
        lines = filter(str.strip, self.lines(route, body, idle_s))
        first = next(lines, "")
        if first.strip() == "{":
            first = "\n".join([first, *lines])
        for line in chain([first] if first else [], lines):
            yield _piece(line)

    def look(self, route: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the server says about itself or a model; one that says nothing usable is not there."""
        try:
            return super().look(route, body)
        except TimeoutError as error:
            raise self.absent(error) from None
        except ServerError as error:
            raise self.mistake(error) or (error if error.status else self.absent(error)) from None
        except ValueError:
            raise self._no_ollama() from None

    def _no_ollama(self) -> ModelNotFoundError:
        return ModelNotFoundError(f"What answers at {self.host} is no Ollama server. Set OLLAMA_HOST.")

    def mistake(self, error: ServerError) -> UserError | None:
        """Return what the user has to mend at the server's door."""
        if error.status == 404 and "page not found" in error.said:
            return self._no_ollama()
        if error.status not in (401, 403, 407):
            return None
        return UserError(
            f"{self.host} refuses ({error}). Set {_KEY} to its key, or write http://USER:PASSWORD@HOST. For a model of "
            "the cloud, run `ollama signin`. A server on loopback answers to no other host name."
        )

    @cached_property
    def refuses(self) -> bool:
        """Tell whether the server refuses a prompt that is too long, as it is asked to; an old one ignores that.

        One that knows the field says so of a value that is neither true nor false, before it looks for a model.
        """
        try:
            self.look("/api/chat", {"model": "", "truncate": "?"})
        except ServerError as error:
            return "truncate" in error.said
        except ToolkitError:
            pass
        return True  # nothing can be said

    def models(self, route: str = "/api/tags") -> dict[str, dict[str, Any]]:
        """Return name -> what the server says of each pulled model; of those in memory at `/api/ps`."""
        listed = parts(self.look(route), "models")
        return {part(model, "name", str) or part(model, "model", str): model for model in listed}

    def not_pulled(self, name: str) -> ModelNotFoundError:
        """Return the error for a model that the server does not hold."""
        found = sorted(self.models())
        near = closest(name, found, n=1)
        hint = f"Did you mean 'ollama/{near[0]}'? " if near else ""
        return ModelNotFoundError(
            f"Model {name!r} is not on {self.host}. {hint}Pull it: `ollama pull {name}`. "
            f"Found: {', '.join(found) or 'none'}."
        )


def _imported() -> Any:
    """Import the official client, which makes a client of its own for OLLAMA_HOST, and fails with that.

    QUIRK ollama-python#424: it fails with a proxy of the environment that it does not know, too.
    """
    proxies = [name for name in os.environ if name.casefold() in ("http_proxy", "https_proxy", "all_proxy")]
    kept = {name: os.environ.pop(name) for name in proxies if "ollama" not in sys.modules}
    try:
        import ollama
    finally:
        os.environ.update(kept)
    return ollama


def same_model(one: str, other: str) -> bool:
    """Tell whether two names mean one model; `:latest` may be left out, and where the library is.

    >>> same_model("qwen3", "qwen3:latest")
    True
    """

    def full(name: str) -> str:
        name = name.removeprefix("registry.ollama.ai/").removeprefix("library/")
        return (name if ":" in name.rpartition("/")[2] else f"{name}:latest").casefold()

    return full(one) == full(other)


def _piece(line: str) -> dict[str, Any]:
    try:
        piece = checked(loads(line), dict, "a line")
    except ValueError as error:
        raise ServerError(200, f"a line of the answer is no JSON ({error}): {line[:200]!r}") from None
    if piece.get("error"):
        raise ServerError.read(200, piece["error"])
    for key, value in piece.items():  # QUIRK ollama#11781: the message stands where the key should be
        if key.startswith("error"):
            raise ServerError(200, f"{key}: {value}")
    return piece
