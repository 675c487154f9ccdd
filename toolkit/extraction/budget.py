"""Bound the work of reading one text: one budget, in proportion to its length, that every reader draws from.

A step is what a compiled scan takes for a character, some ten nanoseconds; what Python does itself costs many.

Not here: what becomes of a reading whose budget ends (`walk`).
"""

from __future__ import annotations

_BASE, _PER_CHARACTER = 12_000_000, 10
_CALLS, _PER_CALL = 2_000, 200  # so many calls in any text, and one more for so many characters
_HINTS = 32  # names that are not declared for which the closest declared ones are looked for
LOOK, VALUE, QUOTE = 600, 300, 200  # steps of trying what may begin at a place, of reading a value, of judging a quote


class ExhaustedError(Exception):
    """Say that the budget has ended."""


class Budget:
    """Hold the steps that are left for reading a text, and the calls that it may still hold."""

    __slots__ = ("calls", "hints", "left")

    def __init__(self, length: int) -> None:
        self.left = _BASE + _PER_CHARACTER * length
        self.calls = _CALLS + length // _PER_CALL
        self.hints = _HINTS

    def spend(self, steps: int) -> None:
        """Pay for some work.

        Raises:
            ExhaustedError: nothing is left.
        """
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError

    def spend_call(self) -> None:
        """Pay for a call.

        Raises:
            ExhaustedError: it is one too many.
        """
        self.calls -= 1
        if self.calls < 0:
            raise ExhaustedError

    def hint(self) -> bool:
        """Pay for a hint, which may be left out; False if there have been enough."""
        self.hints -= 1
        return self.hints >= 0
