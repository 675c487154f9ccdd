"""Work out an arithmetic expression of plain numbers, such as `1/6` or `2*(3+4)`, without `eval`.

Not here: any name, call or attribute; such text stays text (`python_calls`).
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|\*\*|//|[-+*/%()])")
_MOST_TOKENS, _MOST_POWER, _MOST_BASE = 64, 64, 10**9


def arithmetic(text: str) -> int | float | None:
    """Return the value of `text`, or None if it is no short arithmetic of numbers.

    >>> arithmetic("2*(3+4)"), arithmetic("1/4"), arithmetic("x+1")
    (14, 0.25, None)
    """
    tokens: list[str] = []
    pos = 0
    stripped = text.strip()
    while pos < len(stripped):
        found = _TOKEN.match(stripped, pos)
        if found is None or len(tokens) >= _MOST_TOKENS:
            return None
        tokens.append(found[1])
        pos = found.end()
    try:
        value = _sum(tokens)
    except (ArithmeticError, ValueError, IndexError):
        return None
    return None if tokens or isinstance(value, complex) else value


def _sum(tokens: list[str]) -> int | float:
    value = _product(tokens)
    while tokens and tokens[0] in "+-":
        value = value + _product(tokens) if tokens.pop(0) == "+" else value - _product(tokens)
    return value


def _product(tokens: list[str]) -> int | float:
    value = _signed(tokens)
    while tokens and tokens[0] in ("*", "/", "//", "%"):
        sign, other = tokens.pop(0), _signed(tokens)
        value = {"*": _times, "/": _over, "//": _floor, "%": _rest}[sign](value, other)
    return value


def _times(a: float, b: float) -> int | float:
    return a * b


def _over(a: float, b: float) -> int | float:
    return a / b


def _floor(a: float, b: float) -> int | float:
    return a // b


def _rest(a: float, b: float) -> int | float:
    return a % b


def _signed(tokens: list[str]) -> int | float:
    if tokens[0] in "+-":
        return _signed(tokens) if tokens.pop(0) == "+" else -_signed(tokens)
    return _power(tokens)


def _power(tokens: list[str]) -> int | float:
    base = _atom(tokens)
    if tokens and tokens[0] == "**":
        tokens.pop(0)
        exponent = _signed(tokens)
        if abs(exponent) > _MOST_POWER or abs(base) > _MOST_BASE:
            raise ValueError
        power: int | float = base**exponent
        return power
    return base


def _atom(tokens: list[str]) -> int | float:
    first = tokens.pop(0)
    if first == "(":
        value = _sum(tokens)
        if tokens.pop(0) != ")":
            raise ValueError
        return value
    return float(first) if re.search(r"[.eE]", first) else int(first)
