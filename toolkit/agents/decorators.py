"""Make a middleware from one function: before_agent … wrap_tool_call, dynamic_prompt.

Each works bare and with arguments, and gives an instance of a fresh AgentMiddleware class, named after the function
or `name=`. A coroutine function fills only the async hook, so the agent then runs with `arun` alone.
Not here: middleware with more than one hook; subclass `AgentMiddleware` for that.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, overload

from toolkit.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelHandler,
    ModelResult,
    ToolHandler,
    Update,
    check_jumps,
)
from toolkit.agents.requests import ModelRequest, ToolAnswer, ToolCallRequest
from toolkit.agents.runtime import Runtime
from toolkit.errors import ConfigError, UpdateError
from toolkit.messages import ChatMessage, ChatRole

NodeFunction = Callable[[AgentState, Runtime], Update | Awaitable[Update]]
ModelWrapper = Callable[[ModelRequest, ModelHandler], ModelResult | Awaitable[ModelResult]]
ToolWrapper = Callable[[ToolCallRequest, ToolHandler], ToolAnswer | Awaitable[ToolAnswer]]
PromptFunction = Callable[[ModelRequest], str | ChatMessage | Awaitable[str | ChatMessage]]
F = TypeVar("F", bound=Callable[..., Any])


class HookDecorator(Generic[F]):
    """Make a middleware of one hook from a function; use it bare, or with options.

    Args:
        hook: the hook that the function becomes.
        does: what it does, for `help()`.
    """

    def __init__(self, hook: str, does: str) -> None:
        self.hook = self.__name__ = hook
        takes = "(request, handler)" if hook.startswith("wrap") else "(state, runtime)"
        self.__doc__ = f"Make a middleware from a function of {takes} that {does}."

    @overload
    def __call__(self, function: F, /) -> AgentMiddleware: ...
    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        state_schema: Any = None,
        tools: Sequence[Any] | None = None,
        can_jump_to: Iterable[str] | None = None,
        name: str | None = None,
    ) -> Callable[[F], AgentMiddleware]: ...
    def __call__(self, function: F | None = None, /, **options: Any) -> Any:
        """Make the middleware, or what makes it.

        Args:
            function: what to decorate.
            options: `state_schema`, `tools` and `name` as in `AgentMiddleware`; of a node hook also `can_jump_to`.

        Raises:
            ConfigError: an unknown target to jump to, or something that cannot be called.
        """
        targets = check_jumps(options.pop("can_jump_to", None) or (), f"@{self.hook}")

        def build(target: F) -> AgentMiddleware:
            if not callable(target):
                raise ConfigError(f"@{self.hook} decorates a function, not {target!r}. Give options by name.")
            method = partial(target)  # which takes an attribute, and no `self`
            method.__can_jump_to__ = targets  # type: ignore[attr-defined] # read by `jump_targets`
            slot = f"a{self.hook}" if _is_async(target) else self.hook
            return _instance(target, self.hook, {slot: staticmethod(method)}, **options)

        return build if function is None else build(function)


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _instance(
    function: Callable[..., Any],
    hook: str,
    methods: dict[str, Any],
    *,
    state_schema: Any = None,
    tools: Sequence[Any] | None = None,
    name: str | None = None,
) -> AgentMiddleware:
    fallback = "".join(part.capitalize() for part in hook.split("_")) + "Middleware"
    label = str(name or getattr(function, "__name__", fallback))
    body: dict[str, Any] = {"__doc__": function.__doc__, "__module__": getattr(function, "__module__", __name__)}
    if tools:
        body["tools"] = tuple(tools)
    if state_schema is not None:
        body["state_schema"] = state_schema
    if name:  # given on purpose, so two agree only by mistake
        body["name"] = property(lambda self: label)
    made: AgentMiddleware = type(label, (AgentMiddleware,), {**body, **methods})()
    return made


before_agent: HookDecorator[NodeFunction] = HookDecorator("before_agent", "acts once, before the run")
before_model: HookDecorator[NodeFunction] = HookDecorator("before_model", "acts before each model call")
after_model: HookDecorator[NodeFunction] = HookDecorator("after_model", "acts after each model call")
after_agent: HookDecorator[NodeFunction] = HookDecorator("after_agent", "acts once, after the run")
wrap_model_call: HookDecorator[ModelWrapper] = HookDecorator("wrap_model_call", "stands around each model call")
wrap_tool_call: HookDecorator[ToolWrapper] = HookDecorator("wrap_tool_call", "stands around each tool call")


def dynamic_prompt(function: PromptFunction, /) -> AgentMiddleware:
    """Make a middleware from a function of the request that gives the system prompt, as text or a system message.

    >>> @dynamic_prompt
    ... def brief(request):
    ...     return "Answer in one word." if len(request.messages) < 3 else "Answer."
    >>> brief.name
    'brief'
    """
    if not callable(function):
        raise ConfigError(f"@dynamic_prompt takes no arguments; it decorates a function, not {function!r}.")
    told: Any = function
    is_async = _is_async(function)

    def wrap(self: AgentMiddleware, request: ModelRequest, handler: ModelHandler) -> ModelResult:
        return handler(request.override(system_message=_system(told(request), self)))

    async def awrap(self: AgentMiddleware, request: ModelRequest, handler: Any) -> ModelResult:
        text = await told(request) if is_async else told(request)
        response: ModelResult = await handler(request.override(system_message=_system(text, self)))
        return response

    sync = {} if is_async else {"wrap_model_call": wrap}
    return _instance(function, "dynamic_prompt", {**sync, "awrap_model_call": awrap})


def _system(value: Any, middleware: AgentMiddleware) -> ChatMessage:
    if isinstance(value, str):
        return ChatMessage.from_system(value)
    if isinstance(value, ChatMessage) and value.is_from(ChatRole.SYSTEM):
        return value
    raise UpdateError(f"dynamic_prompt {middleware.name!r} returned {value!r}. Return text or a system message.")
