"""Say what a world is and make one by name: World, load_world.

A world of your own is any class that takes a start (a mapping, or None) and has `.tools` and `.state`; give it under
a name, `worlds={"bank": Bank}`. Names in a case file are only looked up there and among the bundled ones: no data
file can make the toolkit import code.
Not here: the bundled worlds (`travel`, `home`, `lab`, `marketplace`).
"""

from __future__ import annotations

import copy
import functools
import json
import pkgutil
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time
from typing import Any, ClassVar, Protocol, runtime_checkable

from toolkit import resources
from toolkit.errors import ConfigError, ToolError, did_you_mean
from toolkit.tools import Effect, Tool

WORLDS = {
    "home": "toolkit.worlds.home:Home",
    "lab": "toolkit.worlds.lab:Lab",
    "marketplace": "toolkit.worlds.marketplace.catalogue:Marketplace",
    "travel": "toolkit.worlds.travel:Travel",
}
Make = Callable[[Mapping[str, Any] | None], Any]


class WorldError(ToolError):
    """Report what a service of a demo world refuses; the message says what to do instead."""


@runtime_checkable
class World(Protocol):
    """Hold a state and the tools that read and change it."""

    @property
    def tools(self) -> Iterable[Any]:
        """Return the tools of this very world, as `as_tools` reads them; `effect` says truly which change something."""

    @property
    def state(self) -> Mapping[str, Any]:
        """Return the state as it is now, as JSON data; a copy, so that a later call does not change it."""


def load_world(name: str, start: Mapping[str, Any] | None = None, worlds: Mapping[str, Make] | None = None) -> World:
    """Make a fresh world.

    Args:
        name: "home", "lab", "marketplace", "travel", or a key of `worlds`.
        start: what differs from its usual start; mappings are laid over it, lists and values take its place.
        worlds: worlds of your own by name; they win over the bundled ones.

    Raises:
        ConfigError: no such world, it cannot start so, or what was made is no world.
    """
    own = worlds or {}
    if not isinstance(name, str) or (name not in own and name not in WORLDS):
        hint = did_you_mean(str(name), [*own, *WORLDS])
        raise ConfigError(f"There is no world {name!r}. {hint} Give one of your own: worlds={{{name!r}: YourClass}}.")
    make = own[name] if name in own else pkgutil.resolve_name(WORLDS[name])
    try:
        world = make(start)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"World {name!r} cannot start from {start!r}: {type(error).__name__}: {error}.") from error
    if not isinstance(world, World):
        raise ConfigError(f"World {name!r} made {world!r}, which has no .tools and .state. Give a class that has both.")
    return world


class DictWorld:
    """Keep the state in one dict; a subclass has one method for each tool of `data/cases/DOMAIN.tools.json`.

    The usual start is `data/cases/worlds/DOMAIN.json`. What grows is a list there, or an empty mapping; every other
    mapping keeps its keys.

    Raises:
        ConfigError: the start names something that the world does not have.
    """

    domain: ClassVar[str]  # the name of the files that hold tools and start
    effects: ClassVar[Mapping[str, Effect]]  # of the tools that do more than read

    def __init__(self, start: Mapping[str, Any] | None = None) -> None:
        usual = _data(f"worlds/{self.domain}.json")
        check_start(start, usual, self.domain)
        self.now: dict[str, Any] = laid_over(usual, start or {})

    @functools.cached_property
    def tools(self) -> list[Tool]:
        """Return the tools, described as in the case files."""
        return bound_tools(self, self.domain, self.effects)

    @property
    def state(self) -> dict[str, Any]:
        """Return a copy of the state."""
        return copy.deepcopy(self.now)


def check_start(start: Any, known: Iterable[str], domain: str) -> None:
    """Check that a start is a mapping of parts that a world has.

    Raises:
        ConfigError: it is not.
    """
    if start is not None and not isinstance(start, Mapping):
        raise ConfigError(f"The start of world {domain!r} must be an object, not {start!r}.")
    for key in start or {}:
        if key not in known:
            raise ConfigError(f"World {domain!r} has no {key!r} to start with. {did_you_mean(str(key), known)}")


def laid_over(base: Any, changes: Any) -> Any:
    """Return a copy of `base` with changes; mappings are merged, all else is replaced.

    >>> laid_over({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": []})
    {'a': {'x': 1, 'y': 3}, 'b': []}
    """
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return copy.deepcopy(changes)
    kept = {key: value for key, value in base.items() if key not in changes}
    return {**copy.deepcopy(kept), **{key: laid_over(base.get(key), value) for key, value in changes.items()}}


def bound_tools(world: object, domain: str, effects: Mapping[str, Effect]) -> list[Tool]:
    """Return the tools that a case file describes, each run by the world's method of its name, one at a time."""
    lock = threading.RLock()

    def alone(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(**arguments: Any) -> Any:
            with lock:
                return method(**arguments)

        return call

    return [
        Tool(**spec, function=alone(getattr(world, spec["name"])), effect=effects.get(spec["name"], "reads"))
        for spec in _data(f"{domain}.tools.json")
    ]


@functools.cache
def _data(name: str) -> Any:
    return json.loads(resources.path(f"data/cases/{name}").read_text("utf-8"))


def pick(name: Any, known: Mapping[str, Any], what: str) -> tuple[str, Any]:
    """Return the key that a model means, whatever its case and blanks, and its value.

    >>> pick("ic204", {"IC 204": "…"}, "train")
    ('IC 204', '…')

    Raises:
        WorldError: there is none.
    """
    folded = {"".join(key.casefold().split()): key for key in known}
    key = folded.get("".join(str(name).casefold().split()))
    if key is None:
        raise WorldError(f"There is no {what} {name!r}. {did_you_mean(str(name), known)}")
    return key, known[key]


def as_date(text: Any) -> date:
    """Read YYYY-MM-DD.

    Raises:
        WorldError: it is no such date.
    """
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        raise WorldError(f"{text!r} is no date. Write it as YYYY-MM-DD.") from None


def as_time(text: Any) -> str:
    """Read HH:MM.

    Raises:
        WorldError: it is no such time.
    """
    try:
        return time.fromisoformat(str(text)).strftime("%H:%M")
    except ValueError:
        raise WorldError(f"{text!r} is no time of day. Write it as HH:MM.") from None
