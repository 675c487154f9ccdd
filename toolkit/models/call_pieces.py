"""Put the calls of a streamed answer together, however a server cuts and numbers them.

OpenAI's format gives a call an index, and its id and name once. Servers repeat the name in each piece, leave the
index out, give all calls the index 0, give one call two indexes or two calls one id, or send all that is written so
far each time.

Not here: the pieces themselves (`openai`, `ollama`), faults and the reply (`backend`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from toolkit.traces.json_text import loads


def read_arguments(wire: str) -> dict[str, Any] | None:
    """Return the arguments of a call, written as JSON text; None if they are no object (Source: ollama#6155)."""
    try:
        arguments = loads(wire or "{}")
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def joined(pieces: list[str], good: Callable[[str], object]) -> str:
    """Return what pieces say: all of them in a row, or the last one where each repeats what came before it.

    >>> joined(["read", "_log"], {"read_log"}.__contains__)
    'read_log'
    >>> joined(["read_log", "read_log", "read_log"], {"read_log"}.__contains__)
    'read_log'
    """
    pieces = [piece for piece in pieces if piece]
    text = "".join(pieces)
    if len(pieces) < 2 or good(text):
        return text
    grows = all(later.startswith(earlier) for earlier, later in pairwise(pieces))
    again = text == pieces[-1] * 2  # the whole once more, behind its pieces
    return pieces[-1] if grows or again else text


@dataclass
class CallDraft:
    """Hold one call as far as it came."""

    index: int | None
    id: str = ""
    names: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """Return the text of the arguments; an empty object before them is a placeholder."""
        start = next((n for n, piece in enumerate(self.pieces) if piece.strip() not in ("", "{}")), 0)
        return joined(self.pieces[start:], lambda text: read_arguments(text) is not None)

    @property
    def whole(self) -> bool:
        """Tell whether the arguments are complete as they are."""
        last = next((piece.rstrip() for piece in reversed(self.pieces) if piece.strip()), "")
        return last.endswith("}") and read_arguments(self.arguments) is not None


class CallPieces:
    """Collect the calls of one answer.

    Args:
        known: names of the tools that were offered.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        self.known = frozenset(known)
        self._drafts: list[CallDraft] = []
        self._by_id: dict[str, CallDraft] = {}
        self._by_index: dict[int | None, CallDraft] = {}

    def __len__(self) -> int:
        return len(self._drafts)

    def __iter__(self) -> Iterator[CallDraft]:
        """Yield the calls in the order of their indexes."""
        return iter(sorted(self._drafts, key=lambda draft: draft.index or 0))

    def name(self, draft: CallDraft) -> str:
        """Return the name of a call's tool."""
        return joined(draft.names, self.known.__contains__)

    def add(self, index: int | None, identity: str, name: str, arguments: str, apart: bool = False) -> None:
        """Take a call, or a piece of one; `apart` where it is another call than the last one for certain."""
        draft = self._by_id.get(identity) if identity else None
        if draft is None:
            draft = self._by_index.get(index) if index is not None or not self._drafts else self._drafts[-1]
        if draft is None or apart or self._begins(draft, index, identity, name, arguments):
            name = name or (self.name(draft) if draft is not None and not apart else "")
            draft = CallDraft(index)
            self._drafts.append(draft)
            self._by_index[index] = draft
        if identity:
            draft.id = draft.id or identity
            self._by_id[identity] = draft
        draft.names.append(name)
        draft.pieces.append(arguments)

    def _begins(self, draft: CallDraft, index: int | None, identity: str, name: str, arguments: str) -> bool:
        """Tell whether a piece begins another call than the one that its id or index belongs to."""
        said, before = "".join(draft.pieces), self.name(draft)
        if not before:  # some send the arguments first
            return False
        opens, same_id = arguments.lstrip().startswith("{"), bool(identity) and identity == draft.id
        again = arguments.startswith(said) or said.strip() == "{}"
        if not name:  # as a rule it goes on; but whole arguments behind whole ones are another call
            return opens and not again and draft.whole and read_arguments(arguments) is not None
        other = name != before and {name, before} <= self.known
        new_id = bool(identity and draft.id and not same_id)
        if not said.strip():
            return other or (new_id and (index is None or name != before))
        if new_id:
            return draft.whole or (opens and not arguments.startswith(said))
        if not draft.whole:
            return False
        if other or (index is None and not identity):
            return True
        return bool(arguments.strip()) and not (again and (same_id or index is None or index == draft.index))
