"""Answer a traveller's questions and book seats: Travel.

Trains run every day at the same times; today is Monday, 3 May 2027. What changes is `bookings`.
Not here: the tools' descriptions (`data/cases/travel.tools.json`), the usual start (`data/cases/worlds/travel.json`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import date
from math import dist
from typing import Any, ClassVar

from toolkit.tools import Effect
from toolkit.worlds.world import DictWorld, WorldError, as_date, as_time, pick

Json = dict[str, Any]

_CARDS = {"none": 1.0, "half fare": 0.5, "senior": 0.7}
_FIRST_CLASS = 1.6  # times the price of second class
_KM_PER_HOUR = 15


class Travel(DictWorld):
    """Know trains, stops, weather, money, hotels and bicycle routes; keep bookings."""

    domain = "travel"
    effects: ClassVar[Mapping[str, Effect]] = {"book_seats": "dangerous"}  # it costs money, and no tool takes it back

    def find_connections(
        self, origin: str, destination: str, date: str, depart_after: str = "00:00", direct_only: bool = False
    ) -> list[Json]:
        """List the trains between two cities, earliest first."""
        day, after = self._future(date), as_time(depart_after)
        found = [
            {"train": name, **{key: train[key] for key in ("departs", "arrives", "changes", "price")}}
            | {"free_seats": self._free(name, day.isoformat(), "second")}
            for name, train in self._between(origin, destination).items()
            if train["departs"] >= after and not (direct_only and train["changes"])
        ]
        return sorted(found, key=lambda train: str(train["departs"]))

    def get_departures(self, stop: str, limit: int = 5) -> Json:
        """List the next departures of a stop."""
        name, departures = pick(stop, self.now["stops"], "stop")
        return {"stop": name, "departures": departures[:limit]}

    def get_delay(self, train: str) -> Json:
        """Tell how late a train is."""
        name, found = pick(train, self.now["trains"], "train")
        return {"train": name, "minutes_late": found["minutes_late"], "reason": found["reason"] or "none"}

    def list_lines(self) -> list[Json]:
        """List the bus and tram lines."""
        return list(self.now["lines"])

    def get_weather(self, city: str, day: str = "today") -> Json:
        """Tell the forecast."""
        name, days = pick(city, self.now["weather"], "forecast for the city")
        return {"city": name, "day": day, **days[day]}

    def convert_currency(self, amount: float, from_currency: str, to_currency: str) -> Json:
        """Convert money by the rates of the state."""
        (_, one), (unit, other) = (pick(c, self.now["per_euro"], "currency") for c in (from_currency, to_currency))
        return {"amount": round(amount / one * other, 2), "currency": unit}

    def find_hotels(
        self,
        city: str,
        check_in: str,
        check_out: str,
        guests: int = 2,
        max_price: float | None = None,
        amenities: list[str] | None = None,
    ) -> list[Json]:
        """List hotels with enough beds, cheapest first."""
        nights = (as_date(check_out) - self._future(check_in)).days
        if nights < 1:
            raise WorldError(f"check_out {check_out!r} must be after check_in {check_in!r}.")
        hotels = self.now["hotels"]
        _, city = pick(city, {hotel["city"]: hotel["city"] for hotel in hotels.values()}, "hotel in the city")
        fitting = [
            {"hotel": name, **hotel, "total": hotel["price"] * nights}
            for name, hotel in hotels.items()
            if hotel["city"] == city and hotel["beds"] >= guests and set(amenities or ()) <= set(hotel["amenities"])
        ]
        cheap = [hotel for hotel in fitting if max_price is None or hotel["price"] <= max_price]
        return sorted(cheap, key=lambda hotel: float(hotel["price"]))

    def get_ticket_price(self, origin: str, destination: str, travellers: Json, card: str = "none") -> Json:
        """Price the cheapest train of the day; children pay half."""
        prices = {name: train["price"] for name, train in self._between(origin, destination).items()}
        train = min(prices, key=lambda name: float(prices[name]))
        seats = travellers["adults"] + travellers.get("children", 0) / 2
        if not seats:
            raise WorldError("Nobody travels. Give at least one adult or child.")
        return {"train": train, "total": round(prices[train] * seats * _CARDS[card], 2), "currency": "EUR"}

    def book_seats(self, train: str, date: str, passengers: list[Json], travel_class: str = "second") -> Json:
        """Book seats, all of them or none."""
        name, found = pick(train, self.now["trains"], "train")
        day = self._future(date).isoformat()
        if not passengers:
            raise WorldError("The booking has no passenger. Give name and age_group of each.")
        free = self._free(name, day, travel_class)
        if free < len(passengers):
            other = "first" if travel_class == "second" else "second"
            raise WorldError(
                f"{name} on {day} has {free} free seats in {travel_class} class and "
                f"{self._free(name, day, other)} in {other} class; {len(passengers)} are wanted. "
                "Book another class, or another train from find_connections."
            )
        booking: Json = {"train": name, "date": day, "passengers": passengers, "travel_class": travel_class}
        number = hashlib.sha256(json.dumps(booking, sort_keys=True).encode()).hexdigest()[:6].upper()
        shares = sum(0.5 if one["age_group"] == "child" else 1.0 for one in passengers)
        total = round(found["price"] * shares * (_FIRST_CLASS if travel_class == "first" else 1), 2)
        self.now["bookings"].append({"booking": number, **booking, "total": total})
        return {"booking": number, "train": name, "departs": found["departs"], "total": total, "currency": "EUR"}

    def plan_bike_route(self, origin: str, destination: str, avoid: list[str] | None = None) -> Json:
        """Plan a route; each thing to avoid makes it a fifth longer."""
        places = self.now["places"]
        (start, here), (end, there) = (pick(place, places, "place") for place in (origin, destination))
        if start == end:
            raise WorldError(f"The route starts and ends at {start!r}. Give two places.")
        km = round(dist(here, there) * (1 + 0.2 * len(set(avoid or ()))), 1)
        return {"from": start, "to": end, "km": km, "minutes": round(km / _KM_PER_HOUR * 60)}

    def _future(self, text: str) -> date:
        day = as_date(text)
        if day < as_date(self.now["today"]):
            raise WorldError(f"{text!r} is in the past; today is {self.now['today']}.")
        return day

    def _between(self, origin: str, destination: str) -> dict[str, Json]:
        """Return the trains of a route."""
        trains = self.now["trains"]
        cities = {city: city for train in trains.values() for city in (train["origin"], train["destination"])}
        start, end = (pick(city, cities, "station in the city")[0] for city in (origin, destination))
        found = {n: train for n, train in trains.items() if (train["origin"], train["destination"]) == (start, end)}
        if not found:
            raise WorldError(f"No train goes from {start} to {end}. Try another pair of cities.")
        return found

    def _free(self, train: str, day: str, travel_class: str) -> int:
        taken = [
            b for b in self.now["bookings"] if (b["train"], b["date"], b["travel_class"]) == (train, day, travel_class)
        ]
        return int(self.now["trains"][train]["seats"][travel_class]) - sum(len(b["passengers"]) for b in taken)
