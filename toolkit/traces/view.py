"""Show a trace in a notebook: static HTML, one folded step for each event, readable on GitHub in light and dark.

Everything in a trace may come from a model, a tool or a hand: every text is put into HTML by `in_html` and nowhere
else. Long texts are cut, and the whole view has a size limit. A trace shows itself through this module, so the module
does not know its class; `Trace` stands here as Any.
Not here: the trace itself (`toolkit.traces.trace`), what its steps are and how they are told (`toolkit.traces.text`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolkit.messages import ChatMessage
from toolkit.traces.json_text import as_json, as_text, html_of, in_html
from toolkit.traces.text import Step, call_text, ending, mappings, steps, words

MOST_TEXT = 4_000  # characters of one text
_BOX = "border:1px solid rgba(128,128,128,.4);border-radius:4px;padding:4px 8px;margin:4px 0"
_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:2px 0 6px;padding:4px 6px;background:rgba(128,128,128,.12)"
_MARK = "background:rgba(80,160,255,.35);color:inherit"
_BAD = "color:#d1242f"


def render(trace: Any) -> str:
    """Return the trace as HTML."""
    parts = [f"<div><b>{in_html(trace.agent or 'Trace')}</b> · {in_html(ending(trace))}</div>"]
    parts += [_text("Error", trace.error)] if trace.error else []
    parts += [_text("Answer", trace.text)] if trace.text else []
    steps_told = html_of(map(_step, steps(trace)), "more steps; see <code>trace.events</code>.")
    return f"<div style='font-size:90%;line-height:1.4'>{''.join(parts)}{steps_told}</div>"


def _step(step: Step) -> str:
    word, told = words(step)
    bad = f" style='{_BAD}'" if word in ("error", "refused") else ""
    at = f"<small>at {in_html(f'{round(step.event.at, 6):.3f}')} s</small>"  # as the trace's file keeps it
    title = f"<b{bad}>{in_html(word.capitalize())}</b> {in_html(told)} {at}"
    body = "".join(_BODIES.get(step.event.kind, _other)(step))
    return f"<details style='{_BOX}'><summary>{title}</summary>{body}</details>"


def _model(step: Step) -> Iterator[str]:
    reply, tools = step.part("reply"), step.data.get("tools")
    offered = ", ".join(map(as_text, tools)) if tools and isinstance(tools, (list, tuple)) else "none"
    yield _text("Arm and tools offered", f"{as_text(step.data.get('arm') or '?')}: {offered}")
    messages = [m for m in step.event.data.get("messages", ()) if isinstance(m, ChatMessage)]
    prompt = "".join(_text(message.role.value, _said(message)) for message in messages)
    yield f"<details><summary>Exact prompt</summary>{prompt}</details>"
    if step.done:
        yield _text("Raw reply", reply.get("text"), (call.get("span") for call in step.calls))
    if reply.get("thinking"):
        yield _text("Thinking", reply["thinking"])
    for call in step.calls:
        notes = [call.get("syntax"), call.get("repairs")]
        yield _text("Call", " · ".join([call_text(call), *map(as_text, filter(None, notes))]))
    for bad in mappings(step.part("extraction").get("rejected")):
        yield _text("Not a call", f"{as_text(bad.get('reason'))}: {as_text(bad.get('detail'))}")


def _said(message: ChatMessage) -> str:
    calls = [call_text(call.to_dict()) for call in message.tool_calls]
    results = [as_text(result.result) for result in message.tool_call_results]
    return "\n".join([*message.texts, *calls, *results])


def _tool(step: Step) -> Iterator[str]:
    if step.done:
        yield _text("Result", step.part("result").get("result"))


def _other(step: Step) -> Iterator[str]:
    # the title of an update names its fields
    shown = step.data.get("state", step.data) if step.event.kind == "update" else step.data
    yield _text("Data", as_json(shown, indent=1))


_BODIES = {"model_call": _model, "tool_call": _tool}


def _text(label: str, value: Any, spans: Iterable[Any] = ()) -> str:
    """Return a text under its label, cut at `MOST_TEXT`, with the spans of calls marked."""
    text, html, place = "" if value is None else as_text(value), "", 0
    pairs = [
        span for span in spans if isinstance(span, (list, tuple)) and len(span) == 2 and {*map(type, span)} == {int}
    ]
    for start, end in sorted(map(tuple, pairs)):
        if place <= start < end <= MOST_TEXT:
            html += f"{in_html(text[place:start])}<mark style='{_MARK}'>{in_html(text[start:end])}</mark>"
            place = end
    html += in_html(text[place:], MOST_TEXT - place)
    return f"<div>{in_html(label)}</div><pre style='{_PRE}'>{html}</pre>"
