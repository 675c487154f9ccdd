"""What happened in one turn of the two-mode agent? Both requests, what was read, what was done, what was said.

Not here: the turns themselves (`toolkit.agents.two_mode.agent`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from toolkit.models.base import Reply
from toolkit.prompting import templates

# why no action was carried out; the faithful mode gives the name of the exception instead
Reason = Literal[
    "no_json",
    "parse_error",
    "not_a_call",
    "none_needed",
    "unknown_action",
    "bad_arguments",
    "tool_failed",
    "truncated",
    "model_failed",
    "gate",
]
_PRE = "<pre style='white-space:pre-wrap;margin:0.3em 0'>{}</pre>"


@dataclass(frozen=True)
class ModeCall:
    """Hold one request to the model: the exact prompt and the reply."""

    prompt: str
    reply: Reply


@dataclass(frozen=True)
class ActionRun:
    """Hold one action that was asked for.

    Attributes:
        name: the action.
        input: its input, as the dispatcher got it.
        result: what it gave; None if it failed.
        error: how it failed, or None.
        repairs: what was mended in the model's JSON.
    """

    name: str
    input: Any
    result: Any = None
    error: str | None = None
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class TwoModeTurn:
    """Hold one turn.

    Attributes:
        message: what the user said.
        text: what the agent answered.
        tool: whether an action gave data.
        context: the data, or an object with `error` where an action failed; None without either.
        reason: why no action gave data; None if one did.
        detail: one sentence to the reason.
        actions: the actions that were carried out, or tried.
        tool_calls: the requests in tool mode, one more for each repair round; none if the gate skipped it.
        chat_call: the request in chat mode.
    """

    message: str
    text: str
    tool: bool = False
    context: Any = None
    reason: str | None = None
    detail: str = ""
    actions: tuple[ActionRun, ...] = ()
    tool_calls: tuple[ModeCall, ...] = ()
    chat_call: ModeCall | None = None

    def replace(self, **changes: Any) -> TwoModeTurn:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def seconds(self) -> float:
        """Return the time spent in the model."""
        return sum(call.reply.seconds for call in (*self.tool_calls, self.chat_call) if call)

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as plain JSON data."""
        calls = [*self.tool_calls, *([self.chat_call] if self.chat_call else [])]
        return {
            "message": self.message,
            "text": self.text,
            "tool": self.tool,
            "context": self.context,
            "reason": self.reason,
            "detail": self.detail,
            "actions": [vars(action) | {"repairs": list(action.repairs)} for action in self.actions],
            "requests": [{"prompt": call.prompt, "reply": call.reply.to_dict()} for call in calls],
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        done = ", ".join(action.name for action in self.actions) or self.reason
        said = self.text if len(self.text) <= 50 else self.text[:49] + "…"
        return f"TwoModeTurn({said!r}, {done}"[:99] + ")"

    def _repr_html_(self) -> str:
        did = "".join(f"<li>{_action(action)}</li>" for action in self.actions)
        why = "" if self.reason is None else f"<p>No data: {escape(self.reason)}. {escape(self.detail)}</p>"
        calls = [("tool mode", call) for call in self.tool_calls]
        calls += [("chat mode", self.chat_call)] if self.chat_call else []
        asked = "".join(_request(mode, call) for mode, call in calls)
        shown = "" if self.context is None else _folded("context", templates.as_json(self.context, indent=1))
        return f"<div>{_PRE.format(escape(self.text))}<ul>{did}</ul>{why}{shown}{asked}</div>"


def _action(action: ActionRun) -> str:
    said = f"<code>{escape(action.name)} {escape(templates.as_json(action.input))}</code>"
    said += f" failed: {escape(action.error)}" if action.error else ""
    return said + (f" mended: {escape(', '.join(action.repairs))}" if action.repairs else "")


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{_PRE.format(escape(text))}</details>"


def _request(mode: str, call: ModeCall) -> str:
    return (
        f"<details><summary>{mode}: {escape(repr(call.reply))}</summary>{_PRE.format(escape(call.prompt))}"
        f"<b>reply</b>{_PRE.format(escape(call.reply.text))}</details>"
    )
