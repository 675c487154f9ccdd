"""Replace old history by a summary that a model writes: Summarization.

Not here: only blanking out tool results (`context_editing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolkit.agents.builtin.history import whole
from toolkit.agents.builtin.retry import Backoff
from toolkit.agents.middleware import AgentMiddleware, AgentState, Update
from toolkit.agents.modes import BLOCKING, YIELDING, Mode, at_once
from toolkit.agents.runtime import Runtime
from toolkit.agents.state import REMOVE_ALL, RemoveMessage
from toolkit.agents.tokens import estimate
from toolkit.agents.wording import say
from toolkit.errors import ConfigError, LimitError, check_number
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel
from toolkit.models.registry import as_model

Size = tuple[str, float] | Sequence[str | float]  # a list too, since TOML has no tuples
_KINDS = ("tokens", "messages", "fraction")
_AGAIN = Backoff(on_failure="error")


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
        trigger: ("messages", n), ("tokens", n) or ("fraction", part of `window`); a list of such means any of them.
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
        self.model: ChatModel | None = None if model is None else as_model(model)
        check_number("window", window, 1)
        self.window, self.count = window, count_tokens
        several = isinstance(trigger, (list, tuple)) and not isinstance(next(iter(trigger), None), str)
        self.triggers = [_size(size) for size in (trigger if several else [trigger])]
        self.keep = _size(keep)

    def before_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Summarize if it is time."""
        return at_once(self._summarize(state["messages"], runtime, BLOCKING))

    async def abefore_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Summarize if it is time."""
        return await self._summarize(state["messages"], runtime, YIELDING)

    async def _summarize(self, messages: list[ChatMessage], runtime: Runtime, mode: Mode) -> Update:
        cut = self._cut(messages)
        if not cut:
            return None
        prompt = say("summarize", messages=[_line(message) for message in messages[:cut]])
        model: ChatModel = self.model or runtime.model
        reply = await _AGAIN.run(
            lambda: runtime.ask(model, prompt, self.name, mode), mode, "model_failed", passing=(LimitError,)
        )
        assert not isinstance(reply, str)  # a failure is raised
        if not reply.text.strip():
            return None
        told = ChatMessage.from_user(say("summary", summary=reply.text.strip()), {"summary": True})
        return {"messages": [RemoveMessage(REMOVE_ALL), told, *messages[cut:]]}

    def _cut(self, messages: list[ChatMessage]) -> int:
        """Return how many messages to summarize; 0 for none."""
        if not any(self._reached(messages, *trigger) for trigger in self.triggers):
            return 0
        kind, amount = self.keep
        if kind == "messages":
            return whole(messages, max(0, len(messages) - int(amount)))
        cut = len(messages)
        while cut and self.count(messages[cut - 1 :]) <= self._amount(kind, amount):
            cut -= 1
        return whole(messages, max(0, min(cut, len(messages) - 1)))

    def _amount(self, kind: str, amount: float) -> float:
        return max(1, int(amount * self.window)) if kind == "fraction" else amount

    def _reached(self, messages: list[ChatMessage], kind: str, amount: float) -> bool:
        size = len(messages) if kind == "messages" else self.count(messages)
        return size >= self._amount(kind, amount)


def _size(value: Any) -> tuple[str, float]:
    if not (isinstance(value, (list, tuple)) and len(value) == 2 and value[0] in _KINDS):
        raise ConfigError(f"Size {value!r} is unknown. Give one of {', '.join(_KINDS)} and an amount.")
    kind, amount = value
    if not isinstance(amount, (int, float)) or amount <= 0 or (kind == "fraction" and amount > 1):
        raise ConfigError(f"Size {value!r} must be above 0, and a fraction at most 1.")
    return kind, amount


def _line(message: ChatMessage) -> dict[str, str]:
    calls = [f"{call.tool_name}({call.arguments})" for call in message.tool_calls]
    results = [str(result.result) for result in message.tool_call_results]
    return {"role": message.role.value, "text": "\n".join([*message.texts, *calls, *results])}
