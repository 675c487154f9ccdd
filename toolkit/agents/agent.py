"""Run a model with tools until it has an answer: Agent.

Works over any ChatModel, in three arms, with middleware around every step. Each run gives a `Trace`; a run that
fails raises, and the error's `trace` holds what was done up to there.
Not here: the order of steps (`toolkit.agents.loop`), middleware (`toolkit.agents.middleware`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from toolkit.agents import runs
from toolkit.agents.arms import ArmSettings
from toolkit.agents.middleware import AgentMiddleware
from toolkit.agents.plan import Plan
from toolkit.agents.requests import system_of
from toolkit.agents.run import Limits, Setup
from toolkit.agents.structured import response_tool
from toolkit.agents.tool_calls import ToolStage
from toolkit.errors import ConfigError, did_you_mean
from toolkit.messages import ChatMessage, as_messages
from toolkit.models.base import ChatModel, Options
from toolkit.prompting.protocols import ARMS, Arm, load_protocol
from toolkit.tools import Tool, as_tools
from toolkit.traces import Event, Trace

_CHOICES = ("auto", "none", "any", "no-parallel")


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
        model: a ChatModel, or a name for `load_model`.
        tools: tools, toolsets or typed functions.
        protocol: name or folder of the protocol, for the prompted and constrained arms.
        arm: "native", "prompted" or "constrained"; by default native where the model supports tools.
        middleware: outermost first.
        system_prompt: put in front of each request; never stored.
        tool_choice: "auto", "none", "any", a tool's name, or "no-parallel" (one call a turn). Held here, whatever
            the server does. "any" and a name hold until they were obeyed once.
        response_format: JSON Schema, pydantic model, dataclass or TypedDict of `trace.structured_response`.
        state_schema: further state fields; see `toolkit.agents.state`.
        options: `Options` or a dict of them.
        name: stamped on assistant messages.
        max_model_calls: turns of the loop before `LimitError`; None is no limit.
        max_tokens: prompt and written tokens of the whole run; by estimate where the server does not count them.
        max_seconds: wall time of the whole run, looked at between steps.
        max_repeats: identical turns in a row (same calls, same results), or rounds of two or three such turns.
        max_reasks: turns in a row without a usable call that are answered with the reason.
        on_tool_error: "result" tells the model of a tool's exception, "raise" ends the run.
        hidden_tools: "refuse" answers a call of a tool that the turn did not offer with an error, "allow" runs it.
        parallel: whether calls of one turn run at once, on threads or tasks.
        dedupe: whether identical calls of one turn run once.
        tool_timeout_s: seconds for each call of a tool without a limit of its own.

    Raises:
        ConfigError: anything of this cannot work.
    """

    def __init__(
        self,
        model: ChatModel | str,
        tools: Iterable[Any] = (),
        *,
        protocol: Any = "hermes",
        arm: Arm | None = None,
        middleware: Iterable[AgentMiddleware] = (),
        system_prompt: str | ChatMessage | None = None,
        tool_choice: str = "auto",
        response_format: Any = None,
        state_schema: Any = None,
        options: Options | Mapping[str, Any] | None = None,
        name: str | None = None,
        max_model_calls: int | None = 25,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        max_repeats: int | None = 5,
        max_reasks: int = 2,
        on_tool_error: Literal["result", "raise"] = "result",
        hidden_tools: Literal["refuse", "allow"] = "refuse",
        parallel: bool = True,
        dedupe: bool = False,
        tool_timeout_s: float | None = None,
    ) -> None:
        self.model = _load(model)
        plan = Plan(tuple(middleware), tuple(as_tools(tools)), state_schema)
        response = response_tool(response_format) if response_format is not None else None
        _check(plan.tools, tool_choice=tool_choice, on_tool_error=on_tool_error, hidden_tools=hidden_tools, arm=arm)
        self.setup = Setup(
            plan=plan,
            arms=_arm_settings(self.model, arm, protocol, options),
            limits=Limits(max_model_calls, max_tokens, max_seconds, max_repeats, max_reasks),
            model=self.model,
            name=name,
            system_message=_system(system_prompt),
            tool_choice=None if tool_choice == "auto" else tool_choice,
            response_format=response_format,
            response=response,
            hidden_allowed=hidden_tools == "allow",
            parallel=parallel,
            dedupe=dedupe,
            stage=ToolStage(plan.by_name, plan.fields, on_tool_error == "raise", tool_timeout_s),
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return all tools: those of the middleware first."""
        return self.setup.plan.tools

    def run(
        self, question: Any = (), *, context: Any = None, trace_file: str | Path | None = None, **state: Any
    ) -> Trace:
        """Run to an answer.

        Args:
            question: text, a message, a list of them, a former `Trace` to go on from, or a dict of state with
                `messages`.
            context: anything; hooks find it as `runtime.context`.
            trace_file: also write the trace there as it goes, one JSON line an event; read it with `Trace.load`.
            state: further state fields.

        Raises:
            LimitError: a limit is used up.
            UpdateError: a hook, wrapper or tool returned something unusable.
            ModelError: the server failed. Every error has `.trace`.
        """
        return runs.execute(self.setup, _input(question, state), context, trace_file)

    async def arun(
        self, question: Any = (), *, context: Any = None, trace_file: str | Path | None = None, **state: Any
    ) -> Trace:
        """Run to an answer without blocking the event loop; see `run`."""
        return await runs.aexecute(self.setup, _input(question, state), context, trace_file)

    def stream(
        self, question: Any = (), *, context: Any = None, trace_file: str | Path | None = None, **state: Any
    ) -> Iterator[Event]:
        """Yield the events of a run as they happen, and the model's words as events of kind `token`.

        Model calls that middleware makes have their own `source`. The last event, of kind `end`, holds the trace.
        """
        return runs.stream(self.setup, _input(question, state), context, trace_file)

    def astream(
        self, question: Any = (), *, context: Any = None, trace_file: str | Path | None = None, **state: Any
    ) -> AsyncIterator[Event]:
        """Yield the events of a run as they happen; see `stream`. Closing the iterator cancels the run."""
        return runs.astream(self.setup, _input(question, state), context, trace_file)

    def __repr__(self) -> str:
        tools = ", ".join(tool.name for tool in self.tools)
        return f"Agent({self.model.name}, {self.setup.arms.arm}, tools=[{tools}])"[:100]


def _load(model: ChatModel | str) -> ChatModel:
    if isinstance(model, str):
        from toolkit.models.registry import load_model

        return load_model(model)
    if not isinstance(model, ChatModel):
        raise ConfigError(f"{model!r} is no model. Give a ChatModel, or a name such as 'ollama/qwen3:4b'.")
    return model


def _check(tools: tuple[Tool, ...], **given: Any) -> None:
    names = [tool.name for tool in tools]
    allowed: dict[str, tuple[Any, ...]] = {
        "tool_choice": (*_CHOICES, *names),
        "on_tool_error": ("result", "raise"),
        "hidden_tools": ("refuse", "allow"),
        "arm": (None, *ARMS),
    }
    for key, value in given.items():
        if value not in allowed[key]:
            words = [str(word) for word in allowed[key] if word is not None]
            raise ConfigError(f"{key}={value!r} is not known. {did_you_mean(str(value), words)}")
    if given.get("tool_choice") == "any" and not tools:
        raise ConfigError("tool_choice 'any' needs at least one tool.")


def _arm_settings(model: ChatModel, arm: Arm | None, protocol: Any, options: Any) -> ArmSettings:
    chosen = arm or ("native" if model.supports_tools else "prompted")
    loaded = None if chosen == "native" else load_protocol(protocol)
    Options.of(options)  # unknown names are refused now, not at the first call
    return ArmSettings(chosen, loaded, dict(options) if isinstance(options, Mapping) else options)


def _system(prompt: str | ChatMessage | None) -> ChatMessage | None:
    return None if prompt is None else system_of(prompt)


def _input(question: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input state for whatever `run` was given."""
    if isinstance(question, Trace):
        return {**question.state, "messages": question.messages, **state}
    if isinstance(question, Mapping) and "role" not in question and "_role" not in question:
        return {"messages": [], **question, **state}
    return {"messages": as_messages(question), **state}
