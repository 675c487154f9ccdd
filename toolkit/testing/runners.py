"""Keep track of the models that a fake Ollama server has loaded: who waits, who is refused, who goes.

Not here: what the models are (`models`) and write (`script`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from toolkit.testing.models import FakeModel, stamp
from toolkit.testing.requests import RefusedError

BUSY = "server busy, please try again.  maximum pending requests exceeded"
_FOR_EVER = timedelta(days=365.2425 * 292.4)


class LeftError(Exception):
    """Tell that a client left while it waited."""


@dataclass
class Runner:
    """Hold one process with a model in it.

    Attributes:
        key: what must be the same for a request to be served without loading anew.
        window: tokens of each slot.
        jinja: whether it was started with the model's Jinja template.
    """

    model: FakeModel
    key: tuple[Any, ...]
    window: int
    jinja: bool
    keep_s: float
    active: int = 0
    ends: float = 0.0
    alive: bool = True
    fresh: bool = True

    def listed(self) -> dict[str, Any]:
        """Return the entry of `/api/ps`."""
        ahead = _FOR_EVER if self.keep_s == float("inf") else timedelta(seconds=self.ends - time.time())
        return {
            "name": self.model.full_name, "model": self.model.full_name, "size": self.model.size + 40_000 * self.window,
            "digest": self.model.digest, "details": self.model.details, "expires_at": stamp(datetime.now(UTC), ahead),
            "size_vram": 0, "context_length": self.window,
        }  # fmt: skip


@dataclass
class Runners:
    """Load models, let requests wait for a slot, and unload what is no longer kept.

    Attributes:
        parallel: slots of each model (OLLAMA_NUM_PARALLEL).
        most_loaded: models that fit at a time (OLLAMA_MAX_LOADED_MODELS).
        most_waiting: requests that may wait for a load (OLLAMA_MAX_QUEUE).
        keep_s: seconds for which a model stays, where no request says (OLLAMA_KEEP_ALIVE).
        loads: names of the models loaded so far, in order.
        waiting: how many requests wait for a load.
    """

    parallel: int = 1
    most_loaded: int = 3
    most_waiting: int = 512
    keep_s: float = 300.0
    loads: list[str] = field(default_factory=list)
    _loaded: list[Runner] = field(default_factory=list)
    waiting: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def listed(self) -> list[Runner]:
        """Return what is loaded, that with the longest life left first."""
        with self._changed:
            self._expire()
            return sorted(self._loaded, key=lambda one: -one.ends)

    @contextmanager
    def slot(
        self, model: FakeModel, key: tuple[Any, ...], window: int, keep_s: float | None, gone: Callable[[], bool]
    ) -> Generator[tuple[Runner, float]]:
        """Lend a slot of a loaded model, and tell the seconds that loading took; keep the model for a while after.

        Raises:
            RefusedError: too many wait for a load already.
            LeftError: the client left while it waited.
        """
        runner, loading_s = self._loaded_for(model, key, window, gone)
        if keep_s is not None:
            runner.keep_s = keep_s
        runner.ends = time.time() + min(runner.keep_s, 1e12)
        try:
            yield runner, loading_s
        finally:
            with self._changed:
                runner.active -= 1
                runner.ends = time.time() + min(runner.keep_s, 1e12)
                self._expire()
                self._changed.notify_all()

    def _loaded_for(
        self, model: FakeModel, key: tuple[Any, ...], window: int, gone: Callable[[], bool]
    ) -> tuple[Runner, float]:
        start = time.perf_counter()
        with self._changed:
            self._expire()
            counted = False
            try:
                while (runner := self._ready(model, key, window)) is None:
                    same = next((one for one in self._loaded if one.model.blob == model.blob), None)
                    if not counted and (same is None or same.key != key):
                        if self.waiting >= self.most_waiting:
                            raise RefusedError(503, BUSY)
                        self.waiting += 1
                        counted = True
                    self._changed.wait(0.02)
                    if gone():
                        raise LeftError
            finally:
                self.waiting -= counted
        if runner.fresh and model.load_s:
            time.sleep(model.load_s)
        loading_s = time.perf_counter() - start if runner.fresh or counted else 1e-3
        runner.fresh = False
        return runner, loading_s

    def _ready(self, model: FakeModel, key: tuple[Any, ...], window: int) -> Runner | None:
        """Return a runner with a free slot, loaded now if need be; None if the request must wait."""
        same = next((one for one in self._loaded if one.model.blob == model.blob), None)
        if same is not None and same.key == key and same.alive:
            if same.active >= self.parallel:
                return None
            same.active += 1
            return same
        if same is not None:
            if same.active:
                return None
            self._loaded.remove(same)
        elif len(self._loaded) >= self.most_loaded:
            idle = [one for one in self._loaded if not one.active]
            if not idle:
                return None
            self._loaded.remove(min(idle, key=lambda one: one.keep_s))
        runner = Runner(model, key, window, model.road == "native", self.keep_s, active=1)
        self._loaded.append(runner)
        self.loads.append(model.full_name)
        return runner

    def _expire(self) -> None:
        now = time.time()
        self._loaded = [one for one in self._loaded if one.active or (one.alive and one.ends > now)]

    def kill(self, name: str | None = None) -> None:
        """Let the processes of one model, or of all, die; the next request loads them anew."""
        with self._changed:
            for one in self._loaded:
                if name in (None, one.model.full_name):
                    one.alive = False
                    one.keep_s = 0.0

    def unload(self, model: FakeModel) -> None:
        """Unload a model, or let it go once its last request ends."""
        with self._changed:
            for one in self._loaded:
                if one.model.blob == model.blob:
                    one.keep_s, one.ends = 0.0, 0.0
            self._expire()

    def forget(self) -> None:
        """Unload all, as a server that goes away does."""
        with self._changed:
            self._loaded, self.waiting = [], 0
            self.loads.clear()
