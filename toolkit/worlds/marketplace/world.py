"""Make the marketplace a world that cases can act in: Shop.

Its state is the orders; a start gives orders as `place_order` takes them.
Not here: the shop itself (`toolkit.worlds.marketplace.catalogue`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from toolkit.tools import Tool
from toolkit.worlds.marketplace.catalogue import Marketplace
from toolkit.worlds.world import bound_tools, check_start


class Shop:
    """Sell clothes and keep orders, numbered from 1.

    Args:
        start: {"orders": [arguments of place_order, …]}.

    Raises:
        ConfigError: the start names something else.
        MarketplaceError: an order of the start cannot be placed.
    """

    def __init__(self, start: Mapping[str, Any] | None = None) -> None:
        check_start(start, ["orders"], "marketplace")
        self.shop = Marketplace()
        for order in (start or {}).get("orders", ()):
            self.shop.place_order(**order)

    @cached_property
    def tools(self) -> list[Tool]:
        """Return the tools of the shop, ordering included."""
        # an order costs money, and no tool takes it back
        return bound_tools(self.shop, "marketplace", {"place_order": "dangerous"})

    @property
    def state(self) -> dict[str, Any]:
        """Return the orders."""
        return {"orders": self.shop.orders()}
