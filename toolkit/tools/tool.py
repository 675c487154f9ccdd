"""Describe what a model may call: Tool, and `@tool` that makes one from a function.

A schema comes from the signature through pydantic and from the docstring through griffe, so Literal, lists,
nested models, defaults, Annotated and postponed annotations all survive. An explicit schema always wins
over the signature (Source: llm-ollama#69).

Not here: tools of other libraries (`toolkit.tools.reading`), running tools with validation, time limits and error
results (`toolkit.execution`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

from toolkit.errors import ConfigError, ToolInvocationError
from toolkit.tools.shown import safe_str, shown
from toolkit.tools.wiring import check_inputs, check_outputs, parameters_of

Effect = Literal["reads", "writes", "dangerous"]


@dataclass(frozen=True)
class Tool:
    """Describe one function that a model may call.

    Attributes:
        name: what the model writes.
        description: what the model reads.
        parameters: JSON Schema (draft 2020-12) of the arguments object.
        function: what runs; may be a coroutine function. None for a tool that is only shown, as in a case file.
        inputs_from_state: state key -> parameter, filled where the model gave no value. It is not required of it, and
            `from_function` does not show it at all.
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
            raise ConfigError(f"A tool needs a name; got {shown(self.name)}.")
        check_schema(self.parameters, self.name)
        if self.inputs_from_state or self.outputs_to_state or self.outputs_to_string:
            names = parameters_of(self.function) if self.function else None
            known = None if names is None and not self.properties else {*self.properties, *(names or ())}
            check_inputs(self.name, self.inputs_from_state or {}, known)
            check_outputs(self.name, self.outputs_to_state or {}, self.outputs_to_string or {})
        if self.inputs_from_state and self.required:
            needed = [name for name in self.required if name not in self.inputs_from_state.values()]
            object.__setattr__(self, "parameters", {**self.parameters, "required": needed})
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

        given = {"name": name or None, "description": description, **options}
        filled = (options.get("inputs_from_state") or {}).values()
        return cls(
            **describe(function, list(filled)) | {k: v for k, v in given.items() if v is not None}, function=function
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
        try:
            return self(**arguments)
        except ToolInvocationError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {safe_str(error)} (arguments {shown(arguments)})"
            raise ToolInvocationError(f"Tool {self.name!r} failed with {said}.") from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it had never been made a tool."""
        if self.function is None:
            raise ToolInvocationError(f"Tool {self.name!r} has no function, so it can be shown but not run.")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({repr(self.name)[1:-1]}({', '.join(map(str, self.properties))}))"


def check_schema(schema: Any, name: str) -> None:
    """Check that `schema` is a JSON Schema of an object.

    Raises:
        ConfigError: it is not; the message names the place.
    """
    if not isinstance(schema, Mapping):
        raise ConfigError(f"Parameters of tool {name!r} must be a JSON Schema object, not {shown(schema)}.")
    if schema.get("type", "object") != "object":
        raise ConfigError(f"Parameters of tool {name!r} must have type 'object', not {shown(schema['type'])}.")
    try:
        validator_for(schema)
    except Exception as error:  # ValidationError, ReferencingError, and what a fetch would have raised
        reason = getattr(error, "message", None) or safe_str(error)
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
