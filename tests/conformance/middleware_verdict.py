"""Is a difference meant? Only if our run is, part for part, what the repaired loop was predicted to do.

A small model of the documented loop (`middleware_oracle`) plays the scenario, and notes which rows of the table
(`middleware_rows`) it meets and where. A difference is on purpose if a row is met, our run equals the prediction in
every part, and the original did what was predicted up to the first row met, and beyond it nothing that no row explains.
Nothing here knows a scenario's name. Not here: how notes are compared (`middleware_compare`, `middleware_fit`).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from middleware_compare import COUNTS, LIMITS, Comparison, plain_events, scripted
from middleware_fit import Fit
from middleware_oracle import NODE_HOOKS, Met, predict
from middleware_oracle_ready import modelled
from middleware_oracle_state import Open
from middleware_world import play

Data = dict[str, Any]
Verdict = tuple[str, list[str], str]
# what the original ends with where it falls over such a weakness
ENDS = {
    "KeyError": ("A-W2", "A-W3"),
    "InvalidUpdateError": ("A-W6", "D13"),
    "AssertionError": ("A-W8",),
    "NotImplementedError": ("A-W9", "A1.7"),
    "TypeError": ("A-W9", "A-W11", "D2", "D6"),
    "ValueError": ("D3", "D9", "D11"),
    "AttributeError": ("A-W11",),
    "GraphRecursionError": ("A-W14",),
}
CRASHES = {"A-W2": "KeyError", "A-W6": "InvalidUpdateError", "A-W8": "AssertionError"}  # always, if met first
# rows whose values or exceptions reach into the library, which may end in other ways
ANYWHERE = ("A-W1", "A-W4", "A-W11", "A-W18")
TURNS_GIVE = ("structured_response", "todos")  # fields that a further turn, there or here, may write


def judge(scenario: Data, ours: Data | None = None) -> Verdict:
    """Return the verdict, the rows of the table that a difference is owed to, and what differs.

    Args:
        scenario: one of the file, with what the original was seen to do.
        ours: our notes, where they are at hand.
    """
    theirs = {**scenario["observed"], "events": plain_events(scenario["observed"]["events"], scenario)}
    ours = run(scenario) if ours is None else ours
    comparison = Comparison(scenario, theirs, ours)
    differences = comparison.differences()
    if not differences:
        return "agrees", [], ""
    try:
        predicted, met = predict(scenario)
    except Open:
        return "differs", [], f"{', '.join(differences)}; whether a history is long enough cannot be predicted"
    predicted["events"] = plain_events(predicted["events"], scenario)
    if (theirs.get("error") or {}).get("type") == "GraphRecursionError":
        met = {**met, "A-W14": Met(len(theirs["events"]), len(theirs["model_calls"]), None)}
    if not met:
        return "differs", [], ", ".join(differences)
    if not modelled(scenario):
        return "differs", [], f"{', '.join(differences)}; a ready-made middleware's part in this is not predicted"
    misfits = Fit(scenario, predicted, ours, comparison.own).misfits()
    misfits = misfits or unexplained(comparison, predicted, met)
    return ("differs", [], ", ".join(misfits)) if misfits else ("differs on purpose", list(met), ", ".join(differences))


def run(scenario: Data, **settings: Any) -> Data:
    """Play a scenario; where threads race, events are sorted, as in the file."""
    ours = play(scenario, **settings)
    ours["events"] = plain_events(ours["events"], scenario)
    if scenario.get("unordered_events"):
        ours["events"] = sorted(ours["events"])
    return ours


# ---------------------------------------------------------------------- what the original may have done
def unexplained(comparison: Comparison, predicted: Data, met: dict[str, Met]) -> list[str]:
    """Return the parts in which the original did something that no row met explains."""
    theirs, scenario = comparison.theirs, comparison.scenario
    row, first = min(met.items(), key=lambda item: (item[1].events, item[1].calls))
    fit = Fit(scenario, predicted, theirs, comparison.own, theirs=True)
    found = []
    if not starts(theirs["events"], predicted["events"][: first.events], scenario):
        found.append("events before the weakness is met")
    if not fit.calls(predicted["model_calls"][: first.calls], theirs["model_calls"][: first.calls]):
        found.append("model calls before the weakness is met")
    if not rewrites(scenario) and not fit.messages(*so_far(theirs, predicted, first)):
        found.append("messages before the weakness is met")
    if not error_explained(scenario, theirs.get("error"), predicted.get("error"), row, met):
        found.append("the original's error")
    if not (theirs.get("error") or predicted.get("error") or writes(scenario)):
        found += ["final_state"] * (state_of(theirs, TURNS_GIVE) != state_of(predicted, TURNS_GIVE))
    return found


def so_far(theirs: Data, predicted: Data, point: Met) -> tuple[list[Data], list[Data]]:
    """Return the messages of both when the weakness was met, as far as neither changed them later."""
    history = point.messages or []
    first = next((n for n, m in enumerate(history) if m.get("_invalid")), len(history))
    # after a turn with unreadable calls results may come in between later
    kept = [{k: v for k, v in m.items() if not k.startswith("_")} for m in history[: first + 1]]
    said = predicted.get("final_messages") or (predicted.get("partial") or {}).get("final_messages") or []
    if theirs.get("final_messages") is None or said[: len(kept)] != kept:
        return [], []
    return kept, theirs["final_messages"][: len(kept)]


def rewrites(scenario: Data) -> bool:
    """Tell whether messages of a run are changed or lost later, by their ids or since another run follows."""

    def by_id(value: Any) -> bool:
        if isinstance(value, dict):
            mine = "role" in value and ("id" in value or value["role"].startswith("remove"))
            return mine or any(map(by_id, value.values()))
        return isinstance(value, list) and any(map(by_id, value))

    middlewares = scenario.get("middlewares", [])
    sums_up = any(m.get("builtin") == "SummarizationMiddleware" for m in middlewares)
    return sums_up or scenario.get("repeat_invocations", 1) > 1 or by_id([middlewares, scenario.get("tools")])


def starts(events: list[str], beginning: list[str], scenario: Data) -> bool:
    """Tell whether a run starts so; of sorted events it can only be told whether all are there.

    A library's own errors have other classes there.
    """
    beginning, events = ([re.sub(":caught:.*", ":caught", e) for e in part] for part in (beginning, events))
    if scenario.get("unordered_events"):
        return not Counter(beginning) - Counter(events)
    return events[: len(beginning)] == beginning


def state_of(notes: Data, free: tuple[str, ...]) -> Data:
    found = notes.get("final_state") or {}
    return {k: v for k, v in found.items() if v is not None and k not in (*COUNTS, *free)}


def error_explained(
    scenario: Data, error: Data | None, predicted: Data | None, first: str, met: dict[str, Met]
) -> bool:
    """Tell whether the original's error is one that a row met leads to."""
    kind = error["type"] if error else None
    if first in CRASHES and kind != CRASHES[first]:
        return False
    if error is None or scripted(error, scenario) or kind in LIMITS[1:]:
        return True
    if predicted is not None and not scripted(predicted, scenario):  # we stop where it went on, into whatever
        return True
    return any(row in met for row in (*ENDS.get(str(kind), ()), *ANYWHERE))


def writes(scenario: Data) -> bool:
    """Tell whether anything in the scenario writes state fields."""
    parts = [scenario, *scenario.get("middlewares", [])]
    if any(t.get("impl") == "command" for part in parts for t in part.get("tools", [])):
        return True
    for m in scenario.get("middlewares", []):
        for hook, given in m.get("hooks", {}).items():
            updates = (*given.get("returns", []), given.get("default")) if hook in NODE_HOOKS else ()
            if given.get("op") in ("extended", "command") or any(set(u or {}) - {"messages"} for u in updates):
                return True
    return False
