"""Speak HTTP with a model server: stream the lines of an answer, look things up, say plainly when nobody answers.

Not here: what is sent and what comes back (`ollama`, `openai`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.errors import ModelNotFoundError
from toolkit.models.backend import ServerError

if TYPE_CHECKING:
    import httpx

_CONNECT_S = 5.0
_LOOK_S = 20.0


@dataclass
class Connection:
    """Hold the way to one server.

    A server that is not there is a ModelNotFoundError, one that gave an error a ServerError, and one from which
    nothing came for some seconds a TimeoutError (Source: ollama#2764).

    Attributes:
        client: knows the address and the headers.
        nobody: what to say where no server answers.
        way_out: what to do then.
        secret: a key that no error may show.
    """

    client: httpx.Client
    nobody: str
    way_out: str
    secret: str = ""

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def lines(self, route: str, body: Mapping[str, Any], idle_s: float) -> Iterator[str]:
        """Yield the lines of a streamed answer; closing it closes the connection, which stops the server."""
        waits = (_CONNECT_S, idle_s, idle_s, _CONNECT_S)
        with self._said_plainly(), self.client.stream("POST", route, json=sendable(body), timeout=waits) as response:
            if response.status_code >= 400:
                response.read()
                raise self._error(response)
            yield from response.iter_lines()

    def look(self, route: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the server says about itself or a model; ValueError where that is no JSON object."""
        with self._said_plainly():
            method = "GET" if body is None else "POST"
            response = self.client.request(method, route, json=body, timeout=(_CONNECT_S, _LOOK_S, _LOOK_S, _CONNECT_S))
        if response.status_code >= 400:
            raise self._error(response)
        return dict(response.json())

    def absent(self, error: Exception) -> ModelNotFoundError:
        """Return the error for a server that does not answer."""
        return ModelNotFoundError(f"{self.nobody} ({error or type(error).__name__}). {self.way_out}")

    def _error(self, response: httpx.Response) -> ServerError:
        text = response.content.decode(errors="replace")
        return ServerError.read(response.status_code, text.replace(self.secret, "***") if self.secret else text)

    @contextlib.contextmanager
    def _said_plainly(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            raise self.absent(error) from None
        except httpx.TimeoutException:
            raise TimeoutError from None
        except httpx.HTTPError as error:
            raise ServerError(0, f"the connection broke: {error}") from None


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
