"""Use a function that continues a prompt as a model.

Not here: scripted replies for tests (`toolkit.models.scripted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from toolkit.errors import ConfigError
from toolkit.models.base import ChatModel, ChatRequest, Chunk, Reply
from toolkit.models.registry import as_model


class FunctionModel(ChatModel):
    """Continue prompts with a function of (prompt, stop, max_tokens), such as a llama-cpp-python object.

    >>> FunctionModel(lambda prompt, stop, max_tokens: prompt.upper()).complete("hi").text
    'HI'

    Args:
        function: gives text, a `Reply`, or the dict of llama-cpp-python; it knows no chat, so the texts of a
            conversation are joined by line breaks.
    """

    name = "function"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def answer(self, request: ChatRequest) -> Iterator[Chunk]:
        """Yield the continuation in one piece.

        Raises:
            ConfigError: decoding is to be held to a schema, or the function gave something else.
        """
        if request.schema is not None:
            raise ConfigError("A function cannot be held to a JSON Schema. Use a ChatModel for constrained decoding.")
        prompt = request.prompt
        if prompt is None:
            prompt = "\n".join(text for message in request.messages for text in message.texts)
        said = self.function(prompt, stop=list(request.options.stop), max_tokens=request.options.num_predict)
        try:
            if not isinstance(said, (str, Reply)):
                choice = said["choices"][0]
                said = Reply(
                    choice["text"], finish_reason="length" if choice.get("finish_reason") == "length" else "stop"
                )
        except (KeyError, IndexError, TypeError, AttributeError):
            raise ConfigError(f"A completion must be text, a Reply or a dict with choices, not {said!r}.") from None
        yield Chunk(reply=Reply(said) if isinstance(said, str) else said)

    def fingerprint(self) -> dict[str, Any]:
        """Return the back end and the function's name."""
        return {"backend": "function", "name": getattr(self.function, "__qualname__", type(self.function).__name__)}


def as_writer(value: Any) -> ChatModel:
    """Return what continues prompts: a model, the model of a name, or a function of (prompt, stop, max_tokens).

    Raises:
        ConfigError: it is none of these.
    """
    return FunctionModel(value) if callable(value) and not isinstance(value, ChatModel) else as_model(value)
