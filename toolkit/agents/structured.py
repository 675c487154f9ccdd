"""Ask for an answer in a given shape: an artificial tool named after the schema, whose arguments are the answer.

Not here: decoding held to a schema (`toolkit.tools.schemas`); the constrained arm uses it for this tool as for others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.agents.requests import ModelResponse
from toolkit.agents.wording import say
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.tools import Tool, validator_for


@dataclass(frozen=True)
class ResponseTool:
    """Hold the tool that takes the answer, and what makes the value of its arguments.

    Attributes:
        tool: what the model is offered.
        build: function of the arguments that gives the value or raises.
    """

    tool: Tool
    build: Callable[[dict[str, Any]], Any]

    def read(self, message: ChatMessage) -> ModelResponse:
        """Return the response for an assistant message: its answer taken, refused with a reason, or just itself."""
        calls = [call for call in message.tool_calls if call.tool_name == self.tool.name]
        if not calls:
            return ModelResponse([message])
        if len(calls) > 1:
            text = say("structured_many", name=self.tool.name)
            return ModelResponse([message, *(ChatMessage.from_tool(text, call, error=True) for call in calls)])
        return self._take(message, calls[0])

    def _take(self, message: ChatMessage, call: ToolCall) -> ModelResponse:
        try:
            value = self.build(call.arguments)
        except ValueError as error:
            text = say("structured_invalid", name=self.tool.name, reason=str(error))
            return ModelResponse([message, ChatMessage.from_tool(text, call, error=True)])
        text = say("structured_taken", value=call.arguments)
        return ModelResponse([message, ChatMessage.from_tool(text, call)], value)


def response_tool(response_format: Any) -> ResponseTool:
    """Make the tool for a JSON Schema of an object, a pydantic model, a dataclass or a TypedDict.

    Raises:
        ConfigError: it is none of these.
    """
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
