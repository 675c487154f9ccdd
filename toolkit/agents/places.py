"""Whose turn is it among the calls that run at once? Each call's place, for middleware that must act in call order.

A wrapper that asks a person waits until every earlier call of the turn has passed: it was asked about, or needs no
question, or is done. No call waits for a later one, so nobody waits for ever.
Not here: running the calls (`toolkit.agents.performer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextvars import ContextVar


class Place:
    """Hold one call's place among the calls of its turn."""

    __slots__ = ("_past", "earlier")

    def __init__(self, earlier: Sequence[Place] = ()) -> None:
        self.earlier = earlier
        self._past: Future[None] = Future()
        self._past.set_running_or_notify_cancel()  # a waiter that is cancelled must not cancel it for the others

    def passes(self) -> None:
        """Let the later calls go on."""
        if not self._past.done():
            self._past.set_result(None)

    def wait(self) -> None:
        """Wait until all earlier calls have passed."""
        for place in self.earlier:
            place._past.result()

    async def wait_async(self) -> None:
        """Wait until all earlier calls have passed, without blocking."""
        for place in self.earlier:
            if not place._past.done():
                await asyncio.wrap_future(place._past)


_current: ContextVar[Place | None] = ContextVar("toolkit_place", default=None)


def places(count: int) -> list[Place]:
    """Return the places of a turn's calls, in order."""
    made: list[Place] = []
    for _ in range(count):
        made.append(Place(tuple(made)))
    return made


def take(place: Place) -> None:
    """Say that this thread or task runs the call of that place."""
    _current.set(place)


def current() -> Place:
    """Return the place of the call that this thread or task runs; one of its own outside a turn."""
    return _current.get() or Place()
