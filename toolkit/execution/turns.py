"""Hold the calls of one turn from check to result, their order, and what a listener is told: Turn, ResultChunk.

A call that reads the state runs after the calls of its turn that write what it reads. The model's own order does not
matter, but where calls wait for each other in a circle the one that the model named first runs first, alone
(Source: haystack#11690).
Not here: running them (`toolkit.execution.invoker`), how they are waited for (`toolkit.execution.modes`).
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import ToolError, ToolInvocationError, ToolNotFoundException, ToolTimeoutError
from toolkit.execution.conversion import capped, safe_str, write_to_state
from toolkit.execution.modes import BLOCKING, Ended, Mode
from toolkit.execution.ready import ReadyTool, tool_of
from toolkit.execution.state import State
from toolkit.execution.threads import OutOfTime
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult, as_messages

_TRACEBACK_CHARS = 8_000
CLOSING_REASON = "tool_call_results"


@dataclass(frozen=True, slots=True)
class ResultChunk:
    """Report one finished call, or the end of all.

    Attributes:
        index: place of the result in `tool_messages`; None in the closing chunk.
        tool_call_result: the result; None in the closing chunk.
        start: whether a result begins here; it always does, since results come whole.
        finish_reason: `tool_call_results` in the closing chunk, else None.
    """

    index: int | None = None
    tool_call_result: ToolCallResult | None = None
    start: bool = False
    finish_reason: str | None = None

    @property
    def content(self) -> str:
        """Return no text: the result is in `tool_call_result`."""
        return ""


Callback = Callable[[ResultChunk], Any]  # may be async


async def tell(callback: Callback, chunk: ResultChunk, mode: Mode, *, strict: bool) -> None:
    """Hand a chunk to the listener; its failure is raised where `strict`, else only warned of."""
    try:
        await mode.settle(callback(chunk))
    except Exception as error:
        if strict:
            raise
        warnings.warn(f"streaming_callback failed with {type(error).__name__}: {safe_str(error)}", stacklevel=4)


@dataclass(frozen=True, slots=True)
class Access:
    """Say which state keys one call reads and writes; `anything` for a tool that holds the live state."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    anything: bool = False

    def waits_for(self, other: Access) -> bool:
        """Tell whether this call reads what the other writes."""
        if self.anything or other.anything:
            return bool(self.anything or self.reads or self.writes) and bool(
                other.anything or other.reads or other.writes
            )
        return bool(self.reads & other.writes)


def batches(calls: Sequence[Access]) -> list[list[int]]:
    """Return the indexes of the calls in batches to be run one after the other.

    >>> reader, writer = Access(reads=frozenset({"repo"})), Access(writes=frozenset({"repo"}))
    >>> batches([reader, writer, Access()])
    [[1, 2], [0]]
    >>> both = Access(frozenset({"docs"}), frozenset({"docs"}))
    >>> batches([both, both])
    [[0], [1]]
    """
    left, found = list(range(len(calls))), []
    while left:
        free = [i for i in left if not any(calls[i].waits_for(calls[j]) for j in left if j != i)]
        batch = free or left[:1]
        found.append(batch)
        left = [i for i in left if i not in batch]
    return found


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


def value_of(ready: ReadyTool, ended: Ended, timeout_s: float | None, mode: Mode = BLOCKING) -> Any:
    """Return what a tool's function gave.

    Raises:
        ToolInvocationError: it raised anything, `sys.exit()` included; `__cause__` is what it raised.
        ToolTimeoutError: it did not finish in time.
        KeyboardInterrupt: passed on.
    """
    value, error = ended
    if error is None:
        return value
    if isinstance(error, OutOfTime):
        raise ToolTimeoutError(f"Tool {ready.tool.name!r} did not finish within {timeout_s:g} s; it was given up.")
    if isinstance(error, (ToolError, KeyboardInterrupt)) or mode.is_cancelling(error):
        raise error
    raise ToolInvocationError(
        f"Tool {ready.tool.name!r} failed with {type(error).__name__}: {safe_str(error)}"
    ) from error


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
