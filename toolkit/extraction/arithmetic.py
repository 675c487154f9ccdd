"""Work out an arithmetic expression of plain numbers, such as `1/6` or `2*(3+4)`, without `eval`.

Not here: any name, call or attribute; such text stays text (`python_calls`).
"""

from __future__ import annotations

import ast
import operator
import re

_WRITTEN = re.compile(r"(?:\s*+(?:[-+*/%()]|\d++(?:\.\d*+)?+(?:[eE][-+]?\d++)?+|\.\d++)){1,64}+")
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_MOST, _MOST_POWER = 1e300, 64  # beyond these a number is none that anybody means


def arithmetic(text: str) -> int | float | None:
    """Return the value of `text`, or None if it is no short arithmetic of numbers.

    >>> arithmetic("2*(3+4)"), arithmetic("1/4"), arithmetic("x+1"), arithmetic("(-8)**0.5")
    (14, 0.25, None, None)
    """
    stripped = text.strip()
    if _WRITTEN.fullmatch(stripped) is None:
        return None
    try:
        return _value(ast.parse(stripped, mode="eval").body)
    except (ArithmeticError, SyntaxError, ValueError):
        return None


def _value(node: ast.expr) -> int | float:
    """Return the value of one node.

    Raises:
        ValueError: it is complex, too large, or nothing that is worked out here.
    """
    value: object = None
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = -_value(node.operand) if isinstance(node.op, ast.USub) else _value(node.operand)
    elif isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) > _MOST_POWER:
            raise ValueError
        value = _OPERATORS[type(node.op)](left, right)
    if not isinstance(value, (int, float)) or not -_MOST < value < _MOST:
        raise ValueError
    return value
