"""Put wrappers around a call, outermost first: the same for models, tools and whole runs, sync and async.

A sync wrapper works under the event loop too: it runs on a thread of its own, and its handler waits there for the loop.
Not here: what is wrapped (`toolkit.agents.performer`, `toolkit.agents.tool_calls`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolkit.agents.modes import YIELDING, Mode, beside, from_thread
from toolkit.agents.plan import Hook

Call = Callable[[Any], Any]  # gives what came of a request, or a coroutine that does
Check = Callable[[Any, Hook], Any]  # (what a wrapper gave, the wrapper) -> what counts; raises UpdateError


def layered(hooks: tuple[Hook, ...], inner: Call, check: Check, mode: Mode, noted: list[Any] | None = None) -> Call:
    """Return `inner` with wrappers around it; both are coroutine functions, or plain ones where the mode is blocking.

    Args:
        hooks: the wrappers, outermost first.
        inner: a function of a request.
        check: what is done to what a wrapper gave.
        mode: how to wait.
        noted: what layers below have noted; a further attempt of a wrapper discards what the one before noted.
    """
    noted = [] if noted is None else noted
    layer = _alayer if mode is YIELDING else _layer
    for hook in reversed(hooks):
        inner = layer(hook, inner, check, noted)
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


def _alayer(hook: Hook, inner: Call, check: Check, noted: list[Any]) -> Call:
    async def layer(request: Any) -> Any:
        if hook.when is not None and not hook.when(dict(request.state)):
            return await inner(request)
        mark = len(noted)

        async def handler(new: Any) -> Any:
            del noted[mark:]
            return await inner(new)

        if hook.is_async:
            return check(await hook.call(request, handler), hook)
        return check(await beside(hook.call, request, from_thread(handler)), hook)

    return layer
