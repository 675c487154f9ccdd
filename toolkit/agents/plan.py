"""Work out once what an agent's middleware means: chains of hooks, state fields, tools, names.

Everything that can be wrong with a list of middleware is found here, when the agent is built: a name given twice,
a tool given twice or missing, a jump to tools without tools; and a hook that a sync run cannot use, when a run starts.
Not here: running the hooks (`toolkit.agents.loop`, `toolkit.agents.performer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from toolkit.agents.middleware import HOOKS, NODE_HOOKS, AgentMiddleware, has_hook, has_when, jump_targets
from toolkit.agents.state import StateField, schema_fields
from toolkit.errors import ConfigError, closest, did_you_mean
from toolkit.extraction.resolve import ToolIndex, tool_index
from toolkit.tools import Tool, as_tools


@dataclass(frozen=True, slots=True)
class Hook:
    """Hold one hook of one middleware, ready to be called."""

    name: str  # the middleware's, in this agent
    hook: str  # without the async prefix
    call: Callable[..., Any]
    is_async: bool
    targets: tuple[str, ...] = ()  # where it may jump to
    when: Callable[[Any], bool] | None = None

    @property
    def label(self) -> str:
        """Return how errors and traces call it, such as `Retry.wrap_model_call`."""
        return f"{self.name}.{self.hook}"


@dataclass(frozen=True)
class Chains:
    """Hold the hooks of each kind in the order they run; wraps outermost first."""

    before_agent: tuple[Hook, ...]
    before_model: tuple[Hook, ...]
    after_model: tuple[Hook, ...]
    after_agent: tuple[Hook, ...]
    wrap_model_call: tuple[Hook, ...]
    wrap_tool_call: tuple[Hook, ...]
    on_error: tuple[Hook, ...]
    wrap_agent_call: tuple[Hook, ...]


@dataclass(frozen=True)
class Plan:
    """Hold what an agent's middleware, tools and schemas come to.

    Attributes:
        middleware: the middlewares, in order.
        own_tools: the agent's own tools.
        state_schema: the agent's own schema; it wins over those of the middleware.
    """

    middleware: tuple[AgentMiddleware, ...] = ()
    own_tools: tuple[Tool, ...] = ()
    state_schema: Any = None
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        for item in self.middleware:
            if not isinstance(item, AgentMiddleware):
                hint = " Make an instance: put () after it." if isinstance(item, type) else ""
                raise ConfigError(f"{item!r} is no middleware. Give AgentMiddleware instances.{hint}")
        object.__setattr__(self, "names", _unique_names(self.middleware))
        self._check_jumps()
        self._check_needs()
        _ = self.fields

    def _check_jumps(self) -> None:
        for name, item in zip(self.names, self.middleware, strict=True):
            for hook in NODE_HOOKS:
                if "tools" in jump_targets(item, hook) and not self.has_tools:
                    raise ConfigError(f"{name}.{hook} may jump to 'tools', but this agent has none. Give it tools.")

    def _check_needs(self) -> None:
        for name, item in zip(self.names, self.middleware, strict=True):
            for tool in item.tools_named:
                if tool not in self.by_name and (item.needs_tools or closest(tool, self.tool_names, n=1)):
                    near = did_you_mean(tool, self.tool_names)
                    raise ConfigError(f"{name} is for tool {tool!r}, which this agent does not have. {near}")

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """Return all tools: those of the middleware first, then the agent's own.

        Raises:
            ConfigError: two tools share a name.
        """
        found: dict[str, tuple[Tool, str]] = {}
        sources = [*zip(self.names, (m.tools for m in self.middleware), strict=True), ("the agent", self.own_tools)]
        for owner, given in sources:
            for tool in as_tools(given or ()):
                if tool.name in found:
                    raise ConfigError(
                        f"Tool {tool.name!r} is given by {found[tool.name][1]} and by {owner}. Rename one of them."
                    )
                found[tool.name] = (tool, owner)
        return tuple(tool for tool, _ in found.values())

    @cached_property
    def fields(self) -> dict[str, StateField]:
        """Return the state fields; where several schemas declare one, the last wins, the agent's own last of all."""
        fields: dict[str, StateField] = {"structured_response": StateField()}
        for schema in (*(item.state_schema for item in self.middleware), self.state_schema):
            fields.update(schema_fields(schema))
        return fields

    @cached_property
    def by_name(self) -> dict[str, Tool]:
        """Return the tools by name."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def tool_names(self) -> tuple[str, ...]:
        """Return the tools' names, in order."""
        return tuple(self.by_name)

    @cached_property
    def index(self) -> ToolIndex:
        """Return the tools as a reader of replies looks them up."""
        return tool_index(self.tools)

    @cached_property
    def conditional_tools(self) -> tuple[tuple[Callable[[Any], bool], frozenset[str]], ...]:
        """Return the conditions of middleware that acts only at times, with the names of its tools."""
        some = [item for item in self.middleware if item.tools and has_when(item)]
        return tuple((item.when, frozenset(tool.name for tool in as_tools(item.tools))) for item in some)

    @cached_property
    def any_direct(self) -> bool:
        """Tell whether some tool's result is the answer."""
        return any(tool.return_direct for tool in self.tools)

    @cached_property
    def has_tools(self) -> bool:
        """Tell whether there is a tool stage: a tool, or a wrapper that may supply one."""
        wraps = any(has_hook(m, "wrap_tool_call") or has_hook(m, "awrap_tool_call") for m in self.middleware)
        return bool(self.tools) or wraps

    @cached_property
    def sync_chains(self) -> Chains:
        """Return the hooks of a sync run.

        Raises:
            ConfigError: a hook exists only in its async form (Source: langchain#33429).
        """
        return self._chains(asynchronous=False)

    @cached_property
    def async_chains(self) -> Chains:
        """Return the hooks of an async run: the async form where there is one, else the sync one."""
        return self._chains(asynchronous=True)

    def _chains(self, *, asynchronous: bool) -> Chains:
        chains = {hook: self._chain(hook, asynchronous=asynchronous) for hook in HOOKS}
        for hook in ("after_model", "after_agent", "on_error"):
            chains[hook] = chains[hook][::-1]
        return Chains(**chains)

    def _chain(self, hook: str, *, asynchronous: bool) -> tuple[Hook, ...]:
        found = []
        for name, item in zip(self.names, self.middleware, strict=True):
            has_sync, has_async = has_hook(item, hook), has_hook(item, f"a{hook}")
            if not has_sync and not has_async:
                continue
            if not asynchronous and not has_sync:
                raise ConfigError(
                    f"Middleware {name!r} has a{hook} but no {hook}, so this run cannot be sync. "
                    f"Use `await agent.arun(…)`, or give it {hook}."
                )
            use_async = asynchronous and has_async
            call = getattr(item, f"a{hook}" if use_async else hook)
            targets = jump_targets(item, hook) if hook in NODE_HOOKS else ()
            found.append(Hook(name, hook, call, use_async, targets, item.when if has_when(item) else None))
        return tuple(found)


def _unique_names(middleware: Sequence[AgentMiddleware]) -> tuple[str, ...]:
    """Number middlewares of one class; refuse two that were given one name on purpose."""
    taken: dict[str, bool] = {}
    names = []
    for item in middleware:
        explicit = type(item).name is not AgentMiddleware.name and not item.may_be_numbered
        wanted = item.name
        if wanted in taken and explicit and taken[wanted]:
            raise ConfigError(f"Two middlewares are named {wanted!r}. Give each a name of its own.")
        name, number = wanted, 1
        while name in taken:
            number += 1
            name = f"{wanted}#{number}"
        taken[name] = explicit
        names.append(name)
    return tuple(names)
