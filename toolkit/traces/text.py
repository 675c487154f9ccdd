"""Show a trace in a terminal: one line for each step, then the answer or error, then how the run ended.

Everything in a trace may come from a model, a tool or a hand, so no value is trusted to be of its kind, and nothing
can break a line or steer the terminal.
Not here: the view in a notebook (`toolkit.traces.view`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.traces.json_text import as_json, as_text

WIDTH = 100  # characters of one text
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

    def part(self, key: str) -> Mapping[str, Any]:
        """Return a part of the data, such as `reply`; empty where it is none."""
        return as_mapping(self.data.get(key))

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """Return the calls of a reply with their provenance, where they were read here."""
        return mappings(self.part("extraction").get("calls") or self.data.get("calls"))


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; none of anything else."""
    return [as_mapping(item) for item in value] if isinstance(value, (list, tuple)) else []


def steps(trace: Any) -> list[Step]:
    """Join each call with its reply or result, by number."""
    found: list[Step] = []
    opened: dict[tuple[str, str], Step] = {}
    for event in trace.events:
        key = (_OPENED_BY.get(event.kind, event.kind), as_text(event.data.get("number")))
        if event.kind in _OPENED_BY and key in opened:
            step = opened.pop(key)
            step.data.update(event.plain())
            step.done = True
            continue
        found.append(Step(event, event.plain()))
        if event.kind in _OPENED_BY.values():
            opened[key] = found[-1]
    return found


def render(trace: Any) -> str:
    """Return the trace as lines."""
    last = f"error: {cut(trace.error)}" if trace.error else f"answer: {cut(trace.text) or '(none)'}"
    return "\n".join([*(" ".join(words(step)) for step in steps(trace)), last, printable(ending(trace))])


def words(step: Step) -> tuple[str, str]:
    """Return what kind of step it is, and the rest of its line."""
    word, told = _VIEWS.get(step.event.kind, _other)(step)
    source = step.event.source
    return cut(word), told if source == "agent" else f"{told} ({cut(source)})"


def ending(trace: Any) -> str:
    """Return how a run ended and what it cost."""
    tokens = f"{_count(trace.prompt_tokens)} prompt and {_count(trace.completion_tokens)} written tokens"
    return f"{as_text(trace.stop_reason)} · {_seconds(trace.seconds):.2f} s · {tokens}"


def call_text(call: Mapping[str, Any]) -> str:
    """Return a call as it would be written in Python."""
    arguments = ", ".join(f"{name}={as_json(value)}" for name, value in as_mapping(call.get("arguments")).items())
    return f"{as_text(call.get('tool_name'))}({arguments})"


def printable(text: str) -> str:
    r"""Return text with line breaks, control and direction characters as escapes.

    >>> print(printable("a\n\x1b[2K\u202eb"))
    a\n\x1b[2K\u202eb
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_json(text: str) -> str:
    r"""Return JSON text with all in it that could steer a terminal as JSON's own escapes.

    >>> print(printable_json('{"a": "\x9b\u202e"}'))
    {"a": "\u009b\u202e"}
    """
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def cut(value: Any) -> str:
    r"""Return the first line of a text, printable and at most `WIDTH` long; "…" stands for the rest.

    >>> cut("one\ntwo")
    'one …'
    """
    text = "" if value is None else as_text(value).strip()
    first = (text[: WIDTH + 1].splitlines() or [""])[0].rstrip()
    line = printable(first)
    if len(line) > WIDTH:
        return line[: WIDTH - 1] + "…"
    return line if len(first) == len(text) else f"{line} …"


def _model(step: Step) -> tuple[str, str]:
    title, reply = cut(step.data.get("model")), step.part("reply")
    if not step.done:
        return "model", f"{title} · no reply"
    notes = [f"read from {cut(step.data['read_from'])}"] if step.data.get("read_from") else []
    notes += [f"not a call: {cut(bad.get('reason'))}" for bad in mappings(step.part("extraction").get("rejected"))[:1]]
    tokens = f"{_count(reply.get('prompt_tokens'))}+{_count(reply.get('completion_tokens'))} tokens"
    seconds = f"{_seconds(reply.get('seconds')):.2f} s"
    return "model", " · ".join([f"{title} → {_outcome(step, reply)}".strip(), *notes, tokens, seconds])


def _outcome(step: Step, reply: Mapping[str, Any]) -> str:
    """Return what came of a model call: its fault, its calls, or its answer."""
    if fault := as_mapping(reply.get("fault")):
        return f"fault: {cut(as_text(fault.get('kind')) + ': ' + as_text(fault.get('message')))}"
    if step.calls:
        return cut(", ".join(map(call_text, step.calls)))
    return f"answer: {cut(step.part('extraction').get('text') or reply.get('text')) or '(empty)'}"


def _tool(step: Step) -> tuple[str, str]:
    title, result = cut(call_text(step.part("call"))), step.part("result")
    if not step.done:
        return "tool", f"{title} · no result"
    failed = "error: " if result.get("error") else ""
    return "tool", f"{title} → {failed}{cut(result.get('result'))} · {1000 * _seconds(step.data.get('seconds')):.1f} ms"


def _other(step: Step) -> tuple[str, str]:
    """Tell a step that is no call: an error, the fields and messages of an update, else all its data."""
    kind, data = step.event.kind, step.data
    if kind == "error":
        return kind, cut(data.get("error"))
    keys = data.get("keys")
    if kind != "update" or not isinstance(keys, (list, tuple)):
        return kind, cut(", ".join(f"{key}={as_text(value)}" for key, value in data.items()))
    said = step.part("state").get("messages")
    return kind, cut(", ".join(map(as_text, keys)) + (f": {as_text(said)}" if said else ""))


_VIEWS = {"model_call": _model, "tool_call": _tool}


def _count(tokens: Any) -> str:
    """Return a number of tokens; "?" where the server did not say."""
    return "?" if tokens is None else cut(tokens)


def _seconds(value: Any) -> float:
    return value if isinstance(value, (int, float)) else 0.0
