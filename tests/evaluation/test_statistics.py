"""Intervals and tests: known values, and behaviour at the edges."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.evaluation.statistics import Rate, bootstrap_difference, holm, mcnemar


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (21, 50, 0.2938, 0.5577), (1, 2, 0.0945, 0.9055)],
)
def test_wilson_intervals_equal_the_closed_formula(k, n, low, high):
    rate = Rate.of(k, n)
    assert (rate.low, rate.high) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_rate(pair):
    rate = Rate.of(*pair)
    assert 0 <= rate.low <= rate.rate + 1e-9
    assert rate.rate - 1e-9 <= rate.high <= 1


def test_nothing_judged_is_nan_and_says_so():
    assert math.isnan(Rate.of(0, 0).rate)
    assert repr(Rate.of(0, 0)) == "0/0"


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"), [(0, 0, 1.0), (5, 5, 1.0), (0, 6, 0.03125), (2, 10, 0.0386)], ids=str
)
def test_mcnemar_is_exact(only_a, only_b, p):
    assert mcnemar(only_a, only_b) == pytest.approx(p, abs=1e-4)
    assert mcnemar(only_b, only_a) == pytest.approx(p, abs=1e-4)


def test_the_bootstrap_covers_the_difference_and_is_repeatable():
    a, b = [1] * 30 + [0] * 10, [1] * 20 + [0] * 20
    low, high = bootstrap_difference(a, b)
    assert low < 0.25 < high
    assert (low, high) == bootstrap_difference(a, b)


def test_repeats_of_one_case_do_not_narrow_the_interval():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, 20), rng.integers(0, 2, 20)
    once = bootstrap_difference(a, b)
    cases = [i for i in range(20) for _ in range(5)]
    five_times = bootstrap_difference(np.repeat(a, 5), np.repeat(b, 5), cases)
    assert five_times == pytest.approx(once)


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [
        ([1, 0, 0, 0, 0], [1, 0, 0, 0, 0], -0.4345, 0.4345),
        ([1] * 5, [0] * 5, 0.1310, 1),
        ([0] * 5, [1] * 5, -1, -0.1310),
        ([1], [1], -0.7935, 0.7935),
    ],
    ids=["no discordant pair", "only first", "only second", "one pair"],
)
def test_pairs_that_all_agree_get_the_score_interval_of_tango(a, b, low, high):
    assert bootstrap_difference(a, b) == pytest.approx((low, high), abs=1e-4)


_TABLES = st.lists(st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1)]), min_size=1, max_size=60)


@given(
    st.one_of(_TABLES, st.tuples(st.integers(1, 300), _TABLES.map(lambda t: t[0])).map(lambda t: [t[1]] * t[0])),
    st.integers(1, 60),
)
def test_an_interval_of_a_difference_is_never_a_point(pairs, repeats):
    a, b = zip(*pairs, strict=True)
    for clusters in (None, [at // repeats for at in range(len(pairs))]):
        low, high = bootstrap_difference(a, b, clusters)
        assert low < high
        assert -1 <= low <= np.mean(a) - np.mean(b) + 1e-9
        assert np.mean(a) - np.mean(b) - 1e-9 <= high <= 1


def test_repeats_that_all_agree_count_as_one_case():
    assert bootstrap_difference([1] * 20, [1] * 20, [i // 4 for i in range(20)]) == bootstrap_difference(
        [1] * 5, [1] * 5
    )
    low, high = bootstrap_difference([1, 1, 0], [0, 0, 0], ["one case"] * 3)
    assert low < 2 / 3 < high


def test_no_items_give_nan():
    assert all(math.isnan(value) for value in bootstrap_difference([], []))


@pytest.mark.parametrize(
    ("given_p", "adjusted"),
    [([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]), ([0.04, 0.01], [0.04, 0.02]), ([0.9, 0.8], [1.0, 1.0]), ([], [])],
    ids=["rising", "unsorted", "capped", "none"],
)
def test_holm(given_p, adjusted):
    assert holm(given_p) == pytest.approx(adjusted)
