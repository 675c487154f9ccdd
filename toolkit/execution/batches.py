"""Order the calls of one turn, so that a call that reads the state runs after the calls that write what it reads.

Calls of one batch may run at once. The model's own order does not matter, but where calls wait for each other in a
circle the one that the model named first runs first, alone (Source: haystack#11690).
Not here: running them (`toolkit.execution.invoker`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """Say which state keys one call reads and writes; `anything` for a tool that holds the live state."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    anything: bool = False

    def waits_for(self, other: Access) -> bool:
        """Tell whether this call reads what the other writes."""
        if self.anything or other.anything:
            return bool(self.anything or self.reads or self.writes) and bool(
                other.anything or other.reads or other.writes
            )
        return bool(self.reads & other.writes)


def batches(calls: Sequence[Access]) -> list[list[int]]:
    """Return the indexes of the calls in batches to be run one after the other.

    >>> reader, writer = Access(reads=frozenset({"repo"})), Access(writes=frozenset({"repo"}))
    >>> batches([reader, writer, Access()])
    [[1, 2], [0]]
    >>> both = Access(frozenset({"docs"}), frozenset({"docs"}))
    >>> batches([both, both])
    [[0], [1]]
    """
    left, found = list(range(len(calls))), []
    while left:
        free = [i for i in left if not any(calls[i].waits_for(calls[j]) for j in left if j != i)]
        batch = free or left[:1]
        found.append(batch)
        left = [i for i in left if i not in batch]
    return found
