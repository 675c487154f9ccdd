"""Show a trace in a notebook: static HTML, one folded step for each event, readable on GitHub in light and dark.

Everything in a trace may come from a model or a tool, so every text is escaped; long ones are cut, and the whole
view has a size limit. A trace shows itself through this module, so the module does not know its class; `Trace` and
`Event` stand here as Any.
Not here: the trace itself (`toolkit.traces.trace`).
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from toolkit.messages import ChatMessage
from toolkit.traces.json_text import as_json, writable

MOST_TEXT = 4_000  # characters of one text
MOST_HTML = 400_000  # characters of the whole view
_BOX = "border:1px solid rgba(128,128,128,.4);border-radius:4px;padding:4px 8px;margin:4px 0"
_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:2px 0 6px;padding:4px 6px;background:rgba(128,128,128,.12)"
_MARK = "background:rgba(80,160,255,.35);color:inherit"
_BAD = "color:#d1242f"


def render(trace: Any) -> str:
    """Return the trace as HTML."""
    tokens = f"{_count(trace.prompt_tokens)} prompt and {_count(trace.completion_tokens)} written tokens"
    ended = f"{escape(trace.stop_reason)} · {trace.seconds:.2f} s · {tokens}"
    head = f"<div><b>{escape(trace.agent or 'Trace')}</b> · {ended}</div>"
    if trace.error:
        head += f"<div style='{_BAD}'>{_cut(trace.error)}</div>"
    if trace.text:
        head += f"<div style='{_BOX}'><b>Answer</b><pre style='{_PRE}'>{_cut(trace.text)}</pre></div>"
    parts, size, shown = [head], len(head), 0
    steps = _steps(trace)
    for step in steps:
        html = _step(step)
        if size + len(html) > MOST_HTML:
            parts.append(f"<div>… {len(steps) - shown} more steps; see <code>trace.events</code>.</div>")
            break
        parts.append(html)
        size, shown = size + len(html), shown + 1
    return writable(f"<div style='font-size:90%;line-height:1.4'>{''.join(parts)}</div>")


def _steps(trace: Any) -> list[list[Any]]:
    """Join each call with its reply or result, by number."""
    steps: list[list[Any]] = []
    opened: dict[tuple[str, Any], list[Any]] = {}
    pairs = {"model_reply": "model_call", "tool_result": "tool_call"}
    for event in trace.events:
        key = (pairs.get(event.kind, event.kind), event.data.get("number"))
        if event.kind in pairs and key in opened:
            opened.pop(key).append(event)
            continue
        steps.append([event])
        if event.kind in pairs.values():
            opened[key] = steps[-1]
    return steps


def _step(step: list[Any]) -> str:
    first = step[0]
    data = {key: value for event in step for key, value in event.plain().items()}
    title, body = _VIEWS.get(first.kind, _other)(first, data, done=len(step) > 1)
    origin = f" <small>({escape(first.source)})</small>" if first.source != "agent" else ""
    at = f"<small>at {round(first.at, 6):.3f} s</small>"  # as the trace's file keeps it
    return f"<details style='{_BOX}'><summary>{title}{origin} {at}</summary>{body}</details>"


def _model(event: Any, data: Mapping[str, Any], *, done: bool) -> tuple[str, str]:
    reply = data.get("reply") or {}
    title = f"<b>Model</b> {escape(str(data.get('model') or ''))}"
    if done:
        calls = _calls(data)
        names = ", ".join(str(call.get("tool_name")) for call in calls)
        title += f" → {escape(names) if names else 'answer'} · {_figures(reply)}"
        if reply.get("fault"):
            title += f" · <span style='{_BAD}'>{escape(str(reply['fault'].get('kind')))}</span>"
    else:
        title += f" · <span style='{_BAD}'>no reply</span>"
    prompt = "".join(_message(m) for m in event.data.get("messages", ()))
    offered = ", ".join(map(str, data.get("tools") or ())) or "none"
    arm = f"Arm {escape(str(data['arm']))}, tools" if data.get("arm") else "Tools"
    body = f"<div>{arm} offered: {escape(offered)}</div>"
    body += f"<details><summary>Exact prompt</summary>{prompt}</details>"
    if done:
        body += _reply(reply, data.get("extraction"), _calls(data))
    return title, body


def _calls(data: Mapping[str, Any]) -> list[Any]:
    """Return the calls with their provenance, where they were read here."""
    return list((data.get("extraction") or {}).get("calls") or data.get("calls") or ())


def _count(tokens: Any) -> str:
    """Return a number of tokens; "?" where the server did not say."""
    return "?" if tokens is None else escape(str(tokens))


def _figures(reply: Mapping[str, Any]) -> str:
    tokens = f"{_count(reply.get('prompt_tokens'))}+{_count(reply.get('completion_tokens'))} tokens"
    return f"{tokens} · {reply.get('seconds') or 0:.2f} s"


def _reply(reply: Mapping[str, Any], extraction: Any, calls: list[Any]) -> str:
    spans = [tuple(c["span"]) for c in (extraction or {}).get("calls", ()) if c.get("span")]
    body = f"<div>Raw reply</div><pre style='{_PRE}'>{_marked(reply.get('text') or '', spans)}</pre>"
    if reply.get("thinking"):
        body += f"<details><summary>Thinking</summary><pre style='{_PRE}'>{_cut(reply['thinking'])}</pre></details>"
    for call in calls:
        notes = ", ".join([str(call.get("syntax") or ""), *map(str, call.get("repairs") or ())])
        body += f"<div>Call <code>{_cut(_call(call))}</code> <small>{escape(notes)}</small></div>"
    for bad in (extraction or {}).get("rejected", ()):
        body += (
            f"<div style='{_BAD}'>Not a call: {_cut(bad.get('reason'))} <small>{_cut(bad.get('detail'))}</small></div>"
        )
    return body


def _tool(event: Any, data: Mapping[str, Any], *, done: bool) -> tuple[str, str]:
    call, result = data.get("call") or {}, data.get("result") or {}
    title = f"<b>Tool</b> <code>{_cut(_call(call), 120)}</code>"
    if not done:
        return f"{title} · <span style='{_BAD}'>no result</span>", ""
    failed = f" · <span style='{_BAD}'>error</span>" if result.get("error") else ""
    title += f"{failed} · {1000 * (data.get('seconds') or 0):.1f} ms"
    return title, f"<pre style='{_PRE}'>{_cut(result.get('result'))}</pre>"


def _other(event: Any, data: Mapping[str, Any], *, done: bool) -> tuple[str, str]:
    bad = f" style='{_BAD}'" if event.kind in ("error", "refused") else ""
    brief = ", ".join(f"{key}={value}" for key, value in data.items())
    return (
        f"<b{bad}>{escape(event.kind.capitalize())}</b> {_cut(brief, 120)}",
        f"<pre style='{_PRE}'>{_cut(as_json(data, indent=1))}</pre>",
    )


_VIEWS = {"model_call": _model, "tool_call": _tool}


def _message(message: ChatMessage) -> str:
    said = "\n".join(message.texts)
    calls = "\n".join(_call(call.to_dict()) for call in message.tool_calls)
    results = "\n".join(str(result.result) for result in message.tool_call_results)
    text = "\n".join(part for part in (said, calls, results) if part)
    return f"<div><b>{escape(message.role.value)}</b></div><pre style='{_PRE}'>{_cut(text)}</pre>"


def _call(call: Mapping[str, Any]) -> str:
    given = call.get("arguments") or {}
    arguments = ", ".join(f"{k}={as_json(v)}" for k, v in given.items())
    return f"{call.get('tool_name')}({arguments})"


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
