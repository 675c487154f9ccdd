"""Bound the work of failed attempts, so that reading hostile text stays linear.

Not here: what an attempt is (`syntaxes`, `lenient_json`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Fuel:
    """Bound the work that failed attempts may cost, so that hostile text stays linear."""

    left: int

    def spend(self, amount: int) -> bool:
        """Pay for a failed attempt; False once nothing is left."""
        self.left -= amount
        return self.left > 0
