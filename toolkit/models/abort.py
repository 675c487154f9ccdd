"""Stop a request from another thread: an async caller that is cancelled lets go of the server at once.

A request runs in a thread, and waits there for the server's next word; what it waits on is broken from outside.

Not here: who asks (`base`), what is broken (`connection`, `llama`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Given = TypeVar("Given")


class Abort:
    """Hold what has to be broken to stop one request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._breaks: list[Callable[[], None]] = []
        self._before: Abort | None = None
        self.asked = threading.Event()

    def __enter__(self) -> None:
        """Be what stops the requests of this thread."""
        self._before, _here.abort = getattr(_here, "abort", None), self

    def __exit__(self, *exc: object) -> None:
        _here.abort = self._before

    def ask(self) -> None:
        """Stop the request, now or as soon as it begins."""
        with self._lock:
            self.asked.set()
            breaks, self._breaks = self._breaks, []
        for stop in breaks:
            stop()

    @contextmanager
    def breaking(self, stop: Callable[[], None]) -> Iterator[None]:
        """Have `stop` called if the request is to be stopped meanwhile, or was already."""
        with self._lock:
            late = self.asked.is_set()
            if not late:
                self._breaks.append(stop)
        if late:
            stop()
        try:
            yield
        finally:
            with self._lock:
                if stop in self._breaks:
                    self._breaks.remove(stop)


def current() -> Abort:
    """Return what stops the request that this thread is in; one that nobody asks to stop by default."""
    return getattr(_here, "abort", None) or Abort()


_here = threading.local()


async def on_thread(ask: Callable[[], Given]) -> Given:
    """Run a request on a thread; a StopIteration, which would hang its waiter, becomes a RuntimeError."""
    abort = Abort()

    def run() -> Given:
        try:
            with abort:
                return ask()
        except StopIteration as error:
            raise RuntimeError(f"The model raised {error!r}. Give next() a default.") from error

    try:
        return await asyncio.to_thread(run)
    except asyncio.CancelledError:
        abort.ask()
        raise
