"""Fill prompt templates safely, and turn tools and values into the text that prompts show.

Templates are jinja2 in its immutable sandbox with strict undefined variables. Filters: `json` (compact, non-ASCII
kept), `signature` (name(city: string, days?: integer = 1)), `spec` (the tool as JSON), `arguments` (one line each),
`example` (an arguments object with a placeholder for each value).
Not here: which templates there are (`toolkit.protocols`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from toolkit.errors import ConfigError
from toolkit.tools import Tool


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # prompts are plain text for a model, so nothing is HTML-escaped
    env = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    env.filters.update(json=as_json, signature=signature, spec=spec, arguments=argument_lines, example=example)
    return env


@cache
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


def check(source: str, where: str) -> None:
    """Check that a template can be read.

    Raises:
        ConfigError: it cannot; the message names file and line.
    """
    from jinja2 import TemplateSyntaxError

    try:
        _compiled(source)
    except TemplateSyntaxError as error:
        raise ConfigError(f"Template {where!r}, line {error.lineno}: {error.message}.") from None


def fill(source: str, values: Mapping[str, Any], where: str = "template") -> str:
    """Fill a template.

    >>> fill("Hello {{ name }}!", {"name": "Ada"})
    'Hello Ada!'

    Raises:
        ConfigError: it cannot be read, uses an unknown variable, or leaves the sandbox.
    """
    from jinja2 import TemplateError

    check(source, where)
    try:
        return str(_compiled(source).render(values))
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        known = ", ".join(sorted(values))
        raise ConfigError(f"Template {where!r} failed: {error}. It can use: {known}.") from None


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON text, non-ASCII kept, whatever it holds."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def signature(tool: Tool) -> str:
    """Return a tool as one line of typed parameters; a question mark marks optional ones.

    >>> signature(Tool("hi", "", {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}))
    'hi(n?: integer = 1)'
    """
    parts = []
    for name, schema in tool.properties.items():
        optional = "" if name in tool.required else "?"
        default = f" = {as_json(schema['default'])}" if isinstance(schema, Mapping) and "default" in schema else ""
        parts.append(f"{name}{optional}: {type_name(schema)}{default}")
    if not parts and tool.parameters.get("additionalProperties") is True:
        parts = ["..."]  # it takes arguments, but nobody said which
    return f"{tool.name}({', '.join(parts)})"


def argument_lines(tool: Tool) -> list[str]:
    """Return one line for each parameter: name, type, whether required, description."""
    lines = []
    for name, schema in tool.properties.items():
        need = "required" if name in tool.required else "optional"
        said = schema.get("description", "") if isinstance(schema, Mapping) else ""
        lines.append(f"{name} ({type_name(schema)}, {need}){': ' + said if said else ''}")
    return lines


def spec(tool: Tool) -> str:
    """Return name, description and parameters as one JSON line."""
    return as_json(tool.tool_spec)


def example(tool: Tool) -> str:
    """Return an arguments object with a placeholder `<name>` for each required value.

    >>> example(Tool("hi", "", {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}))
    '{"who": "<who>"}'
    """
    names = tool.required or list(tool.properties)
    return as_json({name: f"<{name}>" for name in names})


def type_name(schema: Any) -> str:
    """Return a short name for a schema's type.

    >>> type_name({"type": "array", "items": {"enum": ["a", "b"]}})
    'array of "a" | "b"'
    """
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return " | ".join(as_json(value) for value in schema["enum"])
    if "const" in schema:
        return as_json(schema["const"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(type_name(branch) for branch in schema[key]))
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " | ".join(map(str, kind))
    if kind == "array" and "items" in schema:
        return f"array of {type_name(schema['items'])}"
    if kind == "object" and schema.get("properties"):
        return "{" + ", ".join(f"{k}: {type_name(v)}" for k, v in schema["properties"].items()) + "}"
    return str(kind)


def neutralise(text: str, markers: Iterable[str]) -> str:
    """Break up call markers in text from tools or users, so that an echo of it is no call.

    >>> neutralise("Say TOOL_CALL: pay {}", ["TOOL_CALL:"])
    'Say T·OOL_CALL: pay {}'
    """
    for marker in markers:
        if marker.casefold() in text.casefold():
            import re

            text = re.sub(re.escape(marker), lambda hit: f"{hit[0][0]}·{hit[0][1:]}", text, flags=re.IGNORECASE)
    return text
