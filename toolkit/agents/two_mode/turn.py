"""What happened in one turn of the two-mode agent? A view of the turn's trace; and who takes turn after turn: Talk.

Not here: the turns themselves (`toolkit.agents.two_mode.agent`), the trace itself (`toolkit.traces`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from toolkit.agents.drivers import Act, Ask, Worker, adrive, drive
from toolkit.messages import ChatMessage
from toolkit.traces import Trace
from toolkit.traces.json_text import in_html

# why no action was carried out; the faithful mode gives the name of the exception instead
Reason = Literal[
    "no_json", "parse_error", "not_a_call", "none_needed", "unknown_action", "bad_arguments", "tool_failed",
    "truncated", "model_failed", "gate",
]  # fmt: skip
TOOL, CHAT = "tool mode", "chat mode"  # sources of a trace's events


@dataclass(frozen=True)
class ActionRun:
    """Hold one action that a reply asks for, and what came of it.

    Attributes:
        name: the action.
        input: its input, checked, as the dispatcher gets it.
        result: what it gave; None before it ran and if it failed.
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
    """Show one turn; on the error of a failed turn it is `error.turn`.

    Attributes:
        message: what the user said.
        trace: the turn, step by step.
        tool: whether an action gave data.
        context: the data, or an object with `error` where an action failed; None without either.
        reason: why no action gave data; None if one did.
        detail: one sentence to the reason.
        actions: the actions that were carried out, or tried.
    """

    message: str
    trace: Trace = field(default_factory=Trace, compare=False)
    tool: bool = False
    context: Any = None
    reason: str | None = None
    detail: str = ""
    actions: tuple[ActionRun, ...] = ()

    def replace(self, **changes: Any) -> TwoModeTurn:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def text(self) -> str:
        """Return what the agent answered."""
        return self.trace.text

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as plain JSON data, its trace included."""
        plain = ("message", "text", "tool", "context", "reason", "detail")
        actions = [vars(action) | {"repairs": list(action.repairs)} for action in self.actions]
        return {**{key: getattr(self, key) for key in plain}, "actions": actions, "trace": self.trace.to_dict()}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        done = ", ".join(repr(action.name)[1:-1] for action in self.actions) or self.reason
        said = self.text if len(self.text) <= 50 else self.text[:49] + "…"
        return f"TwoModeTurn({said!r}, {done}"[:99] + ")"

    def _repr_html_(self) -> str:
        why = "" if self.reason is None else f"<p>No data: {in_html(self.reason)}. {in_html(self.detail)}</p>"
        return why + self.trace._repr_html_()


class Talk:
    """Answer one message after the other, each by the `steps` of a subclass.

    Attributes:
        turns: the record of each turn so far.
    """

    turns: list[TwoModeTurn]

    def steps(self, message: str) -> Steps:
        """Yield the steps of one turn and return its record."""
        raise NotImplementedError

    def respond(self, message: str) -> TwoModeTurn:
        """Answer one message; the turn's `text` is the answer, the rest says how it came about.

        Raises:
            ModelError: the model failed in chat mode; `trace` and `turn` on it, as on whatever the model raises, hold
                the turn so far.
        """
        turn = drive(self.steps(message), Worker())
        self.turns.append(turn)
        return turn

    async def arespond(self, message: str) -> TwoModeTurn:
        """Answer one message without blocking the event loop; see `respond`."""
        turn = await adrive(self.steps(message), Worker())
        self.turns.append(turn)
        return turn

    def reset(self) -> None:
        """Forget the conversation."""
        self.turns.clear()


@contextmanager
def failing(trace: Trace, said: list[ChatMessage], turn: Callable[[], TwoModeTurn]) -> Iterator[None]:
    """Put the trace, and the turn so far, on whatever ends a turn."""
    try:
        yield
    except Exception as error:
        trace.fail(error, said)
        with suppress(AttributeError):  # an exception class with slots
            error.turn = turn().replace(trace=trace)  # type: ignore[attr-defined]
        raise


Steps = Generator[Ask | Act, Any, TwoModeTurn]
