"""Say how a call waits: BLOCKING holds up its thread, YIELDING lets the event loop go on.

What runs calls is written once, as a coroutine that is given one of the two. An async caller awaits it; a sync caller
steps it with `at_once`, since nothing that it awaits under BLOCKING takes time.
Not here: threads and event loops themselves (`toolkit.execution.threads`), what a failure means (`functions`).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from toolkit.execution.threads import in_order, in_thread, run_coroutine, until, within, within_async

T = TypeVar("T")
Function = Callable[..., Any]
Keywords = dict[str, Any]
Work = Callable[[], Coroutine[Any, Any, T]]
Ended = tuple[Any, BaseException | None]  # what a job gave, or raised: a value crosses threads and loops unharmed

_AT_ONCE = (str, int, float, bool, dict, list, type(None))  # results that are surely no awaitables


def at_once(body: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing to its end."""
    try:
        body.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    body.close()
    raise RuntimeError(f"{body!r} awaits something that takes time.")


def attempt_here(function: Function, keywords: Keywords, timeout_s: float | None = None) -> Ended:
    """Run a function on this thread, or beside it where there is a time limit or a coroutine."""
    try:
        if timeout_s is None:
            value = function(**keywords)
        elif is_async(function):
            return run_coroutine(function(**keywords), timeout_s), None
        else:
            value = within(functools.partial(function, **keywords), timeout_s)
        if type(value) not in _AT_ONCE and inspect.isawaitable(value):
            value = run_coroutine(_awaited(value), timeout_s)
        return value, None
    except BaseException as error:
        return None, error


class Blocking:
    """Wait on the caller's thread."""

    async def attempt(self, function: Function, keywords: Keywords, timeout_s: float | None = None) -> Ended:
        """Run a function as `attempt_here` does."""
        return attempt_here(function, keywords, timeout_s)

    async def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    async def settle(self, value: Any) -> Any:
        """Return what an awaitable gives, or another value as it is."""
        return run_coroutine(_awaited(value)) if inspect.isawaitable(value) else value

    async def each(self, works: Sequence[Work[T]], most: int, then: Callable[[T], Coroutine[Any, Any, None]]) -> None:
        """Do the works on up to `most` threads, one alone on this one, and `then` with each result in order."""
        jobs = [functools.partial(_done, work) for work in works]
        for result in (job() for job in jobs) if len(jobs) == 1 else in_order(jobs, most):
            await then(result)

    def is_cancelling(self, error: BaseException) -> bool:
        """Tell whether an error is the end of the caller, not the work's own."""
        return False


class Yielding:
    """Wait on the running event loop; sync functions run on threads."""

    async def attempt(self, function: Function, keywords: Keywords, timeout_s: float | None = None) -> Ended:
        """Run a function: a coroutine on this loop, anything else on a thread."""
        try:
            if is_async(function):
                return await within_async(function(**keywords), timeout_s), None
            future = in_thread(functools.partial(_ended, function, keywords))
            value, error = await until(asyncio.wrap_future(future), timeout_s)
            if error is None and inspect.isawaitable(value):
                value = await within_async(_awaited(value), timeout_s)
            return value, error
        except BaseException as error:
            return None, error

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def settle(self, value: Any) -> Any:
        """Return what an awaitable gives, or another value as it is."""
        return await value if inspect.isawaitable(value) else value

    async def each(self, works: Sequence[Work[T]], most: int, then: Callable[[T], Coroutine[Any, Any, None]]) -> None:
        """Do up to `most` works at once, and `then` with each result in order."""
        room = asyncio.Semaphore(most)

        async def admitted(work: Work[T]) -> T:
            async with room:
                return await work()

        tasks = [asyncio.ensure_future(admitted(work)) for work in works]
        try:
            for task in tasks:
                await then(await task)
        finally:
            for task in tasks:
                task.cancel()

    def is_cancelling(self, error: BaseException) -> bool:
        """Tell whether the running task is being cancelled, as against a function that raised CancelledError itself."""
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def is_async(function: Function) -> bool:
    """Tell whether calling the function gives a coroutine; looks through partials and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


BLOCKING, YIELDING = Blocking(), Yielding()
Mode = Blocking | Yielding


def _ended(function: Function, keywords: Keywords) -> Ended:
    try:
        return function(**keywords), None
    except BaseException as error:
        return None, error


def _done(work: Work[T]) -> T:
    return at_once(work())


async def _awaited(value: Awaitable[T]) -> T:
    """Make a coroutine of any awaitable."""
    return await value
