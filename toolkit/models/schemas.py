"""Check JSON Schemas before a server sees them, and replies after it has answered.

A server accepts a schema and does not always honour it (Source: ollama#8063, ollama#15260), and takes a
misplaced keyword without a word (Source: ollama#8543); so both ends are checked here.

Not here: schemas of tools (`toolkit.tools`), and making one from tools (`toolkit.prompting.protocols`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from toolkit.errors import ConfigError
from toolkit.traces.json_text import loads

_SURROGATE = re.compile("[\ud800-\udfff]")


def request_schema(schema: Any) -> dict[str, Any] | None:
    """Read the schema of a request.

    Raises:
        ConfigError: it is no JSON Schema object.
    """
    if schema is None:
        return None
    if not isinstance(schema, Mapping):
        raise ConfigError(f"schema must be a JSON Schema as a dict, not {schema!r}.")
    try:
        text = json.dumps(schema, default=str)
        impossible = next(_impossible(schema), None)
    except (RecursionError, ValueError, TypeError) as error:  # too deep, holds itself, or a key that is no text
        raise ConfigError(f"schema is no JSON: {type(error).__name__}: {error}.") from None
    _validator(text)
    if impossible:
        raise ConfigError(f"schema allows nothing: {impossible[0]} is above {impossible[1]} in {text[:200]}.")
    return dict(schema)


def _impossible(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield pairs of bounds that leave nothing between them; llama.cpp hangs on such lengths."""
    if isinstance(schema, Mapping):
        for kind in ("Length", "Items", "Properties"):
            low, high = schema.get(f"min{kind}"), schema.get(f"max{kind}")
            if isinstance(low, int) and isinstance(high, int) and low > high:
                yield f"min{kind} {low}", f"max{kind} {high}"
    if isinstance(schema, Mapping | list):
        for inner in schema.values() if isinstance(schema, Mapping) else schema:
            yield from _impossible(inner)


_MOST_INLINED = 20_000  # parts; definitions that hold each other several times grow without bound


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with what its references lead to in their place, for servers that drop references.

    A definition that holds itself ends where it comes again, in its type alone. QUIRK mellea#911.
    """
    left = [_MOST_INLINED]

    def walk(node: Any, within: tuple[str, ...]) -> Any:
        left[0] -= 1
        if isinstance(node, list):
            return [walk(item, within) for item in node]
        if not isinstance(node, Mapping):
            return node
        ref, alone = node.get("$ref"), node.get("allOf")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if isinstance(ref, str) and (target := _pointed(schema, ref)) is not None and left[0] > 0:
            if ref in within:
                target = {key: target[key] for key in ("type", "description") if key in target}
            return {**walk(target, (*within, ref)), **walk(beside, within)}
        if isinstance(alone, list) and len(alone) == 1 and isinstance(alone[0], Mapping):
            rest = {key: value for key, value in beside.items() if key != "allOf"}
            return {**walk(alone[0], within), **walk(rest, within)}
        return {key: walk(value, within) for key, value in node.items()}

    root = {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}
    found = walk(root, ())
    return {**schema, **found} if left[0] <= 0 else dict(found)


def _pointed(root: Any, ref: str) -> Mapping[str, Any] | None:
    """Return the schema that a reference within a document leads to; None where it leads nowhere."""
    if not ref.startswith("#/"):
        return None
    for step in ref[2:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        root = root.get(name) if isinstance(root, Mapping) else None
    return root if isinstance(root, Mapping) else None


def _refuse(uri: str) -> Any:
    """Keep validators off the network."""
    raise ValueError(f"{uri} is not inside the schema")


@lru_cache(maxsize=256)  # a sweep sends few schemas many times
def _validator(schema: str) -> Any:
    import jsonschema_rs

    try:
        return jsonschema_rs.Draft202012Validator(json.loads(schema), retriever=_refuse)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise ConfigError(f"schema is no valid JSON Schema: {getattr(error, 'message', error)}") from None


def schema_problem(text: str, schema: Mapping[str, Any]) -> str:
    """Say how a text breaks a schema; empty if it does not.

    >>> schema_problem('{"n": 1}', {"type": "object", "required": ["n"]})
    ''
    >>> schema_problem('one', {"type": "object"})
    "The reply is no JSON: 'one'."
    """
    try:
        error = next(broken(loads(text), schema), None)
    except ValueError:
        return f"The reply is no JSON: {text[:80]!r}."
    if error is None:
        return ""
    place = "".join(f"[{step!r}]" for step in error.instance_path) or "the top level"
    return f"The reply breaks the schema at {place}: {error.message}"


def broken(value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the checker's errors, each with the keyword that the value breaks (`kind.name`) and its place.

    Raises:
        ConfigError: the schema is none.
        ValueError: JSON cannot hold the value.
    """
    # the checker takes no lone surrogate; one character for another, so that lengths stay
    value = json.loads(_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    yield from _validator(json.dumps(schema, default=str)).iter_errors(value)
