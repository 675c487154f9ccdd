"""Which words of a reply may a user see while it is still being written?

Words that may become a call are held back: from the first line that looks like the start of one, to the end of the
reply. What was held back and turned out to be words is shown then.

Not here: reading the calls (`toolkit.extraction`).
"""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.models.base import Chunk, Reply
from toolkit.protocols import Protocol
from toolkit.tools import Tool

# how calls and thoughts of the common syntaxes begin: tags, JSON, fences, special tokens
_OPENERS = ("<", "{", "[", "`", "✿", "|")


class Shown:
    """Pass on the words of one reply as they come; see `take`."""

    def __init__(self, protocol: Protocol, tools: Sequence[Tool]) -> None:
        self.protocol = protocol
        self.tools = tools
        self.markers = tuple(marker.casefold() for marker in protocol.markers)
        self.names = tuple(tool.name.casefold() for tool in tools)
        self.waiting = ""
        self.shown = ""
        self.held = False
        self.inside_line = False  # the start of the line was shown already, so it is no call

    def take(self, chunk: Chunk) -> str:
        """Take a chunk and return what may be shown now; the last chunk, with the reply, gives the rest."""
        return self.feed(chunk.text) + (self.close(chunk.reply) if chunk.reply is not None else "")

    def feed(self, text: str) -> str:
        """Take a piece of the reply and return what may be shown of it and of what waits."""
        self.waiting += text
        ready = ""
        while self.waiting and not self.held:
            line, newline, rest = self.waiting.partition("\n")
            if self._opens(line):
                self.held = True
            elif not newline and self._may_open(line):
                break
            else:
                ready, self.waiting = ready + line + newline, rest
                self.inside_line = not newline
        self.shown += ready
        return ready

    def _opens(self, line: str) -> bool:
        """Tell whether a line, whole or not, holds the start of a call or a thought."""
        text = "" if self.inside_line else line.lstrip(" \t>*-#").casefold()
        return any(sign in line for sign in _OPENERS) or any(text.startswith(m) for m in (*self.markers, *self.names))

    def _may_open(self, line: str) -> bool:
        """Tell whether a line's end is still open and it may become the start of a call."""
        text = line.lstrip(" \t>*-#").casefold()
        return not self.inside_line and any(start.startswith(text) for start in (*self.markers, *self.names))

    def close(self, reply: Reply) -> str:
        """Return the words that were held back, now that the whole reply can be read."""
        found = self.protocol.extract(reply.text, self.tools, reply.finish_reason)
        words = self.protocol.answer(found.text if self.tools or not found.calls else reply.text).strip()
        said = self.shown.strip()
        rest = words[len(said) :] if words.startswith(said) else ""
        return rest if said else rest.lstrip()
