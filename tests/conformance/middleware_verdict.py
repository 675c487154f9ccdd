"""Is a difference meant? General rules, one for each repaired weakness; none knows a scenario's name.

A rule looks for the weakness in the scenario's definition and in what the original did, and then checks that our run
shows the documented repair. Where the repair has a policy switch (A-W4, A-W18), our run with the switch set back must
agree with the original, so nothing else differs.
Not here: how notes are compared (`middleware_compare`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jsonschema_rs
from middleware_compare import Comparison, plain_events, scripted
from middleware_ready import NAMES
from middleware_world import NODE_HOOKS, play, turns_for

Data = dict[str, Any]
JUMPS = ("end", "model", "tools")
SWITCHES = {"A-W4": {"on_tool_error": "raise"}, "A-W18": {"hidden_tools": "allow"}}


def judge(scenario: Data) -> tuple[str, list[str], str]:
    """Return the verdict, the rows of the table that a difference is owed to, and what differs."""
    theirs = {**scenario["observed"], "events": plain_events(scenario["observed"]["events"], scenario)}
    ours = run(scenario)
    differences = Comparison(scenario, theirs, ours).differences()
    if not differences:
        return "agrees", [], ""
    for rows in ([], ["A-W4"], ["A-W18"], ["A-W4", "A-W18"]):
        settings = {key: value for row in rows for key, value in SWITCHES[row].items()}
        switched = run(scenario, **settings) if rows else ours
        if rows and not (repaired(ours) or prefix(theirs["events"], ours["events"])):
            continue
        left = Comparison(scenario, theirs, switched).differences()
        if not left:
            return "differs on purpose", rows, ", ".join(differences)
        found = [row for row, rule in RULES.items() if rule(scenario, theirs, switched)]
        if found:
            return "differs on purpose", [*found, *rows], ", ".join(differences)
    return "differs", [], ", ".join(differences)


def run(scenario: Data, **settings: Any) -> Data:
    """Play a scenario; where threads race, events are sorted, as in the file."""
    ours = play(scenario, **settings)
    ours["events"] = plain_events(ours["events"], scenario)
    if scenario.get("unordered_events"):
        ours["events"] = sorted(ours["events"])
    return ours


def history(notes: Data) -> list[Data]:
    """Return the final messages, or those that the error kept."""
    return notes.get("final_messages") or (notes.get("partial") or {}).get("final_messages") or []


def repaired(ours: Data) -> bool:
    """Tell whether our default run answers what failed or was hidden with an error result, and each call once."""
    return any(m.get("status") == "error" for m in history(ours)) and answered_once(history(ours))


def within(part: list[str], whole: list[str]) -> bool:
    """Tell whether one run did everything that the other did, in whatever order."""
    return not Counter(part) - Counter(whole)


def answered_once(messages: list[Data]) -> bool:
    called = Counter(call["id"] for m in messages for call in m.get("tool_calls", []))
    results = Counter(m["tool_call_id"] for m in messages if m["type"] == "tool")
    return all(results[known] <= count for known, count in called.items())


def prefix(shorter: list[str], longer: list[str]) -> bool:
    """Tell whether one run starts as the other; sorted events can only be counted."""
    if shorter == sorted(shorter) and longer == sorted(longer):
        return not Counter(shorter) - Counter(longer)
    return longer[: len(shorter)] == shorter


def hooks_of(scenario: Data) -> list[tuple[str, str, Data, str]]:
    """Return (middleware, hook, definition, flavour) for every hook of the scenario."""
    return [
        (m["name"], hook, given, m.get("flavour", "sync"))
        for m in scenario.get("middlewares", [])
        for hook, given in m.get("hooks", {}).items()
    ]


def updates_of(given: Data) -> list[Data]:
    return [u for u in (*given.get("returns", []), given.get("default")) if isinstance(u, dict)]


def refused(ours: Data, *words: str) -> bool:
    """Tell whether our run ended in a refusal whose text names all the words."""
    error = ours.get("error") or {}
    return bool(error.get("refusal")) and all(word in error["message"] for word in words)


# ---------------------------------------------------------------------- the rules
def denied_call_runs_again(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W1: the original answers one call twice after a jump to the tools; we run only calls without a result."""
    messages = theirs.get("final_messages") or []
    twice = not answered_once(messages)
    jumps = any(u.get("jump_to") == "tools" for *_, given, _ in hooks_of(scenario) for u in updates_of(given))
    kept = [e for e in ours["events"] if e in theirs["events"]] == ours["events"]
    return twice and jumps and kept and not ours.get("error") and answered_once(ours["final_messages"])


def first_hook_jumps_to_model(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W2: the first before_model jumps to the model; the original crashes, we start the chain again."""
    first = next((h for h in hooks_of(scenario) if h[1] == "before_model"), None)
    if first is None or (theirs.get("error") or {}).get("type") != "KeyError" or scripted(theirs["error"], scenario):
        return False
    jumps = any(u.get("jump_to") == "model" for u in updates_of(first[2])) and "model" in first[2].get(
        "can_jump_to", ()
    )
    again = sum(event.startswith(f"{first[0]}.before_model") for event in ours["events"]) >= 2
    return jumps and again and prefix(theirs["events"], ours["events"])


def bad_jump(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W3: an undeclared or unknown target is lost, obeyed or crashes there; here it is an error, or obeyed."""
    if not ours["events"] and refused(ours, "may jump to 'tools'"):  # declared without a tool stage
        return not any(part.get("tools") for part in (scenario, *scenario.get("middlewares", [])))
    for name, hook, given, _ in hooks_of(scenario):
        if hook in NODE_HOOKS:
            declared = given.get("can_jump_to", ())
            if wrong := [t for t in declared if t not in JUMPS]:
                return refused(ours, hook_word(hook), repr(wrong[0])) and not ours["events"]
            bad = [u["jump_to"] for u in updates_of(given) if u.get("jump_to") and u["jump_to"] not in declared]
            named = any(refused(ours, f"{name}.{hook}", repr(target)) for target in bad)
            if named and (prefix(ours["events"], theirs["events"]) or theirs.get("error")):
                return True
        elif given.get("op") in ("extended", "command") and _command_jump(given, theirs, ours):
            return True
    return any(_command_jump(tool, theirs, ours) for tool in scenario.get("tools", []) if tool.get("impl") == "command")


def hook_word(hook: str) -> str:
    return "can_jump_to"


def _command_jump(given: Data, theirs: Data, ours: Data) -> bool:
    """Tell whether a command of a wrapper or tool jumps, which the original may lose and we obey."""
    target = command_update(given).get("jump_to")
    if target is None:
        return False
    if target not in JUMPS:
        return refused(ours, repr(target))
    went = [event for event in ours["events"] if ".after_agent" not in event]
    return target == "end" and not ours.get("error") and within(went, theirs["events"])


def undeclared_state_key(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W5: a key that no schema declares vanishes there; here the error names the key and who wrote it."""
    schemas = [m.get("state_fields", {}) for m in scenario.get("middlewares", [])]
    declared = {"messages", "jump_to", "structured_response"}.union(scenario.get("agent_state_fields") or (), *schemas)
    written = [("the run's input", key) for key in scenario["input"]]
    for name, hook, given, _ in hooks_of(scenario):
        updates = updates_of(given) if hook in NODE_HOOKS else [command_update(given)]
        written += [(f"{name}.{hook}", key) for update in updates for key in update]
    for tool in [t for m in (scenario, *scenario.get("middlewares", [])) for t in m.get("tools", [])]:
        written += [(tool["name"], key) for key in tool.get("update", {}) if tool.get("impl") == "command"]
    lost = [(who, key) for who, key in written if key not in declared]
    return any(refused(ours, who, repr(key)) for who, key in lost) and prefix(ours["events"], theirs["events"])


def command_update(given: Data) -> Data:
    return (given.get("command") or {}).get("update") or given.get("update") or {}


def two_writers(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W6: two writers of a plain field in one step crash there; here the last wins, the outer one."""
    error = theirs.get("error") or {}
    key = error["message"].split("'")[1] if "'" in error.get("message", "") else ""
    if error.get("type") != "InvalidUpdateError" or not key or refused(ours):
        return False
    private = any(m.get("state_fields", {}).get(key) == "private" for m in scenario.get("middlewares", []))
    if private or ours.get("error"):  # its value cannot be seen; our run went on
        return within(theirs["events"], ours["events"])
    wraps = [command_update(given).get(key) for _, hook, given, _ in hooks_of(scenario) if hook == "wrap_model_call"]
    tools = {t["name"]: t.get("update", {}).get(key) for t in scenario.get("tools", [])}
    called = [tools[c["name"]] for m in ours["final_messages"] for c in m.get("tool_calls", []) if tools.get(c["name"])]
    by_tool_wraps = [g["update"].get(key) for _, hook, g, _ in hooks_of(scenario) if g.get("op") == "command"]
    last = [v for v in (*[w for w in wraps if w is not None][:1], *called[-1:], *by_tool_wraps[:1]) if v is not None]
    return (ours.get("final_state") or {}).get(key) in last


def request_changed_in_place(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W7: edits of a request leak there; here they fail at once and leave no trace."""
    ops = [given for *_, given, _ in hooks_of(scenario) if given.get("op", "").startswith(("mutate_", "setattr"))]
    if not ops:
        return False
    sneaky = {given.get("content") for given in ops} - {None}
    messages = history(ours)
    clean = not any(m["content"] in sneaky for m in messages)
    caught = any("caught:AttributeError" in e for e in ours["events"]) or any(
        m["content"].startswith("fallback:") for m in messages
    )
    return clean and (caught or (ours.get("error") or {}).get("type") == "AttributeError")


def same_names(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W8: two middlewares of one class cannot be combined there; here they get numbers."""
    names = [m.get("name") or NAMES[m["builtin"]] for m in scenario.get("middlewares", [])]
    refused_there = (theirs.get("error") or {}).get("type") == "AssertionError" and not theirs["events"]
    return refused_there and len(set(names)) < len(names) and not refused(ours)


def wrong_flavour(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W9: sync wrappers work under async here; async-only hooks are refused when a sync run starts."""
    hooks = hooks_of(scenario)
    if scenario.get("mode") == "async":
        late = (theirs.get("error") or {}).get("type") == "NotImplementedError"
        late = late or any("fallback:Asynchronous implementation" in m["content"] for m in history(theirs))
        sync_wraps = any(flavour == "sync" and hook.startswith("wrap_") for _, hook, _, flavour in hooks)
        further = len(ours["events"]) > len(theirs["events"])
        return late and sync_wraps and further and within(theirs["events"], ours["events"])
    waiting = [(name, hook) for name, hook, _, flavour in hooks if flavour == "async"]
    return not ours["events"] and any(refused(ours, name, f"a{hook}") for name, hook in waiting)


def bad_wrapper_result(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W11: a wrapper's result of a wrong type, id or number goes unnoticed or crashes late; here it is an error."""
    for name, hook, given, _ in hooks_of(scenario):
        tool = hook == "wrap_tool_call" and given["op"] in ("raw", "wrong_id", "command")
        model = hook == "wrap_model_call" and (given.get("response") or {}).get("as") == "raw"
        if not tool and not model:
            continue
        words = (f"fallback:{name}.{hook}", f"caught:UpdateError:{name}.{hook}")  # an outer layer caught it
        told = any(m["content"].startswith(words) for m in history(ours))
        if told or (refused(ours, f"{name}.{hook}") and agree_so_far(theirs, ours)):
            return True
    return False


def agree_so_far(theirs: Data, ours: Data) -> bool:
    mine, other = Counter(ours["events"]), Counter(theirs["events"])
    return prefix(ours["events"], theirs["events"]) or not mine - other or bool(theirs.get("error"))


def unreadable_calls(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W12: a turn of unreadable calls ends the run there; here each is answered with the reason and asked again."""
    wanted = [c["id"] for t in scenario.get("model_turns", []) for c in t.get("invalid_tool_calls", [])]
    told = Counter(m["tool_call_id"] for m in history(ours) if m["type"] == "tool" and m["status"] == "error")
    silent = {m.get("tool_call_id") for m in history(theirs)}
    met = [known for known in wanted if told[known] == 1]
    asked_more = len(ours["model_calls"]) > len(theirs["model_calls"])
    told_only = asked_more and any(
        "could not be read" in line for call in ours["model_calls"] for line in call["messages"]
    )
    return (bool(met) and (asked_more or any(known not in silent for known in met))) or (bool(wanted) and told_only)


def step_limit(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W14: the original counts every hook as a step and loses everything; we count turns and keep what was done."""
    if (theirs.get("error") or {}).get("type") != "GraphRecursionError":
        return False
    if ours.get("error") is None or scripted(ours["error"], scenario):  # our limit was not reached
        return prefix(theirs["events"], ours["events"])
    turns = sum(m["type"] == "ai" for m in history(ours))
    kept = bool(history(ours)) and turns <= len(scenario["input"].get("messages", [])) + turns_for(scenario)
    return ours["error"]["type"] == "LimitError" and kept and prefix(theirs["events"], ours["events"])


def answer_does_not_fit(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A12: an answer against its schema is taken there, or one of several ends the run; here the model is told."""
    fmt = scenario.get("response_format")
    if not isinstance(fmt, dict):
        return False
    turns = scenario.get("model_turns", [])
    calls = [call for turn in turns for call in turn.get("tool_calls", [])]
    answers = [call["args"] for call in calls if call["name"] == fmt.get("title")]
    told = [m for m in history(ours) if m.get("name") == fmt.get("title") and m.get("status") == "error"]
    several = any(sum(c["name"] == fmt.get("title") for c in t.get("tool_calls", [])) > 1 for t in turns)
    return bool(told) and (several or not all(jsonschema_rs.is_valid(fmt, answer) for answer in answers))


def goto_from_a_hook(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A1.7: only `update` of a Command has a meaning here, so a goto is refused where it is made."""
    wanted = any("goto" in given for *_, given, _ in hooks_of(scenario))
    return (
        wanted and "goto" in (ours.get("error") or {}).get("message", "") and prefix(ours["events"], theirs["events"])
    )


def one_name_two_tools(scenario: Data, theirs: Data, ours: Data) -> bool:
    """A-W17: of two tools with one name the last wins there; here that is an error when the agent is built."""
    tools = [t["name"] for part in (*scenario.get("middlewares", []), scenario) for t in part.get("tools", [])]
    twice = [name for name, count in Counter(tools).items() if count > 1]
    return any(refused(ours, repr(name)) for name in twice) and not ours["events"]


RULES: dict[str, Callable[[Data, Data, Data], bool]] = {
    "A-W1": denied_call_runs_again,
    "A-W2": first_hook_jumps_to_model,
    "A-W3": bad_jump,
    "A-W5": undeclared_state_key,
    "A-W6": two_writers,
    "A-W7": request_changed_in_place,
    "A-W8": same_names,
    "A-W9": wrong_flavour,
    "A-W11": bad_wrapper_result,
    "A-W12": unreadable_calls,
    "A1.7": goto_from_a_hook,
    "A12": answer_does_not_fit,
    "A-W14": step_limit,
    "A-W17": one_name_two_tools,
}
