"""Compare two recipes on the same cases: Comparison, compare_rows.

Pairs are what counts: which cases only the one got right, and which only the other.
Not here: the intervals and tests themselves (`toolkit.evaluation.statistics`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

from toolkit.evaluation.statistics import NAN, bootstrap_difference, mcnemar


@dataclass(frozen=True)
class Comparison:
    """Hold a paired comparison of two recipes on the same cases.

    Attributes:
        a: first recipe.
        b: second recipe.
        n: pairs judged in both.
        both: pairs that both got right.
        only_a: pairs that only the first got right.
        only_b: pairs that only the second got right.
        difference: rate of a minus rate of b.
        low: lower end of its paired bootstrap interval (95 %, clustered by case); where no case differs from the
            others, of a score interval over the cases.
        high: upper end.
        p: exact McNemar p-value, two-sided; NaN where repeats make pairs depend on each other.
    """

    a: str
    b: str
    n: int
    both: int
    only_a: int
    only_b: int
    difference: float
    low: float
    high: float
    p: float

    def __repr__(self) -> str:
        return f"{self.a!r} minus {self.b!r}: {self.describe()}"

    def describe(self) -> str:
        """Return the difference in words, without the names."""
        if not self.n:
            return "no case judged in both"
        interval = f"[{100 * self.low:+.0f}, {100 * self.high:+.0f}]"
        test = "p not given: repeats are not independent" if isnan(self.p) else f"p = {self.p:.3g}"
        ones = f"only first right {self.only_a}, only second {self.only_b}"
        return f"{100 * self.difference:+.0f} points {interval}, n = {self.n}, {ones}, {test}"


def compare_rows(a: Any, b: Any, name_a: str, name_b: str) -> Comparison:
    """Compare two Series of 1 and 0, indexed by (case, repeat), on what both hold."""
    shared = a.index.intersection(b.index)
    first, second = a.loc[shared], b.loc[shared]
    only_a = int(((first == 1) & (second == 0)).sum())
    only_b = int(((first == 0) & (second == 1)).sum())
    cases = [case for case, _ in shared]
    low, high = bootstrap_difference(list(first), list(second), cases)
    repeated = len(set(cases)) < len(cases)
    return Comparison(
        name_a,
        name_b,
        len(shared),
        int((first & second).sum()),
        only_a,
        only_b,
        float(first.mean() - second.mean()) if len(shared) else NAN,
        low,
        high,
        NAN if repeated or not len(shared) else mcnemar(only_a, only_b),
    )
