"""Run a model with tools until it has an answer: Agent.

Works over any ChatModel, in three arms, with middleware around every step. Each run gives a `Trace`; a run that
fails raises, and the error's `trace` holds what was done up to there.
Not here: the order of steps (`toolkit.agents.loop`), middleware (`toolkit.agents.middleware`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.agents import builtin, drivers
from toolkit.agents.middleware import AgentMiddleware
from toolkit.agents.modes import BLOCKING, YIELDING, at_once
from toolkit.agents.performer import executed, streamed
from toolkit.agents.plan import Plan
from toolkit.agents.requests import system_of
from toolkit.agents.resuming import Start
from toolkit.agents.run import Setup
from toolkit.agents.structured import Answers
from toolkit.errors import ConfigError, check_word
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel, Options
from toolkit.models.registry import as_model
from toolkit.prompting.protocols import Arm
from toolkit.recipes import AgentSettings, Recipe
from toolkit.tools import Tool, as_tools
from toolkit.traces import Event, Trace


class Agent:
    """Answer questions with a model and tools.

    >>> import toolkit as tk
    >>> def add(x: int, y: int) -> int:
    ...     '''Add two numbers.'''
    ...     return x + y
    >>> model = tk.ScriptedModel([tk.ToolCall("add", {"x": 1, "y": 2}), "It is 3."])
    >>> trace = tk.Agent(model, tools=[add]).run("What is 1 + 2?")
    >>> trace
    Trace(done: 'It is 3.' 2 model calls, 1 tool call)
    >>> [message.role.value for message in trace.messages]
    ['user', 'assistant', 'tool', 'assistant']

    Args:
        model: a ChatModel, or a name for `load_model`; by default the recipe's.
        tools: tools, toolsets or typed functions.
        recipe: all that follows up to `settings` as one value, or its TOML file; what a table says of a recipe holds
            for the agent made of it. `middleware`, `system_prompt` and what has no place in a recipe may be given
            beside it.
        protocol: name or folder of the protocol, for the prompted and constrained arms.
        arm: "native", "prompted" or "constrained"; by default native where the model supports tools.
        middleware: outermost first, by name too, as in a recipe; those of the recipe stand around them.
        system_prompt: put in front of each request; never stored.
        tool_choice: "auto", "none", "any" or a tool's name. Held here, whatever the server does. "any" and a name hold
            until they were obeyed once.
        parallel: whether a turn may hold several calls; surplus ones are refused.
        response_format: JSON Schema, pydantic model, dataclass or TypedDict of `trace.structured_response`; a list or
            union of them are alternatives.
        state_schema: further state fields; see `toolkit.agents.state`.
        options: `Options` or a dict of them.
        name: stamped on assistant messages.
        settings: limits and the like, the fields of `toolkit.recipes.AgentSettings`.

    Raises:
        ConfigError: anything of this cannot work.
    """

    def __init__(
        self,
        model: ChatModel | str | None = None,
        tools: Iterable[Any] = (),
        *,
        recipe: Recipe | str | Path | None = None,
        protocol: Any = "hermes",
        arm: Arm | None = None,
        middleware: Iterable[AgentMiddleware | str | Mapping[str, Any]] = (),
        system_prompt: str | ChatMessage | None = None,
        tool_choice: str = "auto",
        parallel: bool = True,
        response_format: Any = None,
        state_schema: Any = None,
        options: Options | Mapping[str, Any] | None = None,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        if recipe is None:
            self.model = as_model(model)
            recipe = _recipe(self.model, arm, protocol, options, tool_choice, parallel, settings)
        else:
            known = [setting.name for setting in fields(AgentSettings)]
            for setting in settings:
                check_word("agent setting", setting, known)
            given = {"protocol": protocol != "hermes", "arm": arm, "options": options, **dict.fromkeys(settings, True)}
            given |= {"tool_choice": tool_choice != "auto", "parallel": not parallel}
            if twice := [name for name, value in given.items() if value]:
                raise ConfigError(
                    f"The recipe says {', '.join(twice)}. Change it there: recipe.replace(…), or its file."
                )
            recipe = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe)
            self.model = as_model(recipe.model if model is None else model)
        own = tuple(map(builtin.as_middleware, (*recipe.middleware, *middleware)))
        plan = Plan(own, tuple(as_tools(tools)), state_schema)
        _check_choice(recipe.tool_choice, plan.tools)
        system = system_prompt if system_prompt is not None else recipe.system or None
        self.recipe = recipe
        self.setup = Setup(
            recipe=recipe,
            model=self.model,
            plan=plan,
            name=name,
            system_message=None if system is None else system_of(system),
            response_format=response_format,
            response=None if response_format is None else Answers.of(response_format),
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return all tools: those of the middleware first."""
        return self.setup.plan.tools

    def run(
        self,
        question: Any = (),
        *,
        context: Any = None,
        trace_file: str | Path | None = None,
        decisions: Any = None,
        **state: Any,
    ) -> Trace:
        """Run to an answer.

        Args:
            question: text, a message, a list of them, a former `Trace` to go on from, or a dict of state with
                `messages`.
            context: anything; hooks find it as `runtime.context`.
            trace_file: also write the trace there as it goes, one JSON line an event; read it with `Trace.load`, to go
                on even where the process was killed.
            decisions: where `question` ends in calls that wait for approval (`trace.pending`), what was decided: an
                answer as `HumanApproval(ask=…)` takes it, or call id -> answer.
            state: further state fields.

        Raises:
            LimitError: a limit is used up.
            UpdateError: a hook, wrapper or tool returned something unusable.
            ModelError: the server failed. Every error has `.trace`.
        """
        return at_once(executed(self.setup, Start.of(question, state, decisions), context, trace_file, None, BLOCKING))

    async def arun(
        self,
        question: Any = (),
        *,
        context: Any = None,
        trace_file: str | Path | None = None,
        decisions: Any = None,
        **state: Any,
    ) -> Trace:
        """Run to an answer without blocking the event loop; see `run`."""
        return await executed(self.setup, Start.of(question, state, decisions), context, trace_file, None, YIELDING)

    def stream(
        self,
        question: Any = (),
        *,
        context: Any = None,
        trace_file: str | Path | None = None,
        decisions: Any = None,
        **state: Any,
    ) -> Iterator[Event]:
        """Yield the events of a run as they happen, and the model's words as events of kind `token`.

        Model calls that middleware makes have their own `source`. The last event, of kind `end`, holds the trace.
        """
        return drivers.stream(partial(streamed, self.setup, Start.of(question, state, decisions), context, trace_file))

    def astream(
        self,
        question: Any = (),
        *,
        context: Any = None,
        trace_file: str | Path | None = None,
        decisions: Any = None,
        **state: Any,
    ) -> AsyncIterator[Event]:
        """Yield the events of a run as they happen; see `stream`. Closing the iterator cancels the run."""
        return drivers.astream(partial(streamed, self.setup, Start.of(question, state, decisions), context, trace_file))

    def __repr__(self) -> str:
        tools = ", ".join(tool.name for tool in self.tools)
        return f"Agent({self.model.name}, {self.recipe.arm}, tools=[{tools}])"[:100]


def _recipe(
    model: ChatModel, arm: Arm | None, protocol: Any, options: Any, choice: str, parallel: bool, settings: Any
) -> Recipe:
    """Make the recipe that an agent's own arguments come to."""
    if choice == "no-parallel":  # LangChain's word
        choice, parallel = "auto", False
    chosen = arm or ("native" if model.supports_tools else "prompted")
    agent = AgentSettings.of(settings)
    return Recipe.of_model(
        model, protocol, arm=chosen, options=options, tool_choice=choice, parallel=parallel, agent=agent
    )


def _check_choice(choice: str, tools: tuple[Tool, ...]) -> None:
    names = [tool.name for tool in tools]
    check_word("tool_choice", choice, ("auto", "none", "any", *names))
    if choice == "any" and not tools:
        raise ConfigError("tool_choice 'any' needs at least one tool.")
