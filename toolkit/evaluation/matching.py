"""Decide whether an argument, or a whole state, is the expected one.

An expected value is plain JSON, compared loosely where it does not matter (case and runs of blanks in strings,
3 and 3.0), or one matcher:

    {"$any_of": [A, B]}   one of several values      {"$contains": "text"}   a string that holds it
    {"$regex": "…"}       a string that fits         {"$approx": 3.2, "within": 0.01}
    {"$any": true}        anything                   {"$optional": VALUE}    may be missing

Not here: the verdict on calls (`toolkit.evaluation.scoring`), on runs (`toolkit.evaluation.trajectories`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.errors import ConfigError, did_you_mean

MATCHERS = ("$any_of", "$contains", "$regex", "$approx", "$any", "$optional")


def matches(expected: Any, got: Any) -> bool:
    """Tell whether `got` is what was expected.

    >>> matches({"$any_of": ["Oslo", "Bergen"]}, "oslo ")
    True
    >>> matches(3, "3")
    False
    """
    if isinstance(expected, Mapping) and is_matcher(expected):
        return _matches(expected, got)
    if isinstance(expected, bool) or isinstance(got, bool):
        return isinstance(expected, bool) and isinstance(got, bool) and expected == got
    if isinstance(expected, str) and isinstance(got, str):
        return _plain(expected) == _plain(got)
    if isinstance(expected, Mapping):
        return isinstance(got, Mapping) and not differences(expected, got)
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(matches, expected, got))
    return bool(expected == got)


def _matches(matcher: Mapping[str, Any], got: Any) -> bool:
    kind, value = matcher_parts(matcher)
    if kind == "$any":
        return True
    if kind == "$optional":
        return matches(value, got)
    if kind == "$any_of":
        return any(matches(item, got) for item in value)
    if kind == "$approx":
        if not isinstance(got, (int, float)) or isinstance(got, bool):
            return False
        try:
            return bool(abs(got - value) <= matcher.get("within", 1e-9))
        except OverflowError:  # a whole number that no float can be
            return False
    if not isinstance(got, str):
        return False
    if kind == "$contains":
        return _plain(value) in _plain(got)
    return re.search(value, got) is not None


def differences(
    expected: Mapping[str, Any], got: Mapping[str, Any], schema: Mapping[str, Any] | None = None
) -> list[str]:
    """Return one sentence for each argument that is wrong, missing or too much; none where all is right.

    Args:
        expected: parameter -> value or matcher.
        got: the arguments of the call.
        schema: the tool's parameters; an argument not expected is right where it equals its default, or is null
            and the parameter optional.
    """
    found = []
    for name, value in expected.items():
        if name in got:
            if not matches(value, got[name]):
                found.append(f"{name}: expected {describe(value)}, got {got[name]!r}")
        elif not (is_matcher(value) and "$optional" in value):
            found.append(f"{name}: missing, expected {describe(value)}")
    properties = (schema or {}).get("properties") or {}
    required = (schema or {}).get("required") or ()
    for name, value in got.items():
        if name in expected:
            continue
        declared = properties.get(name)
        default = isinstance(declared, Mapping) and "default" in declared and matches(declared["default"], value)
        if not default and not (value is None and declared is not None and name not in required):
            found.append(f"{name}: not expected, got {value!r}")
    return found


def assignment(fits: Sequence[Sequence[bool]]) -> list[int | None]:
    """Return the column that each row takes: as many rows as can be have one, none is shared, first columns first.

    >>> assignment([[True, True], [True, False]])
    [1, 0]
    """
    if not fits or not fits[0]:
        return [None] * len(fits)
    if len(fits) == 1:
        return [next((column for column, fit in enumerate(fits[0]) if fit), None)]
    from scipy.optimize import linear_sum_assignment

    width = len(fits[0])
    weights = [[width - column if fit else 0 for column, fit in enumerate(row)] for row in fits]
    taken = dict(zip(*linear_sum_assignment(weights, maximize=True), strict=True))
    return [int(taken[row]) if row in taken and line[taken[row]] else None for row, line in enumerate(fits)]


def state_differences(expected: Any, got: Any, where: str = "") -> list[str]:
    """Return one sentence for each part of a state that is not as expected.

    What is not named may be anything. A list holds the expected items, no more and no less, in any order.

    >>> state_differences({"light": 0, "notes": []}, {"light": 40, "notes": [], "blinds": 5})
    ['light: expected 0, got 40']
    """
    if isinstance(expected, Mapping) and not is_matcher(expected):
        if not isinstance(got, Mapping):
            return [f"{where}: expected {dict(expected)!r}, got {got!r}"]
        found = []
        for key, value in expected.items():
            place = f"{where}.{key}" if where else str(key)
            if key in got:
                found.extend(state_differences(value, got[key], place))
            elif not (is_matcher(value) and "$optional" in value):
                found.append(f"{place}: missing, expected {describe(value)}")
        return found
    if isinstance(expected, list) and isinstance(got, list):
        fits = [[not state_differences(item, other) for other in got] for item in expected]
        if len(expected) == len(got) and None not in assignment(fits):
            return []
    elif matches(expected, got):
        return []
    return [f"{where}: expected {describe(expected)}, got {got!r}"]


def is_matcher(value: Any) -> bool:
    """Tell whether a value is a matcher and no plain JSON."""
    return isinstance(value, Mapping) and any(isinstance(key, str) and key.startswith("$") for key in value)


def matcher_parts(matcher: Mapping[str, Any]) -> tuple[str, Any]:
    """Return what kind a matcher is, and what it compares with."""
    return next((key, value) for key, value in matcher.items() if isinstance(key, str) and key.startswith("$"))


def check_matcher(value: Any, where: str) -> None:
    """Check every matcher inside an expected value.

    Raises:
        ConfigError: an unknown matcher, or one whose value it cannot use.
    """
    if not is_matcher(value):
        for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
            check_matcher(item, where)
        return
    kind, inner = matcher_parts(value)
    if kind not in MATCHERS or set(value) - {kind, "within"}:
        raise ConfigError(f"{where}: {dict(value)!r} is no matcher. {did_you_mean(kind, MATCHERS)}")
    if kind == "$any_of" and not (isinstance(inner, list) and inner):
        raise ConfigError(f"{where}: $any_of needs a list of values, not {inner!r}.")
    numbers = [inner, value.get("within", 0)]
    if kind == "$approx" and not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
        raise ConfigError(f"{where}: $approx needs numbers, not {dict(value)!r}.")
    if kind in ("$contains", "$regex") and not isinstance(inner, str):
        raise ConfigError(f"{where}: {kind} needs a string, not {inner!r}.")
    if kind == "$regex":
        try:
            re.compile(inner)
        except re.error as error:
            raise ConfigError(f"{where}: $regex {inner!r} is no regular expression: {error}.") from None
    if kind in ("$any_of", "$optional"):
        check_matcher(inner, where)


def describe(value: Any) -> str:
    """Return an expected value in words.

    >>> describe({"$any_of": [1, 2]})
    '1 or 2'
    """
    if not is_matcher(value):
        return repr(value)
    kind, inner = matcher_parts(value)
    if kind == "$any_of":
        return " or ".join(describe(item) for item in inner)
    if kind == "$optional":
        return f"{describe(inner)} or nothing"
    words = {"$contains": "text with", "$regex": "text like", "$approx": "about", "$any": "anything"}
    return words[kind] if kind == "$any" else f"{words[kind]} {inner!r}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
