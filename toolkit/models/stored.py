"""Answer from a store, and ask the model behind it for what is missing.

Not here: the file of replies (`store`), recordings as JSONL (`recordings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from toolkit.errors import ReplayMissError, did_you_mean
from toolkit.models.base import ChatModel, Chunk, Options, Reply
from toolkit.models.keys import Request, chat_request, complete_request


class Replies(Protocol):
    """What a StoredModel reads and writes: the part of `Store` that keeps replies."""

    path: str

    def models(self) -> list[str]:
        """Return the names of the models with replies there."""

    def find(self, request: Request, fingerprint: Mapping[str, Any], repeat: int = 0) -> Reply | None:
        """Return the reply that this very model gave to a request, or None."""

    def replay(self, request: Request, model: str, repeat: int = 0) -> tuple[Reply, dict[str, Any]]:
        """Return the newest reply of a model of that name, with its fingerprint."""

    def keep(self, request: Request, fingerprint: Mapping[str, Any], reply: Reply, repeat: int, model: str) -> bool:
        """Keep a reply; tell whether it was kept."""


class StoredModel(ChatModel):
    """Answer from a store, and ask the model behind it (if there is one) for what is missing."""

    def __init__(self, store: Replies, model: ChatModel | None, name: str, repeat: int, defaults: Options) -> None:
        self.store = store
        self.model = model
        self.name = name
        self.repeat = repeat
        self.defaults = defaults

    @property
    def supports_tools(self) -> bool:  # type: ignore[override]
        """Tell what the model behind can; a replay takes whatever was recorded."""
        return self.model.supports_tools if self.model else True

    def stream(
        self,
        messages: Any,
        *,
        tools: Any = None,
        schema: Any = None,
        options: Any = None,
        tool_choice: str | None = None,
    ) -> Iterator[Chunk]:
        """Yield the stored reply in one piece, or the model's own stream, which is kept once it is whole."""
        settings = Options.of(options, self.defaults)
        request = chat_request(messages, tools, schema, settings, tool_choice)

        def ask(model: ChatModel) -> Iterator[Chunk]:
            return model.stream(messages, tools=tools, schema=schema, options=settings, tool_choice=tool_choice)

        return self._answer(request, ask)

    def complete_stream(self, prompt: str, *, schema: Any = None, options: Any = None) -> Iterator[Chunk]:
        """Yield the stored continuation in one piece, or the model's own stream."""
        settings = Options.of(options, self.defaults)
        request = complete_request(prompt, schema, settings)
        return self._answer(request, lambda model: model.complete_stream(prompt, schema=schema, options=settings))

    def _answer(self, request: Request, ask: Any) -> Iterator[Chunk]:
        if self.model is None:
            yield from _played(self.store.replay(request, self.name, self.repeat)[0])
            return
        fingerprint = self.model.fingerprint()
        known = self.store.find(request, fingerprint, self.repeat)
        if known is not None:
            yield from _played(known)
            return
        chunks = ask(self.model)
        try:
            for chunk in chunks:
                if chunk.reply is not None:
                    self.store.keep(request, fingerprint, chunk.reply, self.repeat, self.name)
                yield chunk
        finally:
            chunks.close()

    def fingerprint(self) -> dict[str, Any]:
        """Return the model's fingerprint; of a replay, the back end and name."""
        return self.model.fingerprint() if self.model else {"backend": "replay", "name": self.name}

    def check(self) -> None:
        """Raise now if there is nothing to answer from.

        Raises:
            ReplayMissError: a replay, and the store holds no reply of this model.
        """
        if self.model is not None:
            self.model.check()
        elif self.name not in self.store.models():
            raise ReplayMissError(
                f"{self.store.path!r} holds no reply of {self.name!r}. {did_you_mean(self.name, self.store.models())}"
            )

    def close(self) -> None:
        """Free what the model holds; the store stays open."""
        if self.model is not None:
            self.model.close()


def _played(reply: Reply) -> Iterator[Chunk]:
    if reply.text or reply.thinking:
        yield Chunk(reply.text, reply.thinking)
    yield Chunk(reply=reply)
