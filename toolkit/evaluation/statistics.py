"""Say how sure a number is: intervals, paired tests, comparison of two recipes, correction for many.

scipy does the work and is imported late. What cannot be estimated is NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

NAN = float("nan")
ALPHA = 0.05
Z = 1.959963984540054  # of the intervals, which leave that much out


@dataclass(frozen=True, slots=True)
class Rate:
    """Hold k of n with its Wilson interval; n = 0 gives NaN.

    Repeats of one case tell little more than one of them: the interval is that of as many tries as there are cases.

    >>> Rate.of(21, 50)
    21/50 = 42 % [29, 56]
    >>> Rate.of(16, 16, cases=2)
    16/16 (2 cases) = 100 % [34, 100]
    """

    k: int
    n: int
    rate: float
    low: float
    high: float
    cases: int

    @classmethod
    def of(cls, k: int, n: int, cases: int | None = None) -> Rate:
        """Return the rate of `k` successes in `n` tries on `cases` cases, which are as many where each came once."""
        if n == 0:
            return cls(0, 0, NAN, NAN, NAN, 0)
        clusters = n if cases is None else cases
        low, high = _wilson(k / n, clusters)
        return cls(k, n, k / n, low, high, clusters)

    def __repr__(self) -> str:
        if self.n == 0:
            return "0/0"
        of = f" ({self.cases} case{'s' * (self.cases > 1)})" if self.cases != self.n else ""
        return f"{self.k}/{self.n}{of} = {self.rate:.0%} [{100 * self.low:.0f}, {100 * self.high:.0f}]".replace(
            "%", " %"
        )


def _wilson(rate: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of n tries; 0 and 1 are its ends where nothing, or all, succeeded."""
    middle, half = rate + Z * Z / (2 * n), Z * math.sqrt(rate * (1 - rate) / n + (Z / (2 * n)) ** 2)
    scale = 1 + Z * Z / n
    return max(0.0, (middle - half) / scale) if rate else 0.0, min(1.0, (middle + half) / scale) if rate < 1 else 1.0


def paired_test(differences: Iterable[int]) -> float:
    """Return the exact two-sided p-value of a paired test over cases: were the two recipes' names drawn by lot?

    Where each case was asked once this is McNemar's exact test. With repeats a case keeps them together, since they
    stand and fall together: its sum changes sign as a whole (a permutation test).

    Args:
        differences: for each case, how many more of its repeats the first got right than the second.

    >>> paired_test([1, 1, 1, 1, 1, 1, 0, 0])
    0.03125
    """
    import numpy as np
    from scipy.stats import binom

    given = list(differences)
    chances, most = np.ones(1), 0  # of each sum from -most to most
    for size, count in Counter(map(abs, filter(None, given))).items():
        steps = np.zeros(2 * size * count + 1)
        steps[:: 2 * size] = binom.pmf(np.arange(count + 1), count, 0.5)
        chances, most = np.convolve(chances, steps), most + size * count
    as_far = np.abs(np.arange(-most, most + 1)) >= abs(sum(given))
    return min(1.0, float(f"{chances[as_far].sum():.12g}"))  # without what rounding leaves of a sum


def difference_interval(only_a: float, only_b: float, n: float) -> tuple[float, float]:
    """Return the score interval (95 %) of a difference of paired rates; NaN where there is no pair.

    It keeps a width whatever the pairs are, where a bootstrap or a Wald interval ends in a point (Source:
    lm-evaluation-harness#4070). After Tango, Statistics in Medicine 17 (1998), 891-908.

    Args:
        only_a: pairs that only the first got right.
        only_b: pairs that only the second got right.
        n: all pairs.
    """
    if not n:
        return NAN, NAN
    found = (only_a - only_b) / n

    def inside(difference: float) -> bool:
        """Tell whether the pairs seen are as likely as that under this true difference."""
        b = (2 * n - only_a + only_b) * difference - only_a - only_b
        share = (math.sqrt(max(0.0, b * b + 8 * n * only_b * difference * (1 - difference))) - b) / (4 * n)
        return abs(found - difference) <= Z * math.sqrt(max(0.0, 2 * share + difference * (1 - difference)) / n)

    return _edge(inside, found, -1.0), _edge(inside, found, 1.0)


def _edge(inside: Callable[[float], bool], middle: float, end: float) -> float:
    """Return, by halving, how far towards an end the values lie inside."""
    if inside(end):
        return end
    for _ in range(50):
        between = (middle + end) / 2
        middle, end = (between, end) if inside(between) else (middle, between)
    return middle


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given.

    >>> holm([0.01, 0.04])
    [0.02, 0.04]
    """
    import numpy as np

    values = np.asarray(p_values, float)
    order = np.argsort(values)  # NaN comes last
    steps = np.arange(values.size, 0, -1)
    values[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * steps))
    return [float(value) for value in values]


@dataclass(frozen=True)
class Comparison:
    """Hold a paired comparison of two recipes on the same cases.

    Attributes:
        a: first recipe.
        b: second recipe.
        n: cases judged in both; repeats of a case stand and fall together, so they do not add to it.
        both: pairs of replies that both got right.
        only_a: pairs that only the first got right.
        only_b: pairs that only the second got right.
        difference: rate of a minus rate of b.
        low: lower end of its score interval (95 %) over that many cases.
        high: upper end.
        p: exact p-value, two-sided: McNemar's, or with repeats that of a permutation test over cases; NaN without
            a case.
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
        ones = f"only first right {self.only_a}, only second {self.only_b}"
        return f"{100 * self.difference:+.0f} points {interval}, n = {self.n}, {ones}, p = {self.p:.3g}"


def compare_pairs(name_a: str, name_b: str, a: Any, b: Any, cases: Any) -> Comparison:
    """Compare what two recipes got right, on what both were judged on.

    Args:
        name_a: the first recipe.
        name_b: the second.
        a: array of 1, 0, and NaN where it was not judged.
        b: of the same replies, in the same order.
        cases: number of each reply's case.
    """
    import numpy as np

    shared = ~np.isnan(a - b)
    first, second, number = a[shared], b[shared], cases[shared]
    only_a, only_b = int((first > second).sum()), int((first < second).sum())
    sums = np.bincount(number, first - second)[np.bincount(number) > 0]
    share = len(sums) / len(first) if len(first) else NAN
    low, high = difference_interval(only_a * share, only_b * share, len(sums))
    return Comparison(
        name_a,
        name_b,
        len(sums),
        int((first * second).sum()),
        only_a,
        only_b,
        float(first.mean() - second.mean()) if len(first) else NAN,
        low,
        high,
        paired_test(map(int, sums)) if len(first) else NAN,
    )
