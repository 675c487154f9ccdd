"""Put fitting examples in front of the conversation: FewShot.

Not here: the fixed examples of a protocol (`examples.jsonl` in its folder).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolkit.agents.builtin.history import last_question
from toolkit.agents.builtin.selection import words_of
from toolkit.agents.builtin.wrappers import ModelWrapper
from toolkit.agents.requests import ModelRequest
from toolkit.errors import ConfigError, check_number
from toolkit.messages import ChatMessage, ChatRole, as_messages

Example = list[ChatMessage]


class FewShot(ModelWrapper):
    """Choose the examples nearest to the question for each model call; the state does not hold them.

    >>> import toolkit as tk
    >>> shown = [[tk.ChatMessage.from_user("Weather in Oslo?"), tk.ChatMessage.from_assistant("Cold.")],
    ...          [tk.ChatMessage.from_user("Add 1 and 2"), tk.ChatMessage.from_assistant("3")]]
    >>> model = tk.ScriptedModel(["Warm."])
    >>> _ = tk.Agent(model, middleware=[FewShot(shown, k=1)]).run("Weather in Rome?")
    >>> [message.text for message in model.requests[0]["messages"]]
    ['Weather in Oslo?', 'Cold.', 'Weather in Rome?']

    Args:
        examples: each a list of messages that starts with a user's; calls in them are shown only where their tools
            are offered.
        k: how many to show.
        similarity: function of (question, example's question) that gives a number; by default shared words.

    Raises:
        ConfigError: an example that does not start with a user's message.
    """

    def __init__(
        self,
        examples: Iterable[Any],
        *,
        k: int = 3,
        similarity: Callable[[str, str], float] | None = None,
    ) -> None:
        self.examples: list[Example] = [as_messages(example) for example in examples]
        for example in self.examples:
            if not example or not example[0].is_from(ChatRole.USER):
                raise ConfigError(f"{example!r} is no example: it must start with a user's message.")
        check_number("k", k)
        self.k, self.similarity = k, similarity or shared_words

    def changed(self, request: ModelRequest) -> ModelRequest:
        """Put the examples in front, behind system messages."""
        chosen = self._choose(last_question(request.messages), {tool.name for tool in request.tools})
        # the nearest stands last, next to the question
        examples = [message for example in reversed(chosen) for message in example]
        said = request.messages
        start = next((n for n, message in enumerate(said) if not message.is_from(ChatRole.SYSTEM)), len(said))
        return request.override(messages=(*said[:start], *examples, *said[start:]))

    def _choose(self, question: str, offered: set[str]) -> list[Example]:
        fitting = [e for e in self.examples if {c.tool_name for m in e for c in m.tool_calls} <= offered]
        near = sorted(fitting, key=lambda e: self.similarity(question, e[0].text or ""), reverse=True)
        return near[: self.k]


def shared_words(one: str, other: str) -> float:
    """Return the part of all words that both texts have.

    >>> shared_words("weather in Oslo", "weather in Rome")
    0.3333333333333333
    """
    left, right = words_of(one), words_of(other)
    return len(left & right) / max(1, len(left | right))
