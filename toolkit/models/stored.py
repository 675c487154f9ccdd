"""Answer from a store, and ask the model behind it for what is missing.

Not here: the file of replies (`store`), recordings as JSONL (`recordings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from toolkit.errors import ReplayMissError, did_you_mean
from toolkit.models.base import ChatModel, Chunk, Options, Reply, Request

if TYPE_CHECKING:
    from toolkit.models.store import Store


class StoredModel(ChatModel):
    """Answer from a store, and ask the model behind it (if there is one) for what is missing."""

    def __init__(self, store: Store, model: ChatModel | None, name: str, repeat: int, defaults: Options) -> None:
        self.store = store
        self.model = model
        self.name = name
        self.repeat = repeat
        self.defaults = defaults

    @property
    def supports_tools(self) -> bool:  # type: ignore[override]
        """Tell what the model behind can; a replay takes whatever was recorded."""
        return self.model.supports_tools if self.model else True

    def answer(self, request: Request) -> Iterator[Chunk]:
        """Yield the stored reply in one piece, or the model's own stream, which is kept once it is whole."""
        asked = request.to_dict()
        if self.model is None:
            yield from _played(self.store.replay(asked, self.name, self.repeat)[0])
            return
        fingerprint = self.model.fingerprint()
        known = self.store.find(asked, fingerprint, self.repeat)
        if known is not None:
            yield from _played(known)
            return
        for chunk in _put(request, self.model):
            if chunk.reply is not None:
                self.store.keep(asked, fingerprint, chunk.reply, self.repeat, self.name)
            yield chunk

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


def _put(request: Request, model: ChatModel) -> Iterator[Chunk]:
    settings: dict[str, Any] = {"schema": request.schema, "options": request.options}
    if request.prompt is not None:
        return model.complete_stream(request.prompt, **settings)
    tools, choice = request.tools or None, request.tool_choice
    return model.stream(request.messages, tools=tools, tool_choice=choice, **settings)
