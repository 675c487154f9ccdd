"""One exchange is bounded in time, size and direction; a real server misbehaves here."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from toolkit.errors import ConfigError, ToolInvocationError, ToolTimeoutError
from toolkit.execution.openapi.http import HttpRequest, Limits, _Watch, exchange, no_downgrade, origin, place

LIMITS = Limits(timeout_s=5, max_bytes=10_000)


def get(url: str, limits: Limits = LIMITS, **headers: str) -> Any:
    return exchange(HttpRequest("GET", url, (), tuple((k, v.encode()) for k, v in headers.items())), limits)


class RawServer:
    """Send bytes as told, one piece every `pause` seconds."""

    def __init__(self, pieces: list[bytes], pause: float = 0.0) -> None:
        self.pieces, self.pause, self.stopped = pieces, pause, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/x"
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            peer, _ = self.listener.accept()
        except OSError:
            return
        with peer:
            peer.recv(65536)
            for piece in self.pieces:
                if self.stopped.wait(self.pause):
                    return
                try:
                    peer.sendall(piece)
                except OSError:
                    return

    def close(self) -> None:
        self.stopped.set()
        self.listener.close()
        self.thread.join(5)


@pytest.fixture
def raw() -> Iterator[Any]:
    servers: list[RawServer] = []

    def start(pieces: list[bytes], pause: float = 0.0) -> str:
        servers.append(RawServer(pieces, pause))
        return servers[-1].url

    yield start
    for server in servers:
        server.close()


def test_answer(echo: Any) -> None:
    echo.says({"a": 1})
    answer = get(f"{echo.url}/x?q=1", X_Y="z")
    assert (answer.status, answer.body, answer.content_type) == (200, b'{"a": 1}', "application/json")
    assert echo.last.target == "/x?q=1"


def test_a_huge_answer_is_stopped(raw: Any) -> None:
    url = raw([b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 1000] * 1000])
    with pytest.raises(ToolInvocationError, match="larger than 10000 bytes"):
        get(url)


def test_a_packed_bomb_is_stopped(echo: Any) -> None:
    echo.says(gzip.compress(b"0" * 10_000_000), Content_Encoding="gzip")
    with pytest.raises(ToolInvocationError, match="larger than"):
        get(echo.url)


def test_packed_answers_are_read_though_not_asked_for(echo: Any) -> None:
    echo.says(gzip.compress(b"hello"), Content_Encoding="gzip")
    assert get(echo.url).body == b"hello"
    assert echo.last.headers["Accept-Encoding"] == "identity"


def test_unknown_packing_is_refused(echo: Any) -> None:
    echo.says(b"?", Content_Encoding="br")
    with pytest.raises(ToolInvocationError, match="'br'"):
        get(echo.url)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", *[b"x"] * 100],
        [b"HTTP/1.1 200 OK\r\n", *[b"X-A: b\r\n"] * 100],
        [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", *[b"1"] * 100],
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", *(bytes([b]) for b in gzip.compress(b"x" * 200)), b""],
        [b"", b""],
    ],
    ids=["body_drips", "head_drips", "body_without_length_drips", "packed_body_drips", "silence"],
)
def test_a_slow_answer_is_cut_off(raw: Any, pieces: list[bytes]) -> None:
    url = raw(pieces, 0.1 if len(pieces) > 2 else 5.0)
    start = time.monotonic()
    with pytest.raises(ToolTimeoutError, match=r"did not answer within 0\.5 s"):
        get(url, Limits(0.5, 10_000))
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("junk", [b"nonsense\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"])
def test_a_broken_answer_is_an_error(raw: Any, junk: bytes) -> None:
    with pytest.raises(ToolInvocationError, match="cannot be reached"):
        get(raw([junk]))


def test_packed_data_that_end_too_early_are_an_error(raw: Any) -> None:
    packed = gzip.compress(bytes(range(256)) * 4)
    with pytest.raises(ToolInvocationError, match="ends too early"):
        get(raw([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + packed[: len(packed) // 2]]))
    assert get(raw([b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n"])).body == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize(
    "data", [b"junk", b"\x78\x9c junk", b"\x1f\x8b\x08 junk", zlib.compress(b"x" * 99)[3:], b"\0" * 9]
)
def test_damaged_packed_data_are_an_error(echo: Any, coding: str, data: bytes) -> None:
    echo.says(data, Content_Encoding=coding)
    with pytest.raises(ToolInvocationError, match="damaged|ends too early"):
        get(echo.url)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1/x",
        "http://h:99999/",
        "http://\ud800/",
        "http://a\0b/",
        "http:///x",
        "http://h/\n",
        "x",
        "",
        "http://" + "a" * 70_000,
    ],
)
def test_an_invalid_address_is_an_error(url: str) -> None:
    with pytest.raises(ToolInvocationError):
        get(url)


def test_a_socket_opened_after_time_is_up_is_cut_too() -> None:
    watch = _Watch(0)
    here, there = socket.socketpair()
    with here, there:
        stream = type("Stream", (), {"get_extra_info": lambda self, name: here})()
        watch.trace("connection.connect_tcp.complete", {"return_value": stream})
        assert there.recv(1) == b""


@pytest.mark.parametrize("given", [0, -1, None, float("inf"), float("nan"), "5", True], ids=repr)
def test_every_exchange_has_a_finite_limit(given: Any) -> None:
    assert 0 < Limits().timeout_s < 120
    with pytest.raises(ConfigError, match="finite number of seconds"):
        Limits(given)
    with pytest.raises(ConfigError, match="whole number above 0"):
        Limits(max_bytes=0)


def test_nobody_there() -> None:
    with pytest.raises(ToolInvocationError, match="127.0.0.1:9/x cannot be reached"):
        get("http://127.0.0.1:9/x?key=s3cret")


def test_redirect_on_the_same_origin_is_followed(echo: Any, httpserver: Any) -> None:
    httpserver.expect_ordered_request("/a").respond_with_data("", 302, {"Location": "/b"})
    httpserver.expect_ordered_request("/b").respond_with_data("there")
    assert get(httpserver.url_for("/a"), Authorization="Bearer T").body == b"there"


def test_redirect_to_another_host_is_not_followed(echo: Any, other_host: Any) -> None:
    echo.says("", 302, Location=f"{other_host.url}/steal?x=1")
    with pytest.raises(ToolInvocationError, match="redirects to another place"):
        get(echo.url, Authorization="Bearer T")
    assert other_host.seen == []


@pytest.mark.parametrize(
    "target",
    ["//localhost/x", "https://127.0.0.1/", "file:///etc/passwd", "http://u@evil.test/"],
)
def test_redirect_elsewhere(echo: Any, target: str) -> None:
    echo.says("", 307, Location=target)
    with pytest.raises(ToolInvocationError, match="redirects to another place"):
        get(echo.url)


def test_redirect_to_no_address(raw: Any) -> None:
    with pytest.raises(ToolInvocationError, match="redirects to another place"):
        get(raw([b"HTTP/1.1 302 Found\r\nLocation: http://localhost:99999/\r\nContent-Length: 0\r\n\r\n"]))


def test_redirects_are_bounded(echo: Any) -> None:
    echo.says("", 302, Location="/again")
    with pytest.raises(ToolInvocationError, match="more than 5 times"):
        get(echo.url)


@pytest.mark.parametrize(
    ("status", "method", "body"), [(307, "POST", b"data"), (308, "POST", b"data"), (303, "GET", b"")]
)
def test_redirected_post(httpserver: Any, status: int, method: str, body: bytes) -> None:
    httpserver.expect_ordered_request("/a").respond_with_data("", status, {"Location": "/b"})
    httpserver.expect_ordered_request("/b", method=method, data=body).respond_with_data("ok")
    request = HttpRequest("POST", httpserver.url_for("/a"), (), (("Content-Type", b"text/plain"),), (), b"data")
    assert exchange(request, LIMITS).body == b"ok"


def test_documents_are_not_fetched_from_https_by_http() -> None:
    assert not no_downgrade("https://a/x", "http://a/x")
    assert not no_downgrade("http://a/x", "file:///x")
    assert no_downgrade("http://a/x", "https://b/x")


def test_nothing_of_the_url_is_logged(echo: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    get(f"{echo.url}/x?key=s3cret", X_Key="s3cret")
    mine = [record.getMessage() for record in caplog.records if record.name.startswith("http")]
    assert not [line for line in mine if "s3cret" in line]


def test_place_and_origin() -> None:
    assert place("https://u:p@h:1/a?b=c#d") == "https://h:1/a"
    assert origin("http://H/a") == ("http", "h", 80)
