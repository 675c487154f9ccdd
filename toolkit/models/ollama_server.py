"""Reach an Ollama server: what it holds, and who it is.

Not here: asking a model (`ollama`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.errors import ModelNotFoundError, closest
from toolkit.models.answers import ServerError
from toolkit.models.connection import Connection


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

        told = os.environ.get("OLLAMA_HOST", "")
        try:
            import ollama  # makes a client of its own for OLLAMA_HOST, and fails with it

            told = host or told
            client = ollama.Client(host)._client
        except (ValueError, httpx.InvalidURL) as error:
            told = _without_credentials(told)
            raise ModelNotFoundError(
                f"{told!r} is no address of an Ollama server ({error}). Set OLLAMA_HOST."
            ) from None
        self.host = _without_credentials(str(client.base_url)).rstrip("/")
        super().__init__(
            client,
            f"No Ollama server answers at {self.host}",
            "Start it with `ollama serve`, or set OLLAMA_HOST to where it runs. "
            "Without Ollama: load_model('embedded/smollm2-135m').",
        )

    def answer(self, route: str, body: Mapping[str, Any], idle_s: float) -> Iterator[dict[str, Any]]:
        """Yield the pieces of a streamed answer; a missing last one is a ServerError."""
        piece: dict[str, Any] = {}
        for line in self.lines(route, body, idle_s):
            if line.strip():
                piece = _piece(line)
                yield piece
        if not piece.get("done"):
            raise ServerError(0, "The answer broke off: its last piece is missing.")

    def look(self, route: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the server says about itself or a model; one that says nothing usable is not there."""
        try:
            return super().look(route, body)
        except TimeoutError as error:
            raise self.absent(error) from None
        except ServerError as error:
            raise error if error.status else self.absent(error) from None
        except ValueError:
            raise ModelNotFoundError(f"What answers at {self.host} is no Ollama server. Set OLLAMA_HOST.") from None

    def models(self, route: str = "/api/tags") -> dict[str, dict[str, Any]]:
        """Return name -> what the server says of each pulled model; of those in memory at `/api/ps`."""
        return {str(model.get("name") or model.get("model")): model for model in self.look(route).get("models") or ()}

    def not_pulled(self, name: str) -> ModelNotFoundError:
        """Return the error for a model that the server does not hold."""
        found = sorted(self.models())
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


def _piece(line: str) -> dict[str, Any]:
    try:
        piece = json.loads(line)
    except ValueError:
        raise ServerError(200, f"a line of the answer is no JSON: {line[:200]!r}") from None
    if not isinstance(piece, dict):
        raise ServerError(200, f"a line of the answer is no object: {line[:200]!r}")
    if piece.get("error"):
        raise ServerError.read(200, piece["error"])
    for key, value in piece.items():  # QUIRK ollama#11781: the message stands where the key should be
        if key.startswith("error"):
            raise ServerError(200, f"{key}: {value}")
    return piece


def _without_credentials(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
