"""Blank out old tool results when the history grows long: ContextEditing.

Not here: replacing history by a summary (`summarization`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from toolkit.agents.builtin.history import asking
from toolkit.agents.builtin.wrappers import ModelWrapper, names_of
from toolkit.agents.middleware import AgentState, Update
from toolkit.agents.requests import ModelRequest
from toolkit.agents.runtime import Runtime
from toolkit.agents.tokens import estimate
from toolkit.errors import check_number
from toolkit.messages import ChatMessage, ToolCallResult
from toolkit.tools import Tool


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
        self.exclude, self.placeholder, self.count = names_of(exclude_tools), placeholder, count_tokens

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
