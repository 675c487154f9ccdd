"""Tell whether any call could give what a case expects: a value outside the tool's schema is a slip of its writer.

Compared as loosely as calls are scored: `Kitchen` is within an enum that says `kitchen`.
Not here: comparing with a call that was made (`toolkit.evaluation.matching`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.errors import did_you_mean
from toolkit.evaluation.matching import describe, is_matcher, matcher_parts, matches
from toolkit.models.schemas import broken

# what a schema says of a value by itself; the rest says something of its parts, or names other schemas
_OWN = (
    "type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
)  # fmt: skip
_MOST_NESTED = 8  # schemas that stand in one another for one and the same value


def unreachable(expected: Any, schema: Any, root: Mapping[str, Any], place: str) -> str:
    """Say why no value of a schema can match an expected one; empty if one may.

    Args:
        expected: plain JSON or a matcher.
        schema: of the value.
        root: the schema that holds it, for references.
        place: how the answer names it.

    >>> unreachable("kitchn", {"enum": ["kitchen", "bath"]}, {}, "room")
    "room: no call can give 'kitchn'. Did you mean 'kitchen'? Known: kitchen, bath."
    """
    return next(_reasons(expected, schema, root, place), "")


def _reasons(expected: Any, schema: Any, root: Mapping[str, Any], place: str, depth: int = 0) -> Iterator[str]:
    schema = _resolved(schema, root)
    if not isinstance(schema, Mapping) or depth > _MOST_NESTED:  # true, or one that holds itself
        return
    kind, inner = matcher_parts(expected) if is_matcher(expected) else ("", expected)
    if kind in ("$any_of", "$optional"):
        for item in inner if kind == "$any_of" else [inner]:
            yield from _reasons(item, schema, root, place, depth)
        return
    if kind == "$any":
        return
    options = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    if options and not any(matches(expected, option) for option in options):
        hint = did_you_mean(describe(expected).strip("'"), map(str, options))
        yield f"{place}: no call can give {describe(expected)}. {hint}"
    for word in ("anyOf", "oneOf"):
        branches = [list(_reasons(expected, one, root, place, depth + 1)) for one in schema.get(word) or ()]
        if branches and all(branches):
            yield branches[0][0]
    for one in schema.get("allOf") or ():
        yield from _reasons(expected, one, root, place, depth + 1)
    if not options and (problem := _own_problem(kind, expected, schema)):
        yield f"{place}: no call can give {describe(expected)}: {problem}."
    if not kind:
        yield from _of_parts(expected, schema, root, place)


def _of_parts(expected: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str) -> Iterator[str]:
    if isinstance(expected, Mapping):
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, value in expected.items():
            if name not in known and known and not more and not schema.get("patternProperties"):
                yield f"{place}: it has no {name!r} to expect. {did_you_mean(str(name), known)}"
            yield from _reasons(value, known.get(name, more), root, f"{place}.{name}")
    elif isinstance(expected, list):
        first = schema.get("prefixItems") or ()
        for at, item in enumerate(expected):
            one = first[at] if at < len(first) else schema.get("items")
            yield from _reasons(item, one, root, f"{place}[{at}]")


def _own_problem(kind: str, expected: Any, schema: Mapping[str, Any]) -> str:
    """Say what of its own a schema has against every value that an expected one stands for."""
    unknown = kind in ("$contains", "$regex")  # which of the texts that match is meant
    own = {word: schema[word] for word in (_OWN[:1] if unknown else _OWN) if word in schema}
    values = [expected]
    if unknown:
        values = [""]
    elif kind == "$approx":
        middle, within = expected[kind], expected.get("within", 0)
        values = [middle, round(middle), middle - within, middle + within]
    elif isinstance(expected, str):  # however its letters and blanks are written
        values = [expected, expected.lower(), expected.upper(), " ".join(expected.split())]
    elif isinstance(expected, list) and any(map(is_matcher, expected)):
        own.pop("uniqueItems", None)  # equal matchers stand for items that need not be equal
    problems = [next((str(error.message) for error in broken(value, own)), "") for value in values] if own else [""]
    return "" if "" in problems else problems[0]


def _resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """Follow references within the root; one that leads nowhere allows anything."""
    for _ in range(50):
        target = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(target, str):
            return schema
        schema = root
        for step in target.removeprefix("#").strip("/").split("/") if target.strip("#/") else ():
            step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
            schema = schema.get(step) if isinstance(schema, Mapping) else None
    return None
