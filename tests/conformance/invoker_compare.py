"""Compare what an invoker scenario observed with what ours did, by meaning.

A difference counts as meant only where ours is what `invoker_oracle` works out from the scenario, and where the
difference is of the kind that a row of the table of weaknesses describes. Everything else differs.
Not here: running (`invoker_world`), function callers, probes and OpenAPI.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from invoker_oracle import Expected, Fate, expect
from invoker_spelling import is_spelling, read, unaddressed
from invoker_verdict import Verdict
from invoker_world import SEQUENTIAL, calls_in

CONSTRUCTION = ("ValueError", "TypeError", "ConfigError")
OURS_FOR = {  # fate -> the exception class that our documentation names for it
    "unknown": "ToolNotFoundException",
    "arguments": "ToolArgumentsError",
    "raised": "ToolInvocationError",
    "conversion": "StringConversionError",
    "merge": "ToolOutputMergeError",
}
OUR_TEXT = {  # fate -> how our message to the model begins
    "unknown": "No tool is called",
    "arguments": "Arguments of",
    "raised": "Tool .* failed with",
    "conversion": "Tool .* ran, but (the|its) result",
    "merge": "Tool .* ran, but its result could not be written to the state",
}
THEIR_TEXT = (
    ("conversion", r"Failed to convert"),
    ("merge", r"Failed to merge"),
    ("unknown", r"not found"),
    ("raised", r"Failed to invoke|invocation failed"),
)


def compare(scenario: dict, ours: dict) -> Verdict:
    """Compare one scenario of kind x_invoker, c2_invoker or c3."""
    verdict, observed = Verdict(), scenario["observed"]
    broken = _construction(observed, ours, verdict)
    if broken:
        return verdict
    expected = expect(scenario)
    _check_repaired(scenario, ours, expected, verdict)
    if verdict.differ:
        return verdict
    _outcomes(scenario, observed, ours, expected, verdict)
    _events(scenario, observed, ours, expected, verdict)
    _state(scenario, observed, ours, expected, verdict)
    _chunks(scenario, observed, ours, expected, verdict)
    return verdict


def _construction(observed: dict, ours: dict, verdict: Verdict) -> bool:
    """Compare scenarios in which no invoker or tool could be made."""
    theirs = observed.get("error", {}).get("type") in CONSTRUCTION and not observed.get("events")
    mine = ours.get("error", {}).get("type") == "ConfigError"
    if mine:
        verdict.check(theirs, f"ours refuses the set-up ({ours['error']['message']}), theirs does not")
    return mine


# ------------------------------------------------------------------ is ours what the repaired rules say?
def _check_repaired(scenario: dict, ours: dict, expected: Expected, verdict: Verdict) -> None:
    fatal = _fatal(scenario, expected)
    if fatal is not None:
        _check_raised(ours, expected.fates[fatal], verdict)
    elif verdict.check("error" not in ours, f"ours raised {ours.get('error')}"):
        results = ours["tool_messages"]
        calls = calls_in(scenario)
        given = [(call["name"], call.get("args") or {}, call.get("id")) for call in calls]
        verdict.check([_origin(r) for r in results] == given, "our results are not in the order of the calls")
        for result, fate in zip(results, expected.fates, strict=False):
            _check_result(result, fate, verdict)
    want, got = _expected_events(scenario, expected, fatal), ours["events"]
    same = sorted(want) == sorted(got) and (_concurrent(scenario) or want == got)
    verdict.check(same, f"our events {got} are not the expected {want}")
    if "state" in scenario and fatal is None:
        verdict.check(ours.get("state") == expected.state, f"our state {ours.get('state')} is not {expected.state}")


def _fatal(scenario: dict, expected: Expected) -> int | None:
    """Return the call whose failure ends a raising run."""
    if not scenario.get("init", {}).get("raise_on_failure", True):
        return None
    fates = expected.fates
    if not _one_by_one(scenario):
        refused = next(
            (i for i, fate in enumerate(fates) if fate.kind in ("unknown", "arguments") and not fate.keywords), None
        )
        if refused is not None and _is_known_beforehand(scenario, refused, expected):
            return refused
    for batch in expected.order:
        for index in batch:
            if fates[index].kind != "ok":
                return index
    return None


def _is_known_beforehand(scenario: dict, index: int, expected: Expected) -> bool:
    from invoker_oracle import faults

    specs = {spec["name"]: spec for spec in scenario.get("runtime_tools") or scenario.get("tools", [])}
    call = calls_in(scenario)[index]
    return expected.fates[index].kind == "unknown" or bool(faults(call, specs[call["name"]]))


def _one_by_one(scenario: dict) -> bool:
    return scenario["kind"] in SEQUENTIAL or scenario.get("init", {}).get("max_workers") == 1


def _concurrent(scenario: dict) -> bool:
    return not _one_by_one(scenario) and len(calls_in(scenario)) > 1


def _expected_events(scenario: dict, expected: Expected, fatal: int | None) -> list[str]:
    if fatal is None:
        return expected.events
    if _is_eager(scenario, expected, fatal):
        return []
    calls, found = calls_in(scenario), []
    for batch in expected.order:
        for index in batch:
            if (
                expected.fates[index].kind not in ("unknown", "arguments")
                and expected.fates[index].keywords is not None
            ):
                found += [f"{calls[index]['name']}:start", f"{calls[index]['name']}:end"]
            if _one_by_one(scenario) and index == fatal:
                return found
        if fatal in batch:
            return found
    return found


def _is_eager(scenario: dict, expected: Expected, fatal: int) -> bool:
    refused = expected.fates[fatal].kind in ("unknown", "arguments")
    return refused and not _one_by_one(scenario) and _is_known_beforehand(scenario, fatal, expected)


def _check_raised(ours: dict, fate: Fate, verdict: Verdict) -> None:
    error = ours.get("error")
    if not verdict.check(error is not None, f"ours did not raise on {fate.kind}"):
        return
    verdict.check(error["type"] == OURS_FOR[fate.kind], f"ours raised {error['type']}, expected {OURS_FOR[fate.kind]}")
    _check_message(error["message"], fate, verdict)
    if fate.kind == "raised":
        verdict.check(error.get("cause") == fate.exception.partition(":")[0], "the cause of our error is lost")


def _check_result(result: dict, fate: Fate, verdict: Verdict) -> None:
    if fate.kind == "ok":
        text = fate.text if isinstance(fate.text, (str, list)) else repr(fate.text)
        same = not result["error"] and unaddressed(result["result"]) == unaddressed(text)
        verdict.check(same, f"our result {result['result']!r} is not {text!r}")
    elif verdict.check(result["error"], f"ours is no error where {fate.kind} was expected"):
        _check_message(result["result"], fate, verdict)


def _check_message(text: str, fate: Fate, verdict: Verdict) -> None:
    """Check that a failure says what the table asks of it."""
    verdict.check(re.match(OUR_TEXT[fate.kind], text, re.S) is not None, f"our text {text!r} does not say {fate.kind}")
    for name in fate.fields:
        verdict.check(f"{name}" in text and "expected" in text and "got" in text, f"our text does not name {name!r}")
    if fate.kind == "raised":
        verdict.check(fate.exception in text or fate.exception.rstrip(": ") in text, "our text hides the root error")


# ------------------------------------------------------------------ how does it differ from what was observed?
def _outcomes(scenario: dict, observed: dict, ours: dict, expected: Expected, verdict: Verdict) -> None:
    if "error" in observed or "error" in ours:
        _errors(scenario, observed, ours, expected, verdict)
        return
    theirs, mine = observed["tool_messages"], ours["tool_messages"]
    verdict.check("tool_messages" in observed.get("output_keys", ["tool_messages"]), "no tool_messages were observed")
    if not verdict.check(_bag(theirs) == _bag(mine), "the results answer other calls"):
        return
    if [_origin(r) for r in theirs] != [_origin(r) for r in mine]:
        verdict.on_purpose("B-W4", "results in call order, failed ones too")
    left = list(theirs)
    for index, (result, fate) in enumerate(zip(mine, expected.fates, strict=True)):
        seen = next(r for r in left if _origin(r) == _origin(result))
        left.remove(seen)
        verdict.check(seen["role"] == result["role"], "another role")
        _results(scenario, seen, result, fate, index, verdict)


def _errors(scenario: dict, observed: dict, ours: dict, expected: Expected, verdict: Verdict) -> None:
    theirs, mine = observed.get("error"), ours.get("error")
    if theirs is None:
        if mine["type"] == "StringConversionError":
            verdict.on_purpose("B-W5", "a handler that fails is a StringConversionError, not passed over")
        elif verdict.check(mine["type"] == "ToolArgumentsError", f"ours raised {mine['type']}, theirs went on"):
            verdict.on_purpose("B-W1", "arguments that do not fit are refused before the call")
        return
    kind = theirs["type"]
    if mine is None:
        if kind == "StringConversionError":
            verdict.on_purpose("B-W3", "a result that JSON lacks becomes its str()")
        elif scenario.get("init", {}).get("raise_on_failure", True) is False:
            verdict.on_purpose("B-W3", f"{kind} does not escape in message mode")
        else:
            verdict.check(False, f"theirs raised {kind}, ours went on")
        return
    if kind == mine["type"]:
        if kind == "ToolInvocationError":
            verdict.check(theirs.get("cause") == mine.get("cause"), "another cause")
        return
    if kind == "ToolInvocationError" and mine["type"] == "ToolArgumentsError":
        if theirs.get("cause") != "TypeError":
            verdict.on_purpose("B-W1", "arguments that do not fit are refused before the call")
        return
    if mine["type"] == "ToolArgumentsError":
        verdict.on_purpose("B-W1", "arguments that do not fit are refused before the call")
    elif kind == "ToolOutputMergeError" and mine["type"] == theirs.get("cause"):
        verdict.on_purpose("B-W5", "a failed conversion is a StringConversionError")
    elif kind not in OURS_FOR.values() and mine["type"] in ("StringConversionError", "ToolOutputMergeError"):
        verdict.on_purpose("B-W5", f"{mine['type']} in place of {kind}")
    elif mine["type"] == "ToolNotFoundException" and any(f.kind == "arguments" for f in expected.fates):
        verdict.on_purpose("B-W1", "refused calls are found before anything runs")
    else:
        verdict.check(False, f"theirs raised {kind}, ours {mine['type']}")


def _results(scenario: dict, theirs: dict, mine: dict, fate: Fate, index: int, verdict: Verdict) -> None:
    if theirs["error"] and mine["error"]:
        _failures(theirs["result"], fate, verdict)
    elif mine["error"]:
        if fate.kind == "conversion":
            verdict.on_purpose("B-W5", "a handler that fails is a StringConversionError, not passed over")
        elif verdict.check(fate.kind == "arguments", f"ours failed ({fate.kind}), theirs did not"):
            verdict.on_purpose("B-W1", "arguments that do not fit are refused before the call")
    elif theirs["error"]:
        if verdict.check(_their_kind(theirs["result"]) == "conversion", "theirs failed, ours did not"):
            verdict.on_purpose("B-W3", "a result that JSON lacks becomes its str()")
    elif unaddressed(theirs["result"]) != unaddressed(mine["result"]):
        _values(scenario, theirs["result"], mine, fate, index, verdict)


def _failures(text: str, fate: Fate, verdict: Verdict) -> None:
    kind = _their_kind(text)
    if kind == "raised" and fate.kind == "arguments":
        return  # the function itself refused them: the same class of failure
    if not verdict.check(kind == fate.kind, f"theirs failed with {kind}, ours with {fate.kind}"):
        return
    message = fate.exception.partition(": ")[2]
    if fate.kind == "raised" and message and message not in text:
        verdict.on_purpose("B-W2", "the model is told the root error")


def _their_kind(text: str) -> str:
    return next((kind for kind, pattern in THEIR_TEXT if re.search(pattern, text)), "other")


def _values(scenario: dict, theirs: Any, mine: dict, fate: Fate, index: int, verdict: Verdict) -> None:
    """Explain two texts of good results: another spelling of one value, or another value."""
    implicit = _implicit(scenario, mine, fate)
    seen = read(theirs)
    if is_spelling(theirs, fate):
        verdict.on_purpose("B-W3", "text as it is, else JSON with non-ASCII kept and NaN as null, else str()")
    elif implicit and _holds(seen, theirs, implicit):
        verdict.on_purpose("B-W7", "the state is injected by mapping only")
    elif _depends(scenario) and is_spelling(theirs, expect(scenario, stale=True).fates[index]):
        verdict.on_purpose("B-W6", "a call that reads the state sees what the same turn wrote")
    else:
        verdict.check(False, f"theirs gave {theirs!r}, ours {mine['result']!r}")


def _holds(seen: Any, text: Any, implicit: dict) -> bool:
    """Tell whether their result shows the values that were injected without a mapping."""
    if isinstance(seen, dict):
        return all(seen.get(key) == value for key, value in implicit.items())
    return all(json.dumps(key) in str(text) and json.dumps(value) in str(text) for key, value in implicit.items())


def _implicit(scenario: dict, mine: dict, fate: Fate) -> dict:
    """Return the state values that parameters of the same names would have got without a mapping."""
    name = mine["origin"]["tool_name"]
    spec = next(s for s in [*scenario.get("runtime_tools", []), *scenario.get("tools", [])] if s["name"] == name)
    if spec.get("inputs_from_state"):
        return {}
    names = {part.split("=")[0].split(":")[0].strip() for part in spec.get("signature") or ()}
    names |= set((spec.get("parameters") or {}).get("properties", {}))
    data = scenario.get("state", {}).get("data") or {}
    return {key: value for key, value in data.items() if key in names and key not in mine["origin"]["arguments"]}


def _depends(scenario: dict) -> bool:
    """Tell whether one call of the turn reads what another writes."""
    specs = {spec["name"]: spec for spec in scenario.get("tools", [])}
    calls = [specs[call["name"]] for call in calls_in(scenario) if call["name"] in specs]
    pairs = ((a, b) for i, a in enumerate(calls) for j, b in enumerate(calls) if i != j)
    live = any("State" in part for spec in calls for part in spec.get("signature") or ())
    return (live and len(calls) > 1) or any(
        set(a.get("inputs_from_state") or ()) & set(b.get("outputs_to_state") or ()) for a, b in pairs
    )


def _origin(result: dict) -> tuple:
    origin = result["origin"]
    return (origin["tool_name"], origin["arguments"], origin["id"])


def _bag(results: list[dict]) -> Counter:
    return Counter(json.dumps(_origin(result), sort_keys=True) for result in results)


# ------------------------------------------------------------------ events, state, chunks
def _events(scenario: dict, observed: dict, ours: dict, expected: Expected, verdict: Verdict) -> None:
    theirs, mine = observed.get("events", []), ours["events"]
    if scenario.get("unordered_events"):
        theirs, mine = sorted(theirs), sorted(mine)
    if _starts_sorted(theirs) == _starts_sorted(mine):
        return
    if sorted(theirs) != sorted(mine):
        refused = any(fate.kind == "arguments" for fate in expected.fates)
        missing = Counter(theirs) - Counter(mine)
        if verdict.check(refused and not Counter(mine) - Counter(theirs), f"events {theirs}, ours {mine}"):
            verdict.on_purpose("B-W1", f"not run: {', '.join(sorted(missing))}")
    elif _depends(scenario):
        verdict.on_purpose("B-W6", "calls that depend on each other run one after the other")
    else:
        overlap = _concurrent(scenario) and not any("sleep" in spec for spec in scenario["tools"])
        verdict.check(overlap, f"events {theirs}, ours {mine}")


def _starts_sorted(events: list[str]) -> list[str]:
    """Sort each run of starts: which of two threads is first past the gate means nothing."""
    found: list[str] = []
    run: list[str] = []
    for event in [*events, ""]:
        if event.endswith(":start"):
            run.append(event)
        else:
            found += [*sorted(run), event]
            run = []
    return found[:-1]


def _state(scenario: dict, observed: dict, ours: dict, expected: Expected, verdict: Verdict) -> None:
    if "state" not in observed or "state" not in ours or observed["state"] == ours["state"]:
        return
    if _depends(scenario) and observed["state"] == expect(scenario, stale=True).state:
        verdict.on_purpose("B-W6", "a call that reads the state sees what the same turn wrote")
    elif any(fate.kind == "arguments" for fate in expected.fates):
        verdict.on_purpose("B-W1", "what was refused wrote nothing")
    elif "B-W7" in verdict.purpose:
        pass  # the value that was not injected was not written back either
    else:
        verdict.check(False, f"state {observed['state']}, ours {ours['state']}")


def _chunks(scenario: dict, observed: dict, ours: dict, expected: Expected, verdict: Verdict) -> None:
    """Compare the shape of the stream; the texts in it are those of the results, which were compared."""
    theirs, mine = observed.get("chunks", []), ours.get("chunks", [])
    if "error" in observed or "error" in ours:
        return
    shape = [[(c["index"], c["start"], c["finish_reason"]) for c in chunks] for chunks in (theirs, mine)]
    texts = {i: result["result"] for i, result in enumerate(ours["tool_messages"])}
    for chunk in mine:
        if chunk["index"] is not None:
            verdict.check(chunk["result"] == texts[chunk["index"]], "a chunk tells another result")
    if shape[0] == shape[1]:
        return
    moved = "B-W4" in verdict.purpose and len(shape[0]) == len(shape[1])
    if moved or ("B-W6" in verdict.purpose and sorted(map(str, shape[0])) == sorted(map(str, shape[1]))):
        return
    verdict.check(False, f"chunks {shape[0]}, ours {shape[1]}")
