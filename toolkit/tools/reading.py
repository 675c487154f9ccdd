"""Read tools of any library: as_tool, as_tools, single_tools.

A tool may be a Tool, a typed function, a dict with name and parameters (OpenAI's wrapper too), a LangChain tool, or any
object with a `name` that has `invoke(args)` or can be called; tools may stand in lists and toolsets, nested too.
Not here: Tool itself (`toolkit.tools.tool`), schemas from functions (`toolkit.tools.signatures`).
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from toolkit.errors import ConfigError
from toolkit.tools.injected import CallId
from toolkit.tools.shown import safe_str
from toolkit.tools.tool import Tool

_SINGLE = (Tool, dict, FunctionType)  # known at once
_OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
_SCHEMAS = ("parameters", "tool_call_schema", "args_schema", "input_schema")  # where other libraries keep one


def as_tools(value: Iterable[Any] | None) -> list[Tool]:
    """Read a list of tools of any kind; toolsets and other lists in it are taken apart.

    Raises:
        ConfigError: something in it is no tool, it is one bare tool, or two share a name.
    """
    if isinstance(value, (list, tuple)) and set(map(type, value)) == {Tool}:  # the common case, at C speed
        tools: list[Tool] = list(value)
    else:
        tools = [as_tool(item) for item in single_tools(value)]
    if len({tool.name for tool in tools}) < len(tools):
        counts = Counter(tool.name for tool in tools)
        twice = ", ".join(repr(name) for name, count in sorted(counts.items()) if count > 1)
        raise ConfigError(f"Tool names must be unique; given more than once: {twice}.")
    return tools


def single_tools(value: Iterable[Any] | None) -> Iterator[Any]:
    """Yield what stands for one tool each, as it was given, out of lists and toolsets however nested.

    A toolset's own `warm_up` is called before (Source: haystack-core-integrations#2384).

    Raises:
        ConfigError: it is no list.
    """
    if value is None:
        return
    if not _is_group(value):
        hint = " Put it in brackets." if _is_tool(value) else ""
        raise ConfigError(f"Expected a list of tools, got {safe_str(value, repr)}.{hint}")
    if callable(ready := getattr(value, "warm_up", None)):  # a toolset that connects only now has no tools before
        ready()
    for item in value:
        if type(item) not in _SINGLE and _is_group(item):
            yield from single_tools(item)
        else:
            yield item


def _is_tool(value: Any) -> bool:
    return isinstance(value, (Tool, str, Mapping)) or isinstance(getattr(value, "name", None), str) or callable(value)


def _is_group(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, Iterable) and not _is_tool(value))


def as_tool(value: Any) -> Tool:
    """Read anything that stands for one tool.

    >>> as_tool({"type": "function", "function": {"name": "now", "description": "Tell the time."}})
    Tool(now())

    Raises:
        ConfigError: it is no tool, has no name, or nothing to run.
    """
    if isinstance(value, Tool):
        return value
    if isinstance(value, Mapping):
        return _described(value)
    name = getattr(value, "name", None)
    if isinstance(name, str) and name.strip() and not isinstance(value, type):
        return _named(value, name)
    if callable(value) and not hasattr(value, "invoke"):
        return Tool.from_function(value)
    raise ConfigError(
        f"{safe_str(value, repr)} is no tool. Give a Tool, a typed function, a dict with name and parameters, or an "
        "object with a .name that has invoke(args) or can be called."
    )


def _described(value: Mapping[str, Any]) -> Tool:
    """Read `tool_spec`'s dict, or OpenAI's wrapper of it; such a tool can be shown, not run."""
    inner = value.get("function")
    spec = inner if isinstance(inner, Mapping) else value
    if not isinstance(spec.get("name"), str):
        raise ConfigError(
            f"{safe_str(value, repr)} is no tool: it has no name. Give a dict with name, description and parameters."
        )
    parameters = spec.get("parameters") or spec.get("input_schema") or {"type": "object", "properties": {}}
    description = spec.get("description") or ""
    if not isinstance(parameters, Mapping) or not isinstance(description, str):
        raise ConfigError(
            f"{safe_str(value, repr):.300} is no tool: parameters must be an object, and description text."
        )
    return Tool(spec["name"], description, dict(parameters))


def _named(value: Any, name: str) -> Tool:
    """Read an object of another library by its name, description, schema, and what runs it."""
    said, schema, run = getattr(value, "description", None), _schema(value), _runner(value)
    description = said if isinstance(said, str) else None
    if schema is None and run is value:
        with contextlib.suppress(ConfigError):  # an untyped signature says nothing; it then takes what the model gives
            return Tool.from_function(run, name, description)
    return Tool(name, description or "", schema or _OPEN_SCHEMA, run)


def _schema(value: Any) -> dict[str, Any] | None:
    arguments = getattr(value, "args", None)
    if getattr(value, "args_schema", ...) is None and isinstance(arguments, Mapping):  # LangChain's tool of one text
        return {"type": "object", "properties": dict(arguments), "required": list(arguments)}
    for attribute in _SCHEMAS:
        found = getattr(value, attribute, None)
        if isinstance(found, Mapping):
            return {"type": "object", **found}
        make = getattr(found, "model_json_schema", None)
        if callable(make):
            return json.loads(json.dumps(make()))  # type: ignore[no-any-return] # a plain copy that can be changed
    return None


def _runner(value: Any) -> Callable[..., Any]:
    """Return a function of keyword arguments that runs the object."""
    only_async = getattr(value, "coroutine", None) is not None and getattr(value, "func", None) is None  # LangChain's
    invoke = None if only_async else getattr(value, "invoke", None)
    invoke = invoke if callable(invoke) else getattr(value, "ainvoke", None)
    if callable(invoke):
        asks_id = getattr(value, "_injected_args_keys", None) and not only_async
        return _with_call_id(value) if asks_id else _by_keywords(invoke)
    if callable(value):
        run: Callable[..., Any] = value
        return run
    raise ConfigError(f"Tool {value.name!r} can be neither invoked nor called. Give it invoke(self, args).")


def _with_call_id(value: Any) -> Callable[..., Any]:
    """Return what invokes a LangChain tool that asks for the id of its call, which it gets with a whole call alone."""

    def run(_call_id_: CallId, **arguments: Any) -> Any:
        said = value.invoke({"name": value.name, "args": arguments, "id": _call_id_ or "call", "type": "tool_call"})
        return getattr(said, "content", said)

    return run


def _by_keywords(invoke: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(invoke).parameters.values()
    if all(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):  # Haystack's way
        return invoke

    def run(**arguments: Any) -> Any:
        return invoke(arguments)

    async def arun(**arguments: Any) -> Any:
        return await invoke(arguments)

    return arun if inspect.iscoroutinefunction(invoke) else run
