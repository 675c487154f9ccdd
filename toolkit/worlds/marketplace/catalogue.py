"""Answer what the fashion marketplace sells: five actions that a model can call, and a world that cases can act in.

The goods are the rows of `data/marketplace/`; the state is the orders.

Not here: the shop over HTTP (`toolkit.worlds.marketplace.api`), agents that use it (`toolkit.agents`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import count
from typing import Any, Literal, NotRequired, get_args

from typing_extensions import TypedDict  # pydantic reads typing's own only from Python 3.12 on

from toolkit import resources
from toolkit.errors import ToolkitError, did_you_mean
from toolkit.tools import Tool
from toolkit.worlds.world import bound_tools, check_start

Category = Literal[
    "any", "Accessories", "Bags", "Coats", "Dresses", "Jackets", "Knitwear", "Shirts", "Shoes", "Skirts", "Swimwear",
    "Tops", "Trousers",
]  # fmt: skip
Season = Literal["any", "Spring", "Summer", "Autumn", "Winter"]
Row = dict[str, Any]

SHOWN = 5  # products in one answer: a small model loses the thread in a longer list
NO_LIMIT = 10_000.0  # EUR; above every price
CARD = ("id", "title", "category", "season", "designer", "price", "currency", "colours", "in_stock", "product_url")


class MarketplaceError(ToolkitError):
    """Root of what the marketplace refuses; the message says what to do instead."""


class UnknownProductError(MarketplaceError, LookupError):
    """Report a product id that the catalogue does not hold."""


class UnknownDesignerError(MarketplaceError, LookupError):
    """Report a designer that the marketplace does not sell."""


class UnknownOrderError(MarketplaceError, LookupError):
    """Report an order number that was never given out."""


class InvalidRequestError(MarketplaceError, ValueError):
    """Report a filter or an order that makes no sense."""


class OrderItem(TypedDict):
    """Name one line of an order."""

    product_id: int
    size: str
    quantity: NotRequired[int]


class Address(TypedDict):
    """Say where an order goes."""

    name: str
    street: str
    postcode: str
    city: str
    country: str


class Marketplace:
    """Sell invented clothes by invented designers, and keep orders, numbered from 1.

    Args:
        start: {"orders": [arguments of place_order, …]}.

    Raises:
        ConfigError: the start names something else.
        MarketplaceError: an order of the start cannot be placed.
    """

    def __init__(self, start: Mapping[str, Any] | None = None) -> None:
        check_start(start, ["orders"], "marketplace")
        self._products: dict[int, Row] = {row["id"]: row for row in _lines("catalogue.jsonl")}
        self._designers: dict[str, Row] = {row["name"].casefold(): row for row in _lines("designers.jsonl")}
        self._orders: dict[int, Row] = {}
        self._numbers = count(1)  # which several threads of the API may draw from
        for order in (start or {}).get("orders", ()):
            self.place_order(**order)

    @cached_property
    def tools(self) -> list[Tool]:
        """Return the tools of the shop, ordering included."""
        # an order costs money, and no tool takes it back
        return bound_tools(self, "marketplace", {"place_order": "dangerous"})

    @property
    def state(self) -> dict[str, Any]:
        """Return the orders as `get_order` does."""
        return {"orders": [self.get_order(number) for number in sorted(self._orders)]}

    def actions(self) -> list[Callable[..., Any]]:
        """Return the five actions of the shop assistant, ready to be made tools."""
        return [
            self.recommend_clothes,
            self.get_product_details,
            self.get_similar_products,
            self.get_designers_list,
            self.get_designer_information,
        ]

    def recommend_clothes(
        self,
        category: Category = "any",
        season: Season = "any",
        min_price: float = 0,
        max_price: float = NO_LIMIT,
        designer: str = "any",
    ) -> list[Row]:
        """Find clothes to recommend, cheapest first. Give only the filters that the user asked for.

        Args:
            category: kind of clothes.
            season: season they are made for.
            min_price: lowest price in EUR.
            max_price: highest price in EUR.
            designer: name of a designer or brand.

        Raises:
            UnknownDesignerError: the marketplace does not sell that designer.
            InvalidRequestError: an unknown category or season, or prices that leave nothing.
        """
        return [card(row) for row in self.search(category, season, min_price, max_price, designer)[:SHOWN]]

    def get_product_details(self, product_id: int) -> Row:
        """Get everything about one product: sizes, colours, material, description.

        Args:
            product_id: number of the product.

        Raises:
            UnknownProductError: there is no such product.
        """
        if product_id not in self._products:
            raise UnknownProductError(
                f"No product has the id {product_id!r}. Call recommend_clothes and take an id from its answer."
            )
        return copy.deepcopy(self._products[product_id])

    def get_similar_products(self, product_id: int) -> list[Row]:
        """Find products that are similar to one product.

        Args:
            product_id: number of the product that the others should be like.

        Raises:
            UnknownProductError: there is no such product.
        """
        like = self.get_product_details(product_id)
        others = [row for row in self.search(like["category"]) if row["id"] != product_id and row["in_stock"]]
        return [card(row) for row in sorted(others, key=lambda row: _unlike(like, row))[:SHOWN]]

    def get_designers_list(self) -> list[Row]:
        """List all designers and brands of the marketplace."""
        rows = sorted(self._designers.items())
        return [{key: row[key] for key in ("name", "country", "style")} for _, row in rows]

    def get_designer_information(self, name: str) -> Row:
        """Get information about one designer or brand: country, founding year, style.

        Args:
            name: name of the designer or brand.

        Raises:
            UnknownDesignerError: the marketplace does not sell that designer.
        """
        found = self._designer(name)
        return {**found, "categories": sorted({row["category"] for row in self.search(designer=found["name"])})}

    def place_order(self, items: list[OrderItem], ship_to: Address, gift_wrap: bool = False) -> Row:
        """Order products and have them sent to an address.

        Args:
            items: product ids with size and quantity (1 if not given).
            ship_to: name and postal address of the receiver.
            gift_wrap: whether to wrap it as a gift.

        Raises:
            UnknownProductError: there is no such product.
            InvalidRequestError: nothing ordered, not in stock, or a size that is not made.
        """
        if not items:
            raise InvalidRequestError("The order is empty. Give at least one item with product_id and size.")
        lines = [self._line(item) for item in items]
        order = {"items": lines, "ship_to": dict(ship_to), "gift_wrap": gift_wrap, "status": "placed"}
        order |= {"total": round(sum(line["price"] * line["quantity"] for line in lines), 2), "currency": "EUR"}
        number = next(self._numbers)
        self._orders[number] = {"order_id": number, **copy.deepcopy(order)}
        return self.get_order(number)

    def get_order(self, order_id: int) -> Row:
        """Get the status and content of an order.

        Args:
            order_id: number of the order.

        Raises:
            UnknownOrderError: there is no such order.
        """
        if order_id not in self._orders:
            raise UnknownOrderError(f"No order has the number {order_id!r}. It was in the answer to place_order.")
        return copy.deepcopy(self._orders[order_id])

    def search(
        self,
        category: str = "any",
        season: str = "any",
        min_price: float = 0,
        max_price: float = NO_LIMIT,
        designer: str = "any",
    ) -> list[Row]:
        """Return every product that fits, whole, cheapest first; those in stock before the others.

        Raises:
            UnknownDesignerError: the marketplace does not sell that designer.
            InvalidRequestError: an unknown category or season, or prices that leave nothing.
        """
        _check_word(category, Category, "category")
        _check_word(season, Season, "season")
        if min_price > max_price:
            raise InvalidRequestError(f"min_price {min_price!r} is above max_price {max_price!r}. Swap them.")
        if designer not in ("any", ""):
            designer = self._designer(designer)["name"]
        wanted = {"category": category, "season": season, "designer": designer}
        wanted = {key: value for key, value in wanted.items() if value not in ("any", "")}
        fitting = (
            row
            for row in self._products.values()
            if min_price <= row["price"] <= max_price and all(row[key] == value for key, value in wanted.items())
        )
        return copy.deepcopy(sorted(fitting, key=lambda row: (not row["in_stock"], row["price"], row["id"])))

    def _designer(self, name: str) -> Row:
        found = self._designers.get(str(name).strip().casefold())
        if found is None:
            known = [row["name"] for row in self.get_designers_list()]
            raise UnknownDesignerError(f"No designer is called {name!r}. {did_you_mean(str(name), known)}")
        return found

    def _line(self, item: OrderItem) -> Row:
        """Price one line of an order."""
        product, quantity = self.get_product_details(item["product_id"]), item.get("quantity", 1)
        if not product["in_stock"]:
            raise InvalidRequestError(f"{product['title']!r} is not in stock. Call get_similar_products.")
        if item["size"] not in product["sizes"]:
            raise InvalidRequestError(
                f"{product['title']!r} is not made in size {item['size']!r}. Sizes: {', '.join(product['sizes'])}."
            )
        if quantity < 1:
            raise InvalidRequestError(f"Quantity {quantity!r} of {product['title']!r} must be 1 or more.")
        return {**item, "title": product["title"], "quantity": quantity, "price": product["price"]}


def card(product: Row) -> Row:
    """Return what a list shows of a product."""
    return {key: product[key] for key in CARD}


def _unlike(like: Row, other: Row) -> tuple[int, float, int]:
    """Return a key that sorts the most similar products first; ties by price, then by id."""
    shared = 3 * (_garment(like) == _garment(other)) + 2 * (like["season"] == other["season"])
    shared += sum(like[key] == other[key] for key in ("designer", "material"))
    shared += len(set(like["colours"]) & set(other["colours"]))
    return -shared, abs(like["price"] - other["price"]), other["id"]


def _garment(product: Row) -> str:
    """Return what a product is: 'Alder wrap dress' is a 'wrap dress'."""
    return str(product["title"]).partition(" ")[2]


def _check_word(word: str, words: Any, what: str) -> None:
    known = get_args(words)
    if word not in (*known, ""):
        raise InvalidRequestError(f"Unknown {what} {word!r}. {did_you_mean(str(word), known)}")


def _lines(name: str) -> list[Row]:
    text = resources.path(f"data/marketplace/{name}").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
