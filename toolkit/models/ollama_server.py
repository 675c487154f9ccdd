"""Reach an Ollama server: what it holds, who it is, and what its errors mean.

Not here: asking a model (`ollama`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.errors import ModelNotFoundError, closest
from toolkit.models.base import Fault
from toolkit.models.wire import ServerError, is_overflow, sendable

_CONNECT_S = 5.0
_LOOK_S = 20.0


class OllamaServer:
    """Speak to one Ollama server through the official client.

    Host, headers and the looks at the server are the client's. The two generating requests go through its
    connection with a body of our own: its `Tool` model drops nested properties, defaults and bounds, its
    `Message` drops call ids and refuses arguments sent as text. QUIRK ollama-python#718, ollama#6155.

    Args:
        host: such as `127.0.0.1:11434`; the environment variable OLLAMA_HOST if None.
    """

    def __init__(self, host: str | None = None) -> None:
        import httpx

        told = os.environ.get("OLLAMA_HOST", "")
        try:
            import ollama  # makes a client of its own for OLLAMA_HOST, and fails with it

            told = host or told
            self._client = ollama.Client(host)
        except (ValueError, httpx.InvalidURL) as error:
            told = _without_credentials(told)
            raise ModelNotFoundError(
                f"{told!r} is no address of an Ollama server ({error}). Set OLLAMA_HOST."
            ) from None
        self.host = _without_credentials(str(self._client._client.base_url)).rstrip("/")

    def close(self) -> None:
        """Close the connections."""
        self._client._client.close()

    def answer(self, route: str, body: Mapping[str, Any], idle_s: float) -> Iterator[dict[str, Any]]:
        """Yield the pieces of a streamed answer; closing it closes the connection, which stops the server.

        Raises:
            ModelNotFoundError: no server there.
            TimeoutError: nothing came for `idle_s` seconds (Source: ollama#2764).
            ServerError: the server gave an error.
        """
        import httpx

        timeout = httpx.Timeout(idle_s, connect=_CONNECT_S)
        try:
            with self._client._client.stream("POST", route, json=sendable(body), timeout=timeout) as response:
                if response.status_code >= 400:
                    raise ServerError(response.status_code, _error_text(response.read().decode(errors="replace")))
                for line in response.iter_lines():
                    if line.strip():
                        yield _piece(line)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            raise self._absent(error) from None
        except httpx.TimeoutException:
            raise TimeoutError from None
        except httpx.HTTPError as error:
            raise ServerError(200, f"the connection broke: {error}") from None

    def look(self, route: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the server says about itself or a model.

        Raises:
            ModelNotFoundError: no server there, or no such model.
            ServerError: it gave an error.
        """
        import httpx

        try:
            response = self._client._client.request(
                "GET" if body is None else "POST", route, json=body, timeout=httpx.Timeout(_LOOK_S, connect=_CONNECT_S)
            )
        except httpx.HTTPError as error:
            raise self._absent(error) from None
        if response.status_code >= 400:
            raise ServerError(response.status_code, _error_text(response.text))
        try:
            return dict(response.json())
        except ValueError:
            raise ModelNotFoundError(f"What answers at {self.host} is no Ollama server. Set OLLAMA_HOST.") from None

    def _absent(self, error: Exception) -> ModelNotFoundError:
        return ModelNotFoundError(
            f"No Ollama server answers at {self.host} ({error or type(error).__name__}). Start it with `ollama serve`, "
            "or set OLLAMA_HOST to where it runs. Without Ollama: load_model('embedded/smollm2-135m')."
        )

    def models(self) -> list[dict[str, Any]]:
        """Return the pulled models: name, digest, size, details."""
        return list(self.look("/api/tags").get("models") or ())

    def version(self) -> str:
        """Return the server's version."""
        return str(self.look("/api/version").get("version") or "unknown")

    def show(self, name: str) -> dict[str, Any]:
        """Return template, capabilities, parameters and model_info of a model.

        Raises:
            ModelNotFoundError: it is not pulled.
        """
        try:
            return self.look("/api/show", {"model": name})
        except ServerError as error:
            raise self.not_pulled(name) if error.status == 404 else error from None

    def loaded(self) -> list[dict[str, Any]]:
        """Return the models in memory, with `context_length` where the server is new enough to say."""
        return list(self.look("/api/ps").get("models") or ())

    def not_pulled(self, name: str) -> ModelNotFoundError:
        """Return the error for a model that the server does not hold."""
        found = sorted(str(model.get("name") or model.get("model")) for model in self.models())
        near = closest(name, found, n=1)
        hint = f"Did you mean 'ollama/{near[0]}'? " if near else ""
        return ModelNotFoundError(
            f"Model {name!r} is not on {self.host}. {hint}Pull it: `ollama pull {name}`. "
            f"Found: {', '.join(found) or 'none'}."
        )


def same_model(one: str, other: str) -> bool:
    """Tell whether two names mean one model; `:latest` may be left out.

    >>> same_model("qwen3", "qwen3:latest")
    True
    """

    def full(name: str) -> str:
        return (name if ":" in name.rpartition("/")[2] else f"{name}:latest").casefold()

    return full(one) == full(other)


def fault_of(error: ServerError) -> tuple[Fault, str]:
    r"""Return the fault that an error of the server means, and the model's raw text if the error holds it.

    >>> fault_of(ServerError(500, "error parsing tool call: raw='{\"a\": 1', err=unexpected end"))[1]
    '{"a": 1'
    """
    if "parsing tool call" in error.said or "parsing tool_call" in error.said:  # QUIRK ollama#12064, ollama#17638
        raw = re.search(r"raw='(.*)', err=", error.said, re.DOTALL)
        return Fault("parse", error.said), raw.group(1) if raw else ""
    if "does not support tools" in error.said:
        return Fault("tools_unsupported", f"{error.said}; use the prompted or constrained arm."), ""
    if error.status in (400, 413, 500, 200) and is_overflow(error.said):
        return Fault("overflow", error.said), ""
    return Fault("server", str(error)), ""


def _piece(line: str) -> dict[str, Any]:
    try:
        piece = json.loads(line)
    except ValueError:
        raise ServerError(200, f"a line of the answer is no JSON: {line[:200]!r}") from None
    if not isinstance(piece, dict):
        raise ServerError(200, f"a line of the answer is no object: {line[:200]!r}")
    if piece.get("error"):
        raise ServerError(200, _as_text(piece["error"]))
    for key, value in piece.items():  # QUIRK ollama#11781: the message stands where the key should be
        if key.startswith("error"):
            raise ServerError(200, f"{key}: {_as_text(value)}")
    return piece


def _error_text(body: str) -> str:
    try:
        error = json.loads(body).get("error", body)
    except (ValueError, AttributeError):
        error = body
    return _as_text(error)


def _as_text(error: Any) -> str:
    return error if isinstance(error, str) else json.dumps(error)


def _without_credentials(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
