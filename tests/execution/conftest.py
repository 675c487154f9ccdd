"""Fixtures for what talks HTTP: a real server on loopback that answers with what it was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response


@dataclass
class Seen:
    """Hold one request as it came over the wire."""

    method: str
    target: str  # path and query, still encoded
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Echo:
    """Answer every request; note what came."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    reads_body: bool = True
    answer: Callable[[Request], Response] = lambda request: Response('{"ok": true}', content_type="application/json")

    def handle(self, request: Request) -> Response:
        target = request.environ["REQUEST_URI"]
        self.seen.append(
            Seen(request.method, target, dict(request.headers), request.get_data() if self.reads_body else b"")
        )
        return self.answer(request)

    def says(self, body: Any, status: int = 200, **headers: str) -> None:
        text = body if isinstance(body, (str, bytes)) else json.dumps(body)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answer = lambda request: Response(text, status, {"Content-Type": "application/json", **given})

    @property
    def last(self) -> Seen:
        return self.seen[-1]


@pytest.fixture
def echo(httpserver: HTTPServer) -> Echo:
    """Run a server that answers everything and remembers it."""
    found = Echo(httpserver.url_for("").rstrip("/"))
    httpserver.expect_request(re.compile(".*")).respond_with_handler(found.handle)
    return found


@pytest.fixture
def other_host() -> Any:
    """Run a second server, another origin, that remembers what it was sent."""
    with HTTPServer() as server:
        found = Echo(server.url_for("").rstrip("/"))
        server.expect_request(re.compile(".*")).respond_with_handler(found.handle)
        yield found
