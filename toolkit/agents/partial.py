"""What was done before it failed? An error that leaves a run carries the run so far as `partial`.

A run is a generator without I/O; what fails in its driver is thrown into it, so that it can say how far it came.
Not here: the runs (`toolkit.agents.airgap.rounds`, `toolkit.agents.two_mode.agent`); agents, whose errors have `trace`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import Any


@contextlib.contextmanager
def telling(steps: Generator[Any, Any, Any]) -> Iterator[None]:
    """Throw what fails inside into the run; the error comes out again with `partial`."""
    try:
        yield
    except Exception as error:
        steps.throw(error)
        raise


def keep_partial(error: Exception, partial: Callable[[], Any]) -> None:
    """Put the run so far on the error, unless it has one."""
    if not hasattr(error, "partial"):
        with contextlib.suppress(AttributeError):  # an exception class with slots
            error.partial = partial()  # type: ignore[attr-defined]
