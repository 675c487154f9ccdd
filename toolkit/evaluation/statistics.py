"""Say how sure a number is: intervals, paired tests, comparison of two recipes, correction for many.

scipy does the work and is imported late. What cannot be estimated is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAN = float("nan")
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """Hold k of n with its Wilson interval; n = 0 gives NaN.

    >>> Rate.of(21, 50)
    21/50 = 42 % [29, 56]
    """

    k: int
    n: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, k: int, n: int) -> Rate:
        """Return the rate of `k` successes in `n` tries."""
        if n == 0:
            return cls(0, 0, NAN, NAN, NAN)
        from scipy.stats import binomtest

        interval = binomtest(k, n).proportion_ci(CONFIDENCE, method="wilson")
        return cls(k, n, k / n, float(interval.low), float(interval.high))

    def __repr__(self) -> str:
        if self.n == 0:
            return "0/0"
        return f"{self.k}/{self.n} = {self.rate:.0%} [{100 * self.low:.0f}, {100 * self.high:.0f}]".replace("%", " %")


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p-value of McNemar's test: pairs that only the one, and only the other got right.

    >>> mcnemar(0, 0)
    1.0
    """
    if only_a + only_b == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(min(only_a, only_b), only_a + only_b, 0.5).pvalue)


def bootstrap_difference(
    a: Sequence[float], b: Sequence[float], clusters: Sequence[object] | None = None
) -> tuple[float, float]:
    """Return a percentile interval of mean(a) - mean(b) over paired items, from 5,000 seeded resamples.

    Args:
        a: one value an item, 1 for right and 0 for wrong.
        b: the same items, in the same order.
        clusters: what stands and falls together, such as repeats of one case; drawn as a whole.

    Returns:
        (low, high); NaN where there is no item. Where every cluster has the same mean difference, resampling cannot
        vary and `_uniform_difference` gives the interval instead.
    """
    import numpy as np

    difference = np.asarray(a, float) - np.asarray(b, float)
    if difference.size == 0:
        return NAN, NAN
    labels = np.unique(np.asarray(range(len(a)) if clusters is None else clusters, str), return_inverse=True)[1]
    sums = np.bincount(labels, difference)
    sizes = np.bincount(labels)
    if np.ptp(sums / sizes) < 1e-9:
        return _uniform_difference(float(sums.sum() / sizes.sum()), sums.size)
    draws = np.random.default_rng(0).integers(0, sums.size, (5000, sums.size))
    means = sums[draws].sum(axis=1) / sizes[draws].sum(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _uniform_difference(difference: float, clusters: int) -> tuple[float, float]:
    """Return an interval of a difference that all clusters have in common.

    None of them fell otherwise. The share that would is at most Wilson's upper limit for 0 of `clusters`, and those
    may differ by anything from -1 to 1. At -1, 0 and 1 this is the score interval of Tango (Statistics in Medicine
    17, 1998, 891-908) for that many pairs; in between, which only repeats reach, it runs straight from one to the next.
    """
    share = Rate.of(0, clusters).high
    return max(-1.0, difference - share * (1 + difference)), min(1.0, difference + share * (1 - difference))


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
        test = "p not given: repeats are not independent" if math.isnan(self.p) else f"p = {self.p:.3g}"
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
