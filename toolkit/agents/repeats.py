"""Notice a model that goes round: the same calls with the same results, again and again, or two or three in turn.

Not here: what stops a run otherwise (`toolkit.agents.run`).
"""

from __future__ import annotations

from collections import deque
from typing import Any

from toolkit.errors import LimitError
from toolkit.messages import ChatMessage, ToolCall, ToolCallResult

PERIODS = 3  # a loop of up to so many turns is noticed


class Repeats:
    """Remember the last turns' calls with their results, and count how often they come again.

    Args:
        most: how often in a row the same turn, or round of two or three turns, may come.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._counts = [0] * PERIODS  # how often in a row a turn was as the one so many turns before
        self._firsts: deque[dict[str, Any]] = deque(maxlen=PERIODS)  # the arguments of each one's first call
        self._recent: deque[tuple[list[ToolCall], list[Any]]] = deque(maxlen=PERIODS)  # newest first

    def add(self, calls: list[ToolCall], outcomes: list[Any]) -> None:
        """Note a turn.

        Raises:
            LimitError: it came too often.
        """
        first = calls[0].arguments
        if len(calls) == 1 and first not in self._firsts:  # the common case, told at once
            self._counts = [0] * PERIODS
        else:
            self._compare(calls, outcomes)
        self._firsts.appendleft(first)
        self._recent.appendleft((calls, outcomes))

    def _compare(self, calls: list[ToolCall], outcomes: list[Any]) -> None:
        for place, (before, gave) in enumerate(self._recent):
            if not _same_turn(calls, outcomes, before, gave):
                self._counts[place] = 0
                continue
            self._counts[place] += 1
            if self._counts[place] >= max(1, self.most - 1) * (place + 1):
                raise LimitError(self._told(calls, place + 1))

    def _told(self, calls: list[ToolCall], period: int) -> str:
        names = ", ".join(call.tool_name for call in calls)
        if period == 1:
            return f"The model made the same call ({names}) with the same result {self._counts[0] + 1} times in a row."
        times = f"with the same results {self.most} times"
        return f"The model goes round: the same {period} turns, at last {names}, {times}."


def same_call(one: ToolCall, other: ToolCall) -> bool:
    """Tell whether two calls ask for the same thing."""
    return one.tool_name == other.tool_name and one.arguments == other.arguments


def _same_turn(calls: list[ToolCall], gave: list[Any], before: list[ToolCall], gave_before: list[Any]) -> bool:
    """Tell whether two turns made the same calls, in whatever order, and got the same results."""
    if len(calls) != len(before):
        return False
    left = [(call, _said(outcome)) for call, outcome in zip(before, gave_before, strict=True)]
    for call, outcome in zip(calls, gave, strict=True):
        said = _said(outcome)
        place = next((n for n, (c, s) in enumerate(left) if same_call(call, c) and _equal(said, s)), None)
        if place is None:
            return False
        del left[place]
    return True


def _equal(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # results may be anything, such as arrays, which have no one truth
        return False


def _said(outcome: Any) -> Any:
    if type(outcome) is ChatMessage:
        for part in outcome.parts:
            if type(part) is ToolCallResult:
                return part.result
    return outcome
