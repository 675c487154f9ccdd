"""Does TwoModeAgent read replies as the published rule does, and as the repaired one should? Replay a file of cases.

    python tests/conformance/replay_two_mode.py FILE.json [-v]

Format: {"known_actions": [names], "cases": [{"name", "reply": what tool mode says, "faithful": {"tool": bool, "context"
or "why"}, "improved": {"tool": bool, "context"}}]}. The dispatcher answers {"called": action, "input": action_input},
misses on an unknown action, and fails where the case says so. Both columns must agree: `faithful` with
mode="faithful", `improved` with the default, where every "tool": false must come with a reason.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import toolkit as tk
from toolkit.agents.two_mode.actions import Action

Facts = dict[str, Any]
FAILURES = ("dispatch_error", "dispatch_raises", "dispatcher_error", "api_error", "tool_error", "raise", "raises")


# what reading a reply, or looking an action up, raises; any other `why` is the failure of the action itself
READING = ("ValueError", "JSONDecodeError", "KeyError", "TypeError", "AttributeError", "RecursionError", "Miss")


class Miss(Exception):
    """An action that the dispatcher does not know."""


def said(text: str) -> Any:
    """Return a completion function that says the text, then chats; it ignores stop strings, as some servers do."""
    lines = iter([text, "chat answer"])
    return lambda prompt, stop, max_tokens: next(lines)


def dispatcher(known: list[str], failure: Any) -> Any:
    def dispatch(value: Any) -> Any:
        action, given = value["action"], value["action_input"]
        if action not in known:
            raise Miss(action)
        if failure:
            raise exception_called(failure)
        return {"called": action, "input": given}

    return dispatch


def exception_called(name: Any) -> Exception:
    """Return an exception of that name, or a RuntimeError that says it."""
    text = str(name)
    if not text.isidentifier():
        return RuntimeError(text)
    known = getattr(__import__("builtins"), text, None)
    if isinstance(known, type) and issubclass(known, Exception):
        return known("the action failed")
    return type(text, (Exception,), {})("the action failed")


def faithful(case: Facts, known: list[str]) -> Facts:
    failures = []

    def watched(value: Any) -> Any:
        try:
            return dispatcher(known, failure_of(case))(value)
        except Exception as error:
            failures.append(error)
            raise

    agent = tk.TwoModeAgent(said(case["reply"]), mode="faithful", dispatch=watched)
    turn = agent.respond("question")
    return {"tool": turn.tool, "context": turn.context, "why": turn.reason, "requests": 2}


def improved(case: Facts, known: list[str]) -> Facts:
    expected = case.get("improved", {}).get("context")
    actions = [Action(name, run=runner(name, known, failure_of(case))) for name in known]
    agent = tk.TwoModeAgent(said(case["reply"]), actions, several=isinstance(expected, list))
    turn = agent.respond("question")
    return {"tool": turn.tool, "context": turn.context, "why": turn.reason}


def runner(name: str, known: list[str], failure: Any) -> Any:
    return lambda value: dispatcher(known, failure)({"action": name, "action_input": value})


def failure_of(case: Facts) -> Any:
    """Return how the dispatcher of a case fails: a field says so, or `why` names what only a dispatcher raises."""
    why = case.get("faithful", {}).get("why")
    told = next((case[key] for key in FAILURES if case.get(key)), None)
    return told or (why if why not in (None, *READING) else None)


def plain(value: Any) -> Any:
    """Bring a value to the format's form, in which NaN is the text "<NaN>"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "<NaN>" if math.isnan(value) else f"<{value}>"
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def same_reason(ours: Any, theirs: Any) -> bool:
    """Compare exceptions by class: one that is a kind of the other is the same failure."""
    named = {"Miss": Miss, "JSONDecodeError": json.JSONDecodeError}
    classes = [named.get(str(name)) or getattr(__import__("builtins"), str(name), None) for name in (ours, theirs)]
    if ours == theirs or not all(isinstance(kind, type) for kind in classes):
        return ours == theirs
    return issubclass(classes[0], classes[1]) or issubclass(classes[1], classes[0])


def differences(ours: Facts, theirs: Facts, column: str) -> list[str]:
    found = []
    if ours["tool"] != theirs.get("tool"):
        found.append(f"{column} tool: {ours['tool']} ({ours['why']}), expected {theirs.get('tool')}")
    elif theirs.get("tool") and "context" in theirs and plain(ours["context"]) != theirs["context"]:
        found.append(f"{column} context: {ours['context']!r}, expected {theirs['context']!r}")
    elif not theirs.get("tool") and not ours["why"]:
        found.append(f"{column}: no tool and no reason")
    elif (
        not theirs.get("tool")
        and "why" in theirs
        and column == "faithful"
        and not same_reason(ours["why"], theirs["why"])
    ):
        found.append(f"{column} why: {ours['why']}, expected {theirs['why']}")
    return found


def judge(case: Facts, known: list[str]) -> list[str]:
    """Return what differs in both columns."""
    found = differences(faithful(case, known), case["faithful"], "faithful") if "faithful" in case else []
    return found + (differences(improved(case, known), case["improved"], "improved") if "improved" in case else [])


def main(arguments: list[str] | None = None) -> int:
    """Replay files, print one line a case and the sums; return 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, default=[Path(__file__).with_name("two_mode_own.json")])
    agree = differ = 0
    for path in parser.parse_args(arguments).files:
        data = json.loads(path.read_text("utf-8"))
        for case in data["cases"]:
            found = judge(case, case.get("known_actions") or data.get("known_actions", []))
            print(f"{case.get('name', '?')}: {'differs' if found else 'agrees'}")
            for line in found:
                print(f"    {line}")
            agree, differ = agree + (not found), differ + bool(found)
    print(f"agree {agree}, on purpose 0, differ {differ}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
