"""Run templates that are not ours: jinja2's immutable sandbox, in which nothing can be called or made that is too much.

A template may be another one's file. It sees plain data only, may call methods of texts and lists, and whatever it
makes (by an operator, a method, a filter, a block) is measured before it is made.
Not here: what templates see and which filters they have (`toolkit.prompting.templates`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinMethodType
from typing import Any

MOST_ROUNDS = 100_000  # of all `range` loops of one template together
MOST_TEXT = 1_000_000  # characters or items that one operation may make
_MOST_METHOD = 20 * MOST_TEXT  # an estimate from above: most methods make far less than they could
_WIDTH = re.compile(r"\d{5,}|%[^a-zA-Z%]*\*")  # of a format: "%99999d", "{:99999}", "%*d"
_DEEPEST = 4  # levels of lists in which texts are counted


class Rounds:
    """Stand in for `range` in a template, with one budget for all its loops."""

    def __init__(self) -> None:
        self.left = MOST_ROUNDS

    def __call__(self, *bounds: int) -> range:
        """Return the range.

        Raises:
            ValueError: the template's loops together are too long.
        """
        asked = range(*bounds)
        self.left -= len(asked)
        if self.left < 0:
            raise ValueError(f"its range loops are longer than {MOST_ROUNDS:,} rounds together")
        return asked


def size(value: Any, level: int = 0) -> int:
    """Return how many characters and items a value holds; of a number, the number itself.

    >>> size("abc"), size(["ab", "c"]), size(7)
    (3, 5, 7)
    """
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (int, float)):
        return int(min(abs(value), MOST_TEXT**2)) if value == value else 0  # noqa: PLR0124 - NaN
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if not isinstance(value, (list, tuple, set)):
        return 0
    held = (item for item in value if not _is_number(item)) if level < _DEEPEST else ()
    return len(value) + sum(size(item, level + 1) for item in held)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def bounded(name: str, made: float, most: int = MOST_TEXT) -> None:
    """Raise ValueError where something would make more than may be made."""
    if made > most:
        raise ValueError(f"{name} would make more than {MOST_TEXT:,} characters or items")


def _check_call(name: str, owner: Any, values: Iterable[Any]) -> None:
    """Refuse a method or filter that might make too much of what it is given."""
    given = list(values)
    if any(isinstance(value, str) and _WIDTH.search(value) for value in (owner, *given) if "format" in name):
        raise ValueError(f"{name} has a width of more than four digits, or one that is not written in it")
    bounded(name, (size(owner) + 1) * (sum(map(size, given)) + 1), _MOST_METHOD)


def _measured(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that first measures what it is given; a mark of what jinja2 passes it stays on it."""

    @functools.wraps(function)
    def measured(*values: Any, **named: Any) -> Any:
        shown = values[1:] if hasattr(function, "jinja_pass_arg") else values
        shown = tuple(list(value) if hasattr(value, "__next__") else value for value in shown)
        _check_call(name, shown[0] if shown else "", [*shown[1:], *named.values()])
        return function(*values[: len(values) - len(shown)], *shown, **named)

    return measured


def _concat(parts: Iterable[str]) -> str:
    """Join what a template or a block of it wrote."""
    made, found = 0, []
    for part in parts:
        made += len(part)
        bounded("it", made, _MOST_METHOD)
        found.append(part)
    return "".join(found)


def _check_operator(operator: str, left: Any, right: Any) -> None:
    if operator == "%" and isinstance(left, str):
        _check_call("format", left, [right])
    elif operator == "+" and not (_is_number(left) and _is_number(right)):
        bounded("+", size(left) + size(right), _MOST_METHOD)
    elif operator == "*":
        bounded("*", size(left) * size(right))
    elif operator == "**":
        bounded("**", size(right) * 20)


def _joined(tree: Any) -> Any:
    """Write every `a ~ b` of a template as a filter, which is measured."""
    from jinja2 import nodes
    from jinja2.visitor import NodeTransformer

    class Joined(NodeTransformer):
        def visit_Concat(self, node: Any) -> Any:  # noqa: N802 - jinja2's name
            node = self.generic_visit(node)
            parts = nodes.List(node.nodes, lineno=node.lineno)
            return nodes.Filter(parts, "join", [], [], None, None, lineno=node.lineno)

    return Joined().visit(tree)


def environment(filters: Mapping[str, Callable[..., Any]]) -> Any:
    """Return a sandbox with these filters too; what it runs sees `range` only as the `Rounds` that it is given."""
    from jinja2 import StrictUndefined
    from jinja2.runtime import LoopContext, Macro
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Cycler, Joiner, Namespace

    class PlainSandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "+", "%"})
        concat = staticmethod(_concat)

        def is_safe_callable(self, obj: Any) -> bool:
            owner = getattr(obj, "__self__", None)
            if isinstance(obj, (Macro, LoopContext, Joiner, Rounds)) or obj in (Namespace, Cycler, Joiner, dict):
                return True
            method = isinstance(obj, BuiltinMethodType) and isinstance(owner, (str, int, float, list, tuple, dict))
            return method or isinstance(owner, (LoopContext, Cycler))

        def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
            if isinstance(obj, BuiltinMethodType):
                _check_call(obj.__name__, obj.__self__, [*args, *kwargs.values()])
            return super().call(context, obj, *args, **kwargs)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_operator(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def _parse(self, source: str, name: str | None, filename: str | None) -> Any:
            return _joined(super()._parse(source, name, filename))

    # prompts are plain text for a model, so nothing is HTML-escaped
    env = PlainSandbox(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    env.filters = {name: _measured(name, function) for name, function in {**env.filters, **filters}.items()}
    return env
