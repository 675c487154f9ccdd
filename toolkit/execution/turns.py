"""Hold the calls of one turn from check to result, their order, and what a listener is told: Step, ResultChunk.

A call that reads the state runs after the calls of its turn that write what it reads. The model's own order does not
matter, but where calls wait for each other in a circle the one that the model named first runs first, alone
(Source: haystack#11690).
Not here: running them (`toolkit.execution.invoker`), how they are waited for (`toolkit.execution.modes`).
"""

from __future__ import annotations

import collections
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import ToolError, ToolInvocationError, ToolNotFoundException, ToolTimeoutError
from toolkit.execution.conversion import capped
from toolkit.execution.modes import BLOCKING, Ended, Mode
from toolkit.execution.ready import ReadyTool
from toolkit.execution.state import State
from toolkit.execution.threads import OutOfTime
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult, as_messages
from toolkit.tools.shown import safe_str

_TRACEBACK_CHARS = 8_000


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
    def meta(self) -> dict[str, Any]:
        """Return the same in Haystack's words: `tool_result` and `tool_call`, or `finish_reason`."""
        found = self.tool_call_result
        if found is None:
            return {"finish_reason": self.finish_reason}
        return {"tool_result": found.result, "tool_call": found.origin}

    @property
    def content(self) -> str:
        """Return no text: the result is in `tool_call_result`."""
        return ""


Callback = Callable[[ResultChunk], Any]  # may be async


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
    left, kinds, found = collections.deque(range(len(calls))), collections.Counter(calls), []
    while left:  # looked at by kind, since a turn of a thousand calls has a few kinds of them
        free = {kind for kind in kinds if not any(_waits(kind, other, kinds) for other in kinds)}
        batch = [i for i in left if calls[i] in free] if free else [left.popleft()]
        found.append(batch)
        if free:
            left = collections.deque(i for i in left if calls[i] not in free)
        kinds -= collections.Counter(calls[i] for i in batch)
    return found


def _waits(kind: Access, other: Access, kinds: Mapping[Access, int]) -> bool:
    return (kind != other or kinds[kind] > 1) and kind.waits_for(other)


@dataclass(slots=True)
class Step:
    """Hold one call on its way: its tool and checked arguments, what it gave or why it failed, and its result."""

    index: int
    call: ToolCall
    ready: ReadyTool | None = None
    arguments: dict[str, Any] | None = None
    value: Any = None
    text: Any = None  # what the model reads: of the value, or of an answer in the tool's place
    error: BaseException | None = None
    returned: bool = False  # whether the function gave `value`, though it may have no text
    result: ToolCallResult | None = None

    @property
    def chunk(self) -> ResultChunk | None:
        """Return the chunk that tells of the result; None where the call was of no known tool."""
        unknown = isinstance(self.error, ToolNotFoundException)
        return None if unknown else ResultChunk(self.index, self.result, start=True)


def in_order(steps: list[Step], ready: Mapping[str, ReadyTool], state: State | None) -> list[list[Step]]:
    """Return the steps in the order they run; those of one batch may run at once."""
    if state is None or not any(tool.shares_state for tool in ready.values()):
        return [steps]
    order = batches([_access(ready.get(step.call.tool_name), step.call) for step in steps])
    return [[steps[index] for index in batch] for batch in order]


def _access(ready: ReadyTool | None, call: ToolCall) -> Access:
    if ready is None:
        return Access()
    given = call.arguments if isinstance(call.arguments, dict) else {}
    inputs = ready.tool.inputs_from_state or {}
    reads = frozenset(key for key, parameter in inputs.items() if parameter not in given)
    writes = frozenset(ready.tool.outputs_to_state or ())
    return Access(reads, writes, anything=bool(ready.injected))


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
