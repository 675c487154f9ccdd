"""Intervals and tests: known values, and behaviour at the edges."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest

from toolkit.evaluation.statistics import Rate, compare_pairs, difference_interval, holm, paired_test


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (21, 50, 0.2938, 0.5577), (1, 2, 0.0945, 0.9055)],
)
def test_wilson_intervals_equal_the_closed_formula(k, n, low, high):
    rate = Rate.of(k, n)
    assert (rate.low, rate.high) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_rate_and_is_scipys(pair):
    """lm-evaluation-harness#4070 and #3966: an interval of no width at 0 or 1, or beside a rate between them."""
    rate, theirs = Rate.of(*pair), binomtest(*pair).proportion_ci(0.95, method="wilson")
    assert (rate.low, rate.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= rate.low <= rate.rate <= rate.high <= 1
    assert rate.low < rate.high


@given(st.integers(1, 20), st.integers(1, 12))
def test_repeats_of_a_case_never_narrow_the_interval_of_a_rate(cases, repeats):
    """inspect_ai#1251: n is the number of clusters, and it is shown."""
    once, often = Rate.of(cases, cases), Rate.of(cases * repeats, cases * repeats, cases)
    assert (often.low, often.high) == (once.low, once.high)
    assert ("case" in repr(often)) == (repeats > 1)


def test_nothing_judged_is_nan_and_says_so():
    assert math.isnan(Rate.of(0, 0).rate)
    assert repr(Rate.of(0, 0)) == "0/0"


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_without_repeats_the_paired_test_is_mcnemars(only_a, only_b, same):
    found = paired_test([1] * only_a + [-1] * only_b + [0] * same)
    n = only_a + only_b
    assert found == pytest.approx(binomtest(only_a, n).pvalue if n else 1.0)


@given(st.lists(st.integers(-5, 5), max_size=10))
def test_with_repeats_it_counts_every_way_to_draw_the_names_by_lot(differences):
    sums = [sum(s * d for s, d in zip(signs, differences, strict=True))
            for signs in itertools.product((1, -1), repeat=len(differences))]  # fmt: skip
    as_far = [abs(total) >= abs(sum(differences)) for total in sums]
    assert paired_test(differences) == pytest.approx(sum(as_far) / len(as_far))


def test_a_case_asked_eight_times_is_one_case():
    """inspect_ai#1113: two cases that fell the same way eight times each say nothing; they counted as sixteen."""
    found = compare_pairs("a", "b", np.ones(16), np.zeros(16), np.arange(16) // 8)
    assert (found.n, found.only_a, found.p) == (2, 16, 0.5)
    assert (found.low, found.high) == difference_interval(2, 0, 2)


@pytest.mark.parametrize(
    ("only_a", "only_b", "n", "low", "high"),
    [
        (0, 0, 5, -0.4345, 0.4345),
        (5, 0, 5, 0.1310, 1),
        (0, 5, 5, -1, -0.1310),
        (0, 0, 1, -0.7935, 0.7935),
        (0, 0, 54, -0.0664, 0.0664),
    ],
    ids=["no discordant pair", "only first", "only second", "one pair", "fifty pairs"],
)
def test_pairs_that_all_agree_get_the_score_interval_of_tango(only_a, only_b, n, low, high):
    assert difference_interval(only_a, only_b, n) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("only_a", "only_b", "n"), [(12, 2, 50), (9, 1, 50), (3, 7, 20), (1, 0, 4)])
def test_both_ends_are_where_the_score_test_turns(only_a, only_b, n):
    """With the likelihood maximised by search, not by the formula."""
    for end, sign in zip(difference_interval(only_a, only_b, n), (1, -1), strict=True):
        chances = [only_a, only_b, n - only_a - only_b]

        def unlikely(share, end=end, chances=chances):
            parts = [max(part, 1e-300) for part in (share + end, share, 1 - 2 * share - end)]
            return -sum(count * math.log(part) for count, part in zip(chances, parts, strict=True))

        share = minimize_scalar(unlikely, bounds=(max(0, -end), (1 - end) / 2), method="bounded").x
        score = (only_a - only_b - n * end) / math.sqrt(n * (2 * share + end - end * end))
        assert score == pytest.approx(sign * 1.96, abs=2e-3)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300), st.integers(1, 9))
def test_an_interval_of_a_difference_is_never_a_point_and_holds_it(only_a, only_b, same, repeats):
    if n := (only_a + only_b + same) / repeats:
        low, high = difference_interval(only_a / repeats, only_b / repeats, n)
        assert low < high
        assert -1 <= low <= (only_a - only_b) / repeats / n + 1e-9
        assert (only_a - only_b) / repeats / n - 1e-9 <= high <= 1
        assert difference_interval(only_b / repeats, only_a / repeats, n) == pytest.approx((-high, -low), abs=1e-9)


@settings(deadline=None, max_examples=12)
@given(st.sampled_from([4, 12, 40, 120]), st.sampled_from([(0.1, 0.1), (0.4, 0.1), (0.02, 0.0), (0.3, 0.3)]))
def test_the_interval_covers_the_truth_about_as_often_as_it_says(n, chances):
    covered = 0.0
    for draw in np.random.default_rng(0).multinomial(n, [*chances, 1 - sum(chances)], 600):
        low, high = difference_interval(draw[0], draw[1], n)
        covered += low <= chances[0] - chances[1] <= high
    assert covered / 600 > 0.9


def test_nothing_to_compare_is_nan():
    assert all(math.isnan(value) for value in difference_interval(0, 0, 0))
    found = compare_pairs("a", "b", np.array([1, np.nan]), np.array([np.nan, 1]), np.array([0, 1]))
    assert math.isnan(found.p)
    assert found.describe() == "no case judged in both"


@pytest.mark.parametrize(
    ("given_p", "adjusted"),
    [([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]), ([0.04, 0.01], [0.04, 0.02]), ([0.9, 0.8], [1.0, 1.0]), ([], [])],
    ids=["rising", "unsorted", "capped", "none"],
)
def test_holm(given_p, adjusted):
    assert holm(given_p) == pytest.approx(adjusted)
