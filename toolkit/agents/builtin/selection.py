"""Offer only the tools that fit the question: ToolSelection.

A small model chooses better among three tools than among thirty, and the prompt is shorter.
Not here: hiding tools by rule; `request.override(tools=…)` in a wrapper does that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from toolkit.agents.middleware import AgentMiddleware
from toolkit.agents.wording import say
from toolkit.errors import ConfigError, did_you_mean
from toolkit.messages import ChatMessage, ChatRole
from toolkit.models.base import ChatModel
from toolkit.tools import Tool

_WORD = re.compile(r"[^\W_]{3,}")


class ToolSelection(AgentMiddleware):
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
        model: who chooses, asked before each call, however few tools there are; None compares words, which costs
            nothing.
        max_tools: how many tools to offer at most.
        always_include: names of tools that are offered in any case, after the chosen ones.

    Raises:
        ConfigError: at a model call for which a tool of `always_include` is missing.
    """

    def __init__(
        self, model: ChatModel | None = None, *, max_tools: int = 5, always_include: Iterable[str] = ()
    ) -> None:
        self.model, self.max_tools, self.always = model, max_tools, tuple(always_include)

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Offer the chosen tools."""
        pool = self._pool(request)
        if not pool:
            return handler(request)
        if self.model is None:
            chosen = rank(_question(request.messages), pool)
        else:
            reply = request.runtime.call_model(self.model, self._prompt(request, pool), source=self.name)
            chosen = _named(reply.text, pool)
        return handler(self._with(request, chosen))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Offer the chosen tools."""
        pool = self._pool(request)
        if not pool:
            return await handler(request)
        if self.model is None:
            chosen = rank(_question(request.messages), pool)
        else:
            reply = await request.runtime.acall_model(self.model, self._prompt(request, pool), source=self.name)
            chosen = _named(reply.text, pool)
        return await handler(self._with(request, chosen))

    def _pool(self, request: Any) -> list[Tool]:
        """Return the tools to choose from."""
        names = [tool.name for tool in request.tools]
        if missing := [name for name in self.always if names and name not in names]:
            raise ConfigError(
                f"always_include names {missing[0]!r}, which is not offered. {did_you_mean(missing[0], names)}"
            )
        return [tool for tool in request.tools if tool.name not in self.always]

    def _prompt(self, request: Any, pool: list[Tool]) -> str:
        return say("select_tools", question=_question(request.messages), tools=pool, most=self.max_tools)

    def _with(self, request: Any, chosen: list[Tool]) -> Any:
        names = {tool.name for tool in chosen[: self.max_tools]}
        picked = [tool for tool in request.tools if tool.name in names]
        return request.override(tools=(*picked, *(tool for tool in request.tools if tool.name in self.always)))


def _question(messages: Sequence[ChatMessage]) -> str:
    return next((m.text or "" for m in reversed(messages) if m.is_from(ChatRole.USER)), "")


def _named(text: str, pool: list[Tool]) -> list[Tool]:
    """Return the tools that a reply names, in its order; all of them if it names none."""
    found = [(hit.start(), tool) for tool in pool if (hit := re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", text))]
    return [tool for _, tool in sorted(found, key=lambda pair: pair[0])] or pool


def rank(question: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools by how many words of the question their name, description and parameters share, most first."""
    wanted = _words(question)

    def score(tool: Tool) -> int:
        return len(wanted & _words(" ".join([tool.name.replace("_", " "), tool.description, *tool.properties])))

    return sorted(tools, key=score, reverse=True)


def _words(text: str) -> set[str]:
    return {word.casefold().rstrip("s") for word in _WORD.findall(text)}
