"""Show a trace in a terminal: one line for each step, then the answer or error, then how the run ended.

Everything in a trace may come from a model or a tool, so nothing in it can break a line or steer the terminal.
Not here: the view in a notebook (`toolkit.traces.view`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.traces.json_text import as_text
from toolkit.traces.steps import Step, brief, call_text, calls_of, ending, figures, steps, took

WIDTH = 100  # characters of one text


def render(trace: Any) -> str:
    """Return the trace as lines."""
    last = f"error: {cut(trace.error)}" if trace.error else f"answer: {cut(trace.text) or '(none)'}"
    return "\n".join([*(_step(step) for step in steps(trace)), last, printable(ending(trace))])


def printable(text: str) -> str:
    r"""Return text with line breaks, control and direction characters as escapes.

    >>> print(printable("a\n\x1b[2K\u202eb"))
    a\n\x1b[2K\u202eb
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def cut(value: Any, most: int = WIDTH) -> str:
    r"""Return the first line of a text, printable and at most so long; "…" stands for the rest.

    >>> cut("one\ntwo"), cut("abcdef", 4)
    ('one …', 'abc…')
    """
    text = "" if value is None else as_text(value).strip()
    first = (text[: most + 1].splitlines() or [""])[0].rstrip()
    line = printable(first)
    if len(line) > most:
        return line[: most - 1] + "…"
    return line if len(first) == len(text) else f"{line} …"


def _step(step: Step) -> str:
    line = _VIEWS.get(step.event.kind, _other)(step)
    return line if step.event.source == "agent" else f"{line} ({cut(step.event.source)})"


def _model(step: Step) -> str:
    title = f"model {cut(step.data.get('model'))}".rstrip()
    if not step.done:
        return f"{title} · no reply"
    reply = step.data.get("reply") or {}
    return " · ".join([f"{title} → {_outcome(step.data, reply)}", *_notes(step.data), figures(reply)])


def _outcome(data: Mapping[str, Any], reply: Mapping[str, Any]) -> str:
    """Return what came of a model call: its fault, its calls, or its answer."""
    fault = reply.get("fault")
    if fault:
        return f"fault: {cut(as_text(fault.get('kind')) + ': ' + as_text(fault.get('message')))}"
    calls = ", ".join(call_text(call) for call in calls_of(data))
    said = (data.get("extraction") or {}).get("text") or reply.get("text")
    return cut(calls) if calls else f"answer: {cut(said) or '(empty)'}"


def _notes(data: Mapping[str, Any]) -> list[str]:
    rejected = (data.get("extraction") or {}).get("rejected") or ()
    read = [f"read from {cut(data['read_from'])}"] if data.get("read_from") else []
    return read + [f"not a call: {cut(bad.get('reason'))}" for bad in rejected[:1]]


def _tool(step: Step) -> str:
    title = f"tool {cut(call_text(step.data.get('call') or {}))}"
    if not step.done:
        return f"{title} · no result"
    result = step.data.get("result") or {}
    failed = "error: " if result.get("error") else ""
    return f"{title} → {failed}{cut(result.get('result'))} · {took(step.data)}"


def _other(step: Step) -> str:
    kind = step.event.kind
    return f"{cut(kind)} {cut(step.data.get('error') if kind == 'error' else brief(step))}"


_VIEWS = {"model_call": _model, "tool_call": _tool}
