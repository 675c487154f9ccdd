"""Make a middleware from one function: before_agent … wrap_tool_call, dynamic_prompt.

Each works bare and with arguments, and gives an instance of a fresh AgentMiddleware class, named after the function
or `name=`. A coroutine function fills only the async hook, so the agent then runs with `arun` alone.
Not here: middleware with more than one hook; subclass `AgentMiddleware` for that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolkit.agents.middleware import AgentMiddleware, check_jumps
from toolkit.agents.requests import ModelRequest
from toolkit.errors import ConfigError, UpdateError
from toolkit.messages import ChatMessage, ChatRole

Made = AgentMiddleware | Callable[[Callable[..., Any]], AgentMiddleware]


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _node(hook: str, function: Any, options: dict[str, Any]) -> Made:
    targets = check_jumps(options.pop("can_jump_to", None) or (), f"@{hook}")

    def build(target: Callable[..., Any]) -> AgentMiddleware:
        if _is_async(target):

            async def amethod(self: Any, state: Any, runtime: Any) -> Any:
                return await target(state, runtime)

            method: Any = amethod
        else:

            def method(self: Any, state: Any, runtime: Any) -> Any:
                return target(state, runtime)

        method.__can_jump_to__ = targets
        return _instance(target, hook, {_slot(hook, target): method}, options)

    return _apply(build, function, hook)


def _wrap(hook: str, function: Any, options: dict[str, Any]) -> Made:
    def build(target: Callable[..., Any]) -> AgentMiddleware:
        if _is_async(target):

            async def amethod(self: Any, request: Any, handler: Any) -> Any:
                return await target(request, handler)

            method: Any = amethod
        else:

            def method(self: Any, request: Any, handler: Any) -> Any:
                return target(request, handler)

        return _instance(target, hook, {_slot(hook, target): method}, options)

    return _apply(build, function, hook)


def _slot(hook: str, function: Any) -> str:
    return f"a{hook}" if _is_async(function) else hook


def _apply(build: Callable[[Any], AgentMiddleware], function: Any, hook: str) -> Made:
    if function is None:
        return build
    if not callable(function):
        raise ConfigError(f"@{hook} decorates a function, not {function!r}. Give options by name.")
    return build(function)


def _instance(function: Any, hook: str, methods: dict[str, Any], options: dict[str, Any]) -> AgentMiddleware:
    fallback = "".join(part.capitalize() for part in hook.split("_")) + "Middleware"
    name = str(options.get("name") or getattr(function, "__name__", fallback))
    body: dict[str, Any] = {"__doc__": function.__doc__, "__module__": getattr(function, "__module__", __name__)}
    if options.get("tools"):
        body["tools"] = tuple(options["tools"])
    if options.get("state_schema") is not None:
        body["state_schema"] = options["state_schema"]
    if options.get("name"):  # given on purpose, so two agree only by mistake
        body["name"] = property(lambda self: name)
    made: AgentMiddleware = type(name, (AgentMiddleware,), {**body, **methods})()
    return made


def before_agent(
    function: Any = None,
    /,
    *,
    state_schema: Any = None,
    tools: Sequence[Any] | None = None,
    can_jump_to: Iterable[str] | None = None,
    name: str | None = None,
) -> Any:
    """Make a middleware from a function of (state, runtime) that acts once, before the run.

    >>> @before_agent(can_jump_to=["end"])
    ... def gate(state, runtime):
    ...     return {"jump_to": "end"} if not state["messages"] else None
    >>> gate.name
    'gate'
    """
    options = {"state_schema": state_schema, "tools": tools, "can_jump_to": can_jump_to, "name": name}
    return _node("before_agent", function, options)


def before_model(
    function: Any = None,
    /,
    *,
    state_schema: Any = None,
    tools: Sequence[Any] | None = None,
    can_jump_to: Iterable[str] | None = None,
    name: str | None = None,
) -> Any:
    """Make a middleware from a function of (state, runtime) that acts before each model call."""
    options = {"state_schema": state_schema, "tools": tools, "can_jump_to": can_jump_to, "name": name}
    return _node("before_model", function, options)


def after_model(
    function: Any = None,
    /,
    *,
    state_schema: Any = None,
    tools: Sequence[Any] | None = None,
    can_jump_to: Iterable[str] | None = None,
    name: str | None = None,
) -> Any:
    """Make a middleware from a function of (state, runtime) that acts after each model call."""
    options = {"state_schema": state_schema, "tools": tools, "can_jump_to": can_jump_to, "name": name}
    return _node("after_model", function, options)


def after_agent(
    function: Any = None,
    /,
    *,
    state_schema: Any = None,
    tools: Sequence[Any] | None = None,
    can_jump_to: Iterable[str] | None = None,
    name: str | None = None,
) -> Any:
    """Make a middleware from a function of (state, runtime) that acts once, after the run."""
    options = {"state_schema": state_schema, "tools": tools, "can_jump_to": can_jump_to, "name": name}
    return _node("after_agent", function, options)


def wrap_model_call(
    function: Any = None,
    /,
    *,
    state_schema: Any = None,
    tools: Sequence[Any] | None = None,
    name: str | None = None,
) -> Any:
    """Make a middleware from a function of (request, handler) that stands around each model call.

    >>> @wrap_model_call
    ... def cold(request, handler):
    ...     return handler(request.override(model_settings={"temperature": 0.0}))
    >>> cold
    <cold: wrap_model_call>
    """
    return _wrap("wrap_model_call", function, {"state_schema": state_schema, "tools": tools, "name": name})


def wrap_tool_call(function: Any = None, /, *, tools: Sequence[Any] | None = None, name: str | None = None) -> Any:
    """Make a middleware from a function of (request, handler) that stands around each tool call."""
    return _wrap("wrap_tool_call", function, {"tools": tools, "name": name})


def dynamic_prompt(function: Callable[[ModelRequest], Any], /) -> AgentMiddleware:
    """Make a middleware from a function of the request that gives the system prompt, as text or a system message.

    >>> @dynamic_prompt
    ... def brief(request):
    ...     return "Answer in one word." if len(request.messages) < 3 else "Answer."
    >>> brief.name
    'brief'
    """
    if not callable(function):
        raise ConfigError(f"@dynamic_prompt takes no arguments; it decorates a function, not {function!r}.")
    methods: dict[str, Any] = {}
    if _is_async(function):

        async def awrap(self: Any, request: Any, handler: Any) -> Any:
            return await handler(request.override(system_message=_system(await function(request), self)))

        methods["awrap_model_call"] = awrap
    else:

        def wrap(self: Any, request: Any, handler: Any) -> Any:
            return handler(request.override(system_message=_system(function(request), self)))

        async def atwin(self: Any, request: Any, handler: Any) -> Any:
            return await handler(request.override(system_message=_system(function(request), self)))

        methods = {"wrap_model_call": wrap, "awrap_model_call": atwin}
    return _instance(function, "dynamic_prompt", methods, {})


def _system(value: Any, middleware: AgentMiddleware) -> ChatMessage:
    if isinstance(value, str):
        return ChatMessage.from_system(value)
    if isinstance(value, ChatMessage) and value.is_from(ChatRole.SYSTEM):
        return value
    raise UpdateError(f"dynamic_prompt {middleware.name!r} returned {value!r}. Return text or a system message.")
