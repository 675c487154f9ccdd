"""Ask for an answer in a given shape: an artificial tool named after the schema, whose arguments are the answer.

Several schemas are alternatives: one tool each. A reply that is nothing but the JSON of an answer counts too.
Not here: decoding held to a schema (`toolkit.tools.schemas`); the constrained arm uses it for these tools too.
"""

from __future__ import annotations

import contextlib
import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any

from toolkit.agents.requests import ModelResponse
from toolkit.agents.wording import say
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.tools import Tool, as_tools, validator_for

_FENCED = re.compile(r"\s*(?:```(?:json)?\s*\n)?(\{.*\})\s*(?:```\s*)?", re.DOTALL)


@dataclass(frozen=True)
class ResponseTool:
    """Hold the tool that takes the answer, and what makes the value of its arguments.

    Attributes:
        tool: what the model is offered.
        build: function of the arguments that gives the value or raises.
    """

    tool: Tool
    build: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Answers:
    """Hold the tools of an answer's alternative shapes."""

    by_name: Mapping[str, ResponseTool]

    @classmethod
    def of(cls, response_format: Any) -> Answers:
        """Make them for a JSON Schema of an object, a pydantic model, a dataclass, a TypedDict, or several of these.

        Raises:
            ConfigError: it is none of these, or two shapes have one name.
        """
        union = typing.get_origin(response_format) in (typing.Union, UnionType)
        several = typing.get_args(response_format) if union else response_format
        found = [_response_tool(one) for one in (several if isinstance(several, (list, tuple)) else [several])]
        as_tools([one.tool for one in found])
        return cls({one.tool.name: one for one in found})

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return what the model is offered."""
        return tuple(one.tool for one in self.by_name.values())

    @property
    def names(self) -> str:
        """Return the tools' names as text."""
        return " or ".join(json.dumps(name, ensure_ascii=False) for name in self.by_name)

    def read(self, message: ChatMessage) -> ModelResponse:
        """Return the response for an assistant message: its answer taken, refused with a reason, or just itself."""
        calls = [call for call in message.tool_calls if call.tool_name in self.by_name]
        if not calls:
            return ModelResponse([message], None if message.tool_calls else self._written(message.text or ""))
        if len(calls) > 1:
            text = say("structured_many", name=" or ".join(self.by_name))
            return ModelResponse([message, *(ChatMessage.from_tool(text, call, error=True) for call in calls)])
        return self._take(message, calls[0])

    def _take(self, message: ChatMessage, call: ToolCall) -> ModelResponse:
        try:
            value = self.by_name[call.tool_name].build(call.arguments)
        except ValueError as error:
            text = say("structured_invalid", name=call.tool_name, reason=str(error))
            return ModelResponse([message, ChatMessage.from_tool(text, call, error=True)])
        text = say("structured_taken", value=call.arguments)
        return ModelResponse([message, ChatMessage.from_tool(text, call)], value)

    def _written(self, text: str) -> Any:
        """Return the answer that a text consists of, fenced or bare; None where it is another text."""
        whole = _FENCED.fullmatch(text)
        try:
            arguments = json.loads(whole[1]) if whole else None
        except (ValueError, RecursionError):
            return None
        if not arguments:
            return None
        for one in self.by_name.values():
            with contextlib.suppress(ValueError):
                return one.build(arguments)
        return None


def _response_tool(response_format: Any) -> ResponseTool:
    if isinstance(response_format, Mapping):
        return _from_schema(dict(response_format))
    if isinstance(response_format, type):
        return _from_type(response_format)
    raise ConfigError(f"response_format {response_format!r} is no JSON Schema, pydantic model, dataclass or TypedDict.")


def _from_schema(schema: dict[str, Any]) -> ResponseTool:
    from toolkit.execution.arguments import problems
    from toolkit.extraction.coerce import Coercion

    name = str(schema.pop("title", "answer"))
    description = str(schema.pop("description", "Give the final answer."))
    tool = Tool(name, description, schema)
    validator = validator_for(schema)

    def build(arguments: dict[str, Any]) -> dict[str, Any]:
        fitted = arguments if validator.is_valid(arguments) else Coercion(schema).arguments(arguments)
        if not validator.is_valid(fitted):
            raise ValueError("; ".join(problems(validator, fitted, schema)))
        return fitted

    return ResponseTool(tool, build)


def _from_type(kind: type) -> ResponseTool:
    import pydantic

    try:
        adapter: Any = pydantic.TypeAdapter(kind)
        schema = adapter.json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise ConfigError(f"response_format {kind!r} has no JSON Schema: {str(error).splitlines()[0]}") from None
    if schema.get("type") != "object":
        raise ConfigError(f"response_format {kind!r} must describe an object with fields; wrap it in a dataclass.")
    name = schema.pop("title", kind.__name__)
    tool = Tool(name, schema.pop("description", None) or "Give the final answer.", schema)

    def build(arguments: dict[str, Any]) -> Any:
        try:
            return adapter.validate_python(arguments)
        except pydantic.ValidationError as error:
            faults = [f"{'.'.join(map(str, e['loc'])) or kind.__name__}: {e['msg']}" for e in error.errors()]
            raise ValueError("; ".join(faults)) from None

    return ResponseTool(tool, build)
