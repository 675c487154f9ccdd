"""How does one body serve sync and async runs? It is a coroutine, and is told its Mode.

An async run awaits the body; a sync run steps it once, from end to end, since all that it awaits there is done at
once. So every road through the agents is written once, and where the two differ it asks for the mode. A StopIteration
of foreign code, which would end a coroutine as if all were well, becomes a RuntimeError on both roads.
Not here: what the bodies do (`toolkit.agents.drivers`, `toolkit.agents.builtin`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from typing import Any, TypeVar

from toolkit.execution.invoker import ToolInvoker
from toolkit.execution.state import State
from toolkit.execution.threads import in_thread
from toolkit.messages import ToolCall, ToolCallResult

T = TypeVar("T")


class Mode(Enum):
    """Say how a body waits: a sync run blocks, an async one lets its event loop go on."""

    SYNC = "sync"
    ASYNC = "async"

    async def pause(self, seconds: float) -> None:
        """Wait."""
        if self is SYNC:
            time.sleep(seconds)
        else:
            await asyncio.sleep(seconds)


SYNC, ASYNC = Mode.SYNC, Mode.ASYNC  # looking up an enum's member costs more than the comparison


def at_once(body: Coroutine[Any, Any, T]) -> T:
    """Run a body in `Mode.SYNC` to its end.

    >>> at_once(Mode.SYNC.pause(0))

    Raises:
        RuntimeError: it awaits something that takes time.
    """
    try:
        body.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    body.close()
    raise RuntimeError(f"{body!r} awaits something that takes time. In a sync run use only what `Mode` offers.")


async def invoked(invoker: ToolInvoker, call: ToolCall, mode: Mode, state: State | None = None) -> ToolCallResult:
    """Return the result of one call; see `ToolInvoker.invoke`."""
    return invoker.invoke(call, state=state) if mode is SYNC else await invoker.ainvoke(call, state=state)


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
