"""Write tools and messages as Ollama takes them, and tell what of a tool reaches the model.

It keeps a few keywords of a tool's schema and drops the others in silence.

    tools_as_kept(specs)    what its templates get
    lost_keywords(specs)    what never gets there, by its place

The text that a model reads of them is `ChatModel.tools_seen`.

Source: ollama#17142, ollama#13472.

Not here: writing what is lost into the description (`toolkit.prompting.bounds`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolkit.messages import ChatMessage, ChatRole, to_openai
from toolkit.models.patterns import for_grammar
from toolkit.models.schemas import inlined

_TOP = ("type", "$defs", "items", "required", "properties")
_PROPERTY = ("anyOf", "type", "items", "description", "enum", "properties", "required")
_SAYS_NOTHING = ("title", "$schema", "$id", "$comment", "$defs", "definitions", "strict")
Schema = Mapping[str, Any]


def plain_parameters(parameters: Schema) -> dict[str, Any]:
    """Return the parameters of a tool in the keywords that Ollama keeps, as far as these can say the same.

    References are resolved, `const` is an `enum` of one, `oneOf` is an `anyOf`. Parameters without type or properties
    make llama.cpp refuse all tools (Source: ollama-vscode#67).
    """
    found: dict[str, Any] = {"type": "object", "properties": {}, **parameters}
    if '"$ref"' in (text := json.dumps(found, default=str)) or '"allOf"' in text:
        found = inlined(found)
    return dict(_reworded(found))


def _reworded(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_reworded(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    same = {"oneOf": "anyOf", "const": "enum"}
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            found[key] = {name: _reworded(one) for name, one in value.items()} if isinstance(value, Mapping) else value
        elif key in same and same[key] not in schema:
            found[same[key]] = [value] if key == "const" else _reworded(value)
        else:
            found[key] = value if key in ("enum", "default", "examples", "const") else _reworded(value)
    return found


def tools_as_kept(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tools, given as name, description and parameters, as Ollama hands them to a template."""
    kept = []
    for spec in specs:
        parameters = plain_parameters(spec.get("parameters") or {})
        top = {key: parameters[key] for key in _TOP if key in parameters}
        top["properties"] = {name: _kept(one) for name, one in _properties(parameters).items()}
        kept.append({key: spec[key] for key in ("name", "description") if spec.get(key)} | {"parameters": top})
    return kept


def _properties(schema: Schema) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _kept(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    found = {key: schema[key] for key in _PROPERTY if key in schema}
    if isinstance(found.get("anyOf"), list):
        found["anyOf"] = list(map(_kept, found["anyOf"]))
    if "properties" in found:
        found["properties"] = {name: _kept(one) for name, one in _properties(schema).items()}
    return found


def lost_keywords(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what of some tools never reaches the model, each as `tool.parameter.keyword`.

    >>> days = {"type": "integer", "minimum": 1, "description": "How many."}
    >>> lost_keywords([{"name": "weather", "parameters": {"type": "object", "properties": {"days": days}}}])
    ['weather.days.minimum']
    """
    found: list[str] = []
    for spec in specs:
        sent = plain_parameters(spec.get("parameters") or {})
        found += [f"{spec['name']}.{key}" for key in lost_of(sent, _TOP)]
        found += (f"{spec['name']}.{place}" for place in _lost_within(sent))
    return found


def lost_of(schema: Schema, kept: Sequence[str] = _PROPERTY) -> dict[str, Any]:
    """Return the keywords of one schema that are dropped, and that say something."""
    lost = {key: value for key, value in schema.items() if key not in kept and key not in _SAYS_NOTHING}
    if isinstance(lost.get("additionalProperties"), bool):  # the way it is taken anyhow
        del lost["additionalProperties"]
    return lost


def _lost_within(schema: Schema) -> Iterator[str]:
    for name, one in _properties(schema).items():
        if isinstance(one, Mapping):
            yield from (f"{name}.{key}" for key in lost_of(one))
            yield from (f"{name}.{place}" for place in _lost_within(one))
            for number, branch in enumerate(one.get("anyOf") or ()):
                if isinstance(branch, Mapping):
                    yield from (f"{name}.anyOf[{number}].{key}" for key in lost_of(branch))
                    yield from (f"{name}.anyOf[{number}].{place}" for place in _lost_within(branch))


def wire_tool(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as Ollama shows it whole: it drops keywords, and refuses some patterns within lists."""
    function = spec["function"]
    parameters = for_grammar(plain_parameters(function.get("parameters") or {}), "drop")
    return {**spec, "function": {**function, "parameters": parameters}}


def to_ollama(message: ChatMessage) -> list[dict[str, Any]]:
    """Return a message in Ollama's wire form: arguments as an object, results under `tool_name`."""
    wires = to_openai(message)
    if message.role is ChatRole.TOOL:
        for wire in wires:
            wire["tool_name"] = wire.pop("name")
    if message.images:
        wires[0]["content"] = "\n".join(message.texts)
        wires[0]["images"] = [image.base64_image for image in message.images]
    if "reasoning_content" in wires[0]:
        wires[0]["thinking"] = wires[0].pop("reasoning_content")
    if message.tool_calls:
        wires[0]["tool_calls"] = [
            {"id": call.id or "", "function": {"name": call.tool_name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return wires
