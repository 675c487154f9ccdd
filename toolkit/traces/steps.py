"""What are the steps of a trace, and how are they told in words? steps, and the wording that all views share.

Nothing here is escaped: a view does that for the place it writes to.
Not here: how steps look as HTML (`toolkit.traces.view`) and as lines (`toolkit.traces.text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.traces.json_text import as_json, as_text

_OPENED_BY = {"model_reply": "model_call", "tool_result": "tool_call"}


@dataclass(slots=True)
class Step:
    """Hold one step: an event, or a call joined with its reply or result.

    Attributes:
        event: the event that began it.
        data: the plain data of all its events.
        done: whether its reply or result came.
    """

    event: Any
    data: dict[str, Any]
    done: bool = False


def steps(trace: Any) -> list[Step]:
    """Join each call with its reply or result, by number."""
    found: list[Step] = []
    opened: dict[tuple[str, Any], Step] = {}
    for event in trace.events:
        key = (_OPENED_BY.get(event.kind, event.kind), event.data.get("number"))
        if event.kind in _OPENED_BY and key in opened:
            step = opened.pop(key)
            step.data.update(event.plain())
            step.done = True
            continue
        found.append(Step(event, event.plain()))
        if event.kind in _OPENED_BY.values():
            opened[key] = found[-1]
    return found


def calls_of(data: Mapping[str, Any]) -> list[Any]:
    """Return the calls with their provenance, where they were read here."""
    return list((data.get("extraction") or {}).get("calls") or data.get("calls") or ())


def call_text(call: Mapping[str, Any]) -> str:
    """Return a call as it would be written in Python."""
    given = call.get("arguments") or {}
    arguments = ", ".join(f"{k}={as_json(v)}" for k, v in given.items())
    return f"{call.get('tool_name')}({arguments})"


def figures(reply: Mapping[str, Any]) -> str:
    """Return what a reply cost."""
    tokens = f"{_count(reply.get('prompt_tokens'))}+{_count(reply.get('completion_tokens'))} tokens"
    return f"{tokens} · {reply.get('seconds') or 0:.2f} s"


def took(data: Mapping[str, Any]) -> str:
    """Return how long a tool took."""
    return f"{1000 * (data.get('seconds') or 0):.1f} ms"


def ending(trace: Any) -> str:
    """Return how a run ended and what it cost."""
    tokens = f"{_count(trace.prompt_tokens)} prompt and {_count(trace.completion_tokens)} written tokens"
    return f"{trace.stop_reason} · {trace.seconds:.2f} s · {tokens}"


def brief(step: Step) -> str:
    """Return the data of a step that is no call: of an update its fields and messages, else everything."""
    if step.event.kind != "update" or "keys" not in step.data:
        return ", ".join(f"{key}={as_text(value)}" for key, value in step.data.items())
    said = (step.data.get("state") or {}).get("messages")
    return ", ".join(map(str, step.data["keys"])) + (f": {as_text(said)}" if said else "")


def _count(tokens: Any) -> str:
    """Return a number of tokens; "?" where the server did not say."""
    return "?" if tokens is None else str(tokens)
