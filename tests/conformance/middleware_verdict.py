"""Is a difference meant? Only if our run is, part for part, what the repaired loop was predicted to do.

A small model of the documented loop (`middleware_oracle`) plays the scenario, and notes which rows of the table of
weaknesses it meets and where. A difference is on purpose if a row is met, our run equals the prediction in every
part, and the original did what was predicted up to the first row met, and beyond it nothing that no row explains.
Nothing here knows a scenario's name. Not here: how notes are compared (`middleware_compare`, `middleware_fit`).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from middleware_compare import COUNTS, LIMITS, Comparison, plain_events, scripted, strings, text_of
from middleware_fit import Fit
from middleware_oracle import NODE_HOOKS, Met, predict
from middleware_oracle_ops import CHANGES_TEXTS, modelled
from middleware_world import play

Data = dict[str, Any]
Verdict = tuple[str, list[str], str]
# what the original ends with where it falls over such a weakness
ENDS = {
    "KeyError": ("A-W2", "A-W3"),
    "InvalidUpdateError": ("A-W6",),
    "AssertionError": ("A-W8",),
    "NotImplementedError": ("A-W9", "A1.7"),
    "TypeError": ("A-W9", "A-W11"),
    "AttributeError": ("A-W11",),
    "GraphRecursionError": ("A-W14",),
}
CRASHES = {"A-W2": "KeyError", "A-W6": "InvalidUpdateError", "A-W8": "AssertionError"}  # always, if met first
# rows whose values or exceptions reach into the library, which may end in other ways
ANYWHERE = ("A-W1", "A-W4", "A-W11", "A-W18")
TURNS_GIVE = ("structured_response", "todos")  # fields that a further turn, there or here, may write
SWITCHES = {"A-W4": {"on_tool_error": "raise"}, "A-W18": {"hidden_tools": "allow"}}


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
    predicted, met = predict(scenario)
    predicted["events"] = plain_events(predicted["events"], scenario)
    if (theirs.get("error") or {}).get("type") == "GraphRecursionError":
        met = {**met, "A-W14": Met(len(theirs["events"]), len(theirs["model_calls"]), None)}
    if not met:
        return "differs", [], ", ".join(differences)
    other = put_in_place(scenario, theirs)
    misfits = Fit(scenario, predicted, ours, comparison.own, other=other).misfits()
    if misfits and not modelled(scenario):
        misfits = beside_ready_made(scenario, theirs, ours, set(met))
    else:
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
    other = put_in_place(scenario, comparison.ours)
    fit = Fit(scenario, predicted, theirs, comparison.own, other=other, theirs=True)
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

    return scenario.get("repeat_invocations", 1) > 1 or by_id([scenario.get("middlewares"), scenario.get("tools")])


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


# ---------------------------------------------------------------------- ready-made middleware that is not modelled
def beside_ready_made(scenario: Data, theirs: Data, ours: Data, rows: set[str]) -> list[str]:
    """Return misfits where a ready-made middleware works beside a weakness whose repair can be switched off.

    With the switch set back our run must be the original's in every part; without it, the same up to there, and then
    each call answered once, the failed ones with an error.
    """
    if not rows <= set(SWITCHES):
        return ["a ready-made middleware's part in this cannot be predicted"]
    settings = {key: value for row in rows for key, value in SWITCHES[row].items()}
    switched = Comparison(scenario, theirs, run(scenario, **settings)).differences()
    if switched:
        return [f"{part} with the switch set back" for part in switched]
    if ours.get("error") and not scripted(ours["error"], scenario):
        return ["error"]
    said = (ours.get("partial") or ours)["final_messages"]
    results = Counter(m["tool_call_id"] for m in said if m["type"] == "tool")
    calls = Counter(c["id"] for m in said for c in m.get("tool_calls", []))
    last = ours["model_calls"][-1]["messages"] if ours["model_calls"] else []
    shown = [line.partition(":")[0] for line in last if not line.startswith("system:")]
    failures = [m for m in said if m.get("status") == "error"]
    told = ours.get("error") or shown == [m["type"] for m in said[:-1]]
    named = Comparison(scenario, theirs, ours)
    texts = {text_of(m["content"]) for m in theirs.get("final_messages") or ()} | named.own | {""}
    strange = [m for m in said if m not in failures and not any(t and t in m["content"] for t in texts)]
    fits = {
        "final_messages": results == calls and bool(failures) and told and not any(m["content"] for m in strange),
        "model_calls": same_start(scenario, theirs, ours) and same_tools(theirs, ours),
        "final_state": state_of(ours, ()) == state_of(theirs, ()) or writes(scenario),
        "events": "A-W4" not in rows or starts(ours["events"], theirs["events"], scenario),
    }
    return [part for part, fit in fits.items() if not fit]


def same_start(scenario: Data, theirs: Data, ours: Data) -> bool:
    """Tell whether the models were given the same as long as the original went on, or up to the first reply."""
    count = len(theirs["model_calls"]) if theirs.get("error") else 1
    return Comparison(scenario, theirs, ours).same_calls(theirs["model_calls"][:count], ours["model_calls"][:count])


def same_tools(theirs: Data, ours: Data) -> bool:
    """Tell whether each model was offered what the original offered it."""
    offered = {(call["model"], str(call.get("tools"))) for call in theirs["model_calls"]}
    return all((call["model"], str(call.get("tools"))) in offered for call in ours["model_calls"])


def put_in_place(scenario: Data, other: Data) -> set[str]:
    """Return the texts that a ready-made middleware may have put in the place of others, as the other run shows."""
    if not any(m.get("builtin") in CHANGES_TEXTS for m in scenario.get("middlewares", [])):
        return set()
    lines = [line for call in other["model_calls"] for line in call["messages"]]
    said = [text_of(m["content"]) for m in (other.get("partial") or other).get("final_messages") or ()]
    redacted = [re.sub(r"[\w.+-]+@[\w.-]+\w", "[REDACTED_EMAIL]", text) for text in strings(scenario) if "@" in text]
    return {"[cleared]", *redacted, *said, *(line.partition(":")[2].partition(" calls=")[0] for line in lines)}
