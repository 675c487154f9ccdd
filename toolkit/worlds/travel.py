"""Answer a traveller's questions and book seats: Travel.

Trains run every day at the same times; today is Monday, 3 May 2027. What changes is `bookings`.
Not here: how the tools are described (`data/cases/travel.tools.json`), what a world is (`toolkit.worlds.world`).
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


def _train(route: str, departs: str, arrives: str, price: float, second: int, first: int, changes: int = 0) -> Json:
    origin, _, destination = route.partition(" > ")
    found = {"origin": origin, "destination": destination, "departs": departs, "arrives": arrives, "changes": changes}
    return {**found, "price": price, "seats": {"second": second, "first": first}, "minutes_late": 0, "reason": ""}


_TRAINS = {
    "RE 12": _train("Basel > Bern", "07:20", "08:45", 27.0, 80, 0, changes=1),
    "IC 204": _train("Basel > Bern", "08:05", "09:01", 38.0, 60, 12),
    "IC 718": _train("Basel > Bern", "10:05", "11:01", 38.0, 60, 12),
    "EC 87": _train("Basel > Bern", "14:05", "15:01", 42.0, 2, 8),
    "IC 231": _train("Bern > Basel", "17:34", "18:30", 38.0, 60, 12),
    "IC 239": _train("Bern > Basel", "19:34", "20:30", 38.0, 60, 12),
    "TG 601": _train("Lyon > Paris", "06:58", "09:02", 74.0, 40, 10),
    "TG 615": _train("Lyon > Paris", "11:30", "13:34", 62.0, 1, 4),
    "TG 633": _train("Lyon > Paris", "17:28", "19:32", 88.0, 40, 10),
    "TG 640": _train("Paris > Lyon", "18:10", "20:14", 81.0, 40, 10),
    "RE 55": _train("Ghent > Bruges", "09:10", "09:38", 8.0, 90, 0),
    "IC 530": _train("Ghent > Bruges", "14:05", "14:29", 9.5, 90, 16),
    "RE 61": _train("Ghent > Bruges", "18:40", "19:22", 8.0, 90, 0, changes=1),
    "NT 41": _train("Oslo > Bergen", "08:25", "15:12", 69.0, 30, 6),
    "NT 61": _train("Oslo > Bergen", "12:03", "18:55", 58.0, 0, 3),
    "NT 67": _train("Oslo > Bergen", "16:03", "22:40", 49.0, 30, 0, changes=1),
}


def _weather(today: Any, tomorrow: Any, weekend: Any) -> Json:
    keys = ("sky", "celsius", "rain_percent")
    days = {"today": today, "tomorrow": tomorrow, "weekend": weekend}
    return {day: dict(zip(keys, values, strict=True)) for day, values in days.items()}


_WEATHER = {
    "Basel": _weather(("sunny", 18, 0), ("cloudy", 16, 20), ("rain", 13, 80)),
    "Bergen": _weather(("rain", 9, 90), ("rain", 8, 95), ("cloudy", 11, 30)),
    "Bern": _weather(("cloudy", 15, 20), ("rain", 12, 85), ("sunny", 19, 5)),
    "Bruges": _weather(("cloudy", 14, 25), ("sunny", 17, 5), ("sunny", 18, 0)),
    "Ghent": _weather(("cloudy", 14, 30), ("sunny", 17, 5), ("rain", 13, 70)),
    "Lisbon": _weather(("sunny", 22, 0), ("sunny", 24, 0), ("sunny", 25, 0)),
    "Lyon": _weather(("sunny", 21, 0), ("thunderstorm", 19, 75), ("sunny", 23, 0)),
    "Oslo": _weather(("cloudy", 11, 15), ("snow", 1, 60), ("sunny", 12, 5)),
    "Paris": _weather(("sunny", 19, 5), ("sunny", 20, 0), ("rain", 15, 80)),
    "Rome": _weather(("sunny", 23, 0), ("cloudy", 21, 10), ("sunny", 24, 0)),
}
_HOTELS = {
    "Aarehof": {"city": "Bern", "price": 128.0, "beds": 2, "amenities": ["wifi", "breakfast"]},
    "Bear Garden": {"city": "Bern", "price": 94.0, "beds": 3, "amenities": ["wifi", "parking"]},
    "Canal House": {"city": "Bruges", "price": 110.0, "beds": 2, "amenities": ["wifi", "breakfast"]},
    "Fjord View": {"city": "Bergen", "price": 145.0, "beds": 4, "amenities": ["wifi", "parking", "breakfast"]},
    "Harbour Rest": {"city": "Bergen", "price": 89.0, "beds": 2, "amenities": ["wifi"]},
    "Lilac Court": {"city": "Paris", "price": 162.0, "beds": 2, "amenities": ["wifi", "pool"]},
    "Petit Nord": {"city": "Paris", "price": 97.0, "beds": 2, "amenities": ["wifi"]},
}
_STOPS = {
    "Elm Park": [("4", "University", "10:06"), ("7", "Old Port", "10:14"), ("4", "University", "10:26")],
    "Harbour Square": [("2", "North Gate", "10:03"), ("7", "Elm Park", "10:09"), ("2", "North Gate", "10:18")],
    "Mill Bridge": [("7", "Old Port", "10:11"), ("7", "Elm Park", "10:16"), ("7", "Old Port", "10:41")],
    "North Gate": [("2", "Harbour Square", "10:02"), ("2", "Harbour Square", "10:17")],
}


class Travel(DictWorld):
    """Know trains, stops, weather, money, hotels and bicycle routes; keep bookings."""

    domain = "travel"
    effects: ClassVar[Mapping[str, Effect]] = {"book_seats": "dangerous"}  # it costs money, and no tool takes it back
    START: ClassVar[Mapping[str, Any]] = {
        "today": "2027-05-03",
        "trains": _TRAINS,
        "weather": _WEATHER,
        "per_euro": {"EUR": 1.0, "CHF": 0.95, "DKK": 7.46, "GBP": 0.85, "NOK": 11.6, "SEK": 11.2, "USD": 1.1},
        "hotels": _HOTELS,
        "stops": {
            stop: [dict(zip(("line", "to", "leaves"), one, strict=True)) for one in many]
            for stop, many in _STOPS.items()
        },
        "lines": [
            {"line": "2", "kind": "tram", "between": ["North Gate", "Harbour Square"]},
            {"line": "4", "kind": "bus", "between": ["Elm Park", "University"]},
            {"line": "7", "kind": "bus", "between": ["Old Port", "Mill Bridge", "Harbour Square", "Elm Park"]},
        ],
        "places": {
            "Elm Park": [0.0, 3.0], "Harbour Square": [4.0, 0.0], "Mill Bridge": [2.0, 1.0], "North Gate": [1.0, 6.0],
            "Old Port": [5.0, 1.0], "University": [3.0, 4.0],
        },
        "bookings": [],
    }  # fmt: skip

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
