"""Hold what a case needs to be run as a whole, and what must be true at its end: Scenario.

A case that is a whole run says where it happens and what comes later, beside what any case says:

    {"id": "home-run-001", "messages": […], "world": "home", "start": {"rooms": {"study": {"light": 40}}},
     "tools": ["switch_light", "get_indoor_climate"], "turns": ["And now the study, please."],
     "expect": {"calls": […], "further": "reads", "state": {"rooms": {"study": {"light": 0}}},
                "answer": {"$contains": "study"}}}

`results` in place of a world holds recorded results: {"name", "arguments", "result"}, or "error" for a refusal.
Not here: the rest of a case (`toolkit.evaluation.cases`), playing it (`toolkit.evaluation.play`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from toolkit.errors import ConfigError, did_you_mean
from toolkit.evaluation.matching import check_matcher, is_matcher
from toolkit.worlds import World

Further = Literal["reads", "none", "any"]
DATA_KEYS = ("world", "start", "turns", "results")
EXPECT_KEYS = ("further", "state", "answer")


@dataclass(frozen=True)
class Scenario:
    """Hold where a run happens, what the user says later, and what must be true at its end.

    Attributes:
        world: the name of a world, or "" where there is none.
        start: what differs from the world's usual start.
        turns: what the user says next, each after the agent's answer.
        results: recorded results in place of a world.
        further: which calls may be made beside the expected ones: "reads" those of tools that only read, and those
            that were answered with an error; "none"; "any".
        state: the part of the final state that is looked at, or None.
        answer: what the final answer must match, or None.
        quiet: nothing may be changed.
    """

    world: str = ""
    start: Mapping[str, Any] = field(default_factory=dict)
    turns: tuple[str, ...] = ()
    results: tuple[dict[str, Any], ...] = ()
    further: Further = "reads"
    state: Any = None
    answer: Any = None
    quiet: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return what a case file says beside `expect`."""
        found = {key: getattr(self, key) for key in DATA_KEYS if getattr(self, key)}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}

    def expectation(self) -> dict[str, Any]:
        """Return what a case file says in `expect` beside the calls."""
        return {key: getattr(self, key) for key in EXPECT_KEYS if getattr(self, key) is not None}


def scenario_of(data: Mapping[str, Any], offered: Collection[str], world: World | None, where: str) -> Scenario | None:
    """Read the part of a case that makes it a whole run; None where it is a single request.

    Args:
        data: as in a case file; its `expect` was checked to be a mapping.
        offered: names of the tools offered.
        world: the world that the case names, as it starts, or None.
        where: how errors name the case.

    Raises:
        ConfigError: a part that cannot be used, or a state that can never be.
    """
    expect = data["expect"]
    if not (set(data) & set(DATA_KEYS) or set(expect) & set(EXPECT_KEYS)):
        return None
    quiet, turns = "no_call" in expect, data.get("turns") or []
    results = data.get("results") or []
    if not isinstance(results, (list, tuple)):
        raise ConfigError(f"{where}: results must be a list, not {results!r:.100}.")
    if not isinstance(turns, list) or not all(isinstance(turn, str) and turn.strip() for turn in turns):
        raise ConfigError(f"{where}: turns must be a list of what the user says next, not {turns!r}.")
    found = Scenario(
        world=data.get("world", ""),
        start=data.get("start") or {},
        turns=tuple(turns),
        results=tuple(_recorded(item, offered, where) for item in results),
        further=expect.get("further", "none" if quiet else "reads"),
        state=expect.get("state"),
        answer=expect.get("answer"),
        quiet=quiet,
    )
    if found.further not in get_args(Further):
        hint = did_you_mean(str(found.further), get_args(Further))
        raise ConfigError(f"{where}: further={found.further!r} is not known. {hint}")
    if found.start and world is None:
        raise ConfigError(f'{where}: "start" needs a "world" that starts so.')
    if found.results and world is not None:
        raise ConfigError(f'{where}: has a "world" and "results". Give one of them.')
    if found.state is not None:
        if world is None:
            raise ConfigError(f'{where}: expects a state, but has no "world" to have one.')
        check_matcher(found.state, where)
        check_state(found.state, world.state, found.world, where)
    check_matcher(found.answer, where)
    return found


def _recorded(item: Any, offered: Collection[str], where: str) -> dict[str, Any]:
    keys = set(item) if isinstance(item, Mapping) else set()
    if not {"name"} < keys <= {"name", "arguments", "result", "error"} or len(keys & {"result", "error"}) != 1:
        raise ConfigError(f'{where}: {item!r} is no recorded result. Write {{"name", "arguments", "result"}}.')
    if item["name"] not in offered:
        raise ConfigError(f"{where}: records a result of {item['name']!r}, which is not offered: {list(offered)}.")
    check_matcher(item.get("arguments", {}), where)
    return dict(item)


def check_state(expected: Any, start: Any, world: str, where: str, path: str = "state") -> None:
    """Refuse a part, expected or started with, that the world does not have: it would never come out right."""
    if start is None or is_matcher(expected):
        return
    if any(isinstance(start, kind) != isinstance(expected, kind) for kind in (Mapping, list)):
        raise ConfigError(f"{where}: {path} of world {world!r} is {start!r}; it can never be {expected!r}."[:400])
    if not isinstance(start, Mapping):
        return
    for key, value in expected.items():
        if key in start:
            check_state(value, start[key], world, where, f"{path}.{key}")
        elif start or "." not in path:  # a mapping that starts empty may get any key
            hint = did_you_mean(str(key), start)
            raise ConfigError(f"{where}: {path} of world {world!r} has no {key!r}. {hint}")
