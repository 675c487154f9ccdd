"""Which tools and examples fit the question? ToolSelection, FewShot.

A small model chooses better among three tools than among thirty, and the prompt is shorter.
Not here: hiding tools by rule (`request.override(tools=…)` in a wrapper does that); the fixed examples of a protocol
(`examples.jsonl` in its folder).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolkit.agents.builtin.history import last_question
from toolkit.agents.builtin.wrappers import ModelCall, ModelWrapper, names_of
from toolkit.agents.middleware import ModelResult
from toolkit.agents.modes import Mode
from toolkit.agents.requests import ModelRequest
from toolkit.agents.wording import quote
from toolkit.errors import ConfigError, check_number, did_you_mean
from toolkit.messages import ChatMessage, ChatRole, as_messages
from toolkit.models.base import ChatModel
from toolkit.models.registry import as_model
from toolkit.tools import Tool

_WORD = re.compile(r"[^\W_]{3,}")


class ToolSelection(ModelWrapper):
    """Choose the tools for each model call, with a model or by the words they share with the question.

    >>> import toolkit as tk
    >>> tools = [tk.Tool(n, d, {"type": "object"}, lambda: "") for n, d in
    ...          [("weather", "Tell the weather of a city"), ("mail", "Send a letter"), ("sum", "Add numbers")]]
    >>> model = tk.ScriptedModel(["Rain."])
    >>> _ = tk.Agent(model, tools=tools, middleware=[ToolSelection(max_tools=1)]).run("How is the weather?")
    >>> [tool.name for tool in model.requests[0]["tools"]]
    ['weather']

    A name in the model's reply that is no tool is passed over, and a reply that names none hides none but what is
    above `max_tools`: a slip of the model must not end the run.

    Args:
        model: who chooses, or its name, asked before each call, however few tools there are; None compares words,
            which costs nothing.
        max_tools: how many tools to offer at most.
        always_include: tools or their names, that are offered in any case, after the chosen ones.

    Raises:
        ConfigError: at a model call for which a tool of `always_include` is missing.
    """

    def __init__(
        self, model: ChatModel | str | None = None, *, max_tools: int = 5, always_include: Iterable[Tool | str] = ()
    ) -> None:
        self.model: ChatModel | None = None if model is None else as_model(model)
        check_number("max_tools", max_tools)
        self.max_tools, self.always = max_tools, names_of(always_include)

    async def around(self, request: ModelRequest, handler: ModelCall, mode: Mode) -> ModelResult:
        """Offer the chosen tools."""
        pool = self._pool(request)
        if not pool:
            return await handler(request)
        question = last_question(request.messages)
        if self.model is None:
            chosen = rank(question, pool)
        else:
            prompt = quote("select_tools", question=question, tools=pool, most=self.max_tools)
            chosen = _named((await request.runtime.ask(self.model, prompt, self.name, mode)).text, pool)
        names = {tool.name for tool in chosen[: self.max_tools]}
        picked = [tool for tool in request.tools if tool.name in names]
        always = [tool for tool in request.tools if tool.name in self.always]
        return await handler(request.override(tools=(*picked, *always)))

    def _pool(self, request: ModelRequest) -> list[Tool]:
        """Return the tools to choose from."""
        names = [tool.name for tool in request.tools]
        if missing := [name for name in self.always if names and name not in names]:
            raise ConfigError(
                f"always_include names {missing[0]!r}, which is not offered. {did_you_mean(missing[0], names)}"
            )
        return [tool for tool in request.tools if tool.name not in self.always]


def _named(text: str, pool: list[Tool]) -> list[Tool]:
    """Return the tools that a reply names, in its order; all of them if it names none."""
    found = [(hit.start(), tool) for tool in pool if (hit := re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", text))]
    return [tool for _, tool in sorted(found, key=lambda pair: pair[0])] or pool


def rank(question: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools by how many words of the question their name, description and parameters share, most first."""
    wanted = words_of(question)

    def score(tool: Tool) -> int:
        return len(wanted & words_of(" ".join([tool.name.replace("_", " "), tool.description, *tool.properties])))

    return sorted(tools, key=score, reverse=True)


def words_of(text: str) -> set[str]:
    """Return the words of a text from three letters on, in one case and without a plural's s."""
    return {word.casefold().rstrip("s") for word in _WORD.findall(text)}


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
