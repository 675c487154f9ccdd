"""Ask somebody whether a call may run: what an `ask` is given, what it may answer, and `ask_by_input`.

`ToolInvoker(ask=…)` and `HumanApproval(ask=…)` take the same function of the call, sync or async. It gets a copy, so
what it changes is neither run nor in the conversation. Its answer is a `Decision`, or

    True, "yes"              run the call
    "edit {json}", a dict    run it with these arguments
    "respond: text"          run nothing; the text is the result
    "pause"                  stop an agent's run until somebody decides (`HumanApproval`); a ToolInvoker refuses
    False, None, "no: why"   run nothing; say why

and anything else refuses. Under `run` an async `ask` runs on an event loop of the toolkit's own; under `run_async` and
`arun` a sync one runs on a thread, so that the loop goes on.
Not here: which calls are asked about (`Tool.effect`, `HumanApproval(tools=…)`), buttons (`tk.lab.ask_in_notebook`).
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolkit.errors import ConfigError, ToolNotApprovedError
from toolkit.execution.arguments import copied
from toolkit.execution.modes import BLOCKING, YIELDING, Mode, at_once
from toolkit.execution.ready import ReadyTool
from toolkit.messages import ToolCall
from toolkit.tools.shown import safe_str

_KEYBOARD = threading.Lock()  # there is one, however many agents ask


@dataclass(frozen=True)
class Decision:
    """Hold what was decided about a call.

    Attributes:
        kind: "approve" runs the call, "edit" runs it with `arguments`, "reject" answers it with an error that holds
            `text`, "respond" answers it with `text` as if the tool had said so, "pause" leaves it open.

    Raises:
        ConfigError: another kind.
    """

    kind: Literal["approve", "edit", "reject", "respond", "pause"]
    arguments: Mapping[str, Any] | None = None
    text: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("approve", "edit", "reject", "respond", "pause"):
            raise ConfigError(f"Decision {self.kind!r} is unknown. Use approve, edit, reject, respond or pause.")

    @classmethod
    def of(cls, answer: Any) -> Decision:
        """Read an answer; anything but a clear yes refuses.

        >>> Decision.of("y").kind, Decision.of("").kind, Decision.of('edit {"n": 1}').arguments
        ('approve', 'reject', {'n': 1})
        """
        if isinstance(answer, Decision):
            return answer
        if isinstance(answer, bool) or answer is None:
            return cls("approve" if answer else "reject")
        if isinstance(answer, Mapping):
            return cls("edit", dict(answer))
        if not isinstance(answer, str):  # such as an array, which is neither true nor false
            kind = type(answer).__name__
            return cls("reject", text=f"the answer was a {kind}, not True, False, a text or a Decision")
        text = answer.strip()
        word, rest = text.partition(":")[0].casefold(), text.partition(":")[2].strip()
        if text.casefold() in ("y", "yes", "approve", "ok"):
            return cls("approve")
        if text.casefold() == "pause":
            return cls("pause")
        if text.casefold().startswith("edit"):
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(arguments := json.loads(text[4:].lstrip(": ")), dict):
                    return cls("edit", arguments)
            return cls("reject", text="the new arguments are no JSON object")
        if word == "respond":
            return cls("respond", text=rest)
        return cls("reject", text=rest if word in ("reject", "no", "n") else text)


Answer = Decision | Mapping[str, Any] | str | bool | None
Ask = Callable[[ToolCall], Answer | Awaitable[Answer]]


def decide(ask: Ask, call: ToolCall) -> Decision:
    """Ask about a call; what `ask` raises goes on."""
    return at_once(_decision(ask, call, BLOCKING))


async def adecide(ask: Ask, call: ToolCall) -> Decision:
    """Ask about a call without holding up the event loop; what `ask` raises goes on."""
    return await _decision(ask, call, YIELDING)


async def _decision(ask: Ask, call: ToolCall, mode: Mode) -> Decision:
    asked = replace(call, arguments=copied(call.arguments))
    answer, error = await mode.attempt(lambda: ask(asked), {})
    if isinstance(error, StopIteration):  # would end whatever loop it meets, and hang who waits for a thread
        raise RuntimeError(f"ask raised {error!r}. Give next() a default.") from error
    if error is not None:
        raise error
    return Decision.of(answer)


async def leave(
    ask: Ask, ready: ReadyTool, call: ToolCall, arguments: dict[str, Any], mode: Mode
) -> tuple[dict[str, Any], str | None]:
    """Return the arguments that a call may run with, and what was answered in the tool's place, if anything.

    Only calls of dangerous tools are asked about.

    Raises:
        ToolNotApprovedError: it was refused, or asking failed.
        ToolArgumentsError: edited arguments that do not fit.
    """
    if ready.tool.effect != "dangerous":
        return arguments, None
    try:
        decision = await _decision(ask, ToolCall(call.tool_name, arguments, call.id), mode)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or mode.is_cancelling(error):
            raise
        raise _refusal(call, f" (asking failed with {type(error).__name__}: {safe_str(error)})") from error
    if decision.kind in ("reject", "pause"):
        raise _refusal(call, f": {decision.text}" if decision.text else "")
    if decision.kind == "edit":
        return ready.checked(dict(decision.arguments or {})), None
    return arguments, decision.text if decision.kind == "respond" else None


def _refusal(call: ToolCall, why: str) -> ToolNotApprovedError:
    return ToolNotApprovedError(f"The user did not allow this call of {call.tool_name!r}{why}. Nothing was run.")


def ask_by_input(call: ToolCall) -> str | Decision:
    """Put the question with `input`; works in terminals and notebooks. Where nobody can be asked, refuse."""
    shown = json.dumps(call.arguments, ensure_ascii=False, default=str)
    question = f"Run {call.tool_name}({shown})? [y / no: reason / edit {{json}} / respond: text] "
    try:
        with _KEYBOARD:
            return input(question)
    except (EOFError, OSError, RuntimeError, ValueError) as error:  # input is closed, lost, or the front end has none
        return Decision("reject", text=f"nobody could be asked, since there is no input here ({type(error).__name__})")
