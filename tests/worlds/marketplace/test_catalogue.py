"""Does the marketplace sell what its files say, and refuse the rest with a useful message?"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.tools import as_tools
from toolkit.worlds.marketplace.catalogue import (
    CARD,
    SHOWN,
    Category,
    InvalidRequestError,
    Marketplace,
    UnknownDesignerError,
    UnknownOrderError,
    UnknownProductError,
)

FOLDER = Path(__file__).parents[3] / "data" / "marketplace"
HOME = {"name": "Ada Moreau", "street": "12 Quai Bleu", "postcode": "31000", "city": "Toulouse", "country": "France"}


def rows(name):
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


PRODUCTS = rows("catalogue.jsonl")
DESIGNERS = rows("designers.jsonl")
IN_STOCK = next(row for row in PRODUCTS if row["in_stock"])
SOLD_OUT = next(row for row in PRODUCTS if not row["in_stock"])


@pytest.fixture(scope="module")
def shop():
    return Marketplace()


def test_the_files_are_what_the_script_makes():
    spec = importlib.util.spec_from_file_location("make_catalogue", FOLDER / "make_catalogue.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, text in module.compose().items():
        assert (FOLDER / name).read_text("utf-8") == text, "run data/marketplace/make_catalogue.py"


def test_the_catalogue_is_large_and_varied():
    assert len(PRODUCTS) >= 320
    assert len(DESIGNERS) >= 20
    assert len({row["id"] for row in PRODUCTS}) == len({row["title"] for row in PRODUCTS}) == len(PRODUCTS)
    assert len({row["description"] for row in PRODUCTS}) > 0.97 * len(PRODUCTS)
    assert {row["designer"] for row in PRODUCTS} == {row["name"] for row in DESIGNERS}
    assert min(Counter(row["category"] for row in PRODUCTS).values()) >= 12
    assert min(Counter(row["season"] for row in PRODUCTS).values()) >= 60
    assert 0.8 < sum(row["in_stock"] for row in PRODUCTS) / len(PRODUCTS) < 0.95


@pytest.mark.parametrize("row", PRODUCTS[::20], ids=lambda row: row["title"])
def test_a_product_is_complete(row):
    assert set(CARD) | {"sizes", "material", "description"} == set(row)
    assert 20 < row["price"] < 1000
    assert row["colours"]
    assert row["sizes"]
    assert row["product_url"] == f"https://shop.example.org/products/{row['id']}"
    assert row["category"] in Category.__args__
    assert 40 < len(row["description"]) < 300


def test_actions_are_the_five_of_the_assistant(shop):
    tools = as_tools(shop.actions())
    assert [tool.name for tool in tools] == [
        "recommend_clothes",
        "get_product_details",
        "get_similar_products",
        "get_designers_list",
        "get_designer_information",
    ]
    assert all(tool.description for tool in tools)
    assert all("description" in schema for tool in tools for schema in tool.properties.values())


@pytest.mark.parametrize(
    "filters",
    [
        pytest.param({}, id="none"),
        pytest.param({"category": "Dresses"}, id="category"),
        pytest.param({"season": "Winter", "max_price": 200}, id="season and price"),
        pytest.param({"designer": "oda fjelde"}, id="designer in another case"),
        pytest.param({"category": "Coats", "season": "Autumn", "designer": "Tessaly Brandt"}, id="three"),
        pytest.param({"category": "", "season": "", "designer": ""}, id="empty text filters nothing"),
    ],
)
def test_search_gives_what_filtering_the_file_gives(shop, filters):
    def fits(row):
        words = all(
            filters.get(key, "").casefold() in ("", row[key].casefold()) for key in ("category", "season", "designer")
        )
        return words and filters.get("min_price", 0) <= row["price"] <= filters.get("max_price", 1e9)

    expected = sorted((row for row in PRODUCTS if fits(row)), key=lambda r: (not r["in_stock"], r["price"], r["id"]))
    assert shop.search(**filters) == expected
    assert [row["id"] for row in shop.recommend_clothes(**filters)] == [row["id"] for row in expected[:SHOWN]]


def test_recommendations_are_cards(shop):
    assert set(shop.recommend_clothes()[0]) == set(CARD)


def test_details_are_the_whole_product(shop):
    assert shop.get_product_details(IN_STOCK["id"]) == IN_STOCK


def test_similar_products_share_most_and_are_for_sale(shop):
    like = next(row for row in PRODUCTS if row["title"].endswith("tiered midi dress"))
    found = shop.get_similar_products(like["id"])
    assert len(found) == SHOWN
    assert like["id"] not in [row["id"] for row in found]
    assert all(row["category"] == "Dresses" and row["in_stock"] for row in found)
    assert found[0]["title"].endswith("tiered midi dress")
    assert found == Marketplace().get_similar_products(like["id"])


def test_designers_are_listed_in_order_and_described(shop):
    names = [row["name"] for row in shop.get_designers_list()]
    assert names == sorted((row["name"] for row in DESIGNERS), key=str.casefold)
    told = shop.get_designer_information("  LUMBRA ")
    assert told["country"] == "Portugal"
    assert told["categories"] == sorted({row["category"] for row in PRODUCTS if row["designer"] == "Lumbra"})


def test_an_order_is_priced_kept_and_found_again(shop):
    order = shop.place_order([{"product_id": IN_STOCK["id"], "size": IN_STOCK["sizes"][0], "quantity": 2}], HOME, True)
    assert order["total"] == 2 * IN_STOCK["price"]
    assert order["gift_wrap"] is True
    assert shop.get_order(order["order_id"]) == order
    assert order["items"][0]["title"] == IN_STOCK["title"]


def item(product, **more):
    return {"product_id": product["id"], "size": product["sizes"][0], **more}


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        pytest.param(lambda s: s.get_product_details(1), UnknownProductError, "recommend_clothes", id="product"),
        pytest.param(lambda s: s.get_similar_products(10**30), UnknownProductError, "id 1000", id="huge id"),
        pytest.param(
            lambda s: s.get_designer_information("Lumbar"), UnknownDesignerError, "Did you mean 'Lumbra'", id="designer"
        ),
        pytest.param(lambda s: s.recommend_clothes(designer="Nobody"), UnknownDesignerError, "Known:", id="filter"),
        pytest.param(lambda s: s.recommend_clothes("Dress"), InvalidRequestError, "'Dresses'", id="category"),
        pytest.param(lambda s: s.recommend_clothes(season="winter"), InvalidRequestError, "'Winter'", id="season"),
        pytest.param(
            lambda s: s.recommend_clothes(min_price=9, max_price=3), InvalidRequestError, "above max_price", id="prices"
        ),
        pytest.param(lambda s: s.get_order(4), UnknownOrderError, "number 4", id="order"),
        pytest.param(lambda s: s.place_order([], HOME), InvalidRequestError, "empty", id="empty order"),
        pytest.param(
            lambda s: s.place_order([item(IN_STOCK, size="S 9")], HOME), InvalidRequestError, "Sizes:", id="size"
        ),
        pytest.param(
            lambda s: s.place_order([item(SOLD_OUT)], HOME), InvalidRequestError, "not in stock", id="sold out"
        ),
        pytest.param(
            lambda s: s.place_order([item(IN_STOCK, quantity=0)], HOME), InvalidRequestError, "1 or more", id="quantity"
        ),
    ],
)
def test_refusals_say_what_to_do(ask, error, says):
    with pytest.raises(error, match=says):
        ask(Marketplace())


@given(st.text(max_size=30))
@settings(max_examples=60, deadline=None)
def test_any_text_is_a_designer_or_unknown(shop, text):
    if text.strip().casefold() in {row["name"].casefold() for row in DESIGNERS}:
        assert shop.get_designer_information(text)
    else:
        with pytest.raises(UnknownDesignerError) as caught:
            shop.get_designer_information(text)
        assert repr(text) in str(caught.value)


def test_many_threads_may_ask_and_order_at_once(shop):
    def both(_):
        return shop.place_order([item(IN_STOCK)], HOME)["order_id"], len(shop.recommend_clothes("Bags"))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(both, range(40)))
    assert len({number for number, _ in answers}) == 40
    assert {count for _, count in answers} == {SHOWN}
