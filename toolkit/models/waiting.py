"""Wait for a server: one that is gone or busy, a free slot of it, a word from it.

A request by itself is told at once that nobody answers. Within a sweep (`patient`) it waits until the server is back.

Not here: which errors pass (`wire`), HTTP (`connection`).
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from toolkit.errors import ServerGoneError, ToolkitError
from toolkit.models.abort import current

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 8.0


@dataclass
class Patience:
    """Say how long the requests of a sweep wait for a server, and whom to tell.

    Attributes:
        seconds: the most; once they are over, no request waits until `over` is False again.
        tell: takes what is waited for, in words.
        over: whether a request has waited in vain.
    """

    seconds: float
    tell: Callable[[str], None]
    over: bool = False


_patience: ContextVar[Patience | None] = ContextVar("patience", default=None)


@contextmanager
def patient(patience: Patience) -> Iterator[None]:
    """Let every request within wait."""
    token = _patience.set(patience)
    try:
        yield
    finally:
        _patience.reset(token)


def in_sweep() -> bool:
    """Tell whether requests wait for a server here."""
    return _patience.get() is not None


class Waiting:
    """Pause between the attempts at one request, longer each time.

    Args:
        busy_s: seconds for which a busy server is asked again outside a sweep.
    """

    def __init__(self, busy_s: float = 0.0) -> None:
        self._busy_s = busy_s
        self._began: float | None = None
        self._pause = _FIRST_PAUSE_S

    def again(self, error: ToolkitError) -> bool:
        """Pause after an error that passes and return True; return False where there is nothing to wait for."""
        patience = _patience.get()
        if not (isinstance(error, ServerGoneError) or getattr(error, "passes", False)):
            return False
        self._began = self._began or time.monotonic()
        waited, most = time.monotonic() - self._began, self._busy_s if getattr(error, "busy", False) else 0.0
        if patience is not None:
            most = 0.0 if patience.over else patience.seconds
            patience.over = waited + self._pause > most
        if waited + self._pause > most:
            return False
        if patience is not None:
            patience.tell(f"waiting for {waited:.0f} s: {error}")
        if current().asked.wait(self._pause):
            return False
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
        return True


class Traffic:
    """Know what this process has under way at one server.

    Attributes:
        seen: when the server last gave a sign of work.
        crowded: whether requests at the same time got into each other's way, so that each has to be alone.
    """

    def __init__(self) -> None:
        self.seen = 0.0
        self.crowded = False
        self._active = 0
        self._freed = threading.Condition()

    @contextmanager
    def slot(self, slots: Callable[[], int | None]) -> Iterator[None]:
        """Hold one of the server's slots, once it is free; within a sweep, or where each has to be alone.

        Elsewhere a stream may be left unfinished, which would hold its slot for ever.
        """
        held = in_sweep() or self.crowded
        most = (slots() if held and self._active and not self.crowded else None) or sys.maxsize
        with self._freed:
            while held and self._active >= (1 if self.crowded else most) and not current().asked.is_set():
                self._freed.wait(0.1)
            self._active += 1
        try:
            yield
        finally:
            with self._freed:
                self._active -= 1
                self._freed.notify()


_traffic: weakref.WeakValueDictionary[str, Traffic] = weakref.WeakValueDictionary()
_registry = threading.Lock()


def traffic_at(address: str) -> Traffic:
    """Return the traffic at an address, which all models that ask there share."""
    with _registry:
        return _traffic.setdefault(address, Traffic())


class Watch:
    """Break a request once nothing came of it for too long.

    As long as nothing came at all, it may stand in a queue: then whatever the server does for others of this process
    is a sign of work too.

    Attributes:
        late: whether that was so.
    """

    def __init__(self, stop: Callable[[], None], idle_s: float, traffic: Traffic) -> None:
        self._stop, self._idle_s, self._traffic = stop, idle_s, traffic
        self._seen, self._begun, self._done = time.monotonic(), False, threading.Event()
        self.late = False

    def sign(self) -> None:
        """Take note of a sign of work."""
        self._seen = self._traffic.seen = time.monotonic()
        self._begun = True

    def left(self) -> float:
        """Return the seconds until it is late."""
        seen = self._seen if self._begun else max(self._seen, self._traffic.seen)
        return seen + self._idle_s - time.monotonic()

    def __enter__(self) -> Watch:
        threading.Thread(target=self._wait, name="toolkit-watch", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()

    def _wait(self) -> None:
        while not self._done.wait(max(0.0, self.left())):
            if self.left() <= 0:
                self.late = True
                self._stop()
                return
