"""What do runs need beside the two modes of waiting? A call in either, and roads between threads and event loop.

Every road through the agents is written once, as a coroutine that is told its mode (`toolkit.execution.modes`). A
StopIteration of foreign code, which would end a coroutine as if all were well, becomes a RuntimeError in both.
Not here: what the bodies do (`toolkit.agents.drivers`, `toolkit.agents.builtin`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from toolkit.execution.invoker import ToolInvoker
from toolkit.execution.modes import BLOCKING, YIELDING, Mode, at_once
from toolkit.execution.state import State
from toolkit.execution.threads import in_thread
from toolkit.messages import ToolCall, ToolCallResult

T = TypeVar("T")

__all__ = ["BLOCKING", "YIELDING", "Mode", "at_once", "beside", "from_thread", "here", "invoked"]


async def invoked(invoker: ToolInvoker, call: ToolCall, mode: Mode, state: State | None = None) -> ToolCallResult:
    """Return the result of one call; see `ToolInvoker.invoke`."""
    return invoker.invoke(call, state=state) if mode is BLOCKING else await invoker.ainvoke(call, state=state)


def here(body: Callable[[Any], Coroutine[Any, Any, T]]) -> Callable[[Any], T]:
    """Return a coroutine function that awaits nothing as a plain one."""
    return lambda value: at_once(body(value))


async def beside(work: Callable[..., T], *arguments: Any) -> T:
    """Run sync code on a thread of its own, while the event loop goes on.

    But: not on asyncio's pool. A wrapper holds its thread while the layers inside it run, so three layers around a few
    parallel calls would use the pool up and wait for each other for ever.
    """

    async def body() -> T:
        return work(*arguments)

    return await asyncio.wrap_future(in_thread(lambda: at_once(body()), "toolkit-middleware"))


def from_thread(body: Callable[[Any], Awaitable[T]]) -> Callable[[Any], T]:
    """Return a function for other threads: it runs the body on this event loop and waits for it."""
    loop = asyncio.get_running_loop()

    def run(value: Any) -> T:
        waiting: Any = body(value)
        found: T = asyncio.run_coroutine_threadsafe(waiting, loop).result()
        return found

    return run
