"""Keep a house that tools switch, heat and measure: Home.

A setting shows in the state at once: a light has its brightness, a room its wanted temperature.
Not here: the tools' descriptions (`data/cases/home.tools.json`), the usual start (`data/cases/worlds/home.json`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from toolkit.tools import Effect
from toolkit.worlds.world import DictWorld, WorldError, as_time

Json = dict[str, Any]

_COLDEST, _WARMEST = 5, 30  # °C that the heating takes
_KWH_PER_PERCENT = 0.6  # a battery of 60 kWh


class Home(DictWorld):
    """Know five rooms, three appliances, a car, the panels on the roof and what electricity costs."""

    domain = "home"
    effects: ClassVar[Mapping[str, Effect]] = dict.fromkeys(
        ("set_temperature", "switch_light", "set_blinds", "start_appliance", "charge_car", "set_heating_schedule",
         "create_scene", "set_alert"), "writes",
    )  # fmt: skip

    def set_temperature(self, room: str, celsius: float) -> Json:
        """Set what a room is heated or cooled to."""
        self._check_celsius(celsius)
        self.now["rooms"][room]["wanted_celsius"] = celsius
        return {"room": room, "wanted_celsius": celsius, "now_celsius": self.now["rooms"][room]["celsius"]}

    def switch_light(self, room: str, on: bool, brightness: int = 100) -> Json:
        """Switch or dim a light."""
        self.now["rooms"][room]["light"] = brightness if on else 0
        return {"room": room, "light": self.now["rooms"][room]["light"]}

    def set_blinds(self, room: str, position: int) -> Json:
        """Move blinds; in strong wind they stay open."""
        if self.now["wind_alarm"] and position > 0:
            raise WorldError("The wind alarm is on: blinds can only be opened (position 0). Try again later.")
        self.now["rooms"][room]["blinds"] = position
        return {"room": room, "blinds": position}

    def get_indoor_climate(self, room: str) -> Json:
        """Measure a room."""
        return {"room": room, **{key: self.now["rooms"][room][key] for key in ("celsius", "humidity")}}

    def get_energy_use(self, period: str, device: str = "whole house") -> Json:
        """Tell the kWh of a period."""
        return {"device": device, "period": period, "kwh": self.now["kwh"][device][period]}

    def get_solar_output(self) -> Json:
        """Tell the watts of the moment."""
        return {"watts": self.now["solar_watts"]}

    def start_appliance(self, appliance: str, program: str = "eco", start_at: str | None = None) -> Json:
        """Start an appliance now or later, if nothing is in the way."""
        found = self.now["appliances"][appliance]
        if found["fault"]:
            raise WorldError(f"The {appliance} cannot start: {found['fault']}.")
        if found["state"] != "idle":
            raise WorldError(f"The {appliance} is {found['state']} already; it cannot be started again now.")
        starts = None if start_at is None else as_time(start_at)
        found |= {"state": "running" if starts is None else "waiting", "program": program, "starts_at": starts}
        return {"appliance": appliance, **{key: found[key] for key in ("state", "program", "starts_at")}}

    def charge_car(self, until_percent: int, ready_by: str | None = None) -> Json:
        """Charge the car, if it is plugged in and not that full."""
        car = self.now["car"]
        if not car["plugged_in"]:
            raise WorldError("The car is not plugged in. Ask the user to plug it in.")
        if until_percent <= car["percent"]:
            raise WorldError(f"The car is at {car['percent']} percent already. Give more than that.")
        car |= {"charge_to": until_percent, "ready_by": None if ready_by is None else as_time(ready_by)}
        needs = round((until_percent - car["percent"]) * _KWH_PER_PERCENT, 1)
        return {"charge_to": until_percent, "ready_by": car["ready_by"], "needs_kwh": needs}

    def compare_tariffs(self, annual_kwh: float, heat_pump: bool = False) -> list[Json]:
        """Price a year's use in every tariff that may be had, cheapest first."""
        if annual_kwh <= 0:
            raise WorldError(f"annual_kwh must be above 0, not {annual_kwh!r}.")
        found = [
            {"tariff": t["tariff"], "euro_a_year": round(12 * t["per_month"] + annual_kwh * t["per_kwh"], 2)}
            for t in self.now["tariffs"]
            if heat_pump or not t["heat_pump"]
        ]
        return sorted(found, key=lambda tariff: float(tariff["euro_a_year"]))

    def set_heating_schedule(self, room: str, slots: list[Json]) -> Json:
        """Replace the daily heating times of a room."""
        clean: list[Json] = []
        for slot in slots:
            start, end = as_time(slot["start"]), as_time(slot["end"])
            self._check_celsius(slot["celsius"])
            if start >= end:
                raise WorldError(f"The slot {start} to {end} ends before it starts. Split it at midnight.")
            if clean and start < clean[-1]["end"]:
                raise WorldError(f"The slot from {start} overlaps the one before. Give slots earliest first.")
            clean.append({"start": start, "end": end, "celsius": slot["celsius"]})
        self.now["rooms"][room]["schedule"] = clean
        return {"room": room, "schedule": clean}

    def create_scene(self, name: str, lights: list[Json], blinds_position: int | None = None) -> Json:
        """Save a scene under a name that is free."""
        if any(scene["name"].casefold() == name.casefold() for scene in self.now["scenes"]):
            raise WorldError(f"There is a scene {name!r} already. Choose another name.")
        if not lights:
            raise WorldError("A scene needs at least one light.")
        scene = {"name": name, "lights": lights, "blinds_position": blinds_position}
        self.now["scenes"].append(scene)
        return scene

    def set_alert(self, room: str, condition: Json) -> Json:
        """Add an alert to a room."""
        self.now["rooms"][room]["alerts"].append(condition)
        return {"room": room, "alerts": self.now["rooms"][room]["alerts"]}

    def _check_celsius(self, celsius: float) -> None:
        if not _COLDEST <= celsius <= _WARMEST:
            raise WorldError(f"The heating takes {_COLDEST} to {_WARMEST} °C, not {celsius:g}. Give another value.")
