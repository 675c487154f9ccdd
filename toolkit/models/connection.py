"""Speak HTTP with a model server: stream the lines of an answer, look things up, say plainly when nobody answers.

Credentials go out here and nowhere else: not in names, and not in what comes back.

Not here: what is sent and what comes back (`ollama`, `openai`).
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit.errors import ConfigError, ServerGoneError
from toolkit.models.abort import current
from toolkit.models.waiting import Traffic, Waiting, Watch, in_sweep, traffic_at
from toolkit.models.wire import ServerError
from toolkit.secrets import Mask, scrub
from toolkit.traces.json_text import loads

if TYPE_CHECKING:
    import httpx

_CONNECT_S = 5.0


@dataclass
class Connection:
    """Hold the way to one server.

    A server that is not there is a ServerGoneError, one that gave an error a ServerError, and one from which
    nothing came for some seconds a TimeoutError (Source: ollama#2764).

    Attributes:
        client: knows the address and the headers.
        nobody: what to say where no server answers.
        way_out: what to do then.
        mask: hides the credentials of the connection in whatever comes back over it.
        look_s: seconds after which a server that says nothing of itself is taken as not there.
        traffic: what this process has under way at the server.
    """

    client: httpx.Client
    nobody: str
    way_out: str
    mask: Mask = field(default_factory=Mask)
    look_s: float = 20.0
    traffic: Traffic = field(init=False)

    def __post_init__(self) -> None:
        self.traffic = traffic_at(str(self.client.base_url)) if self.client else Traffic()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def lines(self, route: str, body: Mapping[str, Any], idle_s: float) -> Iterator[str]:
        """Yield the lines of a streamed answer; closing it closes the connection, which stops the server."""
        waits = (_CONNECT_S, None, idle_s, _CONNECT_S)
        abort, way = current(), _Socket()
        seen, watch = {"trace": way.see}, Watch(way.shut, idle_s, self.traffic)
        try:
            with (
                self._said_plainly(),
                abort.breaking(way.shut),
                watch,
                self.client.stream("POST", route, json=sendable(body), timeout=waits, extensions=seen) as response,
            ):
                if response.status_code >= 300:
                    response.read()
                    raise self._error(response)
                for line in split_lines(response.iter_bytes()):
                    watch.sign()
                    yield self.mask(line.decode("utf-8", "replace"))  # as JSON is, whatever the header says
        except ServerError:
            if not watch.late:
                raise
        if watch.late:
            raise TimeoutError

    def gone(self) -> ServerGoneError | None:
        """Return, within a sweep, that nobody takes a connection any more: the server is then waited for."""
        if not in_sweep():
            return None
        url = self.client.base_url
        port = url.port or {"https": 443}.get(url.scheme, 80)
        try:
            socket.create_connection((url.host, port), timeout=_CONNECT_S).close()
        except OSError as error:
            return self.absent(error)
        return None

    def look(self, route: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the server says about itself or a model; ValueError where that is no JSON object."""
        waiting = Waiting()
        while True:
            try:
                return self._look(route, body)
            except (ServerGoneError, ServerError) as error:
                broken = isinstance(error, ServerError) and not error.status
                if not waiting.again(self.absent(error) if broken else error):
                    raise

    def _look(self, route: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        wait, connect = self.look_s, min(self.look_s, _CONNECT_S)
        with self._said_plainly():
            method = "GET" if body is None else "POST"
            response = self.client.request(method, route, json=body, timeout=(connect, wait, wait, connect))
        if response.status_code >= 300:
            raise self._error(response)
        said = self.mask(loads(response.content.decode("utf-8", "replace")))
        if not isinstance(said, dict):
            raise ValueError("it is no object")
        return said

    def absent(self, error: Exception) -> ServerGoneError:
        """Return the error for a server that does not answer."""
        return ServerGoneError(f"{self.nobody} ({self._hidden(error)}). {self.way_out}")

    def _hidden(self, said: str | Exception) -> str:
        """Return what a server or a library said, without credentials that we know or that look like some."""
        return str(scrub(self.mask(str(said) or type(said).__name__)))

    def _error(self, response: httpx.Response) -> ServerError:
        text = response.content.decode(errors="replace")
        if response.status_code < 400:
            to = response.headers.get("location", "elsewhere")
            text = f"it redirects to {to}; that is not followed. Name the address that answers"
        return ServerError.read(response.status_code, self._hidden(text))

    @contextlib.contextmanager
    def _said_plainly(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise self.absent(error) from None
        except httpx.TimeoutException:
            raise TimeoutError from None
        except httpx.HTTPError as error:
            raise ServerError(0, f"the connection broke: {self._hidden(error)}") from None


class _Socket:
    """Know what a request is sent over, to break it from another thread, which no client lets one do."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.broken = False

    def see(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of the stream; an extension of httpcore calls this."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self.stream = info["return_value"]
            if self.broken:
                self.shut()

    def shut(self) -> None:
        """End the stream in both directions, so that whoever waits for it sees its end."""
        self.broken = True
        raw = self.stream.get_extra_info("socket") if self.stream is not None else None
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.shutdown(socket.SHUT_RDWR)


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yield lines, which end in a line feed and in nothing else that Unicode takes for a line's end.

    >>> list(split_lines([b"a\xc2\x85b\r\nc", b"d\n", b"e"]))
    [b'a\xc2\x85b', b'cd', b'e']
    """
    pending: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pending.append(first)
        for line in others:
            yield b"".join(pending).removesuffix(b"\r")
            pending = [line]
    if last := b"".join(pending):
        yield last.removesuffix(b"\r")


def sendable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request as it can be sent: a model can write lone surrogates and NaN, JSON in UTF-8 cannot.

    >>> sendable({"prompt": chr(0xD83D) + "!"})
    {'prompt': '?!'}
    """
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        text.encode()
    except RecursionError:
        raise ConfigError("The request is nested too deep to be sent. Shorten its messages, tools or schema.") from None
    except ValueError:
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace").decode()
        return dict(json.loads(text, parse_constant=str))
    return dict(body)


_USER = re.compile(r"(?<=://)[^/@\s]*@")
_full_names: dict[str, str] = {}  # name of a model as it is shown -> as it was given, with the credentials in its URL


def public_name(name: str) -> str:
    """Return a model's name without credentials; this process keeps them, so that `load_model` takes either name.

    >>> public_name("openai/m@http://ann:s3cret@host/v1")
    'openai/m@http://host/v1'
    """
    shown = str(scrub(_USER.sub("", name)))
    if shown != name:
        _full_names[shown] = name
    return shown


def full_name(name: str) -> str:
    """Return a model's name as it was given, with its credentials where this process was told them."""
    return _full_names.get(name, name)
