"""Ask the user for leave before a tool marked `dangerous` runs.

Not here: what counts as dangerous (`Tool.effect`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from toolkit.errors import ToolNotApprovedError
from toolkit.execution.arguments import copied
from toolkit.execution.conversion import safe_str
from toolkit.execution.functions import awaited, is_being_cancelled
from toolkit.execution.threads import run_coroutine
from toolkit.messages import ToolCall

Approve = Callable[[ToolCall], Any]  # True allows; may be async


def ask(approve: Approve, call: ToolCall, arguments: dict[str, Any]) -> None:
    """Ask for leave to run a call with its checked arguments; a hook that fails refuses.

    The hook gets a copy: what it changes is neither run nor in the conversation.

    Raises:
        ToolNotApprovedError: the answer was not True, or the hook failed.
    """
    try:
        answer = approve(_shown_to_user(call, arguments))
        answer = run_coroutine(awaited(answer)) if inspect.isawaitable(answer) else answer
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _failed(call, error) from error
    _judge(call, answer)


async def aask(approve: Approve, call: ToolCall, arguments: dict[str, Any]) -> None:
    """Ask for leave on the running loop; raises as `ask` does."""
    try:
        answer = approve(_shown_to_user(call, arguments))
        answer = await answer if inspect.isawaitable(answer) else answer
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        raise _failed(call, error) from error
    _judge(call, answer)


def _shown_to_user(call: ToolCall, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(call.tool_name, copied(arguments), call.id)


def _judge(call: ToolCall, answer: Any) -> None:
    """Let only True pass: the text "no" is true in Python, and an array is neither."""
    if answer is True:
        return
    if answer is None or answer is False:
        raise _refused(call)
    raise _refused(call, f" (the approve hook must return True or False, not a {type(answer).__name__})")


def _failed(call: ToolCall, error: BaseException) -> ToolNotApprovedError:
    return _refused(call, f" (asking failed with {type(error).__name__}: {safe_str(error)})")


def _refused(call: ToolCall, why: str = "") -> ToolNotApprovedError:
    return ToolNotApprovedError(f"The user did not allow this call of {call.tool_name!r}{why}. Nothing was run.")
