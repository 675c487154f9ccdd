"""Offer only the tools that fit the question: ToolSelection.

A small model chooses better among three tools than among thirty, and the prompt is shorter.
Not here: hiding tools by rule; `request.override(tools=…)` in a wrapper does that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from toolkit.agents.builtin.history import last_question
from toolkit.agents.builtin.wrappers import ModelCall, ModelWrapper, names_of
from toolkit.agents.middleware import ModelResult
from toolkit.agents.modes import Mode
from toolkit.agents.requests import ModelRequest
from toolkit.agents.wording import say
from toolkit.errors import ConfigError, check_number, did_you_mean
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
            prompt = say("select_tools", question=question, tools=pool, most=self.max_tools)
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
