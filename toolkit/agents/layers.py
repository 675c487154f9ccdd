"""Put wrappers around a call, outermost first: the same for models, tools and whole runs, sync and async.

A sync wrapper works under the event loop too: it runs on a thread of its own, and its handler waits there for the loop.
But: not on asyncio's pool. A wrapper holds its thread while the layers inside it run, so three layers around a few
parallel calls would use the pool up and wait for each other for ever.

Not here: what is wrapped (`toolkit.agents.performer`, `toolkit.agents.tool_calls`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from toolkit.agents.drivers import without_stop
from toolkit.agents.plan import Hook
from toolkit.execution.threads import in_thread

Check = Callable[[Any, Hook], Any]  # (what a wrapper gave, the wrapper) -> what counts; raises UpdateError


def layered(
    hooks: tuple[Hook, ...], inner: Callable[[Any], Any], check: Check, noted: list[Any] | None = None
) -> Callable[[Any], Any]:
    """Return `inner` with wrappers around it.

    Args:
        hooks: the wrappers, outermost first.
        inner: function of a request.
        check: what is done to what a wrapper gave.
        noted: what layers below have noted; a further attempt of a wrapper discards what the one before noted.
    """
    for hook in reversed(hooks):
        inner = _layer(hook, inner, check, [] if noted is None else noted)
    return inner


def _layer(hook: Hook, inner: Callable[[Any], Any], check: Check, noted: list[Any]) -> Callable[[Any], Any]:
    def layer(request: Any) -> Any:
        if hook.when is not None and not hook.when(dict(request.state)):
            return inner(request)
        mark = len(noted)

        def handler(new: Any) -> Any:
            del noted[mark:]
            return inner(new)

        return check(hook.call(request, handler), hook)

    return layer


def alayered(
    hooks: tuple[Hook, ...], inner: Callable[[Any], Awaitable[Any]], check: Check, noted: list[Any] | None = None
) -> Callable[[Any], Awaitable[Any]]:
    """Return the coroutine function `inner` with wrappers around it; see `layered`."""
    for hook in reversed(hooks):
        inner = _alayer(hook, inner, check, [] if noted is None else noted)
    return inner


def _alayer(
    hook: Hook, inner: Callable[[Any], Awaitable[Any]], check: Check, noted: list[Any]
) -> Callable[[Any], Awaitable[Any]]:
    async def layer(request: Any) -> Any:
        if hook.when is not None and not hook.when(dict(request.state)):
            return await inner(request)
        mark = len(noted)

        async def handler(new: Any) -> Any:
            del noted[mark:]
            return await inner(new)

        if hook.is_async:
            return check(await hook.call(request, handler), hook)
        return check(await run_beside(hook.call, request, handler), hook)

    return layer


def no_stop(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises RuntimeError where `work` raises StopIteration: a future cannot hold one."""

    def run(*arguments: Any) -> Any:
        try:
            return work(*arguments)
        except StopIteration as error:
            raise without_stop(error) from error

    return run


async def run_beside(work: Callable[[Any, Any], Any], request: Any, inner: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run `work(request, handler)` on a thread, where the handler runs `inner` on this event loop and waits."""
    loop = asyncio.get_running_loop()

    def handler(new: Any) -> Any:
        waiting: Any = inner(new)
        return asyncio.run_coroutine_threadsafe(waiting, loop).result()

    return await asyncio.wrap_future(in_thread(lambda: no_stop(work)(request, handler), "toolkit-middleware"))
