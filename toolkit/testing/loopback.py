"""Answer HTTP on a loopback port from threads, as slowly, and as badly, as a test wants.

Python's own server does the reading; this adds streams in chunks, connections that break, clients that leave,
and a server that goes away and comes back at the same address.

Not here: what is answered (`ollama`, `llama_server`).
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON, JSON_UTF8, NDJSON, EVENTS = (
    "application/json", "application/json; charset=utf-8", "application/x-ndjson", "text/event-stream"
)  # fmt: skip


class CutError(Exception):
    """Close the connection here, in the middle of what is being sent."""


@dataclass
class Request:
    """Hold what a client sent; `gone` tells whether it has left since."""

    method: str
    path: str
    headers: Message  # names in any case
    body: bytes = b""
    gone: Callable[[], bool] = lambda: False


@dataclass
class Response:
    """Hold what a server sends: a whole body, or the parts of a stream; status 0 closes without a word."""

    status: int
    body: str | Generator[str] = ""
    kind: str | None = JSON_UTF8


def go_json(value: Any) -> str:
    r"""Return JSON as Go's encoder writes it: compact, with `<`, `>`, `&` and U+2028 escaped.

    >>> go_json({"a": "<b> é"})
    '{"a":"\\u003cb\\u003e é"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class FakeServer(ABC):
    """Serve on 127.0.0.1 from `start` (or the `with` statement) until `stop`; the port stays the same.

    Attributes:
        host: the address, such as `http://127.0.0.1:40213`.
        keeps_connections: whether a connection serves more than one request, as with the real servers.
        left: set once a client has left an answer before its end.
    """

    def __init__(self) -> None:
        self.keeps_connections = True
        self._port = 0
        self._http: _Listener | None = None
        self.left = threading.Event()
        self.start()

    @property
    def host(self) -> str:
        """Return the address of the server."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def running(self) -> bool:
        """Tell whether the server takes connections."""
        return self._http is not None

    def start(self) -> None:
        """Take connections, again after a `stop`."""
        if self._http is None:
            self._http = _Listener(self, self._port)
            self._port = self._http.server_port
            threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Break all connections and take no more, as a server that is killed."""
        listener, self._http = self._http, None
        if listener is not None:
            listener.end()

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def handle(self, request: Request) -> Response:
        """Return the answer to a request; called from a thread of its own."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256  # a sweep opens many connections at once

    def __init__(self, fake: FakeServer, port: int) -> None:
        self.fake = fake
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def end(self) -> None:
        """Leave the port and break what is open."""
        self.shutdown()
        self.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that leave, and connections that break, are what tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        path = self.path.partition("?")[0]
        request = Request(self.command, path, self.headers, self.rfile.read(length), self._gone)
        try:
            response = self.server.fake.handle(request)
        except Exception as error:  # a mistake in a test's script: to be read, not guessed from a broken connection
            response = Response(500, go_json({"error": f"the fake server failed: {error!r}"}))
        if not response.status:
            self.close_connection = True
            return
        try:
            self._send(response)
        except (CutError, ConnectionError):
            self.close_connection = True

    do_GET = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815 - names that http.server looks up

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        whole = response.body.encode("utf-8", "surrogatepass") if isinstance(response.body, str) else None
        kept = {} if self.server.fake.keeps_connections else {"Connection": "close"}
        size = {"Transfer-Encoding": "chunked"} if whole is None else {"Content-Length": str(len(whole))}
        for name, value in {"Content-Type": response.kind, **size, **kept}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if not isinstance(response.body, str):
            self._stream(response.body)
        elif self.command != "HEAD":
            self.wfile.write(whole or b"")

    def _stream(self, parts: Generator[str]) -> None:
        with contextlib.closing(parts):  # its `finally` frees the slot
            for text in parts:
                if self._gone():
                    raise ConnectionAbortedError
                data = text.encode("utf-8", "surrogatepass")
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _gone(self) -> bool:
        """Tell whether the client has closed the connection."""
        with contextlib.suppress(OSError, ValueError):
            if not select.select([self.connection], [], [], 0)[0]:
                return False
            if self.connection.recv(1, socket.MSG_PEEK):
                return False
        self.server.fake.left.set()
        return True
