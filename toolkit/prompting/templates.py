"""Fill prompt templates safely, and turn tools and values into the text that prompts show.

Templates are jinja2 in its immutable sandbox with strict undefined variables. They see plain data only: a tool is
its name, description and schema, never the function behind it, and nothing but text and list methods can be
called. Repetition is bounded. Filters: `json` (compact, non-ASCII
kept), `signature` (name(city: string, days?: integer = 1)), `spec` (the tool as JSON), `arguments` (one line each),
`example` (an arguments object with a placeholder for each value).
Not here: which templates there are (`toolkit.prompting.protocols`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from typing import Any

from toolkit.errors import ConfigError
from toolkit.messages import ToolCall
from toolkit.prompting import sandbox
from toolkit.tools import Tool

_TO_JSON = "to json"  # no template can name it


@dataclass(frozen=True, slots=True)
class ShownTool:
    """Hold what a template may know of a tool: no function, nothing to call."""

    name: str
    description: str
    parameters: dict[str, Any]

    @property
    def properties(self) -> dict[str, Any]:
        """Return the schema of each parameter."""
        return self.parameters.get("properties") or {}

    @property
    def required(self) -> list[str]:
        """Return the names of the parameters that a call must give."""
        return list(self.parameters.get("required", ()))


def plain(value: Any) -> Any:
    """Turn a value into plain data that a template cannot do anything with but show."""
    if value is None or isinstance(value, (str, int, float, ShownTool)):
        return value
    if isinstance(value, Tool):
        return ShownTool(value.name, value.description, value.parameters)
    if isinstance(value, ToolCall):
        return plain(ToolCall.to_dict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _public_names(type(value))}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


@cache
def _public_names(kind: type) -> tuple[str, ...]:
    """Return a dataclass's fields and properties whose names have no leading underscore."""
    own = [name for name, value in vars(kind).items() if isinstance(value, (property, cached_property))]
    return tuple(name for name in [*(item.name for item in fields(kind)), *own] if not name.startswith("_"))


@cache
def _environment() -> Any:
    from jinja2 import pass_context

    own = {"signature": signature, "spec": spec, "arguments": argument_lines, "example": example}
    return sandbox.environment({**own, "json": pass_context(_json)})


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
    except (ValueError, TypeError, ArithmeticError, RecursionError, SyntaxError, MemoryError) as error:
        # what stands too deep, or counts too high, for the compiler
        raise ConfigError(f"Template {where!r} cannot be read: {type(error).__name__}: {error}.") from None


def fill(
    source: str, values: Mapping[str, Any], where: str = "template", to_json: Callable[[Any], str] | None = None
) -> str:
    """Fill a template; `to_json` is what its filter `json` does, where that is more than `as_json`.

    >>> fill("Hello {{ name }}!", {"name": "Ada"})
    'Hello Ada!'

    Raises:
        ConfigError: it cannot be read, uses an unknown variable, or leaves the sandbox.
    """
    from jinja2 import TemplateError

    check(source, where)
    try:
        plain_values = {name: plain(value) for name, value in values.items()}
        return str(_compiled(source).render({**plain_values, "range": sandbox.Rounds(), _TO_JSON: to_json}))
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RuntimeError) as error:
        known = ", ".join(sorted(values))  # RecursionError is a RuntimeError
        raise ConfigError(f"Template {where!r} failed: {error}. It can use: {known}.") from None
    except MemoryError:
        raise ConfigError(f"Template {where!r} failed: it makes more text than fits into memory.") from None


def _json(context: Any, value: Any, indent: int | None = None) -> str:
    """Return a value as JSON text, the way that the template's caller asked for."""
    to_json: Callable[[Any], str] | None = context.get(_TO_JSON)
    return as_json(value, indent) if to_json is None else to_json(value)


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON text, non-ASCII kept, whatever it holds."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    except (RecursionError, ValueError):  # it is nested too deeply, or holds itself
        return '"(nested too deeply to show)"'


def signature(tool: Tool | ShownTool) -> str:
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


def argument_lines(tool: Tool | ShownTool) -> list[str]:
    """Return one line for each parameter: name, type, whether required, description."""
    lines = []
    for name, schema in tool.properties.items():
        need = "required" if name in tool.required else "optional"
        said = schema.get("description", "") if isinstance(schema, Mapping) else ""
        lines.append(f"{name} ({type_name(schema)}, {need}){': ' + said if said else ''}")
    return lines


def spec(tool: Tool | ShownTool) -> str:
    """Return name, description and parameters as one JSON line."""
    return as_json({"name": tool.name, "description": tool.description, "parameters": tool.parameters})


def example(tool: Tool | ShownTool) -> str:
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
