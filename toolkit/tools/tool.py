"""Describe what a model may call: Tool, Toolset, and `@tool` that makes one from a function.

A schema comes from the signature through pydantic and from the docstring through griffe, so Literal, lists,
nested models, defaults, Annotated and postponed annotations all survive. An explicit schema always wins
over the signature (Source: llm-ollama#69).

Not here: running tools with validation, time limits and error results (`toolkit.execution`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from toolkit.errors import ConfigError, ToolInvocationError

if TYPE_CHECKING:
    from toolkit.execution.mcp import McpToolset

Effect = Literal["reads", "writes", "dangerous"]


@dataclass(frozen=True)
class Tool:
    """Describe one function that a model may call.

    Attributes:
        name: what the model writes.
        description: what the model reads.
        parameters: JSON Schema (draft 2020-12) of the arguments object.
        function: what runs; may be a coroutine function. None for a tool that is only shown, as in a case file.
        inputs_from_state: state key -> parameter, filled only where the model gave no value.
        outputs_to_state: state key -> {"source": key of the result, "handler": merge function}.
        outputs_to_string: {"source": key, "handler": function, "raw_result": bool}.
        timeout_s: seconds after which a call is given up; None waits. See `ToolInvoker` for coroutines that block.
        effect: `reads`, `writes` or `dangerous`; dangerous tools can be held for approval.
        return_direct: in an agent, the result is the answer; the model is not asked again.

    Raises:
        ConfigError: an empty name, a schema that is no JSON Schema, or state and text settings that cannot work.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    function: Callable[..., Any] | None = None
    inputs_from_state: dict[str, str] | None = None
    outputs_to_state: dict[str, dict[str, Any]] | None = None
    outputs_to_string: dict[str, Any] | None = None
    timeout_s: float | None = None
    effect: Effect = "reads"
    return_direct: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(f"A tool needs a name; got {self.name!r}.")
        check_schema(self.parameters, self.name)
        if self.inputs_from_state or self.outputs_to_state or self.outputs_to_string:
            from toolkit.tools.wiring import check_wiring

            check_wiring(self)
        if self.effect not in get_args(Effect):
            raise ConfigError(f"effect of tool {self.name!r} must be one of {get_args(Effect)}, not {self.effect!r}.")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ConfigError(f"timeout_s of tool {self.name!r} must be above 0 or None, not {self.timeout_s!r}.")

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], name: str | None = None, description: str | None = None, **options: Any
    ) -> Tool:
        """Make a tool from a typed function.

        Args:
            function: sync or async; every parameter needs a type.
            name: another name than the function's.
            description: another text than the docstring's.
            options: further fields of Tool, such as `timeout_s` or `effect`.

        Raises:
            ConfigError: a parameter has no type, or its type has no JSON Schema.
        """
        from toolkit.tools.signatures import describe

        found = describe(function)
        return cls(
            name or found.name,
            found.description if description is None else description,
            options.pop("parameters", None) or found.parameters,
            function,
            **options,
        )

    @property
    def tool_spec(self) -> dict[str, Any]:
        """Return name, description and parameters: what a model is shown."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    @property
    def required(self) -> list[str]:
        """Return the names of the parameters that a call must give."""
        return list(self.parameters.get("required", ()))

    @property
    def properties(self) -> dict[str, Any]:
        """Return the schema of each parameter."""
        return self.parameters.get("properties") or {}

    def invoke(self, **arguments: Any) -> Any:
        """Run the function as it is, without validation; `ToolInvoker` validates.

        Raises:
            ToolInvocationError: the function raised, or there is none.
        """
        if self.function is None:
            raise ToolInvocationError(f"Tool {self.name!r} has no function, so it can be shown but not run.")
        try:
            return self.function(**arguments)
        except Exception as error:
            raise ToolInvocationError(
                f"Tool {self.name!r} failed with {type(error).__name__}: {error} (arguments {arguments!r})."
            ) from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it had never been made a tool."""
        if self.function is None:
            raise ToolInvocationError(f"Tool {self.name!r} has no function, so it can be shown but not run.")
        return self.function(*args, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """Return the tool as plain JSON data, functions by import path.

        Raises:
            ConfigError: a function without an import path, such as a lambda.
        """
        from toolkit.tools.wiring import tool_to_dict

        return tool_to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tool:
        """Build a tool from what `to_dict` gave.

        This imports the modules that the data names, which runs them. Read only files you trust.

        Raises:
            ConfigError: a path that names no function.
        """
        from toolkit.tools.wiring import tool_fields

        return cls(**tool_fields(data))

    @property
    def is_async(self) -> bool:
        """Tell whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    def __repr__(self) -> str:
        return f"Tool({self.name}({', '.join(self.properties)}))"


def check_schema(schema: Any, name: str) -> None:
    """Check that `schema` is a JSON Schema of an object.

    Raises:
        ConfigError: it is not; the message names the place.
    """
    if not isinstance(schema, Mapping):
        raise ConfigError(f"Parameters of tool {name!r} must be a JSON Schema object, not {schema!r}.")
    if schema.get("type", "object") != "object":
        raise ConfigError(f"Parameters of tool {name!r} must have type 'object', not {schema['type']!r}.")
    try:
        validator_for(schema)
    except Exception as error:  # ValidationError, ReferencingError, and what a fetch would have raised
        reason = getattr(error, "message", str(error))
        raise ConfigError(f"Parameters of tool {name!r} are no valid JSON Schema: {reason}") from None


def validator_for(schema: Mapping[str, Any]) -> Any:
    """Return the compiled validator of a schema; a reference to another document is never fetched.

    Raises:
        ValueError: it is no JSON Schema, or refers to another document.
    """
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(dict(schema), retriever=_refuse)


def _refuse(uri: str) -> Any:
    raise ValueError(f"reference to {uri!r} leads out of the schema; put it under $defs")


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool from the function below; usable bare or with `name=`, `description=`, `timeout_s=`, `effect=`.

    >>> @tool
    ... def weather(city: str, days: int = 1) -> str:
    ...     '''Tell the weather of a city.'''
    ...     return f"{city}: sun"
    >>> weather
    Tool(weather(city, days))
    >>> weather("Oslo")
    'Oslo: sun'
    """
    if function is not None:
        return Tool.from_function(function)
    return lambda target: Tool.from_function(target, **options)


@dataclass(frozen=True)
class Toolset:
    """Group tools under unique names; list-like.

    Raises:
        ConfigError: two tools share a name, or something in it is no tool.
    """

    tools: tuple[Tool, ...] = field(default=())

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        object.__setattr__(self, "tools", tuple(as_tools(tools)))

    @classmethod
    def from_openapi(
        cls,
        spec: Any,
        credentials: Any = None,
        allowed_operations: Iterable[str] | None = None,
        **options: Any,
    ) -> Toolset:
        """Make one tool of each operation of a REST API; DELETE is marked dangerous.

        Args:
            spec: OpenAPI 3 document as URL, path, dict or text.
            credentials: a Secret, or {security scheme: Secret}.
            allowed_operations: operationIds that may be called; None allows all.
            options: `server`, `credential_hosts`, `timeout_s`, `max_response_bytes`.

        Raises:
            ConfigError: the document, an operation name or a credential cannot be used.
        """
        from toolkit.execution.openapi.service import openapi_tools

        given = {"credentials": credentials, "allowed_operations": allowed_operations, **options}
        return cls(openapi_tools(spec, **given))

    @classmethod
    def from_mcp(cls, command: Any = None, *, url: str | None = None, **options: Any) -> McpToolset:
        """Make one tool of each tool of an MCP server; close the toolset, or use it in a `with` block.

        Args:
            command: program and arguments of a server to start (stdio), such as ["python", "server.py"].
            url: address of a running server (streamable HTTP).
            options: `prefix`, `allowed_tools`, `env`, `cwd`, `headers`, `timeout_s`.

        Raises:
            ConfigError: neither or both of command and url.
            UserError: the server cannot be used, or the package `mcp` is missing.
        """
        from toolkit.execution.mcp import mcp_toolset

        return mcp_toolset(command, url=url, **options)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, item: object) -> bool:
        return any(item in (tool.name, tool) for tool in self.tools)

    def __getitem__(self, key: str | int) -> Tool:
        if isinstance(key, int):
            return self.tools[key]
        found = next((tool for tool in self.tools if tool.name == key), None)
        if found is None:
            raise KeyError(key)
        return found

    def __add__(self, other: Any) -> Toolset:
        return Toolset([*self, *([other] if isinstance(other, Tool) else as_tools(other))])

    def to_dict(self) -> dict[str, Any]:
        """Return the tools as plain JSON data; see `Tool.to_dict`."""
        return {"tools": [tool.to_dict() for tool in self.tools]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Toolset:
        """Build a toolset from what `to_dict` gave; read only files you trust, see `Tool.from_dict`."""
        return cls([Tool.from_dict(tool) for tool in data["tools"]])

    @property
    def names(self) -> list[str]:
        """Return the names, in order."""
        return [tool.name for tool in self.tools]

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self.names)})"


def as_tool(value: Any) -> Tool:
    """Read anything that stands for a tool: a Tool, a function, `tool_spec`'s dict, or OpenAI's wrapper of it.

    >>> as_tool({"type": "function", "function": {"name": "now", "description": "Tell the time."}})
    Tool(now())

    Raises:
        ConfigError: none of these.
    """
    if isinstance(value, Tool):
        return value
    if isinstance(value, Mapping):
        inner = value.get("function")
        spec = inner if isinstance(inner, Mapping) else value
        if isinstance(spec.get("name"), str):
            parameters = spec.get("parameters") or spec.get("input_schema") or {"type": "object", "properties": {}}
            return Tool(spec["name"], spec.get("description") or "", dict(parameters))
    if callable(value):
        return Tool.from_function(value)
    raise ConfigError(f"{value!r} is no tool. Give a Tool, a typed function, or a dict with name and parameters.")


def as_tools(value: Iterable[Any] | None) -> list[Tool]:
    """Read a list of tools, toolsets, functions and dicts.

    Raises:
        ConfigError: something in it is no tool, it is one bare tool, or two share a name.
    """
    if isinstance(value, (Tool, str, Mapping)) or (callable(value) and not isinstance(value, Iterable)):
        raise ConfigError(f"Expected a list of tools, got {value!r}. Put it in brackets.")
    if value is not None and not isinstance(value, Iterable):
        raise ConfigError(f"Expected a list of tools, got {value!r}.")
    tools: list[Tool] = []
    for item in value or ():
        tools.extend(item.tools if isinstance(item, Toolset) else [as_tool(item)])
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"Tool names must be unique; given more than once: {', '.join(map(repr, twice))}.")
    return tools
