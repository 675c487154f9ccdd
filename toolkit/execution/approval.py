"""Ask the user for leave before a tool marked `dangerous` runs.

Not here: what counts as dangerous (`Tool.effect`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from toolkit.errors import ToolNotApprovedError
from toolkit.execution.conversion import safe_str
from toolkit.execution.functions import awaited
from toolkit.execution.threads import run_coroutine
from toolkit.messages import ToolCall

Approve = Callable[[ToolCall], Any]  # a true answer allows; may be async


def ask(approve: Approve, call: ToolCall) -> None:
    """Ask for leave; a hook that fails refuses.

    Raises:
        ToolNotApprovedError: the answer was not true, or the hook failed.
    """
    try:
        answer = approve(call)
        answer = run_coroutine(awaited(answer)) if inspect.isawaitable(answer) else answer
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _refused(call, error) from error
    if not answer:
        raise _refused(call)


async def aask(approve: Approve, call: ToolCall) -> None:
    """Ask for leave on the running loop; raises as `ask` does."""
    try:
        answer = approve(call)
        answer = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:
        raise _refused(call, error) from error
    if not answer:
        raise _refused(call)


def _refused(call: ToolCall, error: BaseException | None = None) -> ToolNotApprovedError:
    why = f" (asking failed with {type(error).__name__}: {safe_str(error)})" if error else ""
    return ToolNotApprovedError(f"The user did not allow this call of {call.tool_name!r}{why}. Nothing was run.")
