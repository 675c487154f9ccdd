"""Show a trace in a notebook: static HTML, one folded step for each event, readable on GitHub in light and dark.

Everything in a trace may come from a model or a tool, so every text is escaped; long ones are cut, and the whole
view has a size limit. A trace shows itself through this module, so the module does not know its class; `Trace` and
`Event` stand here as Any.
Not here: the trace itself (`toolkit.traces.trace`), what its steps are (`toolkit.traces.steps`).
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from toolkit.messages import ChatMessage
from toolkit.traces.json_text import as_json, writable
from toolkit.traces.steps import Step, brief, call_text, calls_of, ending, figures, steps, took

MOST_TEXT = 4_000  # characters of one text
MOST_HTML = 400_000  # characters of the whole view
_BOX = "border:1px solid rgba(128,128,128,.4);border-radius:4px;padding:4px 8px;margin:4px 0"
_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:2px 0 6px;padding:4px 6px;background:rgba(128,128,128,.12)"
_MARK = "background:rgba(80,160,255,.35);color:inherit"
_BAD = "color:#d1242f"


def render(trace: Any) -> str:
    """Return the trace as HTML."""
    head = f"<div><b>{escape(trace.agent or 'Trace')}</b> · {escape(ending(trace))}</div>"
    if trace.error:
        head += f"<div style='{_BAD}'>{_cut(trace.error)}</div>"
    if trace.text:
        head += f"<div style='{_BOX}'><b>Answer</b><pre style='{_PRE}'>{_cut(trace.text)}</pre></div>"
    parts, size, shown = [head], len(head), 0
    told = steps(trace)
    for step in told:
        html = _step(step)
        if size + len(html) > MOST_HTML:
            parts.append(f"<div>… {len(told) - shown} more steps; see <code>trace.events</code>.</div>")
            break
        parts.append(html)
        size, shown = size + len(html), shown + 1
    return writable(f"<div style='font-size:90%;line-height:1.4'>{''.join(parts)}</div>")


def _step(step: Step) -> str:
    first = step.event
    title, body = _VIEWS.get(first.kind, _other)(step)
    origin = f" <small>({escape(first.source)})</small>" if first.source != "agent" else ""
    at = f"<small>at {round(first.at, 6):.3f} s</small>"  # as the trace's file keeps it
    return f"<details style='{_BOX}'><summary>{title}{origin} {at}</summary>{body}</details>"


def _model(step: Step) -> tuple[str, str]:
    data = step.data
    reply = data.get("reply") or {}
    title = f"<b>Model</b> {escape(str(data.get('model') or ''))}"
    if step.done:
        names = ", ".join(str(call.get("tool_name")) for call in calls_of(data))
        title += f" → {escape(names) if names else 'answer'} · {escape(figures(reply))}"
        if reply.get("fault"):
            title += f" · <span style='{_BAD}'>{escape(str(reply['fault'].get('kind')))}</span>"
    else:
        title += f" · <span style='{_BAD}'>no reply</span>"
    prompt = "".join(_message(m) for m in step.event.data.get("messages", ()))
    offered = ", ".join(map(str, data.get("tools") or ())) or "none"
    arm = f"Arm {escape(str(data['arm']))}, tools" if data.get("arm") else "Tools"
    body = f"<div>{arm} offered: {escape(offered)}</div>"
    body += f"<details><summary>Exact prompt</summary>{prompt}</details>"
    if step.done:
        body += _reply(reply, data.get("extraction"), calls_of(data))
    return title, body


def _reply(reply: Mapping[str, Any], extraction: Any, calls: list[Any]) -> str:
    spans = [tuple(c["span"]) for c in (extraction or {}).get("calls", ()) if c.get("span")]
    body = f"<div>Raw reply</div><pre style='{_PRE}'>{_marked(reply.get('text') or '', spans)}</pre>"
    if reply.get("thinking"):
        body += f"<details><summary>Thinking</summary><pre style='{_PRE}'>{_cut(reply['thinking'])}</pre></details>"
    for call in calls:
        notes = ", ".join([str(call.get("syntax") or ""), *map(str, call.get("repairs") or ())])
        body += f"<div>Call <code>{_cut(call_text(call))}</code> <small>{escape(notes)}</small></div>"
    for bad in (extraction or {}).get("rejected", ()):
        body += (
            f"<div style='{_BAD}'>Not a call: {_cut(bad.get('reason'))} <small>{_cut(bad.get('detail'))}</small></div>"
        )
    return body


def _tool(step: Step) -> tuple[str, str]:
    call, result = step.data.get("call") or {}, step.data.get("result") or {}
    title = f"<b>Tool</b> <code>{_cut(call_text(call), 120)}</code>"
    if not step.done:
        return f"{title} · <span style='{_BAD}'>no result</span>", ""
    failed = f" · <span style='{_BAD}'>error</span>" if result.get("error") else ""
    return f"{title}{failed} · {took(step.data)}", f"<pre style='{_PRE}'>{_cut(result.get('result'))}</pre>"


def _other(step: Step) -> tuple[str, str]:
    kind = step.event.kind
    bad = f" style='{_BAD}'" if kind in ("error", "refused") else ""
    shown = step.data.get("state", step.data) if kind == "update" else step.data  # the title names the fields
    return (
        f"<b{bad}>{escape(kind.capitalize())}</b> {_cut(brief(step), 120)}",
        f"<pre style='{_PRE}'>{_cut(as_json(shown, indent=1))}</pre>",
    )


_VIEWS = {"model_call": _model, "tool_call": _tool}


def _message(message: ChatMessage) -> str:
    said = "\n".join(message.texts)
    calls = "\n".join(call_text(call.to_dict()) for call in message.tool_calls)
    results = "\n".join(str(result.result) for result in message.tool_call_results)
    text = "\n".join(part for part in (said, calls, results) if part)
    return f"<div><b>{escape(message.role.value)}</b></div><pre style='{_PRE}'>{_cut(text)}</pre>"


def _marked(text: str, spans: list[tuple[int, int]]) -> str:
    """Escape a reply and mark where its calls were read."""
    html, place = "", 0
    for start, end in sorted(spans):
        if start >= place and end > start and end <= MOST_TEXT:
            html += f"{escape(text[place:start])}<mark style='{_MARK}'>{escape(text[start:end])}</mark>"
            place = end
    return html + _cut(text[place:], MOST_TEXT)


def _cut(value: Any, most: int = MOST_TEXT) -> str:
    text = value if isinstance(value, str) else "" if value is None else str(value)
    if len(text) <= most:
        return escape(text)
    return f"{escape(text[:most])}<i>… {len(text) - most} characters more</i>"
