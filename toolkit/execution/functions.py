"""Run the function of a tool, sync or async, within its time, and give every failure one kind of exception.

Not here: checking arguments (`toolkit.execution.ready`), threads themselves (`toolkit.execution.threads`).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from toolkit.errors import ToolError, ToolInvocationError, ToolTimeoutError
from toolkit.execution.conversion import safe_str
from toolkit.execution.ready import ReadyTool
from toolkit.execution.threads import OutOfTime, in_thread, run_coroutine, until, within, within_async
from toolkit.tools import Tool

_AT_ONCE = (str, int, float, bool, dict, list, type(None))  # results that are surely no awaitables


def run_function(ready: ReadyTool, keywords: dict[str, Any], timeout_s: float | None) -> Any:
    """Run a tool's function on this thread, or beside it where there is a time limit or a coroutine.

    Raises:
        ToolInvocationError: it raised anything, `sys.exit()` included; `__cause__` is what it raised.
        ToolTimeoutError: it did not finish in time.
        KeyboardInterrupt: passed on.
    """
    try:
        if ready.is_async:
            return run_coroutine(ready.function(**keywords), timeout_s)
        if timeout_s is None:
            value = ready.function(**keywords)
        else:
            value = within(functools.partial(ready.function, **keywords), timeout_s)
        if type(value) not in _AT_ONCE and inspect.isawaitable(value):
            return run_coroutine(awaited(value), timeout_s)
        return value
    except BaseException as error:
        raise _as_tool_error(ready.tool, error, timeout_s) from _cause(error)


async def arun_function(ready: ReadyTool, keywords: dict[str, Any], timeout_s: float | None) -> Any:
    """Run a tool's function on the running loop, or on a thread where it is sync; raises as `run_function` does."""
    try:
        if ready.is_async:
            return await within_async(ready.function(**keywords), timeout_s)
        future = in_thread(functools.partial(_caught, functools.partial(ready.function, **keywords)))
        value, error = await until(asyncio.wrap_future(future), timeout_s)
        if error is not None:
            raise error
        if inspect.isawaitable(value):
            return await within_async(awaited(value), timeout_s)
        return value
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        raise _as_tool_error(ready.tool, error, timeout_s) from error
    except BaseException as error:
        raise _as_tool_error(ready.tool, error, timeout_s) from _cause(error)


def _as_tool_error(tool: Tool, error: BaseException, timeout_s: float | None) -> BaseException:
    if isinstance(error, OutOfTime):
        return ToolTimeoutError(f"Tool {tool.name!r} did not finish within {timeout_s:g} s; it was given up.")
    if isinstance(error, (ToolError, KeyboardInterrupt)):
        return error
    return ToolInvocationError(f"Tool {tool.name!r} failed with {type(error).__name__}: {safe_str(error)}")


def _cause(error: BaseException) -> BaseException | None:
    """Return what an error is raised from: itself, or its own cause where it is passed on as it is."""
    if isinstance(error, OutOfTime):
        return None
    return error.__cause__ if isinstance(error, (ToolError, KeyboardInterrupt)) else error


def is_being_cancelled() -> bool:
    """Tell whether the running task is being cancelled, as against a function that raised CancelledError itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _caught(job: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return what a job gave or raised; an exception as a value crosses event loops unharmed."""
    try:
        return job(), None
    except BaseException as error:  # raised again by whoever waits
        return None, error


async def awaited(value: Any) -> Any:
    """Make a coroutine of any awaitable."""
    return await value
