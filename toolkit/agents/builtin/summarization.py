"""Replace old history by a summary that a model writes: Summarization.

Not here: only blanking out tool results (`context_editing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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

    A call and its results are never torn apart.

    >>> import toolkit as tk
    >>> writer, model = tk.ScriptedModel(["They greeted."]), tk.ScriptedModel(["Fine."])
    >>> agent = tk.Agent(model, middleware=[Summarization(writer, trigger=("messages", 3), keep=("messages", 1))])
    >>> trace = agent.run([tk.ChatMessage.from_user("Hi"), tk.ChatMessage.from_assistant("Hello"), "How are you?"])
    >>> [message.text for message in trace.messages]
    ['Summary of the conversation so far:\nThey greeted.', 'How are you?', 'Fine.']

    Args:
        model: who writes the summary; None is the agent's own model.
        trigger: ("messages", n), ("tokens", n) or ("fraction", part of `window`); a list means any of them.
        keep: how much of the end stays, in the same form.
        window: the model's window in tokens, for fractions.
        count_tokens: function of the messages.

    Raises:
        ConfigError: an unknown kind of size.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        trigger: Size | Sequence[Size] = ("fraction", 0.8),
        keep: Size = ("messages", 20),
        window: int = 8192,
        count_tokens: Callable[[Sequence[ChatMessage]], int] = estimate,
    ) -> None:
        self.model, self.keep, self.window, self.count = model, keep, window, count_tokens
        self.triggers: list[Size] = [trigger] if isinstance(trigger, tuple) else list(trigger)
        for kind, _ in (*self.triggers, keep):
            if kind not in _KINDS:
                raise ConfigError(f"Size {kind!r} is unknown. Use one of: {', '.join(_KINDS)}.")

    def before_model(self, state: Any, runtime: Any) -> Any:
        """Summarize if it is time."""
        messages = state["messages"]
        cut = self._cut(messages)
        if not cut:
            return None
        reply = runtime.call_model(self.model, self._prompt(messages[:cut]), source=self.name)
        return self._update(reply.text, messages[cut:])

    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        """Summarize if it is time."""
        messages = state["messages"]
        cut = self._cut(messages)
        if not cut:
            return None
        reply = await runtime.acall_model(self.model, self._prompt(messages[:cut]), source=self.name)
        return self._update(reply.text, messages[cut:])

    def _cut(self, messages: list[ChatMessage]) -> int:
        """Return how many messages to summarize; 0 for none."""
        if not any(self._reached(messages, *trigger) for trigger in self.triggers):
            return 0
        kind, amount = self.keep
        if kind == "messages":
            cut = max(0, len(messages) - int(amount))
        else:
            room = amount * self.window if kind == "fraction" else amount
            cut = len(messages)
            while cut and self.count(messages[cut - 1 :]) <= room:
                cut -= 1
        while 0 < cut < len(messages) and messages[cut].is_from(ChatRole.TOOL):
            cut -= 1  # keep the call with its results
        return cut

    def _reached(self, messages: list[ChatMessage], kind: str, amount: float) -> bool:
        if kind == "messages":
            return len(messages) >= amount
        return self.count(messages) >= (amount * self.window if kind == "fraction" else amount)

    def _prompt(self, messages: list[ChatMessage]) -> str:
        return say("summarize", messages=[_line(message) for message in messages])

    def _update(self, summary: str, tail: list[ChatMessage]) -> dict[str, Any]:
        text = say("summary", summary=summary.strip())
        return {"messages": [RemoveMessage(REMOVE_ALL), ChatMessage.from_user(text), *tail]}


def _line(message: ChatMessage) -> dict[str, str]:
    calls = [f"{call.tool_name}({call.arguments})" for call in message.tool_calls]
    results = [str(result.result) for result in message.tool_call_results]
    return {"role": message.role.value, "text": "\n".join([*message.texts, *calls, *results])}
