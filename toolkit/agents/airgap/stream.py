"""Which words of a reply may a user see while it is still being written?

Words that may become a call are held back until it is clear what they are; thoughts are not shown.

Not here: reading calls out of a growing text (`toolkit.extraction.stream`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toolkit.extraction.stream import StreamEvent, StreamExtractor
from toolkit.models.base import Chunk


class VisibleText:
    """Pass on the words of a run, reply after reply, as they come; see `take`.

    Args:
        reader: makes what reads one reply while it is written.
    """

    def __init__(self, reader: Callable[[], StreamExtractor]) -> None:
        self._reader = reader
        self._stream = reader()
        self._last = "\n"  # what was shown last; words of the next reply start on a line of their own
        self._starts = True

    def take(self, chunk: Chunk) -> str:
        """Take a chunk and return what may be shown now; the last chunk of a reply gives the rest of it."""
        words = _words(self._stream.feed(chunk.text))
        if chunk.reply is not None:
            self._stream.close(chunk.reply.finish_reason)
            words += _words(self._stream.rest)
            self._stream = self._reader()
        if words:
            words = ("\n" if self._starts and not self._last.endswith("\n") else "") + words
            self._last, self._starts = words, False
        if chunk.reply is not None:
            self._starts = True
        return words


def _words(events: Iterable[StreamEvent]) -> str:
    return "".join(event.text for event in events if event.kind == "text")
