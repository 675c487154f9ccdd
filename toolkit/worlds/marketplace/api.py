"""Offer the marketplace as a real REST API on this machine.

    >>> from urllib.request import urlopen
    >>> with serve() as api, urlopen(api.url + "/designers/Lumbra") as answer:
    ...     answer.status
    200

What it understands is `data/marketplace/openapi.json`, served at `/openapi.json` with its own address in it; requests
are read and checked by that document alone.
Not here: calling such an API (`toolkit.execution`).
"""

from __future__ import annotations

import hmac
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

from toolkit import resources
from toolkit.errors import ConfigError
from toolkit.worlds.marketplace.catalogue import InvalidRequestError, Marketplace, MarketplaceError, card

Json = dict[str, Any]
API_KEY = "demo-key"  # what the tutorial sends; an invented shop keeps no secret
MAX_BODY = 64 * 1024  # bytes
IDLE_S = 10  # seconds a connection may stay silent
EUR_IN = {"EUR": 1.0, "USD": 1.1, "GBP": 0.85}  # invented and fixed, so that answers stay the same


@dataclass(frozen=True)
class Api:
    """Hold a running marketplace."""

    url: str  # without a slash at the end
    shop: Marketplace
    key: str = API_KEY  # what orders need, in the header X-API-Key


@contextmanager
def serve(port: int = 0) -> Iterator[Api]:
    """Serve a new marketplace on 127.0.0.1 while the block runs.

    Args:
        port: 0 takes a free one.

    Raises:
        ConfigError: the port is taken or out of range.
    """
    try:
        server = _Server(("127.0.0.1", port), _Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"Cannot serve on port {port!r}: {error}. Give another one, or 0 for any free one.") from None
    server.api = api = Api(f"http://127.0.0.1:{server.server_port}", Marketplace())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class RequestError(Exception):
    """Refuse a request: status, message, and the parameter or place in the body that is wrong ("" for none)."""

    def __init__(self, status: HTTPStatus, message: str, where: str = "") -> None:
        super().__init__(message)
        self.status, self.where = status, where

    def to_dict(self) -> Json:
        """Return the error as the API's `Error` schema has it."""
        error = {"code": self.status.phrase.lower().replace(" ", "_"), "message": str(self)}
        return {"error": {**error, "where": self.where} if self.where else error}


def answer(api: Api, method: str, target: str, headers: Any, raw: bytes) -> tuple[HTTPStatus, Any]:
    """Return status and JSON value for one request; `target` is path and query as sent, `headers` ignore case.

    Raises:
        RequestError: the request is refused.
    """
    place, _, query = target.partition("?")
    if (method, place) == ("GET", "/openapi.json"):
        return HTTPStatus.OK, {**document(), "servers": [{"url": api.url}]}
    operation, path = _operation(method, place)
    if operation.get("security") and not hmac.compare_digest(headers.get("X-API-Key", "").encode(), api.key.encode()):
        raise RequestError(HTTPStatus.UNAUTHORIZED, "Send the API key in the header X-API-Key.", "X-API-Key")
    arguments = {**_parameters(operation, path, query, headers), **_body(operation, raw)}
    try:
        data = _OPERATIONS[operation["operationId"]](api.shop, arguments)
    except MarketplaceError as error:  # every kind but one says that something is unknown
        invalid = isinstance(error, InvalidRequestError)
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY if invalid else HTTPStatus.NOT_FOUND, str(error)) from None
    return (HTTPStatus.CREATED if method == "POST" else HTTPStatus.OK), data


@cache
def document() -> Json:
    """Return the OpenAPI document of the marketplace."""
    return dict(json.loads(resources.path("data/marketplace/openapi.json").read_text(encoding="utf-8")))


def resolve(value: Json) -> Json:
    """Follow a reference into the document, if `value` is one."""
    while "$ref" in value:
        target: Any = document()
        for step in value["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        value = target
    return value


def _operation(method: str, path: str) -> tuple[Json, dict[str, str]]:
    """Return the operation that a request means, its parameters complete, and the values in its path."""
    for template, item in document()["paths"].items():
        found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template), path)
        if found and method.lower() in item:
            operation = item[method.lower()]
            parameters = [resolve(p) for p in (*item.get("parameters", ()), *operation.get("parameters", ()))]
            return {**operation, "parameters": parameters}, {n: unquote(v) for n, v in found.groupdict().items()}
    raise RequestError(HTTPStatus.NOT_FOUND, f"There is no path {path!r} for {method}. See /openapi.json.")


def _parameters(operation: Json, path: Mapping[str, str], query: str, headers: Mapping[str, str]) -> Json:
    """Return the checked parameters by name; one that was not sent has its default or is left out."""
    sent = parse_qs(query, keep_blank_values=True)
    known = sorted(p["name"] for p in operation["parameters"] if p["in"] == "query")
    for name in sent.keys() - known:
        message = f"Unknown parameter {name!r}. Known: {', '.join(known) or 'none'}."
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, message, name)
    values = {}
    for parameter in operation["parameters"]:
        name, schema = parameter["name"], resolve(parameter["schema"])
        one = {"path": path.get(name), "header": headers.get(name)}.get(parameter["in"])
        texts = sent.get(name, []) if parameter["in"] == "query" else [one] if one is not None else []
        if texts:
            values[name] = _checked(_typed(texts, schema), schema, name)
        elif "default" in schema:
            values[name] = schema["default"]
    return values


def _body(operation: Json, raw: bytes) -> Json:
    """Return the checked JSON body; {} for an operation without one."""
    if "requestBody" not in operation:
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, f"The body is no JSON: {error}.", "body") from None
    return dict(_checked(body, operation["requestBody"]["content"]["application/json"]["schema"], "body"))


def _typed(texts: list[str], schema: Json) -> Any:
    """Turn text into the schema's type; text that is none stays text, for validation to refuse."""
    if schema["type"] == "array":
        return [_typed([text], schema["items"]) for text in texts]
    pattern = {"integer": r"-?\d{1,18}", "number": r"-?\d{1,18}(\.\d{1,18})?"}.get(schema["type"])
    if pattern and re.fullmatch(pattern, texts[-1], re.ASCII):
        return float(texts[-1]) if "." in texts[-1] else int(texts[-1])
    return texts[-1]


def _checked(value: Any, schema: Json, where: str) -> Any:
    import jsonschema_rs

    try:
        jsonschema_rs.validate({**schema, "components": document()["components"]}, value)
    except jsonschema_rs.ValidationError as error:
        place = ".".join([where, *map(str, error.instance_path)])
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, error.message, place) from None
    return value


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
    """Speak HTTP/1.0 for `answer`: one request a connection, so that what is left of a body is never a request."""

    timeout = IDLE_S
    server: _Server

    def _respond(self) -> None:
        length = self.headers.get("Content-Length", "0")
        try:
            if not length.isdecimal() or int(length) > MAX_BODY:
                raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body may have {MAX_BODY} bytes at most.")
            raw = self.rfile.read(int(length))
            status, data = answer(self.server.api, self.command, self.path, self.headers, raw)
        except RequestError as error:
            status, data = error.status, error.to_dict()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.end_headers()
        self.wfile.write(json.dumps(data, ensure_ascii=False).encode())

    do_GET = do_POST = _respond  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: a notebook's output is no access log."""
