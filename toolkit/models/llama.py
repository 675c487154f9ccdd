"""Hold llama.cpp servers in this process: load once, share, stream, stop early, unload with the last user.

Not here: what is sent to them (`embedded`).
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.errors import UserError, WeightsError, install_hint
from toolkit.models.abort import current
from toolkit.models.waiting import Traffic, Watch
from toolkit.models.wire import ServerError


@dataclass(frozen=True)
class ServerKey:
    """Name one loaded server: these settings take effect at load time only."""

    path: Path
    num_ctx: int
    threads: int


@dataclass
class Shared:
    """Hold one loaded server; it unloads when the last one who holds this lets go."""

    key: ServerKey
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: Any = None
    traffic: Traffic = field(default_factory=Traffic)


_servers: weakref.WeakValueDictionary[ServerKey, Shared] = weakref.WeakValueDictionary()
_registry = threading.Lock()
_running: set[threading.Event] = set()
_SECONDS_TO_STOP = 5.0
_spoilt = False  # whether this process was forked from one with a loaded server


def missing() -> str:
    """Say what to install."""
    return f"Embedded models need xllamacpp. {install_hint('embedded')}"


def default_threads() -> int:
    """Return one fewer than the cores this process may use, at least one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, count - 1)


def shared_server(key: ServerKey) -> tuple[Shared, float]:
    """Return the server of `key`, loading it if nobody has, and the seconds that took."""
    import_llama()  # before the lock, which a thread that a fork left behind may hold
    with _registry:
        shared = _servers.setdefault(key, Shared(key))
    with shared.lock:
        if shared.server is not None:
            return shared, 0.0
        started = time.perf_counter()
        try:
            shared.server = _load(key)
        except BaseException:
            _abandon(shared)
            raise
        return shared, time.perf_counter() - started


def _load(key: ServerKey) -> Any:
    llama = import_llama()
    params = llama.CommonParams()
    params.model.path = str(key.path)
    params.n_ctx, params.n_parallel = key.num_ctx, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = key.threads
    params.verbosity = -1  # else llama.cpp logs pages to stderr
    params.warmup = params.fit_params = False  # fit_params would shrink the window that was asked for
    try:
        return llama.Server(params)
    except RuntimeError as error:
        raise WeightsError(
            f"llama.cpp could not load {str(key.path)!r} with num_ctx={key.num_ctx} ({error}). The file may be "
            "cut off, of a kind that this llama.cpp does not know, or too big for the memory."
        ) from None


def import_llama() -> Any:
    """Import xllamacpp; UserError if it is not installed, or this process was forked while a model was loaded."""
    if _spoilt:
        raise UserError(
            "This process was forked from one with a loaded embedded model, and llama.cpp does not survive that. "
            "Start workers afresh: ProcessPoolExecutor(n, mp_context=multiprocessing.get_context('spawn')). "
            "Or close the model before they start: model.close()."
        )
    try:
        import xllamacpp
    except ImportError as error:
        raise UserError(f"{missing()} ({error})") from None
    return xllamacpp


def pieces(shared: Shared, method: str, body: dict[str, Any], timeout_s: float) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a streamed answer; the server stays loaded until its end.

    The native call runs in a thread of its own, so that Ctrl-C reaches the caller; leaving early stops
    it at the next token.

    Raises:
        TimeoutError: nothing came for `timeout_s` seconds, nor for others who ask the server.
        ServerError: llama.cpp refused the request.
    """
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()
    left = threading.Event()
    watch = Watch(left.set, timeout_s, shared.traffic)
    thread = _start(shared, method, body, found, left)
    try:
        with current().breaking(lambda: found.put(InterruptedError("nobody waits for it any more"))):
            while (piece := _next(found, watch)) is not None:
                if isinstance(piece, Exception):
                    raise ServerError(0, f"llama.cpp refused the request: {piece}") from None
                yield piece
        thread.join()  # it is at its end, and holds the server until then
    except queue.Empty:
        left.set()
        thread.join(_SECONDS_TO_STOP)
        if thread.is_alive():
            _abandon(shared)
        raise TimeoutError from None
    finally:
        left.set()


def _next(found: queue.SimpleQueue[Any], watch: Watch) -> Any:
    while True:
        try:
            piece = found.get(timeout=max(0.0, watch.left()))
        except queue.Empty:
            if watch.left() > 0:  # others were served meanwhile
                continue
            raise
        watch.sign()
        return piece


def _start(
    shared: Shared, method: str, body: dict[str, Any], found: queue.SimpleQueue[Any], left: threading.Event
) -> threading.Thread:
    """Run the native call in a thread that fills `found`, ends it with None or an exception, and heeds `left`."""
    _running.add(left)

    def take(piece: Any) -> bool:
        found.put(piece)
        return left.is_set()  # True stops generation

    def work() -> None:
        try:
            getattr(shared.server, method)(body, take)
            found.put(None)
        except Exception as error:
            found.put(error)
        finally:
            _running.discard(left)

    thread = threading.Thread(target=work, name="llama.cpp", daemon=True)
    thread.start()
    return thread


def _abandon(shared: Shared) -> None:
    """Let the next request load anew: this server never loaded, or hangs and would hold up all others."""
    with _registry:
        if _servers.get(shared.key) is shared:
            del _servers[shared.key]


def _after_fork() -> None:
    """Disown the parent's servers: their threads are not in this process, so to use or unload them hangs or aborts.

    A server of its own is no way out: unloading it joins llama.cpp's log thread, which is the parent's too.
    """
    global _registry, _spoilt  # noqa: PLW0603 - the state of a process is global
    _registry = threading.Lock()
    servers = [shared.server for shared in _servers.values() if shared.server is not None]
    if servers or _running:
        _spoilt = True
    if servers:
        import ctypes

        for server in servers:  # one reference too many: the destructor never runs
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    _servers.clear()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _stop_all() -> None:
    """Stop what still runs, so that no native thread outlives the interpreter."""
    for left in list(_running):
        left.set()
    end = time.monotonic() + _SECONDS_TO_STOP
    while _running and time.monotonic() < end:
        time.sleep(0.01)
    if _running:
        return  # one hangs: leave it to the end of the process
    with _registry:
        for shared in _servers.values():
            shared.server = None
        _servers.clear()
