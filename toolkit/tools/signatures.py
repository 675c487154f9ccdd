"""Read a tool's schema off a typed function: types through pydantic, words through griffe.

Not here: the Tool itself (`toolkit.tools`).
"""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

from toolkit.errors import ConfigError
from toolkit.tools.injected import injected_type
from toolkit.tools.wiring import parameters_of

_PLAIN = (str, int, float, bool, list, dict, Any)


def describe(function: Callable[..., Any], filled: Collection[str] = ()) -> dict[str, Any]:
    """Return name, description and parameters (their JSON Schema) of a typed function, without those `filled` for it.

    The description is the docstring without its argument section; each argument's text goes into the schema
    unless `Annotated[…, "text"]` or `Field(description=…)` already gave one. A parameter with a default whose type has
    no JSON Schema, such as a callback, is not for a model and left out.

    Raises:
        ConfigError: a parameter has no type, is positional-only, or its type has no JSON Schema.
    """
    import pydantic

    name = getattr(function, "__name__", type(function).__name__)
    summary, words = _docstring(function)
    fields = {k: v for k, v in _fields(function, name, filled).items() if v[1] is ... or has_schema(v[0])}
    try:
        parameters = _parameters(name, fields)
    except pydantic.errors.PydanticUserError as error:
        raise ConfigError(f"Cannot make a JSON Schema for {name!r}: {str(error).splitlines()[0]}") from None
    for key in words.keys() & fields.keys():
        parameters["properties"][key].setdefault("description", words[key])
    return {"name": name, "description": summary, "parameters": parameters}


def _parameters(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object of fields, each given by type and default."""
    import pydantic

    # names are prefixed, so that those pass which pydantic keeps for itself (a leading underscore, `model_…`)
    config = pydantic.ConfigDict(protected_namespaces=())
    model = pydantic.create_model(name, __config__=config, **{f"p_{key}": value for key, value in fields.items()})
    schema = model.model_json_schema(by_alias=True)
    _strip_titles(schema)
    names = dict(zip(schema.get("properties", {}), fields, strict=True))
    for key, known in names.items():
        schema["properties"][known] = schema["properties"].pop(key)
    if "required" in schema:
        schema["required"] = [names[key] for key in schema["required"]]
    return {"type": "object", "properties": {}, **{key: value for key, value in schema.items() if key != "type"}}


def has_schema(hint: Any) -> bool:
    """Tell whether a type has a JSON Schema, so that a model can write a value of it."""
    if hint in _PLAIN:
        return True
    import pydantic

    try:
        return pydantic.TypeAdapter(hint).json_schema().get("type") != "null"  # nothing else is left of some unions
    except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticUndefinedAnnotation):
        return False


def _fields(function: Callable[..., Any], name: str, filled: Collection[str]) -> dict[str, Any]:
    """Return type and default of each parameter that a model gives; the invoker gives such as the live State."""
    hints, parameters = resolved_hints(function, name), parameters_of(function)
    if parameters is None:  # some builtins
        raise ConfigError(f"{name!r} has no signature to read. Give its schema: parameters={{…}}.")
    fields: dict[str, Any] = {}
    for key, parameter in parameters.items():
        several = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if several or key in filled or injected_type(hints.get(key)):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigError(f"Parameter {key!r} of {name!r} is positional-only; models name arguments.")
        if key not in hints:
            raise ConfigError(f"Parameter {key!r} of {name!r} has no type. Write {key}: str, say.")
        fields[key] = _annotated(hints[key]), ... if parameter.default is parameter.empty else parameter.default
    return fields


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
