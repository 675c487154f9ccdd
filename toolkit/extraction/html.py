"""Show an Extraction as static HTML: the reply with calls, thoughts and rejected candidates coloured, repairs marked.

No script, inline CSS only, readable on a light and a dark page, and every character of the model's text is escaped. An
Extraction shows itself through this module, so the module does not know its class: it stands here as Any.

Not here: what is shown (`types`).
"""

from __future__ import annotations

from typing import Any

from toolkit.traces.json_text import as_json, html_of, in_html

Span = tuple[int, int]

_SHOWN, _SHOWN_SPANS, _SHORT = 20_000, 200, 400
# Half-transparent colours and inherited text colour suit a light and a dark page alike.
_COLOURS = {
    "call": "rgba(46,160,67,.28)",
    "repaired": "rgba(212,167,44,.32)",
    "unknown": "rgba(163,113,247,.30)",
    "rejected": "rgba(248,81,73,.24)",
    "thinking": "rgba(110,118,129,.22)",
}
_LEGEND = {"call": "call", "repaired": "repaired", "unknown": "unknown tool", "rejected": "rejected"}
_STATUS = {"called": "call", "abstained": "thinking", "broken": "rejected", "truncated": "repaired"}
_BOX = (
    "white-space:pre-wrap;overflow-wrap:anywhere;font-family:monospace;margin:.3em 0;padding:.5em;"
    "border:1px solid rgba(127,127,127,.4);border-radius:4px"
)


def render(extraction: Any) -> str:
    """Return the view of an extraction as one `<div>`."""
    badge = _mark(extraction.status, _STATUS[extraction.status])
    head = f"<div>{badge} {len(extraction.calls)} call(s), {len(extraction.rejected)} rejected</div>"
    reply = f'<div style="{_BOX}">{_coloured(extraction)}</div>' if extraction.source else ""
    rejected = html_of(f"<li>{_rejection(one)}</li>" for one in extraction.rejected[:_SHOWN_SPANS])
    thinking = f'<div style="{_BOX}">{in_html(extraction.thinking)}</div>'
    folded = _folded("rejected", rejected and f"<ul>{rejected}</ul>") + _folded(
        "thinking", extraction.thinking and thinking
    )
    legend = " ".join(_mark(text, role) for role, text in _LEGEND.items())
    return f'<div>{head}{reply}{_calls(extraction)}{folded}<div style="font-size:80%;opacity:.8">{legend}</div></div>'


def _mark(text: str, role: str, title: str = "") -> str:
    hint = f' title="{in_html(title, _SHORT)}"' if title else ""
    return f'<span style="background:{_COLOURS[role]};border-radius:3px;padding:0 .2em"{hint}>{in_html(text)}</span>'


def _regions(extraction: Any) -> list[tuple[Span, str, str]]:
    """Return (span, role, hint) of all that is coloured, in order and without overlap."""
    found = []
    for call in extraction.calls:
        role = "unknown" if call.unknown_tool else "repaired" if call.repairs else "call"
        hint = f"{call.tool_name} · {call.syntax} · {', '.join(call.repairs) or call.confidence}"
        found.append((call.span, role, hint))
    found += [(one.span, "rejected", f"{one.syntax}: {one.reason}") for one in extraction.rejected]
    regions: list[tuple[Span, str, str]] = []
    edge = 0
    for span, role, hint in sorted(found, key=lambda item: item[0]):
        if span[0] >= edge and span[1] > span[0] and len(regions) < _SHOWN_SPANS:
            regions.append((span, role, hint))
            edge = span[1]
    return regions


def _coloured(extraction: Any) -> str:
    """Return the reply with its regions coloured."""
    source, pos, pieces = extraction.source[:_SHOWN], 0, []
    for (start, end), role, hint in _regions(extraction):
        pieces += [in_html(source[pos:start]), _mark(source[start:end], role, hint)]
        pos = max(pos, end)
    pieces.append(in_html(extraction.source[pos:], max(0, _SHOWN - pos)))
    return "".join(pieces)


def _calls(extraction: Any) -> str:
    """Return a table of the calls."""
    if not extraction.calls:
        return ""
    rows = html_of(_call_row(call) for call in extraction.calls[:_SHOWN_SPANS])
    names = "".join(f"<th>{name}</th>" for name in ("tool", "arguments", "syntax", "confidence", "repairs", "notes"))
    return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>"


def _call_row(call: Any) -> str:
    arguments = as_json(call.arguments)
    notes = [*call.notes]
    if call.unknown_tool:
        notes.append("unknown tool" + (f"; closest: {', '.join(call.closest)}" if call.closest else ""))
    repairs = " ".join(_mark(code, "repaired") for code in call.repairs)
    cells = [in_html(call.tool_name, _SHORT), f"<code>{in_html(arguments, _SHORT)}</code>", in_html(call.syntax)]
    cells.append(in_html(call.confidence))
    return (
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in [*cells, repairs, in_html("; ".join(notes), _SHORT)]) + "</tr>"
    )


def _rejection(one: Any) -> str:
    name = f" {in_html(one.name, 80)}" if one.name else ""
    return f"{_mark(one.reason, 'rejected')} {in_html(one.syntax)}{name} {in_html(one.detail, _SHORT)}"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>" if content else ""
