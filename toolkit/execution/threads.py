"""Run functions beside the caller: several at once, within a time limit, or on an event loop of their own.

Every thread here is a daemon: a tool that hangs keeps neither the caller nor the end of the program waiting. Python
cannot end a thread, so a function that overran its time goes on unseen until it returns; its result is dropped.

Not here: what is run and what its failure means (`toolkit.execution.invoker`).
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import contextvars
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

Job = Callable[[], Any]
_End = tuple[Any, BaseException | None, float]  # how a coroutine ended, and when by the monotonic clock


class OutOfTime(Exception):  # noqa: N818 - told apart from a TimeoutError that the function itself raises
    """Report that a function did not return in its time."""


_GRACE_S = 0.2  # how long the shared loop may take to answer after a timeout before it is given up
_LATE_S = 0.05  # a loop's timer may be this late, so a coroutine that ends just then still counts


def in_thread(job: Job, name: str = "toolkit-tool") -> concurrent.futures.Future[Any]:
    """Start a job on a thread of its own, with the caller's context variables."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()  # a waiter that gives up cannot take the future from the thread
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(_settle, future, job), name=name, daemon=True).start()
    return future


def within(job: Job, timeout_s: float | None) -> Any:
    """Run a job, giving up after `timeout_s` seconds.

    Raises:
        OutOfTime: time is up; the job goes on unseen.
    """
    if timeout_s is None:
        return job()
    future = in_thread(job)
    if not concurrent.futures.wait([future], timeout_s).done:
        raise OutOfTime(timeout_s)
    return future.result()


def in_order(jobs: Sequence[Job], most: int) -> Iterator[Any]:
    """Run jobs on up to `most` threads and yield their results in the order of the jobs, each as soon as it can be.

    What a job raises comes out here, in its turn. When the caller stops listening, no further job is started.
    """
    futures: list[concurrent.futures.Future[Any]] = [concurrent.futures.Future() for _ in jobs]
    waiting = collections.deque(zip(futures, jobs, strict=True))

    def work() -> None:
        with contextlib.suppress(IndexError):  # none left
            while True:
                _settle(*waiting.popleft())

    for _ in range(min(most, len(jobs))):
        context = contextvars.copy_context()  # one context cannot be entered by two threads
        threading.Thread(target=context.run, args=(work,), name="toolkit-tools", daemon=True).start()
    try:
        for future in futures:
            yield future.result()
    finally:
        waiting.clear()


def _settle(future: concurrent.futures.Future[Any], job: Job) -> None:
    """Run a job into its future, whatever it raises: a waiter that is told nothing would wait for ever."""
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)


class _Loop:
    """Hold one event loop on a daemon thread, for coroutine tools called from sync code."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._turn, name="toolkit-loop", daemon=True)
        self.thread.start()

    def _turn(self) -> None:
        """Turn the loop whatever its tasks do: `sys.exit()` in one ends `run_forever`, and would strand all others."""
        while not self.loop.is_closed():
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt):  # the task holds it, and whoever awaits the task gets it
                continue

    def answers(self) -> bool:
        """Tell whether the loop still turns; a coroutine that blocks it stops it for all."""
        pong = threading.Event()
        try:
            self.loop.call_soon_threadsafe(pong.set)
        except RuntimeError:  # closed
            return False
        return pong.wait(_GRACE_S)


_lock = threading.Lock()
_shared: list[_Loop] = []  # at most one; replaced when a coroutine blocked or closed it


def _forget() -> None:
    """Drop the loop in a forked child: its thread stayed with the parent."""
    global _lock  # noqa: PLW0603 - the parent may have held it at the fork
    _lock = threading.Lock()
    _shared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run_coroutine(coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
    """Run a coroutine to its end from sync code, inside a notebook's running event loop too.

    All coroutines share one loop on a thread of its own, so a client that lives on a loop works across calls.

    Raises:
        OutOfTime: time is up; the coroutine was cancelled.
    """
    if threading.current_thread().name == "toolkit-loop":  # a sync tool that a coroutine tool calls
        return within(lambda: _opened(asyncio.run(_ended(coroutine))), timeout_s or threading.TIMEOUT_MAX)
    with _lock:
        if not (_shared and _shared[0].thread.is_alive() and not _shared[0].loop.is_closed()):
            _shared[:] = [_Loop()]
        home = _shared[0]
    future = asyncio.run_coroutine_threadsafe(_ended(coroutine), home.loop)
    if concurrent.futures.wait([future], timeout_s).done:
        return _opened(future.result())
    future.cancel()
    if not home.answers():
        with _lock:
            if home in _shared:
                _shared.remove(home)
    raise OutOfTime(timeout_s)


async def _ended(coroutine: Coroutine[Any, Any, Any]) -> _End:
    """Await a coroutine; SystemExit and KeyboardInterrupt become values, since in a task they end the whole loop."""
    try:
        value = await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error, time.monotonic()
    return value, None, time.monotonic()


def _opened(end: _End) -> Any:
    value, error, _ = end
    if error is not None:
        raise error
    return value


async def within_async(task: Coroutine[Any, Any, Any], timeout_s: float | None) -> Any:
    """Await a coroutine, giving up after `timeout_s` seconds, even on one that refuses to be cancelled.

    It runs on the caller's own loop, where clients and locks of the caller's work. One that blocks that loop cannot
    be given up before it lets go; then its late result is dropped.

    Raises:
        OutOfTime: time is up; the coroutine was cancelled, or ended too late.
    """
    if timeout_s is None:
        return await task
    start = time.monotonic()
    end = await until(asyncio.ensure_future(_ended(task)), timeout_s)
    if end[2] - start > timeout_s + _LATE_S:
        raise OutOfTime(timeout_s)
    return _opened(end)


async def until(future: asyncio.Future[Any], timeout_s: float | None) -> Any:
    """Await a future, cancelling it after `timeout_s` seconds; one that is done by then counts, however late we look.

    Raises:
        OutOfTime: time is up.
    """
    try:
        done, _ = await asyncio.wait({future}, timeout=timeout_s)
    except asyncio.CancelledError:
        future.cancel()
        raise
    if not done:
        future.cancel()
        raise OutOfTime(timeout_s)
    return future.result()
