"""Offer the marketplace as a real REST API on this machine.

    >>> from urllib.request import urlopen
    >>> with serve() as api, urlopen(api.url + "/designers/Lumbra") as answer:
    ...     answer.status
    200

What it understands is `data/marketplace/openapi.json`, served at `/openapi.json` with its own address in it.
Not here: reading requests by that document (`toolkit.worlds.marketplace.api_requests`).
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toolkit.errors import ConfigError
from toolkit.worlds.marketplace.api_requests import (
    Json,
    RequestError,
    document,
    find_operation,
    read_body,
    read_parameters,
)
from toolkit.worlds.marketplace.catalogue import (
    InvalidRequestError,
    Marketplace,
    MarketplaceError,
    card,
)

API_KEY = "demo-key"  # what the tutorial sends; an invented shop keeps no secret
MAX_BODY = 64 * 1024  # bytes
IDLE_S = 10  # seconds a connection may stay silent
EUR_IN = {"EUR": 1.0, "USD": 1.1, "GBP": 0.85}  # invented and fixed, so that answers stay the same


@dataclass(frozen=True)
class Api:
    """Hold a running marketplace.

    Attributes:
        url: its address, without a slash at the end.
        shop: what it sells.
        key: the API key that orders need, in the header X-API-Key.
    """

    url: str
    shop: Marketplace
    key: str


@contextmanager
def serve(port: int = 0, shop: Marketplace | None = None, key: str = API_KEY) -> Iterator[Api]:
    """Serve a marketplace on 127.0.0.1 while the block runs.

    Args:
        port: 0 takes a free one.
        shop: a marketplace of yours; without one, a new one in memory.
        key: the API key that orders need.

    Raises:
        ConfigError: the port is taken or out of range.
    """
    try:
        server = _Server(("127.0.0.1", port), _Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"Cannot serve on port {port!r}: {error}. Give another one, or 0 for any free one.") from None
    own = shop or Marketplace()
    server.api = api = Api(f"http://127.0.0.1:{server.server_port}", own, key)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        if shop is None:
            own.close()


def answer(api: Api, method: str, target: str, headers: Any, raw: bytes) -> tuple[HTTPStatus, Any]:
    """Return status and JSON value for one request.

    Args:
        api: the marketplace asked.
        method: GET, POST, …
        target: path and query as they were sent.
        headers: a mapping that ignores case.
        raw: the body.

    Raises:
        RequestError: the request is refused.
    """
    place, _, query = target.partition("?")
    if (method, place) == ("GET", "/openapi.json"):
        return HTTPStatus.OK, {**document(), "servers": [{"url": api.url}]}
    operation, path = find_operation(method, place)
    if operation.get("security") and not hmac.compare_digest(headers.get("X-API-Key", "").encode(), api.key.encode()):
        raise RequestError(HTTPStatus.UNAUTHORIZED, "Send the API key in the header X-API-Key.", "X-API-Key")
    arguments = {**read_parameters(operation, path, query, headers), **read_body(operation, raw)}
    try:
        data = _OPERATIONS[operation["operationId"]](api.shop, arguments)
    except InvalidRequestError as error:
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
    except MarketplaceError as error:  # every other kind says that something is unknown
        raise RequestError(HTTPStatus.NOT_FOUND, str(error)) from None
    return (HTTPStatus.CREATED if method == "POST" else HTTPStatus.OK), data


def _search(shop: Marketplace, given: Json) -> list[Json]:
    limit, currency, colours = given.pop("limit"), given.pop("X-Currency"), set(given.pop("colours", ()))
    found = [row for row in shop.search(**given) if not colours or colours & set(row["colours"])]
    return [_priced(card(row), currency) for row in found[:limit]]


def _priced(product: Json, currency: str) -> Json:
    return {**product, "price": round(product["price"] * EUR_IN[currency], 2), "currency": currency}


_OPERATIONS: dict[str, Callable[[Marketplace, Json], Any]] = {
    "search_products": _search,
    "get_product": lambda shop, given: _priced(shop.get_product_details(given["product_id"]), given["X-Currency"]),
    "get_similar_products": lambda shop, given: shop.get_similar_products(**given),
    "list_designers": lambda shop, given: shop.get_designers_list(),
    "get_designer": lambda shop, given: shop.get_designer_information(**given),
    "create_order": lambda shop, given: shop.place_order(**given),
    "get_order": lambda shop, given: shop.get_order(**given),
}


class _Server(ThreadingHTTPServer):
    """Know which marketplace the handlers answer for."""

    api: Api


class _Handler(BaseHTTPRequestHandler):
    """Speak HTTP for `answer`."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    server: _Server

    def _respond(self) -> None:
        try:
            status, data = answer(self.server.api, self.command, self.path, self.headers, self._body())
            allow: tuple[str, ...] = ()
        except RequestError as error:
            status, data, allow = error.status, error.to_dict(), error.allow
        body = json.dumps(data, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if allow:
            self.send_header("Allow", ", ".join(allow))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "Send the body in one piece, with a Content-Length.")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True  # the rest of the body must not be read as a request
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body may have {MAX_BODY} bytes at most.")
        return self.rfile.read(int(length))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _respond  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: a notebook's output is no access log."""
