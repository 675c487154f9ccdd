"""Run sync wrappers under an event loop: each on a thread of its own, its handler waiting there for the loop.

But: not on asyncio's pool. A wrapper holds its thread while the layers inside it run, so three layers around a few
parallel calls would use the pool up and wait for each other for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from toolkit.execution.threads import in_thread


async def run_beside(work: Callable[[Any, Any], Any], request: Any, inner: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run `work(request, handler)` on a thread, where the handler runs `inner` on this event loop and waits."""
    loop = asyncio.get_running_loop()

    def handler(new: Any) -> Any:
        waiting: Any = inner(new)
        return asyncio.run_coroutine_threadsafe(waiting, loop).result()

    return await asyncio.wrap_future(in_thread(lambda: work(request, handler), "toolkit-middleware"))
