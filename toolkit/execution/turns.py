"""Hold the calls of one turn from check to result, without running anything itself.

`ToolInvoker.run` and `run_async` are two drivers of the same Turn.
Not here: threads and event loops (`toolkit.execution.threads`), single calls (`toolkit.execution.invoker`).
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import ToolError, ToolNotFoundException
from toolkit.execution.approval import Ask
from toolkit.execution.batches import Access, batches
from toolkit.execution.chunks import CLOSING_REASON, ResultChunk
from toolkit.execution.conversion import capped, safe_str
from toolkit.execution.outputs import write_to_state
from toolkit.execution.ready import ReadyTool, tool_of
from toolkit.execution.state import State
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult, as_messages

Question = tuple[Ask, ReadyTool, ToolCall, dict[str, Any]]  # what `leave` and `aleave` take
_TRACEBACK_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what one call gave: the value and its text, or the error; `returned` where only the text is missing."""

    value: Any = None
    text: Any = None
    error: BaseException | None = None
    returned: bool = False


@dataclass(slots=True)
class Step:
    """Hold one call, its tool, its checked arguments, an answer in the tool's place, and at last its result."""

    call: ToolCall
    ready: ReadyTool | None = None
    arguments: dict[str, Any] | None = None
    answer: str | None = None
    error: ToolError | None = None
    result: ToolCallResult | None = None

    @property
    def is_settled(self) -> bool:
        """Tell whether the call was answered or refused, so that nothing runs."""
        return self.answer is not None or self.error is not None


class Turn:
    """Hold the steps of one turn; the driver runs the jobs and hands the outcomes back.

    Args:
        ready: the tools by name.
        calls: what is to be run.
        state: what the tools share, if anything.
        raises: whether the first failure ends the turn.
        ask: what asks for leave of dangerous calls; None lets them run.
        one_by_one: whether no two calls may run at once.
        max_result_chars: longest text of a failure.
    """

    def __init__(
        self,
        ready: Mapping[str, ReadyTool],
        calls: Sequence[ToolCall],
        state: State | None,
        *,
        raises: bool,
        ask: Ask | None,
        one_by_one: bool,
        max_result_chars: int | None,
    ) -> None:
        self.ready = ready
        self.state = state
        self.steps = [Step(call) for call in calls]
        self.raises = raises
        self.ask = ask
        self.one_by_one = one_by_one
        self.max_result_chars = max_result_chars

    def batches(self) -> list[list[int]]:
        """Return the indexes of the calls in the order they run; those of one batch may run at once."""
        found = [list(range(len(self.steps)))]
        if self.state is not None and any(r.shares_state for r in self.ready.values()):
            found = batches([self._access(step.call) for step in self.steps])
        return [[index] for batch in found for index in batch] if self.one_by_one else found

    def _access(self, call: ToolCall) -> Access:
        ready = self.ready.get(call.tool_name)
        if ready is None:
            return Access()
        given = call.arguments if isinstance(call.arguments, dict) else {}
        inputs = ready.tool.inputs_from_state or {}
        reads = frozenset(key for key, parameter in inputs.items() if parameter not in given)
        writes = frozenset(ready.tool.outputs_to_state or ())
        return Access(reads, writes, anything=ready.state_parameter is not None)

    def check(self, indexes: Sequence[int]) -> list[tuple[int, Question]]:
        """Find the tools and check the arguments; return index and question where the user is to be asked.

        Raises:
            ToolError: in raising mode, the first call that cannot be run; nothing of this lot has run then.
        """
        held = []
        for index in indexes:
            step = self.steps[index]
            try:
                step.ready = tool_of(self.ready, step.call)
                step.arguments = step.ready.checked(step.call.arguments)
            except ToolError as error:
                self.refuse(index, error)
                continue
            if self.ask is not None and step.ready.tool.effect == "dangerous":
                held.append((index, (self.ask, step.ready, step.call, step.arguments)))
        return held

    def refuse(self, index: int, error: ToolError) -> None:
        """Note that a call will not run; raise in raising mode."""
        if self.raises:
            raise error
        self.steps[index].error = error

    def finish(self, index: int, outcome: Outcome) -> ResultChunk | None:
        """Write an outcome to the state, keep it as a result, and return the chunk that tells of it."""
        step = self.steps[index]
        error = outcome.error
        if (error is None or outcome.returned) and step.ready is not None and self.state is not None:
            try:
                write_to_state(step.ready.tool, outcome.value, self.state)
            except ToolError as found:
                error = found
        if error is None:
            step.result = ToolCallResult(outcome.text, step.call)
        elif isinstance(error, ToolError):
            step.error = error
            step.result = failed(step.call, error, self.max_result_chars)
        else:
            raise error  # KeyboardInterrupt
        if isinstance(error, ToolNotFoundException):
            return None
        return ResultChunk(index, step.result, start=True)

    def raise_first(self, indexes: Sequence[int]) -> None:
        """Raise the first failure of a batch, in raising mode."""
        errors = (self.steps[index].error for index in indexes)
        error = next((e for e in errors if e is not None), None)
        if error is not None and self.raises:
            raise error

    def closing(self) -> ResultChunk | None:
        """Return the chunk that ends the turn; None where no call was of a known tool."""
        known = any(not isinstance(step.error, ToolNotFoundException) for step in self.steps)
        return ResultChunk(finish_reason=CLOSING_REASON) if known else None

    @property
    def results(self) -> list[ToolCallResult]:
        """Return the results in the order of the calls."""
        return [step.result for step in self.steps if step.result is not None]


def failed(call: ToolCall, error: ToolError, limit: int | None) -> ToolCallResult:
    """Return the result that tells a model of a failure."""
    cause = error.__cause__
    where = None
    if cause is not None:
        where = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__))[-_TRACEBACK_CHARS:]
    return ToolCallResult(capped(safe_str(error), limit), call, error=True, traceback=where)


def calls_of(messages: Iterable[Any]) -> list[ToolCall]:
    """Return every call in a conversation, in order, whatever message holds it."""
    if not (isinstance(messages, list) and all(type(message) is ChatMessage for message in messages)):
        messages = as_messages(messages)
    return [part for message in messages for part in message.parts if isinstance(part, ToolCall)]


def output(results: list[ToolCallResult], state: State | None) -> dict[str, Any]:
    """Return what a run returns."""
    out: dict[str, Any] = {"tool_messages": [ChatMessage(ChatRole.TOOL, (result,)) for result in results]}
    if state is not None:
        out["state"] = state
    return out
