"""Ask a model of any OpenAI-compatible server: llama.cpp's, vLLM, LM Studio.

Such servers set the context window themselves: `num_ctx` and `keep_alive` are not sent, and the reply's `raw`
says so.

Not here: the format (`wire`); Ollama, which is better asked natively (`ollama`).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from toolkit.errors import ModelNotFoundError, UserError, did_you_mean
from toolkit.models.base import ChatModel, Chunk, Fault, Options, Reply, request_messages
from toolkit.models.schemas import request_schema, with_schema_checked
from toolkit.models.window import WindowAudit
from toolkit.models.wire import (
    ServerError,
    StreamedAnswer,
    chat_body,
    response_format,
    sampling,
    sendable,
    sent_text,
    tool_specs,
)

if TYPE_CHECKING:
    import httpx

KEY_VARIABLES = ("TOOLKIT_OPENAI_API_KEY", "OPENAI_API_KEY")
_CONNECT_S = 5.0
_LOOK_S = 20.0
# what a server says about a model that stays the same from look to look
_LASTING = ("owned_by", "meta", "root", "max_model_len", "quantization", "arch")


class OpenAIModel(ChatModel):
    """Answer from an OpenAI-compatible server. Nothing is contacted before the first request.

    The key comes from the environment variable TOOLKIT_OPENAI_API_KEY, or else OPENAI_API_KEY; it is sent to
    this server only and never shown.

    Args:
        name: `NAME@URL`, such as `qwen3@http://127.0.0.1:8080/v1`.
        defaults: options of a request that sets none.

    Raises:
        ModelNotFoundError: the name has no URL.
    """

    supports_tools = True

    def __init__(self, name: str, defaults: Options | None = None) -> None:
        model, at, url = name.partition("@http")
        if not at or not model:
            raise ModelNotFoundError(
                f"'openai/{name}' names no server. Write 'openai/NAME@URL', such as 'openai/qwen3@http://127.0.0.1:8080/v1'."
            )
        self._model = model
        self._url = f"http{url}".rstrip("/")
        self._shown_url = re.sub(r"//[^/@]*@", "//", self._url)  # a password has no place in names and errors
        self.name = f"openai/{model}@{self._shown_url}"
        self.defaults = defaults or Options()
        self.audit = WindowAudit()
        self._client: httpx.Client | None = None
        self._facts: dict[str, Any] | None = None

    def stream(
        self,
        messages: Any,
        *,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        tool_choice: str | None = None,
    ) -> Iterator[Chunk]:
        """Yield the reply piece by piece; closing the stream closes the connection, which stops the server."""
        said, specs = request_messages(messages), tool_specs(tools)
        settings, held_to = Options.of(options, self.defaults), request_schema(schema)
        body = {"model": self._model, **chat_body(said, specs, held_to, settings, tool_choice)}
        return self._answer("/chat/completions", body, settings, held_to, len(said))

    def complete_stream(self, prompt: str, *, schema: Any = None, options: Any = None) -> Iterator[Chunk]:
        """Yield the continuation of a raw prompt piece by piece."""
        settings, held_to = Options.of(options, self.defaults), request_schema(schema)
        body = {"model": self._model, "prompt": prompt, **sampling(settings), "stream": True}
        body["stream_options"] = {"include_usage": True}
        if held_to is not None:  # vLLM reads the first, llama.cpp the second
            body |= {"response_format": response_format(held_to), "json_schema": held_to}
        return self._answer("/completions", body, settings, held_to, 0)

    def _answer(self, route: str, body: dict[str, Any], options: Options, schema: Any, turn: int) -> Iterator[Chunk]:
        answer, fault = StreamedAnswer(turn), None
        started = time.perf_counter()
        try:
            for piece in self._pieces(route, body, options.timeout_s):
                yield from answer.feed(piece)
        except TimeoutError:
            fault = Fault("timeout", f"No token came for {options.timeout_s:g} s (timeout_s).")
        except ServerError as error:
            answer.error = {"message": self._hide_key(error.said), "type": str(error.status)}
        reply = answer.reply(self.name, options, time.perf_counter() - started)
        if fault:
            reply = reply.replace(fault=fault, finish_reason="error")
        reply = self._audited(reply, body)
        unsent = [name for name in ("num_ctx", "keep_alive") if getattr(options, name) is not None]
        notes = [f"not sent, for the server sets it: {', '.join(unsent)}"]
        reply = reply.replace(raw={"request": body, "timings": answer.timings, "notes": notes})
        yield Chunk(reply=with_schema_checked(reply, schema))

    def _audited(self, reply: Reply, body: Mapping[str, Any]) -> Reply:
        cut = (
            ""
            if reply.fault
            else self.audit.cut(sent_text(body), reply.prompt_tokens, None, str(body.get("tools", "")))
        )
        if not cut:
            return reply
        fault = Fault(
            "overflow", f"The prompt was silently cut: {cut}. Shorten it, or give the server a larger window."
        )
        return reply.replace(fault=fault, finish_reason="overflow")

    def _pieces(self, route: str, body: Mapping[str, Any], idle_s: float) -> Iterator[dict[str, Any]]:
        import httpx

        timeout = httpx.Timeout(idle_s, connect=_CONNECT_S)
        try:
            with self._http().stream("POST", self._url + route, json=sendable(body), timeout=timeout) as response:
                if response.status_code >= 400:
                    raise self._refused(response.status_code, response.read().decode(errors="replace"))
                yield from _events(response.iter_lines())
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            raise self._absent(error) from None
        except httpx.TimeoutException:
            raise TimeoutError from None
        except httpx.HTTPError as error:
            raise ServerError(200, f"the connection broke: {error}") from None

    def _http(self) -> httpx.Client:
        if self._client is None:
            import httpx

            key = _key()
            self._client = httpx.Client(headers={"Authorization": f"Bearer {key}"} if key else {})
        return self._client

    def _refused(self, status: int, text: str) -> Exception:
        """Return the error that an HTTP status means: the user's to mend, or the server's fault."""
        said = _error_text(text)
        if status in (401, 403):
            return UserError(
                f"{self._shown_url} refuses the key (HTTP {status}). Set {KEY_VARIABLES[0]} to the key of this server."
            )
        if status == 404:
            found = self._models()
            near = did_you_mean(self._model, found) if found else f"It says: {said[:200]}."
            return ModelNotFoundError(f"{self._shown_url} has no model {self._model!r}. {near}")
        return ServerError(status, said)

    def _absent(self, error: Exception) -> ModelNotFoundError:
        return ModelNotFoundError(
            f"No server answers at {self._shown_url} ({error or type(error).__name__}). "
            "Start it, or mend the URL after the @."
        )

    def _hide_key(self, text: str) -> str:
        key = _key()
        return text.replace(key, "***") if key else text

    def _look(self, route: str) -> dict[str, Any]:
        """Return what the server says at a route, or nothing where it has no such route."""
        import httpx

        try:
            response = self._http().get(self._url + route, timeout=httpx.Timeout(_LOOK_S, connect=_CONNECT_S))
            found = response.json() if response.status_code < 400 else {}
            return found if isinstance(found, dict) else {}
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            raise self._absent(error) from None
        except (httpx.HTTPError, ValueError):
            return {}

    def _models(self) -> list[str]:
        return [str(model.get("id")) for model in self._look("/models").get("data") or ()]

    def fingerprint(self) -> dict[str, Any]:
        """Return back end, name, and what the server says about the model; such servers give no digest."""
        if self._facts is None:
            models = self._look("/models").get("data") or []
            found: dict[str, Any] = next((model for model in models if model.get("id") == self._model), {})
            self._facts = {key: found[key] for key in _LASTING if found.get(key) is not None}
        return {"backend": "openai", "name": self.name, **self._facts}

    def check(self) -> None:
        """Raise now if no server answers, or if it lists its models and this one is not among them.

        Raises:
            ModelNotFoundError: either.
        """
        found = self._models()
        # llama.cpp serves one model under any name
        if len(found) > 1 and self._model not in found:
            raise ModelNotFoundError(
                f"{self._shown_url} has no model {self._model!r}. {did_you_mean(self._model, found)}"
            )

    def close(self) -> None:
        """Close the connections."""
        client, self._client, self._facts = self._client, None, None
        if client is not None:
            client.close()


def _key() -> str:
    return next((key for name in KEY_VARIABLES if (key := os.environ.get(name))), "")


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON of server-sent events, up to `[DONE]`."""
    for line in lines:
        name, _, data = line.partition(":")
        data = data.strip()
        if name not in ("data", "error") or not data:
            continue
        if data == "[DONE]":
            return
        try:
            piece = json.loads(data)
        except ValueError:
            raise ServerError(200, f"an event is no JSON: {data[:200]!r}") from None
        yield piece if name == "data" else {"error": piece}


def _error_text(body: str) -> str:
    try:
        error = json.loads(body)
    except ValueError:
        return body[:500]
    inner = error.get("error", error) if isinstance(error, dict) else error
    if isinstance(inner, dict):
        said = str(inner.get("message") or inner.get("detail") or inner)
        return f"{inner['type']}: {said}" if inner.get("type") else said
    return str(inner)
