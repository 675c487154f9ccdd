"""Does TwoModeAgent read replies as the published rule does, and as the repaired one should? Replay a file of cases.

    python tests/conformance/replay_two_mode.py FILE.json

Format: {"known_actions": [names], "cases": [{"name", "reply": what tool mode says, "faithful": {"tool": bool, "context"
or "why"}, "improved": {"tool": bool, "context"}}]}. Actions answer {"called": action, "input": action_input}; one that
is not known is a Miss, and `dispatch_error` says how all of them fail. The column `faithful` is for mode="faithful".
Options and output: see `replay`.
"""

from __future__ import annotations

import builtins
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import meaning
from replay import Family, main

import toolkit as tk
from toolkit.agents.two_mode.actions import Action

Data = dict[str, Any]
# what reading a reply, or looking an action up, raises; any other `why` is the failure of the action itself
READING = ("ValueError", "JSONDecodeError", "KeyError", "TypeError", "AttributeError", "RecursionError", "Miss")


class Miss(Exception):
    """An action that the dispatcher does not know."""


def model(text: str) -> Any:
    """Return a completion function that says the text, then chats; it ignores stop strings, as some servers do."""
    lines = iter([text, "chat answer"])
    return lambda prompt, stop, max_tokens: next(lines)


def dispatch(action: str, given: Any, case: Data) -> Data:
    if action not in case["known_actions"]:
        raise Miss(action)
    if failure := failure_of(case):
        raise exception_called(str(failure))
    return {"called": action, "input": given}


def failure_of(case: Data) -> Any:
    """Return how the actions of a case fail: a field says so, or `why` names what only an action raises."""
    why = case.get("faithful", {}).get("why")
    return case.get("dispatch_error") or (why if why not in (None, *READING) else None)


def exception_called(name: str) -> Exception:
    """Return an exception of that name, or a RuntimeError that says it."""
    if not name.isidentifier():
        return RuntimeError(name)
    return getattr(builtins, name, type(name, (Exception,), {}))("the action failed")


def faithful(case: Data) -> tk.TwoModeAgent:
    work = lambda value: dispatch(value["action"], value["action_input"], case)  # noqa: E731
    return tk.TwoModeAgent(model(case["reply"]), mode="faithful", dispatch=work)


def improved(case: Data) -> tk.TwoModeAgent:
    names = case["known_actions"]
    actions = [Action(name, run=lambda given, name=name: dispatch(name, given, case)) for name in names]
    several = isinstance(case.get("improved", {}).get("context"), list)
    return tk.TwoModeAgent(model(case["reply"]), actions, several=several)


def plain(value: Any) -> Any:
    """Bring a value to the format's form, in which NaN is the text "<NaN>"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "<NaN>" if math.isnan(value) else f"<{value}>"
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def play(case: Data) -> Data:
    """Put the reply to both agents and return what came, in the form of the two columns."""
    columns = {"faithful": faithful, "improved": improved}
    return {column: column_of(make(case)) for column, make in columns.items() if column in case}


def column_of(agent: tk.TwoModeAgent) -> Data:
    turn = agent.respond("question")
    if turn.tool:
        return {"tool": True, "context": plain(turn.context)}
    assert turn.reason, "no data, and no reason"
    return {"tool": False, "why": turn.reason}


FAMILY = Family("two_mode", play, meaning.two_mode, columns=("faithful", "improved"))

if __name__ == "__main__":
    main(FAMILY)
