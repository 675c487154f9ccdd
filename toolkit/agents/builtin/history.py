"""What of a long history does the model still see? ContextEditing blanks old results, Summarization replaces old turns.

Not here: the history itself (`toolkit.agents.state`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolkit.agents.builtin.failures import Backoff
from toolkit.agents.builtin.wrappers import ModelWrapper, names_of
from toolkit.agents.middleware import AgentMiddleware, AgentState, Update
from toolkit.agents.modes import BLOCKING, YIELDING, Mode, at_once
from toolkit.agents.pairs import paired
from toolkit.agents.requests import ModelRequest
from toolkit.agents.runtime import Runtime, estimate
from toolkit.agents.state import REMOVE_ALL, RemoveMessage
from toolkit.agents.wording import quote, say
from toolkit.errors import ConfigError, LimitError, check_number
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult
from toolkit.models.base import ChatModel
from toolkit.models.registry import as_model
from toolkit.tools import Tool


def last_calls(messages: Sequence[ChatMessage]) -> list[ToolCall]:
    """Return the calls of the last assistant message."""
    return next((m.tool_calls for m in reversed(messages) if m.is_from(ChatRole.ASSISTANT)), [])


def last_question(messages: Sequence[ChatMessage]) -> str:
    """Return what the user said last; empty where nobody asked.

    >>> last_question([ChatMessage.from_user("Rain?"), ChatMessage.from_assistant("Yes.")])
    'Rain?'
    """
    return next((m.text or "" for m in reversed(messages) if m.is_from(ChatRole.USER)), "")


def asking(messages: Sequence[ChatMessage], place: int) -> int | None:
    """Return the place of the message whose calls the results at `place` answer.

    None where there is none: only the last assistant message before them counts.
    """
    said = (n for n in reversed(range(place)) if messages[n].is_from(ChatRole.ASSISTANT))
    before = next(said, None)
    if before is None:
        return None
    calls = {call.id for call in messages[before].tool_calls}
    return before if any(result.origin.id in calls for result in messages[place].tool_call_results) else None


def whole(messages: Sequence[ChatMessage], cut: int) -> int:
    """Return the cut moved so that no result loses its call: before the calls, or behind results of none."""
    while cut < len(messages) and messages[cut].is_from(ChatRole.TOOL):
        before = asking(messages, cut)
        if before is not None:
            return before
        cut += 1
    return cut


class ContextEditing(ModelWrapper):
    """Show old tool results as a placeholder once the history has more than `trigger` tokens.

    >>> import toolkit as tk
    >>> def read() -> str:
    ...     '''Read a page.'''
    ...     return "word " * 50
    >>> model = tk.ScriptedModel([tk.ToolCall("read", {}), "done"])
    >>> trace = tk.Agent(model, tools=[read], middleware=[ContextEditing(trigger=10, keep=0)]).run("go")
    >>> model.requests[1]["messages"][-1].tool_call_result.result, trace.tool_results[0].result[:9]
    ('[cleared]', 'word word')

    Args:
        trigger: tokens of the history, estimated.
        keep: so many of the last results stay.
        persist: whether the state is changed too; otherwise only the model's view is (Source: langchain#37815).
        exclude_tools: tools or their names, whose results stay.
        placeholder: what stands in their place.
        count_tokens: function of the messages; by default four characters count as one token.
    """

    def __init__(
        self,
        trigger: int = 4_000,
        keep: int = 3,
        *,
        persist: bool = False,
        exclude_tools: Iterable[Tool | str] = (),
        placeholder: str = "[cleared]",
        count_tokens: Callable[[Sequence[ChatMessage]], int] = estimate,
    ) -> None:
        check_number("trigger", trigger)
        check_number("keep", keep)
        self.trigger, self.keep, self.persist = trigger, keep, persist
        self.exclude = self.tools_named = names_of(exclude_tools)
        self.placeholder, self.count = placeholder, count_tokens

    def before_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Change the state, if that was asked for."""
        messages = state["messages"]
        edited = zip(self._edit(messages), messages, strict=True) if self.persist else ()
        changed = [new for new, old in edited if new is not old]
        return {"messages": changed} if changed else None

    def changed(self, request: ModelRequest) -> ModelRequest:
        """Change what the model sees."""
        return request if self.persist else request.override(messages=tuple(self._edit(request.messages)))

    def _edit(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        edited = list(messages)
        if self.count(messages) > self.trigger:
            places = [place for place, message in enumerate(messages) if message.tool_call_results]
            for place in places[: max(0, len(places) - self.keep)]:
                if asking(messages, place) is not None:  # a result that nobody asked for may be anything
                    edited[place] = self._cleared(messages[place])
        return edited

    def _cleared(self, message: ChatMessage) -> ChatMessage:
        results = message.tool_call_results
        done = message.meta.get("cleared")  # perhaps by another, with its own placeholder
        if done or all(r.origin.tool_name in self.exclude or r.result == self.placeholder for r in results):
            return message
        parts = tuple(
            r if r.origin.tool_name in self.exclude else ToolCallResult(self.placeholder, r.origin, r.error)
            for r in results
        )
        return ChatMessage(message.role, parts, message.name, {**message.meta, "cleared": True})


Size = tuple[str, float] | Sequence[str | float]  # a list too, since TOML has no tuples
_KINDS = ("tokens", "messages", "fraction")
_AGAIN = Backoff(on_failure="error")


class Summarization(AgentMiddleware):
    r"""Summarize what is old once the history is long; one message with the summary replaces it in the state.

    Each time the trigger is reached, all but the tail is summarized, an earlier summary and an old question too;
    system messages stay. A call and its results are never torn apart. The writer is asked again twice where it fails,
    and then the run ends; but an empty summary changes nothing, for it would lose the history.

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
        if all(message.is_from(ChatRole.SYSTEM) for message in messages[:cut]):
            return None
        kept = paired(messages[cut:], waiting=True, unread=True)  # without the results whose calls go
        old = [m for m in messages if not m.is_from(ChatRole.SYSTEM) and not any(m is one for one in kept)]
        prompt = quote("summarize", messages=[_line(message) for message in old])
        model: ChatModel = self.model or runtime.model
        reply = await _AGAIN.run(
            lambda: runtime.ask(model, prompt, self.name, mode), mode, "model_failed", passing=(LimitError,)
        )
        assert not isinstance(reply, str)  # a failure is raised
        if not reply.text.strip():
            return None
        told = ChatMessage.from_user(say("summary", summary=reply.text.strip()), {"summary": True})
        system = [message for message in messages[:cut] if message.is_from(ChatRole.SYSTEM)]
        return {"messages": [RemoveMessage(REMOVE_ALL), *system, told, *kept]}

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
