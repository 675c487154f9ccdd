"""Ask a model of any OpenAI-compatible server (llama.cpp's, vLLM, LM Studio), and speak OpenAI's chat format.

Such servers set the context window themselves: `num_ctx` and `keep_alive` are not sent, and the reply's `raw`
says so. The in-process llama.cpp speaks the same format.

Not here: HTTP (`connection`); Ollama, which is better asked natively (`ollama`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from toolkit.errors import ModelNotFoundError, ServerGoneError, UserError, did_you_mean
from toolkit.messages import to_wire
from toolkit.models.backend import Answer, Backend
from toolkit.models.base import ChatRequest, Chunk, Options, Reply
from toolkit.models.connection import Connection, public_name
from toolkit.models.hosts import client_settings
from toolkit.models.options import LOADING, SAMPLING
from toolkit.models.patterns import for_grammar
from toolkit.models.window import WindowAudit
from toolkit.models.wire import ServerError, checked, count, part, parts, seconds
from toolkit.secrets import Mask, Secret, as_secret, header_text, scrub
from toolkit.traces.json_text import loads

KEY_VARIABLES = ("TOOLKIT_OPENAI_API_KEY", "OPENAI_API_KEY")
# what a server says about a model that stays the same from look to look
_LASTING = ("owned_by", "meta", "root", "max_model_len", "quantization", "arch")
_WORDS = {"num_keep": "n_keep"}  # an option -> llama.cpp's word for it
_UNSENT = (*LOADING, "keep_alive")
_OTHER_FORM = "other_form"
_SECONDS_A_LOOK_HOLDS = 5.0  # another model may be served at the same URL meanwhile
_SECONDS_NOTHING_HOLDS = 60.0
_STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def request_body(request: ChatRequest) -> dict[str, Any]:
    """Return the body of a streamed request, for a chat or a raw completion."""
    options, body = request.options, dict(_STREAMED)
    told = {name: getattr(options, name) for name in (*SAMPLING, *_WORDS)}
    body |= {_WORDS.get(name, name): value for name, value in told.items() if value is not None}
    body["max_tokens"] = options.num_predict
    if options.stop:
        body["stop"] = list(options.stop)
    if request.schema is not None:
        named = {"name": "reply", "strict": True, "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    if request.prompt is not None:
        # vLLM reads response_format here, llama.cpp this
        return {"prompt": request.prompt, **body, **({"json_schema": request.schema} if request.schema else {})}
    if request.tools:
        body["tools"] = request.tool_specs
        if request.tool_choice:
            named = {"type": "function", "function": {"name": request.tool_choice}}
            body["tool_choice"] = {"auto": "auto", "none": "none"}.get(request.tool_choice, named)
            if request.tool_choice in ("any", "required"):
                body["tool_choice"] = "required"
    if isinstance(request.think, bool):
        body["chat_template_kwargs"] = {"enable_thinking": request.think}
    elif request.think is not None:
        body["chat_template_kwargs"] = {"reasoning_effort": request.think}
    return {"messages": to_wire(request.messages), **body}


def for_llama_cpp(request: ChatRequest, hopeless: Literal["refuse", "keep", "drop"] = "refuse") -> ChatRequest:
    """Return a request in terms that llama.cpp holds: its grammar's patterns, and one tool for a choice by name."""
    if request.schema is not None:
        request = replace(request, schema=for_grammar(request.schema, hopeless))
    if request.tools and request.tool_choice not in (None, "auto", "none", "required", "any"):
        # it reads a tool's name as `auto`: offer that one alone and require a call
        only = [tool for tool in request.tools if tool.name == request.tool_choice]
        request = replace(request, tools=only, tool_choice="required")
    return request


class OpenAIAnswer(Answer):
    """Collect the pieces of a chat or a raw completion."""

    def feed(self, piece: Mapping[str, Any]) -> Iterator[Chunk]:
        """Take one piece and yield what can be shown of it."""
        if piece.get("error") or ("choices" not in piece and piece.keys() & {"message", "detail"}):
            raise ServerError.read(200, piece)
        if "choices" not in piece and "content" in piece and "stop" in piece:
            raise ServerError(200, "it answers in llama.cpp's own form", _OTHER_FORM)
        self._count(piece)
        for choice in parts(piece, "choices"):
            self.finish = part(choice, "finish_reason", str) or self.finish
            self.ended = self.ended or bool(self.finish)
            delta = part(choice, "delta", dict) or part(choice, "message", dict)
            for place, call in enumerate(parts(delta, "tool_calls")):
                index = count(call, "index")
                self.add_call(index, call, apart=index is None and place > 0)
            text = part(choice, "text", str) or part(delta, "content", str)
            yield from self.say(text, part(delta, "reasoning_content", str) or part(delta, "reasoning", str))

    def _count(self, piece: Mapping[str, Any]) -> None:
        """Note tokens, times and the end; what is none is left out, for an answer is an answer without them."""
        self.ended = self.ended or bool(piece.get("done"))
        if piece.get("system_fingerprint"):
            self.closing["system_fingerprint"] = piece["system_fingerprint"]
        if "load_seconds" in piece:  # in this process
            self.counts["load_seconds"] = seconds(piece, "load_seconds")
        if isinstance(usage := piece.get("usage"), dict):
            self.closing["usage"] = usage
            self.counts |= {name: count(usage, name) for name in ("prompt_tokens", "completion_tokens")}
            details = usage.get("prompt_tokens_details")
            if isinstance(details, dict) and "cached_tokens" in details:
                self.counts["cached_tokens"] = count(details, "cached_tokens")
        if isinstance(timings := piece.get("timings"), dict):
            self.closing["timings"] = timings
            self.counts.setdefault("cached_tokens", count(timings, "cache_n"))
            for name, key in (("prompt_seconds", "prompt_ms"), ("write_seconds", "predicted_ms")):
                if key in timings:
                    self.counts[name] = seconds(timings, key) / 1e3


class OpenAIModel(Backend):
    """Answer from an OpenAI-compatible server. Nothing is contacted before the first request.

    The key is the one given, or else comes from the environment variable TOOLKIT_OPENAI_API_KEY, or else
    OPENAI_API_KEY; it is sent to this server only and never shown.

    Args:
        name: `NAME@URL`, such as `qwen3@http://127.0.0.1:8080/v1`.
        defaults: options of a request that sets none.
        api_key: the key, as a Secret or text.

    Raises:
        ModelNotFoundError: the name has no URL.
    """

    collects = OpenAIAnswer
    audit: WindowAudit

    def __init__(self, name: str, defaults: Options | None = None, api_key: Secret | str | None = None) -> None:
        model, at, url = name.partition("@http")
        if not at or not model:
            raise ModelNotFoundError(
                f"'openai/{name}' names no server. Write 'openai/NAME@URL', such as 'openai/qwen3@http://127.0.0.1:8080/v1'."
            )
        self.name = public_name(f"openai/{name}")
        self._model, self._url = model, f"http{url}"
        self._shown_url = public_name(self._url)
        self.defaults = defaults or Options()
        self.audit = WindowAudit()
        self._key = as_secret(api_key)
        self._connection: Connection | None = None
        self._looked: dict[str, tuple[float, dict[str, Any]]] = {}  # route -> until when it holds, what was said

    def body(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        """Return the route and the body, in llama.cpp's terms where that is who serves."""
        route = "/chat/completions" if request.prompt is None else "/completions"
        named = request.tools and request.tool_choice not in (None, "auto", "none", "required", "any")
        held = request.schema is not None or '"pattern"' in json.dumps(request.tool_specs, default=str)
        if not (named or held) or not self._props():
            return route, {"model": self._model, **request_body(request)}
        body = request_body(for_llama_cpp(request))
        if "tools" in body:  # a pattern that its grammar does not hold makes it refuse all (Source: openclaw#113562)
            body["tools"] = for_grammar(body["tools"], "drop")
        return route, {"model": self._model, **body}

    def pieces(self, route: str, body: dict[str, Any], options: Options) -> Iterator[dict[str, Any]]:
        """Send a body and yield the pieces of the answer."""
        if body.get("tools") and not self.supports_tools:
            raise ServerError(0, f"The chat template of {self.name!r} does not support tools: it has no place for them")
        with self.connection.traffic.slot(lambda: self.slots):
            yield from _events(self.connection.lines(route, body, options.timeout_s))

    def again(self, error: ServerError) -> bool:
        """Tell whether to ask anew, and one at a time: llama.cpp's slots share one window, and filled it together."""
        self.connection.traffic.crowded |= error.crowded
        return error.crowded

    def gone(self) -> ServerGoneError | None:
        """Return, within a sweep, that the server has gone away."""
        return self.connection.gone()

    def mistake(self, error: ServerError) -> UserError | None:
        """Return what the user has to mend: the key, the URL, or the model's name."""
        if error.status in (401, 403):
            return UserError(
                f"{self._shown_url} refuses the key (HTTP {error.status}). "
                f"Set {KEY_VARIABLES[0]} to the key of this server."
            )
        if error.kind == _OTHER_FORM or (error.status == 404 and "model" not in error.said.casefold()):
            version = re.search(r"/v\d+\w*$", self._shown_url.split("?")[0].rstrip("/"))
            hint = "Mend the URL after the @." if version else f"End the URL in /v1: {self._shown_url.rstrip('/')}/v1"
            return ModelNotFoundError(f"{self._shown_url} speaks no OpenAI format ({error}). {hint}")
        if error.status == 404:
            found = self._models()
            near = did_you_mean(self._model, found) if found else f"It says: {error.said[:200]}."
            return self._unknown(near)
        return None

    def _unknown(self, near: str) -> ModelNotFoundError:
        return ModelNotFoundError(f"{self._shown_url} has no model {self._model!r}. {near}")

    def judged(self, reply: Reply, body: dict[str, Any]) -> Reply:
        """Return the reply, with a fault if the server seems to have cut the prompt; some are known never to do so."""
        if "prompt" in body and reply.raw["response"].get("system_fingerprint") == "fp_ollama":
            raise UserError(
                f"{self._shown_url} is an Ollama server, whose /v1 puts raw prompts into a chat template. "
                f"Load 'ollama/{self._model}' in its place."
            )
        judged = super().judged(reply, body)
        return reply if judged is reply or self._honest() else judged

    def _honest(self) -> bool:
        return bool(self._props()) or self._mine().get("owned_by") in ("vllm", "sglang")

    def notes(self, request: ChatRequest, reply: Reply) -> list[str]:
        """Say which options were not sent."""
        unsent = [name for name in _UNSENT if getattr(request.options, name) is not None]
        return [f"not sent, for the server sets it: {', '.join(unsent)}"]

    @property
    def supports_tools(self) -> bool:  # type: ignore[override]
        """Tell whether the model's template has a place for tools; llama.cpp drops them in silence if it has none."""
        caps = part(self._props(), "chat_template_caps", dict)
        return bool(caps.get("supports_tools", True))

    def contexts(self) -> dict[str, int | None]:
        """Return three windows in tokens, as `OllamaModel.contexts` does; the server alone configures them."""
        window = count(part(self._props(), "default_generation_settings", dict), "n_ctx")
        mine = self._mine()
        trained = count(part(mine, "meta", dict), "n_ctx_train") or count(mine, "max_model_len")
        return {"trained": trained, "configured": window, "loaded": window}

    @property
    def slots(self) -> int | None:
        """Return how many requests llama.cpp's server answers at once; None where another serves."""
        return count(self._props(), "total_slots")

    @property
    def connection(self) -> Connection:
        """Return the connection to the server."""
        if self._connection is None:
            import httpx

            variable = next((name for name in KEY_VARIABLES if os.environ.get(name)), "")
            given = os.environ.get(variable) if self._key is None else self._key.resolve_value()
            key = header_text(given, "The API key" if self._key else f"The key in {variable}") if given else ""
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            try:
                url = httpx.URL(self._url)
                client = httpx.Client(
                    base_url=url.copy_with(query=None), params=url.params, headers=headers, **client_settings(self._url)
                )
            except (ValueError, TypeError, httpx.InvalidURL) as error:
                raise ModelNotFoundError(
                    f"{self._shown_url!r} is no address of a server ({scrub(str(error))})."
                ) from None
            told = [value for name, value in url.params.multi_items() if scrub({name: value}) != {name: value}]
            self.mask = Mask([key, url.password, *told])
            nobody, way_out = f"No server answers at {self._shown_url}", "Start it, or mend the URL after the @."
            self._connection = Connection(client, nobody, way_out, self.mask)
        return self._connection

    def _look(self, route: str) -> dict[str, Any]:
        """Return what the server says at a route, or nothing where it has none; looked up every few seconds."""
        known = self._looked.get(route)
        if known and time.monotonic() < known[0]:
            return known[1]
        try:
            said, holds = self.connection.look(route), _SECONDS_A_LOOK_HOLDS
        except ServerError as error:
            said, holds = {}, 0.0 if error.busy else _SECONDS_NOTHING_HOLDS
        except (TimeoutError, ValueError):
            said, holds = {}, _SECONDS_NOTHING_HOLDS
        self._looked[route] = (time.monotonic() + holds, said)
        return said

    def _models(self) -> dict[str, dict[str, Any]]:
        return {part(model, "id", str): model for model in parts(self._look("/models"), "data")}

    def _mine(self) -> dict[str, Any]:
        """Return what the list says of the model; llama.cpp serves the only one under any name."""
        found = self._models()
        return found.get(self._model) or (next(iter(found.values())) if len(found) == 1 else {})

    def _props(self) -> dict[str, Any]:
        """Return what llama.cpp's server says of itself, or nothing where another serves."""
        said = self._look(self._props_url())
        return said if "default_generation_settings" in said else {}

    def _props_url(self) -> str:
        url = self.connection.client.base_url
        return str(url.copy_with(path=re.sub(r"/v\d+/?$", "", url.path).rstrip("/") + "/props"))

    def fingerprint(self) -> dict[str, Any]:
        """Return back end, name, and what the server says about the model; of llama.cpp's file, template and build."""
        found, props = self._mine(), self._props()
        facts = {key: found[key] for key in _LASTING if found.get(key) is not None}
        if props:
            settings = part(props, "default_generation_settings", dict)
            template = hashlib.sha256(str(props.get("chat_template")).encode()).hexdigest()[:16]
            facts |= {"file": props.get("model_path"), "template": template, "slots": props.get("total_slots")}
            facts |= {"window": settings.get("n_ctx"), "server": f"llama.cpp {props.get('build_info')}"}
        return {"backend": "openai", "name": self.name, **facts}

    def check(self) -> None:
        """Raise now if no server answers, it refuses the key, or it lists its models and this one is not among them."""
        self._looked.clear()
        try:
            self.connection.look("/models")
            self.connection.look(self._props_url())
        except ServerError as error:
            if error.status == 401 and (refused := self.mistake(error)):
                raise refused from None
        except (TimeoutError, ValueError):
            pass
        found = self._models()
        # llama.cpp serves one model under any name
        if len(found) > 1 and self._model not in found:
            raise self._unknown(did_you_mean(self._model, found))

    def close(self) -> None:
        """Close the connections."""
        connection, self._connection = self._connection, None
        self._looked.clear()
        if connection is not None:
            connection.close()


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON of server-sent events, up to `[DONE]`, or of a whole answer sent in their place."""
    others = []
    for line in lines:
        name, _, data = line.partition(":")
        data = data.strip()
        if data == "[DONE]":
            yield {"done": True}
            return
        if name not in ("data", "error"):
            others += [line] if line.strip() and name not in ("", "event", "id", "retry") else []
        elif data:
            try:
                piece = loads(data)
            except ValueError as error:
                raise ServerError(200, f"an event is no JSON ({error}): {data[:200]!r}") from None
            yield checked(piece, dict, "an event") if name == "data" else {"error": piece}
    if others:
        yield from _documents(others)


def _documents(lines: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON of an answer that is no event stream: one document, a list of some, or one a line."""
    try:
        found = loads("\n".join(lines))
    except ValueError:
        try:
            found = [loads(line) for line in lines]
        except ValueError:
            raise ServerError(200, f"it answered with no event stream: {lines[0][:200]!r}") from None
    for document in found if isinstance(found, list) else [found]:
        piece = checked(document, dict, "a document")
        choices = parts(piece, "choices")
        if not choices and "error" not in piece:
            raise ServerError.read(200, piece)
        yield piece
        if not any("finish_reason" in choice for choice in choices):  # it does not say, and is whole
            yield {"done": True}
