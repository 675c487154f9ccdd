"""Expected arguments: what counts as the same, and what a matcher allows."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ConfigError
from toolkit.evaluation.matching import (
    assignment,
    check_matcher,
    describe,
    differences,
    matches,
    state_differences,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab $"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(json_values)
def test_every_value_matches_itself(value):
    assert matches(value, value)
    assert describe(value)


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("Oslo", " oslo", True),
        ("two  words", "Two words", True),
        ("Oslo", "Osl", False),
        (3, 3.0, True),
        (3, "3", False),
        (True, 1, False),
        (1, True, False),
        (None, None, True),
        (None, "", False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"$any": True}}, {"a": [1]}, True),
        ({"$any_of": [1, {"$contains": "x"}]}, "axb", True),
        ({"$contains": "rain"}, "Heavy Rain", True),
        ({"$contains": "rain"}, 3, False),
        ({"$regex": r"^\d+$"}, "123", True),
        ({"$approx": 3.2, "within": 0.1}, 3.25, True),
        ({"$approx": 3.2}, 3.3, False),
        ({"$approx": 1}, True, False),
        ({"$optional": 5}, 5, True),
        ({"$optional": 5}, 6, False),
    ],
)
def test_matches(expected, got, same):
    assert matches(expected, got) is same


SCHEMA = {"properties": {"n": {"default": 1}, "note": {"type": "string"}, "q": {}}, "required": ["q"]}


@pytest.mark.parametrize(
    ("expected", "got", "wrong"),
    [
        ({"q": 1}, {"q": 1}, []),
        ({"q": 1}, {}, ["q: missing, expected 1"]),
        ({"q": 1}, {"q": 2}, ["q: expected 1, got 2"]),
        ({"q": 1}, {"q": 1, "n": 1}, []),
        ({"q": 1}, {"q": 1, "n": 2}, ["n: not expected, got 2"]),
        ({"q": 1}, {"q": 1, "note": None}, []),
        ({"q": 1}, {"q": 1, "other": None}, ["other: not expected, got None"]),
        ({"q": {"$optional": 2}}, {}, []),
    ],
    ids=["same", "missing", "wrong", "default given", "default changed", "null", "undeclared", "optional"],
)
def test_differences_are_sentences(expected, got, wrong):
    assert differences(expected, got, SCHEMA) == wrong


@pytest.mark.parametrize(
    "matcher",
    [{"$anyof": [1]}, {"$any_of": []}, {"$contains": 3}, {"$regex": "("}, [{"a": {"$optional": {"$nope": 1}}}]],
    ids=["typo", "empty", "number", "bad pattern", "nested"],
)
def test_bad_matchers_are_refused_at_load(matcher):
    with pytest.raises(ConfigError, match="case 1"):
        check_matcher(matcher, "case 1")


@given(st.integers(0, 5).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), max_size=5)))
def test_an_assignment_is_as_large_as_any_and_takes_the_first_columns_it_can(fits):
    found = assignment(fits)
    taken = [column for column in found if column is not None]
    assert len(set(taken)) == len(taken)
    assert all(fits[row][column] for row, column in enumerate(found) if column is not None)
    columns = range(len(fits[0]) if fits else 0)
    possible = {
        tuple(sorted(order))
        for size in range(len(fits) + 1)
        for rows in itertools.combinations(range(len(fits)), size)
        for order in itertools.permutations(columns, size)
        if all(fits[row][column] for row, column in zip(rows, order, strict=True))
    }
    largest = max(map(len, possible))
    assert tuple(sorted(taken)) == min(order for order in possible if len(order) == largest)


@given(json_values)
def test_every_state_is_as_expected_of_itself(value):
    assert state_differences(value, value) == []


@pytest.mark.parametrize(
    ("expected", "got", "wrong"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": {"x": 1}}, {"a": {"x": 2}}, ["a.x: expected 1, got 2"]),
        ({"a": 1}, {}, ["a: missing, expected 1"]),
        ({"a": {"$optional": 1}}, {}, []),
        ({"a": {"$contains": "x"}}, {"a": "AXB"}, []),
        ({"a": {"x": 1}}, {"a": 5}, ["a: expected {'x': 1}, got 5"]),
        ({"a": [{"n": 1}, {"n": {"$any": True}}]}, {"a": [{"n": 2, "m": 0}, {"n": 1}]}, []),
        ({"a": [{"n": {"$any": True}}, {"n": 1}]}, {"a": [{"n": 1}, {"n": 2}]}, []),
        ({"a": [1]}, {"a": [1, 1]}, ["a: expected [1], got [1, 1]"]),
        ({"a": []}, {"a": [1]}, ["a: expected [], got [1]"]),
    ],
)
def test_state_differences(expected, got, wrong):
    assert state_differences(expected, got) == wrong
