"""Which of the model's words may a streamed run show, and when? Tokens.

Words go out as they come, without the text of calls (`toolkit.asking.stream_reader`). They are held back where they are
not yet what is said: middleware may hide some (`holds_tokens`), and in the constrained arm they are JSON. Then the text
goes out as a whole, once the hooks have seen it.
Not here: events of other kinds (`toolkit.traces`).
"""

from __future__ import annotations

from toolkit.agents.drivers import Send, Token
from toolkit.agents.run import Run
from toolkit.asking import Request, stream_reader
from toolkit.models.base import Chunk
from toolkit.traces import Event


class Tokens:
    """Send the words of one run as events of kind `token`."""

    def __init__(self, run: Run, send: Send) -> None:
        self.run, self.send = run, send
        plan, recipe = run.setup.plan, run.setup.recipe
        self.held = recipe.arm == "constrained" or any(item.holds_tokens for item in plan.middleware)
        self._sent: str | None = None

    def of(self, asked: Request) -> Token:
        """Return what takes the pieces of one reply."""
        if self.held:
            return lambda chunk: None
        reader = stream_reader(self.run.setup.recipe, asked.offered)

        def token(chunk: Chunk) -> None:
            events = reader.feed(chunk.text)
            if chunk.reply is not None:
                reader.close(chunk.reply.finish_reason)
                events = [*events, *reader.rest]
            said = {kind: "".join(e.text for e in events if e.kind == kind) for kind in ("text", "thinking")}
            self._event(said["text"], chunk.thinking + said["thinking"])

        return token

    def send_held(self) -> None:
        """Send the text of the last turn, if it was held back."""
        turn = self.run.state.last_assistant() if self.held else None
        if turn is not None and self.run.offered is not None and turn.meta["id"] != self._sent:
            self._sent = turn.meta["id"]
            self._event(turn.text or "", "")

    def _event(self, text: str, thinking: str) -> None:
        if text or thinking:
            self.send(Event("token", self.run.runtime.seconds, "agent", {"text": text, "thinking": thinking}))
