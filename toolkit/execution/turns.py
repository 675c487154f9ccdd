"""Hold the calls of one turn from check to result, without running anything itself.

Not here: running them (`toolkit.execution.invoker`), how they are waited for (`toolkit.execution.modes`).
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.errors import ToolError, ToolNotFoundException
from toolkit.execution.batches import Access, batches
from toolkit.execution.chunks import CLOSING_REASON, ResultChunk
from toolkit.execution.conversion import capped, safe_str
from toolkit.execution.outputs import write_to_state
from toolkit.execution.ready import ReadyTool, tool_of
from toolkit.execution.state import State
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult, as_messages

_TRACEBACK_CHARS = 8_000


@dataclass(slots=True)
class Step:
    """Hold one call on its way: its tool and checked arguments, what it gave or why it failed, and its result.

    Attributes:
        text: what the model reads: of the value, or of an answer in the tool's place.
        returned: whether the function gave `value`, though it may have no text.
    """

    index: int
    call: ToolCall
    ready: ReadyTool | None = None
    arguments: dict[str, Any] | None = None
    value: Any = None
    text: Any = None
    error: BaseException | None = None
    returned: bool = False
    result: ToolCallResult | None = None

    @property
    def is_settled(self) -> bool:
        """Tell whether the call was answered or refused, so that nothing runs."""
        return self.text is not None or self.error is not None


class Turn:
    """Hold the steps of one turn; the invoker runs them.

    Args:
        ready: the tools by name.
        calls: what is to be run.
        state: what the tools share, if anything.
        raises: whether the first failure ends the turn.
        max_result_chars: longest text of a failure.
    """

    def __init__(
        self,
        ready: Mapping[str, ReadyTool],
        calls: Iterable[ToolCall],
        state: State | None,
        *,
        raises: bool,
        max_result_chars: int | None,
    ) -> None:
        self.ready = ready
        self.state = state
        self.steps = [Step(index, call) for index, call in enumerate(calls)]
        self.raises = raises
        self.max_result_chars = max_result_chars

    def batches(self) -> list[list[Step]]:
        """Return the steps in the order they run; those of one batch may run at once."""
        if self.state is None or not any(ready.shares_state for ready in self.ready.values()):
            return [self.steps]
        order = batches([self._access(step.call) for step in self.steps])
        return [[self.steps[index] for index in batch] for batch in order]

    def _access(self, call: ToolCall) -> Access:
        ready = self.ready.get(call.tool_name)
        if ready is None:
            return Access()
        given = call.arguments if isinstance(call.arguments, dict) else {}
        inputs = ready.tool.inputs_from_state or {}
        reads = frozenset(key for key, parameter in inputs.items() if parameter not in given)
        writes = frozenset(ready.tool.outputs_to_state or ())
        return Access(reads, writes, anything=ready.state_parameter is not None)

    def check(self, step: Step) -> None:
        """Find the tool and check the arguments; raise in raising mode."""
        try:
            step.ready = tool_of(self.ready, step.call)
            step.arguments = step.ready.checked(step.call.arguments)
        except ToolError as error:
            self.refuse(step, error)

    def refuse(self, step: Step, error: ToolError) -> None:
        """Note that a call will not run; raise in raising mode."""
        if self.raises:
            raise error
        step.error = error

    def finish(self, step: Step) -> ResultChunk | None:
        """Write what a call gave to the state, keep its result, and return the chunk that tells of it."""
        if step.returned and step.ready is not None and self.state is not None:
            try:
                write_to_state(step.ready.tool, step.value, self.state)
            except ToolError as error:
                step.error = error
        if step.error is None:
            step.result = ToolCallResult(step.text, step.call)
        elif isinstance(step.error, ToolError):
            step.result = failed(step.call, step.error, self.max_result_chars)
        else:
            raise step.error  # KeyboardInterrupt
        return (
            None if isinstance(step.error, ToolNotFoundException) else ResultChunk(step.index, step.result, start=True)
        )

    def raise_first(self, batch: Iterable[Step]) -> None:
        """Raise the first failure of a batch, in raising mode."""
        error = next((step.error for step in batch if step.error is not None), None)
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
