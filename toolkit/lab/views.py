"""Show prompt, verdict, results and tokens as static HTML; everything from models and tools is escaped.

Colours come from JupyterLab's theme where there is one, so light and dark both read well.
Not here: the highlighted reply (`toolkit.extraction.html`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from toolkit.asking import Asked
from toolkit.evaluation.scoring import Verdict
from toolkit.messages import ChatMessage, ToolCallResult
from toolkit.traces.json_text import as_json

_BORDER = "1px solid var(--jp-border-color2, rgba(128,128,128,.4))"
_PRE = (
    "margin:0;white-space:pre-wrap;overflow-wrap:anywhere;max-height:22em;overflow-y:auto;"
    "font:12px/1.5 var(--jp-code-font-family, monospace);background:transparent;color:inherit"
)
_ROLES = {"system": "#7b5ea7", "user": "#2f6f9f", "assistant": "#2e7d4f", "tool": "#8a6d1c"}
_GOOD, _BAD, _NEUTRAL = "#2e7d4f", "#b3403a", "#777777"


@dataclass(frozen=True)
class Trial:
    """Hold one trial of a case: what was asked, the verdict, and what the called tools returned."""

    asked: Asked
    verdict: Verdict
    results: tuple[ToolCallResult, ...]


def prompt_html(messages: Iterable[ChatMessage]) -> str:
    """Return the messages exactly as they are sent, one box each."""
    return "".join(_box(m.role.value, m.text or "", _ROLES[m.role.value]) for m in messages)


def results_html(trial: Trial) -> str:
    """Return verdict, tokens, and what each executed call returned."""
    reply, verdict = trial.asked.reply, trial.verdict
    colour = _GOOD if verdict.right else _BAD
    word = verdict.outcome.replace("_", " ")
    detail = f" · {escape(verdict.detail)}" if verdict.detail else ""
    if reply.fault:
        detail = f" · {escape(reply.fault.message)}"
    parts = [f'<div style="margin:4px 0"><b style="color:{colour}">{word}</b>{detail}</div>', _tokens(reply)]
    for result in trial.results:
        title = f"{result.origin.tool_name} {'failed' if result.error else 'returned'}"
        parts.append(_box(title, _pretty(result.result), _BAD if result.error else _GOOD))
    if trial.asked.extraction.calls and not trial.results:
        parts.append(note_html("The called tool is only shown in this case; it has no function to run."))
    return "".join(parts)


def _tokens(reply: Any) -> str:
    cached = f" ({reply.cached_tokens} cached)" if reply.cached_tokens else ""
    known = [
        f"{reply.prompt_tokens}{cached} tokens in" if reply.prompt_tokens is not None else "",
        f"{reply.completion_tokens} out" if reply.completion_tokens is not None else "",
        f"{reply.seconds:.2f} s",
        f"ended by {reply.finish_reason}",
    ]
    return note_html(" · ".join(part for part in known if part))


def note_html(text: str, bad: bool = False) -> str:
    """Return one line of plain words."""
    return f'<div style="color:{_BAD if bad else _NEUTRAL};font-size:12px;margin:4px 0">{escape(text)}</div>'


def _pretty(value: Any) -> str:
    try:
        return as_json(json.loads(value) if isinstance(value, str) else value, indent=2)
    except ValueError:
        return str(value)


def _box(title: str, text: str, colour: str) -> str:
    return (
        f'<div style="border:{_BORDER};border-left:3px solid {colour};'
        f'border-radius:3px;padding:4px 8px;margin:0 0 6px">'
        f'<div style="color:{colour};font-size:11px;font-weight:600">{escape(title)}</div>'
        f'<pre style="{_PRE}">{escape(text)}</pre></div>'
    )
