"""Let one asker at a time put a question to a model: claims on the keys of a store, across threads and processes.

A claim is a lock on a file of its own, which the operating system lifts when its holder ends, however that comes.

Not here: what is asked and kept (`store`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_SECONDS_BETWEEN_LOOKS = 0.02
_mine: set[tuple[int, str]] = set()  # (thread, file) of the claims held in this process


@contextmanager
def claim(folder: Path, key: str, wait_s: float) -> Iterator[None]:
    """Hold the claim on a key, a file in the folder, once whoever else holds it lets go.

    But: after `wait_s` seconds, where the file cannot be made or locked, or where this thread itself holds the claim
    and so could never let go, it goes on without: to ask twice is better than to wait for ever.
    """
    path = os.path.join(folder, key)  # noqa: PTH118 - a claim is made for each request, and a Path costs more
    me = (threading.get_ident(), path)
    held = None if me in _mine else _locked(path, wait_s)
    if held is None:
        yield
        return
    _mine.add(me)
    try:
        yield
    finally:
        _mine.discard(me)
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - before it is unlocked: who waits sees that it is gone
        os.close(held)


def _locked(path: str, wait_s: float) -> int | None:
    """Return the open and locked file of a claim; None where it cannot be had, or not in time."""
    end = time.monotonic() + wait_s
    try:
        import fcntl

        while True:
            with suppress(FileExistsError, FileNotFoundError, BlockingIOError), ExitStack() as stack:
                file = _opened(path)
                stack.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.stat(path).st_ino == os.fstat(file).st_ino:  # noqa: PTH116 - not removed before it was locked
                    stack.pop_all()
                    return file
            if time.monotonic() > end:
                return None
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    except (ImportError, OSError):
        return None


def _opened(path: str) -> int:
    """Open a file, made with its folder if missing."""
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
