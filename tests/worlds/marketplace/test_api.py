"""Does the API answer over real HTTP as its own document says?"""

from __future__ import annotations

import http.client
import json
import socket
from http import HTTPStatus
from urllib.parse import quote, urlencode

import jsonschema_rs
import pytest

from toolkit.errors import ConfigError
from toolkit.worlds.marketplace import Marketplace
from toolkit.worlds.marketplace.api import API_KEY, EUR_IN, MAX_BODY, document, resolve, serve

SHOP = Marketplace()
DRESS = next(row for row in SHOP.search("Dresses") if row["in_stock"])
HOME = {"name": "Ada Moreau", "street": "12 Quai Bleu", "postcode": "31000", "city": "Toulouse", "country": "France"}
ORDER = {"items": [{"product_id": DRESS["id"], "size": DRESS["sizes"][0]}], "ship_to": HOME}
KEY = {"X-API-Key": API_KEY}


@pytest.fixture(scope="module")
def api():
    with serve() as running:
        yield running


def ask(api, path, method="GET", body=None, headers=None):
    connection = http.client.HTTPConnection(api.url.removeprefix("http://"), timeout=10)
    try:
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, raw, headers or {})
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("application/json")
        return answer.status, json.loads(answer.read()), answer.headers
    finally:
        connection.close()


def fits(value, path, method, status):
    """Check an answer against the schema that the document gives for it."""
    response = resolve(document()["paths"][path][method]["responses"][str(int(status))])
    schema = response["content"]["application/json"]["schema"]
    jsonschema_rs.validate({**schema, "components": document()["components"]}, value)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        pytest.param("/products", "/products", id="no filter"),
        pytest.param(
            "/products?" + urlencode({"category": "Coats", "max_price": 400, "limit": 3}), "/products", id="query"
        ),
        pytest.param("/products?colours=black&colours=navy", "/products", id="array"),
        pytest.param(f"/products/{DRESS['id']}", "/products/{product_id}", id="path"),
        pytest.param(f"/products/{DRESS['id']}/similar", "/products/{product_id}/similar", id="similar"),
        pytest.param("/designers", "/designers", id="no parameters"),
        pytest.param("/designers/" + quote("Pellard & Wynne"), "/designers/{name}", id="encoded path"),
    ],
)
def test_answers_fit_the_document(api, target, path):
    status, data, _ = ask(api, target)
    assert status == HTTPStatus.OK
    assert data
    fits(data, path, "get", status)


def test_filters_are_heeded(api):
    _, found, _ = ask(api, "/products?category=Knitwear&season=Winter&min_price=100&limit=50&colours=moss")
    assert found
    for row in found:
        assert (row["category"], row["season"]) == ("Knitwear", "Winter")
        assert row["price"] >= 100
        assert "moss" in row["colours"]


def test_a_header_changes_the_currency(api):
    _, euro, _ = ask(api, f"/products/{DRESS['id']}")
    _, dollar, _ = ask(api, f"/products/{DRESS['id']}", headers={"x-currency": "USD"})
    assert (euro["currency"], dollar["currency"]) == ("EUR", "USD")
    assert dollar["price"] == round(euro["price"] * EUR_IN["USD"], 2)


def test_an_order_is_created_and_read_back_with_the_key(api):
    status, order, _ = ask(api, "/orders", "POST", ORDER, KEY)
    assert status == HTTPStatus.CREATED
    fits(order, "/orders", "post", status)
    assert order["total"] == DRESS["price"]
    assert ask(api, f"/orders/{order['order_id']}", headers=KEY)[1] == order


@pytest.mark.parametrize(
    ("request_", "status", "where", "says"),
    [
        pytest.param({"path": "/products/1"}, 404, None, "No product has the id 1", id="unknown product"),
        pytest.param({"path": "/designers/Lumba"}, 404, None, "Did you mean 'Lumbra'", id="unknown designer"),
        pytest.param({"path": "/products?designer=Lumba"}, 404, None, "Did you mean", id="unknown designer filter"),
        pytest.param({"path": "/orders/999", "headers": KEY}, 404, None, "No order has", id="unknown order"),
        pytest.param({"path": "/hats"}, 404, None, "/openapi.json", id="unknown path"),
        pytest.param({"path": "/products/"}, 404, None, "no path", id="empty path value"),
        pytest.param({"path": "/products/abc"}, 422, "product_id", "integer", id="path type"),
        pytest.param({"path": "/products/1.5"}, 422, "product_id", "integer", id="fraction for integer"),
        pytest.param({"path": "/products/" + "9" * 40}, 422, "product_id", "integer", id="forty digits"),
        pytest.param({"path": "/products?category=Hats"}, 422, "category", "Hats", id="enum"),
        pytest.param({"path": "/products?limit=0"}, 422, "limit", "minimum", id="limit"),
        pytest.param({"path": "/products?min_price=nan"}, 422, "min_price", "number", id="nan"),
        pytest.param({"path": "/products?colour=red"}, 422, "colour", "Known: category", id="unknown parameter"),
        pytest.param({"path": "/designers?limit=3"}, 422, "limit", "Known: none", id="none known"),
        pytest.param({"path": "/products?min_price=9&max_price=3"}, 422, None, "above max_price", id="prices"),
        pytest.param(
            {"path": "/products", "headers": {"X-Currency": "YEN"}}, 422, "X-Currency", "YEN", id="header enum"
        ),
        pytest.param({"path": "/orders", "method": "POST", "body": ORDER}, 401, "X-API-Key", "Send", id="no key"),
        pytest.param({"path": "/orders/1", "headers": {"X-API-Key": "é"}}, 401, "X-API-Key", "Send", id="wrong key"),
        pytest.param(
            {"path": "/orders", "method": "POST", "body": b"{", "headers": KEY}, 422, "body", "no JSON", id="no JSON"
        ),
        pytest.param(
            {"path": "/orders", "method": "POST", "body": b"[" * 60_000, "headers": KEY}, 422, "body", "", id="deep"
        ),
        pytest.param(
            {"path": "/orders", "method": "POST", "body": [], "headers": KEY}, 422, "body", "object", id="no object"
        ),
        pytest.param(
            {"path": "/orders", "method": "POST", "body": {**ORDER, "items": [{"size": "M"}]}, "headers": KEY},
            422,
            "body.items.0",
            "product_id",
            id="incomplete item",
        ),
        pytest.param(
            {
                "path": "/orders",
                "method": "POST",
                "body": {**ORDER, "items": [{"product_id": 10**30, "size": "M"}]},
                "headers": KEY,
            },
            404,
            None,
            "No product",
            id="huge id",
        ),
        pytest.param(
            {
                "path": "/orders",
                "method": "POST",
                "body": {**ORDER, "items": [{"product_id": DRESS["id"], "size": "99"}]},
                "headers": KEY,
            },
            422,
            None,
            "Sizes:",
            id="size",
        ),
        pytest.param({"path": "/products", "method": "POST"}, 404, None, "for POST", id="method"),
        pytest.param(
            {"path": "/orders", "method": "POST", "body": b" " * (MAX_BODY + 1)}, 413, None, "bytes", id="large"
        ),
    ],
)
def test_refusals_are_json_and_name_the_place(api, request_, status, where, says):
    got, data, _ = ask(api, **request_)
    assert got == status
    jsonschema_rs.validate(document()["components"]["schemas"]["Error"], data)
    assert data["error"].get("where") == where
    assert says in data["error"]["message"]


def test_the_document_is_served_with_the_real_address(api):
    _, served, _ = ask(api, "/openapi.json")
    assert served["servers"] == [{"url": api.url}]
    assert served["paths"] == document()["paths"]


def test_every_operation_has_a_handler_and_a_summary():
    from toolkit.worlds.marketplace.api import _OPERATIONS

    operations = [op for item in document()["paths"].values() for key, op in item.items() if key != "parameters"]
    assert {op["operationId"] for op in operations} == set(_OPERATIONS)
    assert all(op["summary"].endswith(".") for op in operations)


def test_the_document_is_valid_openapi():
    openapi_pydantic = pytest.importorskip("openapi_pydantic")
    assert openapi_pydantic.OpenAPI.model_validate(document()).openapi == "3.1.0"


def test_garbage_does_not_stop_the_server(api):
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"\x00\xff nonsense\r\n\r\n")
        line.recv(100)
    assert ask(api, "/designers")[0] == HTTPStatus.OK


def test_the_port_is_free_again_and_the_shop_still_knows_its_orders():
    with serve() as api:
        number = ask(api, "/orders", "POST", ORDER, KEY)[1]["order_id"]
        port = int(api.url.rpartition(":")[2])
    assert api.shop.get_order(number)["status"] == "placed"
    with serve(port) as again:
        assert again.url.endswith(str(port))


@pytest.mark.parametrize("port", ["taken", 70_000])
def test_a_port_that_cannot_be_had_is_one_clear_message(api, port):
    wanted = int(api.url.rpartition(":")[2]) if port == "taken" else port
    with pytest.raises(ConfigError, match=r"Cannot serve on port.*0 for any free one"), serve(wanted):
        pass
