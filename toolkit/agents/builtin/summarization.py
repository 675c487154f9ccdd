"""Replace old history by a summary that a model writes: Summarization.

Not here: only blanking out tool results (`context_editing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolkit.agents.foreign import as_model
from toolkit.agents.middleware import AgentMiddleware
from toolkit.agents.state import REMOVE_ALL, RemoveMessage
from toolkit.agents.tokens import estimate
from toolkit.agents.wording import say
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage, ChatRole
from toolkit.models.base import ChatModel

Size = tuple[str, float]
_KINDS = ("tokens", "messages", "fraction")


class Summarization(AgentMiddleware):
    r"""Summarize what is old once the history is long; the summary and the tail replace it in the state.

    A call and its results are never torn apart, and the question stays. Where the tail alone is still too long, it is
    cut further; an empty summary changes nothing.

    >>> import toolkit as tk
    >>> writer, model = tk.ScriptedModel(["They greeted."]), tk.ScriptedModel(["Fine."])
    >>> agent = tk.Agent(model, middleware=[Summarization(writer, trigger=("messages", 3), keep=("messages", 1))])
    >>> trace = agent.run([tk.ChatMessage.from_user("Hi"), tk.ChatMessage.from_assistant("Hello"), "How are you?"])
    >>> [message.text for message in trace.messages]
    ['Summary of the conversation so far:\nThey greeted.', 'How are you?', 'Fine.']

    Args:
        model: who writes the summary, or its name; None is the agent's own model.
        trigger: ("messages", n), ("tokens", n) or ("fraction", part of `window`); a list means any of them.
        keep: how much of the end stays, in the same form.
        window: the model's window in tokens, for fractions.
        count_tokens: function of the messages.

    Raises:
        ConfigError: an unknown kind of size, or what is kept would trigger again at once.
    """

    def __init__(
        self,
        model: ChatModel | str | None = None,
        *,
        trigger: Size | Sequence[Size] = ("fraction", 0.8),
        keep: Size = ("messages", 20),
        window: int = 8192,
        count_tokens: Callable[[Sequence[ChatMessage]], int] = estimate,
    ) -> None:
        self.model, self.keep, self.window, self.count = as_model(model), keep, window, count_tokens
        self.triggers: list[Size] = [trigger] if isinstance(trigger, tuple) else list(trigger)
        for kind, _ in (*self.triggers, keep):
            if kind not in _KINDS:
                raise ConfigError(f"Size {kind!r} is unknown. Use one of: {', '.join(_KINDS)}.")
        for given in self.triggers:
            if (given[0] == "messages") == (keep[0] == "messages") and self._amount(*keep) >= self._amount(*given):
                raise ConfigError(f"keep={keep!r} is not smaller than trigger={given!r}: each turn would summarize.")

    def before_model(self, state: Any, runtime: Any) -> Any:
        """Summarize if it is time."""
        messages = state["messages"]
        cut = self._cut(messages)
        if not cut:
            return None
        model = self.model or runtime.model
        reply = runtime.call_model(model, self._prompt(messages[:cut]), source=self.name)
        return self._update(reply.text, messages, cut)

    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        """Summarize if it is time."""
        messages = state["messages"]
        cut = self._cut(messages)
        if not cut:
            return None
        model = self.model or runtime.model
        reply = await runtime.acall_model(model, self._prompt(messages[:cut]), source=self.name)
        return self._update(reply.text, messages, cut)

    def _cut(self, messages: list[ChatMessage]) -> int:
        """Return how many messages to summarize; 0 for none."""
        if not any(self._reached(messages, *trigger) for trigger in self.triggers):
            return 0
        kind, amount = self.keep
        if kind == "messages":
            cut = max(0, len(messages) - int(amount))
        else:
            room = self._amount(kind, amount)
            cut = len(messages)
            while cut and self.count(messages[cut - 1 :]) <= room:
                cut -= 1
        while cut < len(messages) - 1 and any(self._reached(messages[cut:], *trigger) for trigger in self.triggers):
            cut += 1
        cut = min(cut, len(messages) - 1)
        while cut > 0 and messages[cut].is_from(ChatRole.TOOL):
            cut -= 1  # keep the call with its results
        question = _question(messages)
        fresh = [n for n in range(cut) if n != question and "summary" not in messages[n].meta]
        return cut if fresh else 0

    def _amount(self, kind: str, amount: float) -> float:
        return amount * self.window if kind == "fraction" else amount

    def _reached(self, messages: list[ChatMessage], kind: str, amount: float) -> bool:
        size = len(messages) if kind == "messages" else self.count(messages)
        return size >= self._amount(kind, amount)

    def _prompt(self, messages: list[ChatMessage]) -> str:
        return say("summarize", messages=[_line(message) for message in messages])

    def _update(self, summary: str, messages: list[ChatMessage], cut: int) -> dict[str, Any] | None:
        if not summary.strip():
            return None
        told = ChatMessage.from_user(say("summary", summary=summary.strip()), {"summary": True})
        question = _question(messages)
        asked = messages[question : question + 1] if 0 <= question < cut else []
        return {"messages": [RemoveMessage(REMOVE_ALL), told, *asked, *messages[cut:]]}


def _question(messages: list[ChatMessage]) -> int:
    """Return the place of the last user message, a summary not counted; -1 for none."""
    places = [n for n, m in enumerate(messages) if m.is_from(ChatRole.USER) and "summary" not in m.meta]
    return places[-1] if places else -1


def _line(message: ChatMessage) -> dict[str, str]:
    calls = [f"{call.tool_name}({call.arguments})" for call in message.tool_calls]
    results = [str(result.result) for result in message.tool_call_results]
    return {"role": message.role.value, "text": "\n".join([*message.texts, *calls, *results])}
