"""Send one HTTP request within bounds: total time, size of the answer, redirects on the same origin only.

It talks to httpx's transport, not its client: the client logs whole URLs, query keys included.

Not here: what the request holds (`request`), who may send it (`service`).
"""

from __future__ import annotations

import contextlib
import functools
import math
import socket
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from toolkit.errors import ConfigError, ToolInvocationError, ToolTimeoutError
from toolkit.secrets import scrub

_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_DEFAULTS = (
    ("Accept", b"application/json, */*;q=0.5"),
    ("Accept-Encoding", b"identity"),  # a compressed answer could unpack to any size
    ("User-Agent", b"toolkit"),
)


@dataclass(frozen=True)
class Limits:
    """Bound one exchange: `timeout_s` seconds in all, `max_bytes` of answer."""

    timeout_s: float = 30.0
    max_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        check_limit(self.timeout_s)
        if not isinstance(self.max_bytes, int) or self.max_bytes < 1:
            raise ConfigError(f"The most bytes of an answer must be a whole number above 0, not {self.max_bytes!r}.")


@dataclass(frozen=True)
class HttpRequest:
    """Hold a request in encoded parts. It may hold credentials, so its repr tells little."""

    method: str  # in capitals
    address: str  # the URL without the query
    query: tuple[tuple[str, str], ...] = ()
    fields: tuple[tuple[str, bytes], ...] = ()  # headers but Cookie
    cookies: tuple[tuple[str, str], ...] = ()
    content: bytes | None = None

    @property
    def url(self) -> str:
        """Return the URL with the query."""
        query = "&".join(f"{name}={value}" for name, value in self.query)
        return f"{self.address}?{query}" if query else self.address

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """Return all headers."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies)
        return (*self.fields, ("Cookie", cookie.encode())) if cookie else self.fields

    def having(self, part: str, pairs: Iterable[tuple[str, Any]]) -> HttpRequest:
        """Return the request with pairs in its `fields`, `query` or `cookies`, in place of those of the same names."""
        fold = str.lower if part == "fields" else str
        new = tuple(pairs)
        names = {fold(name) for name, _ in new}
        kept = (pair for pair in getattr(self, part) if fold(pair[0]) not in names)
        changed: dict[str, Any] = {part: (*kept, *new)}
        return replace(self, **changed)

    def redirected(self, status: int, target: str) -> HttpRequest:
        """Return the request that follows a redirect; but for 307 and 308, what is no GET becomes one."""
        if status in (307, 308) or self.method in ("GET", "HEAD"):
            return replace(self, address=target, query=())
        kept = tuple((name, value) for name, value in self.fields if name.lower() != "content-type")
        return HttpRequest("GET", target, (), kept, self.cookies)

    def __repr__(self) -> str:
        return f"HttpRequest({self.method} {place(self.address)})"


@dataclass(frozen=True)
class Answer:
    """Hold what came back: status, content type, body, and the URL that gave it."""

    status: int
    content_type: str
    body: bytes
    url: str

    def __repr__(self) -> str:
        return f"Answer({self.status} of {place(self.url)}, {len(self.body)} bytes)"


def check_limit(timeout_s: Any) -> None:
    """Check that a time limit is one: a call over a network must end.

    Raises:
        ConfigError: it is not a finite number of seconds above 0.
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 < timeout_s < math.inf:
        raise ConfigError(f"timeout_s must be a finite number of seconds above 0, not {timeout_s!r}.")


def place(url: str) -> str:
    """Return a URL without query, fragment and user: what may stand in an error.

    >>> place("https://u:p@api.example.com/v1/a?key=1")
    'https://api.example.com/v1/a'
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that are no address, say
        return "an address that is no URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL, in comparable form.

    >>> origin("HTTPS://API.example.com/v1") == origin("https://api.example.com:443")
    True
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or (443 if scheme == "https" else 80)


def no_downgrade(here: str, there: str) -> bool:
    """Let a redirect change the host, but not from https to http."""
    schemes = urlsplit(here).scheme.lower(), urlsplit(there).scheme.lower()
    return schemes[1] == "https" or schemes == ("http", "http")


def same_origin(here: str, there: str) -> bool:
    """Let a redirect change the path only."""
    try:
        return origin(here) == origin(there)
    except ValueError:  # no such port, say
        return False


def exchange(request: HttpRequest, limits: Limits, may_follow: Callable[[str, str], bool] = same_origin) -> Answer:
    """Send a request, follow allowed redirects, and return the last answer, whatever its status.

    Args:
        request: what to send.
        limits: bounds of the whole exchange, redirects included.
        may_follow: whether a redirect from one URL to another is followed; the default keeps to the origin.

    Raises:
        ToolTimeoutError: it took longer than `limits.timeout_s`.
        ToolInvocationError: no connection, an answer that is too large, or a redirect that is not allowed.
    """
    deadline = time.monotonic() + limits.timeout_s
    for _ in range(_MAX_REDIRECTS + 1):
        answer, target = _once(request, limits, deadline)
        if target is None:
            return answer
        if not may_follow(request.url, target):
            raise ToolInvocationError(
                f"{place(request.url)} redirects to another place, {place(target)!r}, and is not followed."
            )
        request = request.redirected(answer.status, target)
    raise ToolInvocationError(f"{place(request.url)} redirects more than {_MAX_REDIRECTS} times.")


def _once(request: HttpRequest, limits: Limits, deadline: float) -> tuple[Answer, str | None]:
    """Make one round trip; return the answer, and where it redirects to."""
    left = deadline - time.monotonic()
    watch = _Watch(left)
    failure: Exception | None = None
    try:
        wire = httpx.Request(request.method, request.url, headers=_headers(request), content=request.content)
        wire.extensions = {"timeout": httpx.Timeout(max(left, 0.001)).as_dict(), "trace": watch.trace}
        with watch, _transport(request.url) as transport:
            received = _receive(transport.handle_request(wire), request.url, limits)
        if not watch.fired:  # a cut connection looks like the end of an answer without Content-Length
            return received
    except ToolInvocationError as error:
        if not watch.fired:
            raise
        failure = error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, RuntimeError) as error:
        failure = error
    # raised here, outside the handler: httpx's errors carry the request, and with it credentials
    if watch.fired or isinstance(failure, httpx.TimeoutException):
        raise ToolTimeoutError(f"{place(request.url)} did not answer within {limits.timeout_s:g} s.")
    reason = scrub(f"{type(failure).__name__}: {failure}")
    raise ToolInvocationError(f"{place(request.url)} cannot be reached: {reason}.")


def _headers(request: HttpRequest) -> httpx.Headers:
    given = {name.lower() for name, _ in request.headers}
    more = (item for item in _DEFAULTS if item[0].lower() not in given)
    return httpx.Headers([(name.encode(), value) for name, value in (*request.headers, *more)])


def _receive(response: Any, url: str, limits: Limits) -> tuple[Answer, str | None]:
    try:
        location = response.headers.get("location")
        target = urljoin(url, location) if location and response.status_code in _REDIRECTS else None
        body = b"" if target else _body(response, url, limits.max_bytes)
    finally:
        response.close()
    kind = response.headers.get("content-type", "")
    return Answer(response.status_code, kind, body, url), target


def _body(response: Any, url: str, max_bytes: int) -> bytes:
    """Read the body; stop as soon as it is too large, unpacked size included."""
    coding = response.headers.get("content-encoding", "identity").lower()
    if coding not in ("identity", "", "gzip", "deflate", "x-gzip"):
        raise ToolInvocationError(f"{place(url)} answered in the coding {coding!r}, which was not asked for.")
    read = _joined(response.stream, url, max_bytes)
    if coding in ("identity", ""):
        return read
    unpacker = zlib.decompressobj(47)  # 47: gzip or zlib, told apart by the header
    try:
        body = unpacker.decompress(read, max_bytes + 1)
    except zlib.error as error:
        raise ToolInvocationError(f"{place(url)} answered with damaged {coding} data: {error}.") from None
    if len(body) <= max_bytes and read and not unpacker.eof:
        raise ToolInvocationError(f"{place(url)} answered with {coding} data that ends too early.")
    return _joined([body], url, max_bytes)


def _joined(chunks: Iterable[bytes], url: str, max_bytes: int) -> bytes:
    read = bytearray()
    for chunk in chunks:
        read += chunk
        if len(read) > max_bytes:
            raise ToolInvocationError(
                f"The answer of {place(url)} is larger than {max_bytes} bytes. Ask for less, such as one page."
            )
    return bytes(read)


class _Watch:
    """Cut the connection when time is up, however slowly bytes drip in."""

    def __init__(self, seconds: float) -> None:
        self.fired = seconds <= 0
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(max(seconds, 0.001), self._fire)
        self._timer.daemon = True

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Note each socket that httpcore opens."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._sockets.append(info["return_value"].get_extra_info("socket"))
            if self.fired:  # looking up the name alone took too long
                self._cut()

    def _fire(self) -> None:
        self.fired = True
        self._cut()

    def _cut(self) -> None:
        for item in self._sockets:
            with contextlib.suppress(OSError):  # closed already
                item.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> _Watch:
        self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()


def _transport(url: str) -> httpx.HTTPTransport:
    """Make a transport for one exchange; a kept connection would outlive a notebook cell."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.HTTPTransport(verify=_tls_context(), limits=limits, proxy=_proxy(url), trust_env=True)


@functools.cache
def _tls_context() -> Any:
    return httpx.create_ssl_context()


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme.lower()) or proxies.get("all")
    return None if not proxy or urllib.request.proxy_bypass(parts.hostname or "") else proxy
