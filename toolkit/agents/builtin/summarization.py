"""Replace old history by a summary that a model writes: Summarization.

Not here: only blanking out tool results (`context_editing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolkit.agents.builtin.retry import ModelRetry
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
_AGAIN = ModelRetry(2, on_failure="error")


class Summarization(AgentMiddleware):
    r"""Summarize what is old once the history is long; one message with the summary replaces it in the state.

    Each time the trigger is reached, all but the tail is summarized, an earlier summary and an old question too. A
    call and its results are never torn apart. The writer is asked again twice where it fails, and then the run ends;
    but an empty summary changes nothing, for it would lose the history.

    >>> import toolkit as tk
    >>> writer, model = tk.ScriptedModel(["They greeted."]), tk.ScriptedModel(["Fine."])
    >>> agent = tk.Agent(model, middleware=[Summarization(writer, trigger=("messages", 3), keep=("messages", 1))])
    >>> trace = agent.run([tk.ChatMessage.from_user("Hi"), tk.ChatMessage.from_assistant("Hello"), "How are you?"])
    >>> [message.text for message in trace.messages]
    ['Summary of the conversation so far:\nThey greeted.', 'How are you?', 'Fine.']

    Args:
        model: who writes the summary, or its name; None is the agent's own model.
        trigger: ("messages", n), ("tokens", n) or ("fraction", part of `window`); a list means any of them.
        keep: how much of the end stays, in the same form; where that is the whole history, nothing is summarized.
        window: the model's window in tokens, for fractions.
        count_tokens: function of the messages.

    Raises:
        ConfigError: an unknown kind of size, an amount of nothing, or a fraction above 1.
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
        for size in (*self.triggers, keep):
            _check(*size)

    def before_model(self, state: Any, runtime: Any) -> Any:
        """Summarize if it is time."""
        messages = state["messages"]
        cut = self._cut(messages)
        if not cut:
            return None
        model = self.model or runtime.model
        reply = _AGAIN.wrap_model_call(
            self._prompt(messages[:cut]), lambda prompt: runtime.call_model(model, prompt, source=self.name)
        )
        return self._update(reply.text, messages[cut:])

    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        """Summarize if it is time."""
        messages = state["messages"]
        cut = self._cut(messages)
        if not cut:
            return None
        model = self.model or runtime.model
        reply = await _AGAIN.awrap_model_call(
            self._prompt(messages[:cut]), lambda prompt: runtime.acall_model(model, prompt, source=self.name)
        )
        return self._update(reply.text, messages[cut:])

    def _cut(self, messages: list[ChatMessage]) -> int:
        """Return how many messages to summarize; 0 for none."""
        if not any(self._reached(messages, *trigger) for trigger in self.triggers):
            return 0
        kind, amount = self.keep
        if kind == "messages":
            return _whole(messages, max(0, len(messages) - int(amount)))
        cut = len(messages)
        while cut and self.count(messages[cut - 1 :]) <= self._amount(kind, amount):
            cut -= 1
        return _whole(messages, max(0, min(cut, len(messages) - 1)))

    def _amount(self, kind: str, amount: float) -> float:
        return max(1, int(amount * self.window)) if kind == "fraction" else amount

    def _reached(self, messages: list[ChatMessage], kind: str, amount: float) -> bool:
        size = len(messages) if kind == "messages" else self.count(messages)
        return size >= self._amount(kind, amount)

    def _prompt(self, messages: list[ChatMessage]) -> str:
        return say("summarize", messages=[_line(message) for message in messages])

    def _update(self, summary: str, tail: list[ChatMessage]) -> dict[str, Any] | None:
        if not summary.strip():
            return None
        told = ChatMessage.from_user(say("summary", summary=summary.strip()), {"summary": True})
        return {"messages": [RemoveMessage(REMOVE_ALL), told, *tail]}


def _check(kind: str, amount: float) -> None:
    if kind not in _KINDS:
        raise ConfigError(f"Size {kind!r} is unknown. Use one of: {', '.join(_KINDS)}.")
    if amount <= 0 or (kind == "fraction" and amount > 1):
        raise ConfigError(f"Size {(kind, amount)!r} must be above 0, and a fraction at most 1.")


def _whole(messages: list[ChatMessage], cut: int) -> int:
    """Return the cut moved so that no result loses its call: before the calls, or behind results of none."""
    end = cut
    while end < len(messages) and messages[end].is_from(ChatRole.TOOL):
        end += 1
    wanted = {result.origin.id for message in messages[cut:end] for result in message.tool_call_results}
    asking = (n for n in reversed(range(cut)) if wanted & {call.id for call in messages[n].tool_calls})
    return next(asking, end)


def _line(message: ChatMessage) -> dict[str, str]:
    calls = [f"{call.tool_name}({call.arguments})" for call in message.tool_calls]
    results = [str(result.result) for result in message.tool_call_results]
    return {"role": message.role.value, "text": "\n".join([*message.texts, *calls, *results])}
