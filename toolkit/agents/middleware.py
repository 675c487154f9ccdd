"""Change what an agent does, from outside: AgentMiddleware, its hooks, hook_config.

One run, with middleware [A, B]:

    before_agent   A, B                    once
      before_model   A, B                  each turn
        wrap_model_call   A(B(model))
      after_model    B, A
      wrap_tool_call   A(B(tool))          each call
    after_agent    B, A                    once
    on_error       B, A                    only if the run fails, and always then

A subclass overrides what it needs; an `a…` twin is used by `arun`, and a sync hook works there too.
Not here: making one from a function (`toolkit.agents.decorators`); the order in code (`toolkit.agents.loop`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import GenericAlias
from typing import Any, TypeVar

from toolkit.agents.requests import (
    AgentRequest,
    Command,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolAnswer,
    ToolCallRequest,
)
from toolkit.agents.runtime import Runtime
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage
from toolkit.traces import Trace

NODE_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
WRAP_HOOKS = ("wrap_model_call", "wrap_tool_call")
EXTRA_HOOKS = ("on_error", "wrap_agent_call")
HOOKS = (*NODE_HOOKS, *WRAP_HOOKS, *EXTRA_HOOKS)
JUMPS = ("end", "model", "tools")

AgentState = dict[str, Any]
Update = dict[str, Any] | Command | None
ModelResult = ModelResponse | ChatMessage | ExtendedModelResponse
ModelHandler = Callable[[ModelRequest], ModelResponse]
ToolHandler = Callable[[ToolCallRequest], ToolAnswer]
RunHandler = Callable[[AgentRequest], Trace]
F = TypeVar("F", bound=Callable[..., Any])


class AgentMiddleware:
    """Hook into a run; override any of the hooks below.

    Node hooks take (state, runtime) and return a dict of state changes, a `Command`, or None. Wrap hooks take
    (request, handler): call the handler once, several times (retry) or never (answer yourself).

    >>> class Shout(AgentMiddleware):
    ...     def wrap_model_call(self, request, handler):
    ...         response = handler(request)
    ...         return ChatMessage.from_assistant((response.result[0].text or "").upper())
    >>> import toolkit as tk
    >>> tk.Agent(tk.ScriptedModel(["hello"]), middleware=[Shout()]).run("hi").text
    'HELLO'

    Attributes:
        tools: further tools, offered before the agent's own.
        state_schema: further state fields; see `toolkit.agents.state`.
        tools_named: names of the tools that it is for; one that is misspelt is an error when the agent is made.
        holds_tokens: what the model writes is streamed only once `after_model` has seen it, since a hook hides some.
    """

    tools: Sequence[Any] = ()
    state_schema: Any = None
    tools_named: Sequence[str] = ()
    needs_tools = False  # whether it is of no use without those
    holds_tokens = False
    __class_getitem__: Any = classmethod(GenericAlias)  # as in LangChain: `class Mine(AgentMiddleware[MyState])`
    may_be_numbered = False  # a `name` of one's own is taken as unique unless this is set

    @property
    def name(self) -> str:
        """Return the name in traces and errors; the class's name unless overridden.

        Two of one class become `X` and `X#2` (Source: langchain#39110).
        """
        return type(self).__name__

    def when(self, state: AgentState) -> bool:
        """Tell whether this middleware acts now; asked before each hook (Source: langchain#37972)."""
        return True

    def before_agent(self, state: AgentState, runtime: Runtime) -> Update:
        """Act once, before anything else."""

    async def abefore_agent(self, state: AgentState, runtime: Runtime) -> Update:
        """Act once, before anything else."""

    def before_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Act before each model call."""

    async def abefore_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Act before each model call."""

    def after_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Act after each model call, before its tools run."""

    async def aafter_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Act after each model call, before its tools run."""

    def after_agent(self, state: AgentState, runtime: Runtime) -> Update:
        """Act once, at the end of a run that did not fail."""

    async def aafter_agent(self, state: AgentState, runtime: Runtime) -> Update:
        """Act once, at the end of a run that did not fail."""

    def wrap_model_call(self, request: ModelRequest, handler: ModelHandler) -> ModelResult:
        """Stand around a model call; `handler(request)` gives a `ModelResponse`, whatever is inside."""
        raise ConfigError(f"{self.name} does not wrap model calls.")

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResult:
        """Stand around a model call; await the handler."""
        raise ConfigError(f"{self.name} does not wrap model calls.")

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolAnswer:
        """Stand around one tool call; an exception of the tool comes out of `handler(request)`."""
        raise ConfigError(f"{self.name} does not wrap tool calls.")

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        """Stand around one tool call; await the handler."""
        raise ConfigError(f"{self.name} does not wrap tool calls.")

    def on_error(self, error: BaseException, state: AgentState, runtime: Runtime) -> None:
        """Act when the run fails, whatever failed; the error goes on (Source: langchain#34766)."""

    async def aon_error(self, error: BaseException, state: AgentState, runtime: Runtime) -> None:
        """Act when the run fails, whatever failed; the error goes on."""

    def wrap_agent_call(self, request: AgentRequest, handler: RunHandler) -> Trace:
        """Stand around the whole run; `handler(request)` gives its `Trace` or raises."""
        raise ConfigError(f"{self.name} does not wrap runs.")

    async def awrap_agent_call(
        self, request: AgentRequest, handler: Callable[[AgentRequest], Awaitable[Trace]]
    ) -> Trace:
        """Stand around the whole run; await the handler."""
        raise ConfigError(f"{self.name} does not wrap runs.")

    def __repr__(self) -> str:
        hooks = ", ".join(hook for hook in HOOKS if has_hook(self, hook) or has_hook(self, "a" + hook))
        return f"<{self.name}: {hooks or 'no hooks'}>"


def has_hook(middleware: AgentMiddleware, hook: str) -> bool:
    """Tell whether the middleware's class overrides a hook."""
    return getattr(type(middleware), hook) is not getattr(AgentMiddleware, hook)


def has_when(middleware: AgentMiddleware) -> bool:
    """Tell whether the middleware is active only at times."""
    return type(middleware).when is not AgentMiddleware.when or "when" in vars(middleware)


def hook_config(*, can_jump_to: Iterable[str] = ()) -> Callable[[F], F]:
    """Declare where a node hook may jump to: "end", "model", "tools".

    Raises:
        ConfigError: another target.
    """
    targets = check_jumps(can_jump_to, "hook_config")

    def mark(function: F) -> F:
        function.__can_jump_to__ = targets  # type: ignore[attr-defined]
        return function

    return mark


def check_jumps(targets: Iterable[str], who: str) -> tuple[str, ...]:
    """Return the targets as a tuple.

    Raises:
        ConfigError: one of them does not exist.
    """
    found = (targets,) if isinstance(targets, str) else tuple(targets)
    for target in found:
        if target not in JUMPS:
            raise ConfigError(f"{who}: can_jump_to names {target!r}. Allowed: {', '.join(map(repr, JUMPS))}.")
    return found


def jump_targets(middleware: AgentMiddleware, hook: str) -> tuple[str, ...]:
    """Return where a hook may jump to; what either twin declares counts for both."""
    found: list[str] = []
    for name in (hook, "a" + hook):
        found.extend(getattr(getattr(type(middleware), name), "__can_jump_to__", ()))
    return tuple(dict.fromkeys(found))
