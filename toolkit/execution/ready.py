"""Make a tool ready to be called: everything that is the same for each call is worked out once.

Not here: the calls themselves (`toolkit.execution.invoker`).
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.errors import ConfigError, ToolArgumentsError, ToolNotFoundException, did_you_mean
from toolkit.execution.arguments import as_object, copied, path_of, problems, refusal, unknown_names
from toolkit.execution.state import State
from toolkit.messages import ToolCall
from toolkit.tools import Tool, validator_for
from toolkit.tools.injected import injected_type
from toolkit.tools.shown import safe_str, shown
from toolkit.tools.signatures import has_schema, resolved_hints
from toolkit.tools.wiring import parameters_of

_AS_IS = frozenset((str, int, bool, type(None)))
_PLAIN = (str, int, float, bool, dict, list, object, type(None), Any)


@dataclass(frozen=True, slots=True)
class ReadyTool:
    """Hold one tool and what its calls need."""

    tool: Tool
    function: Callable[..., Any]
    validator: Any
    is_valid: Callable[[Any], bool]  # the validator's fast yes or no
    accepted: frozenset[str] | None  # names the function takes; None where it takes any
    integers: tuple[str, ...]  # parameters typed int, for which JSON may say 3.0
    injected: dict[str, Any]  # parameter -> what gives it, such as the live State
    takes_callback: bool  # whether it has a parameter `streaming_callback`
    simple: bool  # checked arguments can be passed on as they are
    converters: dict[str, Any]  # parameter -> pydantic adapter that makes the Python object its type asks for
    defaults: dict[str, Any]  # parameter -> pydantic `Field(…)` default

    def checked(self, arguments: Any) -> dict[str, Any]:
        """Return the model's arguments as a dict that fits the schema, for the tool to keep and change.

        Raises:
            ToolArgumentsError: they do not fit; the message lists field, expected, got.
        """
        if type(arguments) is not dict:
            arguments = as_object(arguments, self.tool.name)
        given: dict[str, Any] = arguments  # a function call makes its own dict of names
        for value in given.values():
            if type(value) not in _AS_IS:
                given = arguments = self._own(given)  # before it is checked: that cannot bear any depth
                break
        try:
            fits = self.is_valid(given)
        except ValueError:  # a Python object that JSON cannot hold
            fits = False
        accepted = self.accepted
        if fits and (accepted is None or given.keys() <= accepted):
            return given
        found = [] if fits else problems(self.validator, arguments, self.tool.parameters)
        if accepted is not None:
            found += unknown_names([name for name in arguments if name not in accepted], sorted(accepted))
        raise refusal(self.tool.name, list(dict.fromkeys(found)))

    def _own(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments whose lists and objects are not the call's own, so that a tool cannot rewrite history."""
        try:
            given = {name: copied(value) for name, value in arguments.items()}
        except RecursionError:
            raise refusal(self.tool.name, ["arguments: expected fewer levels of nesting"]) from None
        for name in self.integers:
            value = given.get(name)
            if type(value) is float and value.is_integer():
                given[name] = int(value)
        return given

    def keywords(self, arguments: dict[str, Any], state: State | None, call: ToolCall | None = None) -> dict[str, Any]:
        """Return what the function is called with: arguments, values from the state, Python objects.

        Raises:
            ToolArgumentsError: a value is missing from the state, or is none that the type accepts.
        """
        given = arguments.copy()
        for name, adapter in self.converters.items():
            if name in given:
                given[name] = _object(adapter, name, given[name], self.tool.name)
        for name, field in self.defaults.items():
            if name not in given:
                given[name] = field.get_default(call_default_factory=True)
        if self.tool.inputs_from_state:
            _fill(given, self.tool, state)
        for name, kind in self.injected.items():
            given[name] = kind.for_tool(state, call)
        return given

    @property
    def shares_state(self) -> bool:
        """Tell whether the tool touches the state at all."""
        return bool(self.tool.inputs_from_state or self.tool.outputs_to_state or self.injected)


def tool_of(ready: Mapping[str, ReadyTool], call: ToolCall) -> ReadyTool:
    """Return the tool that a call means.

    Raises:
        ToolNotFoundException: it was not offered; the message names near and known tools.
    """
    name = call.tool_name
    found = ready.get(name) if isinstance(name, str) else None
    if found is None:
        said = name if isinstance(name, str) else shown(name)
        raise ToolNotFoundException(f"No tool is called {said!r}. {did_you_mean(said, ready)}")
    return found


def make_ready(tool: Tool) -> ReadyTool:
    """Compile the schema and read the signature of a tool.

    Raises:
        ConfigError: the tool has no function to run.
    """
    function = tool.function
    if function is None:
        raise ConfigError(f"Tool {tool.name!r} has no function, so it can be shown but not run. Give function=.")
    validator = validator_for(tool.parameters)
    parameters = parameters_of(function)
    hints = _hints(function)
    injected = {name: kind for name, hint in hints.items() if (kind := injected_type(hint))}
    integers = tuple(name for name, hint in hints.items() if hint is int or int in typing.get_args(hint))
    converters, defaults = _converters(hints), _defaults(parameters)
    return ReadyTool(
        tool=tool,
        function=function,
        validator=validator,
        is_valid=validator.is_valid,
        accepted=_accepted(parameters, {*injected, *_not_for_models(tool, hints)}),
        integers=integers,
        injected=injected,
        takes_callback="streaming_callback" in (parameters or ()),
        simple=not (converters or defaults or tool.inputs_from_state or injected),
        converters=converters,
        defaults=defaults,
    )


def _not_for_models(tool: Tool, hints: Mapping[str, Any]) -> list[str]:
    """Return the parameters that are not shown because no model can write their type, such as a callback."""
    return [name for name, hint in hints.items() if name not in tool.properties and not has_schema(hint)]


def _accepted(parameters: dict[str, inspect.Parameter] | None, injected: Collection[str]) -> frozenset[str] | None:
    if parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    named = (p for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    return frozenset(p.name for p in named if p.name not in injected)


def _hints(function: Any) -> dict[str, Any]:
    """Return the resolved types of the parameters; none where they cannot be resolved."""
    with contextlib.suppress(Exception):
        hints = resolved_hints(function, getattr(function, "__name__", "function"))
        return {name: hint for name, hint in hints.items() if name != "return"}
    return {}


def _converters(hints: dict[str, Any]) -> dict[str, Any]:
    """Return what makes Python objects of arguments, for the parameters whose types are none of JSON's own."""
    found = {}
    for name, hint in hints.items():
        if _is_object(hint) and not injected_type(hint):
            import pydantic

            # a class of the user's own has none; an explicit schema stands in for it
            with contextlib.suppress(pydantic.errors.PydanticUserError):
                found[name] = pydantic.TypeAdapter(hint)
    return found


def _is_object(hint: Any) -> bool:
    """Tell whether a type needs Python objects that JSON lacks: models, enums, dates, sets, tuples."""
    origin = typing.get_origin(hint)
    if hint in _PLAIN or isinstance(hint, (str, int, typing.TypeVar)) or typing.Literal in (hint, origin):
        return False
    if origin is typing.Annotated:
        return _is_object(typing.get_args(hint)[0])
    if origin is None:
        return isinstance(hint, type)
    inner = [arg for arg in typing.get_args(hint) if arg is not Ellipsis]
    return (isinstance(origin, type) and origin in (set, frozenset, tuple)) or any(map(_is_object, inner))


def _object(adapter: Any, name: str, value: Any, tool: str) -> Any:
    """Return one argument as the object that the signature names."""
    import pydantic

    try:
        return adapter.validate_python(value)
    except pydantic.ValidationError as error:
        lines = [f"{path_of((name, *e['loc']))}: expected {_lower(e)}, got {shown(e['input'])}" for e in error.errors()]
        raise refusal(tool, lines) from None
    except Exception as error:  # a validator of the user's own may raise anything
        said = f"{type(error).__name__}: {safe_str(error)}"
        raise refusal(tool, [f"{name}: expected a value its type accepts ({said}), got {shown(value)}"]) from error


def _defaults(parameters: dict[str, inspect.Parameter] | None) -> dict[str, Any]:
    """Return the defaults that are written as pydantic's `Field(…)`, which Python alone would pass on as they are."""
    fields = {n: p.default for n, p in (parameters or {}).items() if type(p.default).__name__ == "FieldInfo"}
    return {name: field for name, field in fields.items() if not field.is_required()}


def _lower(error: Any) -> str:
    return str(error["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")


def _fill(given: dict[str, Any], tool: Tool, state: State | None) -> None:
    """Put values from the state where the model gave none; the model wins."""
    for key, parameter in (tool.inputs_from_state or {}).items():
        if parameter in given:
            continue
        if state is not None and state.has(key):
            given[parameter] = state.get(key)
        elif _is_needed(tool, parameter):
            raise ToolArgumentsError(
                f"Arguments of {tool.name!r} do not fit: {parameter}: expected a value "
                f"(the state has no {key!r} yet), got none. Nothing was run."
            )


def _is_needed(tool: Tool, parameter: str) -> bool:
    found = (parameters_of(tool.function) or {}).get(parameter) if tool.function else None
    return found is not None and found.default is found.empty
