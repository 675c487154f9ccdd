"""Make the JSON Schema that constrained decoding is held to, and read an answer back out of such a reply.

A reply is one call `{"name": "…", "arguments": {…}}`, a list of calls, or `{"answer": "…"}`; a protocol may name
the two keys otherwise (`action`, `action_input`).
Not here: checking arguments before a call (`toolkit.execution`).
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from toolkit.errors import ConfigError, did_you_mean
from toolkit.tools import Tool

ANSWER = "answer"
MOST_PARALLEL = 8
Schema = dict[str, Any]


def check_tool_choice(tool_choice: str, tools: list[Tool]) -> None:
    """Check that a choice is "auto", "none", "any", or the name of an offered tool.

    Raises:
        ConfigError: it is none of these.
    """
    names = [tool.name for tool in tools]
    if tool_choice not in ("auto", "none", "any", *names):
        raise ConfigError(
            f"tool_choice {tool_choice!r} is neither auto, none, any nor an offered tool. "
            f"{did_you_mean(tool_choice, names)}"
        )
    if tool_choice == "any" and not tools:
        raise ConfigError("tool_choice 'any' needs at least one tool.")


def response_schema(
    tools: list[Tool],
    keys: tuple[str, str] = ("name", "arguments"),
    tool_choice: str = "auto",
    *,
    parallel: bool = True,
) -> Schema:
    """Return the schema of a whole reply.

    Args:
        tools: the tools offered.
        keys: how the name and the arguments of a call are called.
        tool_choice: "auto" allows calls and an answer, "none" an answer, "any" calls, a name calls of that tool.
        parallel: whether a list of two or more calls is allowed too.

    Raises:
        ConfigError: an unknown tool choice.
    """
    check_tool_choice(tool_choice, tools)
    chosen = [t for t in tools if tool_choice in ("auto", "any", t.name)]
    definitions: Schema = {}
    calls = [_call_schema(tool, keys, definitions) for tool in chosen]
    branches = list(calls)
    if parallel and calls:
        branches.append({"type": "array", "items": _any_of(calls), "minItems": 2, "maxItems": MOST_PARALLEL})
    if tool_choice in ("auto", "none"):
        branches.append(_object({ANSWER: {"type": "string"}}))
    schema = _any_of(branches)
    return {**schema, "$defs": definitions} if definitions else schema


def _any_of(branches: list[Schema]) -> Schema:
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _object(properties: Schema) -> Schema:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _call_schema(tool: Tool, keys: tuple[str, str], definitions: Schema) -> Schema:
    name, arguments = keys
    parameters = {**tool.parameters, "type": "object"}
    parameters.setdefault("properties", {})
    parameters.setdefault("additionalProperties", False)
    for key, value in parameters.pop("$defs", {}).items():
        definitions[f"{tool.name}.{key}"] = _rename_refs(value, tool.name)
    return _object({name: {"const": tool.name}, arguments: _rename_refs(parameters, tool.name)})


def _rename_refs(schema: Any, prefix: str) -> Any:
    """Point references at the root's definitions, under a name of this tool's own."""
    if isinstance(schema, list):
        return [_rename_refs(item, prefix) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"#/$defs/{prefix}.{value.removeprefix('#/$defs/')}"
        if key == "$ref" and isinstance(value, str) and value.startswith("#/$defs/")
        else _rename_refs(value, prefix)
        for key, value in schema.items()
    }


def answer_of(text: str, keys: tuple[str, str] = ("name", "arguments")) -> str:
    """Return the words under a constrained reply's answer key, or the text as it is.

    >>> answer_of('{"answer": "It is noon."}')
    'It is noon.'
    >>> answer_of("It is noon.")
    'It is noon.'
    """
    value: Any = None
    if text.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text)
    if not isinstance(value, dict):
        return text
    if set(value) == {ANSWER} and isinstance(value[ANSWER], str):
        return str(value[ANSWER])
    if str(value.get(keys[0])).casefold().replace("_", " ") == "final answer":
        return str(value.get(keys[1], ""))
    return text
