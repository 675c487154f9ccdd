"""Read a tool's schema off a typed function: types through pydantic, words through griffe.

Not here: the Tool itself (`toolkit.tools`).
"""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable
from typing import Any

from toolkit.errors import ConfigError
from toolkit.tools.wiring import parameters_of


def describe(function: Callable[..., Any]) -> dict[str, Any]:
    """Return name, description and parameters (their JSON Schema) of a typed function.

    The description is the docstring without its argument section; each argument's text goes into the schema
    unless `Annotated[…, "text"]` or `Field(description=…)` already gave one.

    Raises:
        ConfigError: a parameter has no type, or its type has no JSON Schema.
    """
    name = getattr(function, "__name__", type(function).__name__)
    summary, words = _docstring(function)
    schema = parameters_model(function).model_json_schema(by_alias=True)
    _strip_titles(schema)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    for parameter, text in words.items():
        if parameter in schema["properties"]:
            schema["properties"][parameter].setdefault("description", text)
    parameters = {"type": "object", **{k: v for k, v in schema.items() if k != "type"}}
    return {"name": name, "description": summary, "parameters": parameters}


def parameters_model(function: Callable[..., Any]) -> Any:
    """Return a pydantic model with one field per parameter of the function; it validates and coerces arguments.

    Raises:
        ConfigError: a parameter has no type, is positional-only, or its type has no JSON Schema.
    """
    import pydantic
    from pydantic.fields import FieldInfo

    name = getattr(function, "__name__", type(function).__name__)
    hints = resolved_hints(function, name)
    fields: dict[str, Any] = {}
    parameters = parameters_of(function)
    if parameters is None:  # some builtins
        raise ConfigError(f"{name!r} has no signature to read. Give its schema: parameters={{…}}.")
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if is_injected(hints.get(parameter.name)):  # the invoker gives it, never the model
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigError(f"Parameter {parameter.name!r} of {name!r} is positional-only; models name arguments.")
        if parameter.name not in hints:
            raise ConfigError(
                f"Parameter {parameter.name!r} of {name!r} has no type. Write {parameter.name}: str, say."
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        # an alias lets names pass that pydantic keeps for itself (a leading underscore, `model_…`)
        fields[f"p_{parameter.name}"] = (
            _annotated(hints[parameter.name]),
            default if isinstance(default, FieldInfo) else pydantic.Field(default, alias=parameter.name),
        )
    config = pydantic.ConfigDict(arbitrary_types_allowed=False, protected_namespaces=())
    try:
        model = pydantic.create_model(name, __config__=config, **fields)
        model.model_json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise ConfigError(f"Cannot make a JSON Schema for {name!r}: {str(error).splitlines()[0]}") from None
    return model


def is_injected(hint: Any) -> bool:
    """Tell whether a parameter of this type is given by the invoker, such as the live State."""
    return any(getattr(kind, "injected_into_tools", False) for kind in (hint, *typing.get_args(hint)))


def _annotated(hint: Any) -> Any:
    """Turn `Annotated[str, "text"]` into pydantic's own spelling of a description."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint
    import pydantic

    base, *extras = typing.get_args(hint)
    extras = [pydantic.Field(description=item) if isinstance(item, str) else item for item in extras]
    return typing.Annotated[(base, *extras)]


def resolved_hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Resolve annotations, postponed ones too, with the function's globals and closure (Source: haystack#12739)."""
    target = inspect.unwrap(function)
    if not inspect.isroutine(target) and callable(target):
        target = type(target).__call__
    target = getattr(target, "__func__", target)
    closure = inspect.getclosurevars(target).nonlocals if inspect.isfunction(target) else {}
    try:
        return typing.get_type_hints(target, localns=dict(closure), include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"A type of {name!r} cannot be found: {error}. Define it at module level, outside TYPE_CHECKING."
        ) from None


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Split a docstring (Google, NumPy or Sphinx) into its text and its words on each argument."""
    text = inspect.getdoc(function) if not isinstance(function, type) else function.__doc__
    if not text:
        return "", {}
    import griffe

    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    styles = [griffe.Docstring(text).parse(style) for style in ("google", "numpy", "sphinx")]
    sections = max(styles, key=lambda found: sum(s.kind is griffe.DocstringSectionKind.parameters for s in found))
    parts = [str(s.value).strip() for s in sections if s.kind is griffe.DocstringSectionKind.text]
    words = {
        item.name: " ".join(item.description.split())
        for section in sections
        if section.kind is griffe.DocstringSectionKind.parameters
        for item in section.value
    }
    return "\n\n".join(parts), {name: said for name, said in words.items() if said}


def _strip_titles(schema: Any) -> None:
    """Remove the titles that pydantic adds, in place; a property called `title` stays."""
    if isinstance(schema, list):
        for item in schema:
            _strip_titles(item)
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("title"), str):
        del schema["title"]
    for key, value in schema.items():
        if key in ("properties", "$defs") and isinstance(value, dict):
            for inner in value.values():
                _strip_titles(inner)
        elif key not in ("default", "const", "enum", "examples"):
            _strip_titles(value)
