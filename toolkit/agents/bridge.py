"""Run sync wrappers under an event loop: each on a thread of its own, its handler waiting there for the loop.

But: not on asyncio's pool. A wrapper holds its thread while the layers inside it run, so three layers around a few
parallel calls would use the pool up and wait for each other for ever.

But: no StopIteration crosses from a thread to the event loop: a future cannot hold one, and its waiter would hang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from toolkit.execution.threads import in_thread


def without_stop(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises RuntimeError where `work` raises StopIteration, as generators and coroutines do."""

    def run(*arguments: Any) -> Any:
        try:
            return work(*arguments)
        except StopIteration as error:
            raise stopped(error) from error

    return run


def stopped(error: StopIteration) -> RuntimeError:
    """Return the error that stands for a StopIteration, which would end a loop as if all were well."""
    return RuntimeError(f"A hook, tool or model raised {error!r}. Give next() a default, or catch it there.")


async def run_beside(work: Callable[[Any, Any], Any], request: Any, inner: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run `work(request, handler)` on a thread, where the handler runs `inner` on this event loop and waits."""
    loop = asyncio.get_running_loop()

    def handler(new: Any) -> Any:
        waiting: Any = inner(new)
        return asyncio.run_coroutine_threadsafe(waiting, loop).result()

    return await asyncio.wrap_future(in_thread(lambda: without_stop(work)(request, handler), "toolkit-middleware"))
