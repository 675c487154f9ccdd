"""Hold one run while it goes: state, limits used, trace, what was offered in this turn.

Not here: the order of things (`toolkit.agents.loop`), calling models and tools (`toolkit.agents.drivers`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.agents import arms
from toolkit.agents.plan import Chains, Hook, Plan
from toolkit.agents.requests import Command, ModelRequest, ModelResponse, ToolCallRequest
from toolkit.agents.runtime import Runtime
from toolkit.agents.state import RunState, items_of
from toolkit.agents.structured import ResponseTool
from toolkit.agents.tool_calls import ToolStage
from toolkit.errors import LimitError, UpdateError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models.base import Reply
from toolkit.tools import Tool

PERIODS = 3  # a loop of up to so many turns is noticed


@dataclass(frozen=True)
class Limits:
    """Hold where a run stops by itself; None is no limit.

    Attributes:
        model_calls: turns of the loop.
        tokens: prompt and written tokens of all model calls.
        seconds: wall time, looked at between steps.
        repeats: identical turns (same calls in any order, same results) in a row, or as many rounds of two or three
            turns.
        reasks: turns in a row without a usable call that are answered with a reason and asked again.
    """

    model_calls: int | None = 25
    tokens: int | None = None
    seconds: float | None = None
    repeats: int | None = 5
    reasks: int = 2


@dataclass(frozen=True)
class Setup:
    """Hold what is the same in every run of an agent."""

    plan: Plan
    arms: arms.ArmSettings
    limits: Limits
    model: Any
    name: str | None
    system_message: ChatMessage | None
    tool_choice: str | None
    response_format: Any
    response: ResponseTool | None
    hidden_allowed: bool
    parallel: bool
    dedupe: bool
    stage: ToolStage


class Run:
    """Hold one run."""

    __slots__ = (
        "asked_again",
        "calls",
        "chains",
        "choice",
        "extra",
        "hidden_allowed",
        "jumps",
        "last_turn",
        "obeyed",
        "offered",
        "own",
        "reason",
        "recent",
        "repeated",
        "runtime",
        "setup",
        "state",
        "trace",
    )

    def __init__(self, setup: Setup, chains: Chains, runtime: Runtime) -> None:
        self.setup = setup
        self.chains = chains
        self.runtime = runtime
        self.trace = runtime.trace
        self.state = RunState(setup.plan.fields)
        self.hidden_allowed = setup.hidden_allowed
        self.offered: dict[str, Tool] | None = None  # None: no model was asked, so nothing was hidden
        self.choice = arms.AUTO
        self.own: str | None = None  # the agent's own tool choice for this turn
        self.extra = (setup.response.tool,) if setup.response else ()
        self.reason = "done"
        self.jumps = 0
        self.asked_again = 0
        self.calls: list[ToolCall] = []  # found pending at the end of a turn
        self.obeyed = False  # the agent's own "any" or NAME was obeyed once
        self.repeated = [0] * PERIODS  # how often in a row a turn was as the one so many turns before
        # the last turns' calls with their results, newest first
        self.recent: deque[tuple[list[ToolCall], list[Any]]] = deque(maxlen=PERIODS)
        self.last_turn: Any = None

    # ------------------------------------------------------------------ state
    def merge(self, update: Any, who: str, targets: Sequence[str] | None = None) -> str | None:
        """Merge what a hook or tool returned and return the jump it asks for.

        Args:
            update: a dict, a Command or None.
            who: who gave it.
            targets: where it may jump to; None where no declaration is needed.

        Raises:
            UpdateError: unusable, or a jump to a place that is not declared (Source: langchainjs#9713).
        """
        if update is None:
            return None
        if isinstance(update, Command):
            update = update.update
        jump = self.state.merge(update, who)
        if update:
            self.trace.record("update", who, keys=sorted(update), state=_brief(update))
        if jump is None:
            return None
        allowed = ("end", "model", "tools") if targets is None else targets
        if jump not in allowed:
            declared = ", ".join(map(repr, allowed)) or "none; declare them with can_jump_to"
            raise UpdateError(f"{who} jumps to {jump!r}. Its allowed targets: {declared}.")
        self.count_jump(who, jump)
        return jump

    def count_jump(self, who: str, target: str) -> None:
        """Note a jump.

        Raises:
            LimitError: there were more jumps than model calls are allowed, or time is up.
        """
        self._check_time()
        self.trace.record("jump", who, to=target)
        self.jumps += 1
        most = self.setup.limits.model_calls
        if most is not None and self.jumps > most:
            raise LimitError(f"The run jumped {self.jumps} times without an end, at last from {who} to {target!r}.")

    def check_limits(self) -> None:
        """Start a turn.

        Raises:
            LimitError: model calls, tokens or seconds are used up.
        """
        limits, runtime = self.setup.limits, self.runtime
        if limits.model_calls is not None and runtime.model_calls >= limits.model_calls:
            raise LimitError(
                f"All {limits.model_calls} model calls are used up. Raise max_model_calls if it needs more."
            )
        if limits.tokens is not None and runtime.tokens >= limits.tokens:
            raise LimitError(f"{runtime.tokens} tokens are used; max_tokens is {limits.tokens}.")
        if limits.seconds is not None:
            self._check_time()
        runtime.model_calls += 1

    def _check_time(self) -> None:
        most = self.setup.limits.seconds
        if most is not None and self.runtime.seconds >= most:
            raise LimitError(f"{self.runtime.seconds:.1f} s are used; max_seconds is {most}.")

    # ------------------------------------------------------------------ model
    def request(self) -> ModelRequest:
        """Return the request of this turn, before middleware."""
        setup, wrapped = self.setup, bool(self.chains.wrap_model_call)
        self.own = self._own_choice()
        return ModelRequest(
            model=setup.model,
            messages=tuple(self.state.copies.of(self.state.messages) if wrapped else self.state.messages),
            system_message=setup.system_message,
            tool_choice=self.own,
            tools=setup.plan.tools if not setup.plan.conditional_tools else self._tools_now(),
            response_format=setup.response_format,
            state=self.state.view() if wrapped else None,  # else nobody would see it
            runtime=self.runtime,
        )

    def _tools_now(self) -> tuple[Tool, ...]:
        """Return the tools but those of middleware that does not act now."""
        state, hidden = self.state.view(), set[str]()
        for when, names in self.setup.plan.conditional_tools:
            if not when(state):
                hidden |= names
        return tuple(tool for tool in self.setup.plan.tools if tool.name not in hidden)

    def _own_choice(self) -> str | None:
        """Return the agent's own tool choice for this turn; a call demanded once is not demanded for ever."""
        choice = self.setup.tool_choice
        return None if choice is not None and self.obeyed and choice not in ("none", "no-parallel") else choice

    def question(self, request: ModelRequest) -> arms.Question:
        """Return what is sent for the innermost request, and note what it offers.

        Raises:
            UpdateError: it offers a tool that nobody could run.
        """
        if type(request) is not ModelRequest:
            raise UpdateError(f"A wrapper gave its handler {request!r}. Give it the request, or request.override(…).")
        setup = self.setup
        if request.tools is not setup.plan.tools:
            self._check_tools(request)
        choice = arms.Choice.of(request.tool_choice)
        # what a middleware asks for in one call goes to the model; only the agent's own choice is held to
        self.choice = choice if request.tool_choice == self.own else arms.AUTO
        extra = self._response_tool(request)
        question = arms.ask(request, setup.arms, choice, (extra.tool,) if extra else ())
        if question.offered is setup.plan.tools:
            self.offered = setup.plan.by_name
        else:
            self.offered = {tool.name: tool for tool in question.offered if not extra or tool is not extra.tool}
        self.trace.record(
            "model_call",
            model=getattr(request.model, "name", None) or str(request.model),
            # a wrapper still holds those of its request
            messages=self.state.copies.kept(question.messages) if self.chains.wrap_model_call else question.messages,
            tools=tuple(self.offered) if not extra else tuple(tool.name for tool in question.offered),
            tool_choice=request.tool_choice,
            arm=setup.arms.arm,
            schema=question.schema,
            number=self.runtime.model_calls,
        )
        return question

    def _response_tool(self, request: ModelRequest) -> ResponseTool | None:
        if request.response_format is self.setup.response_format:
            return self.setup.response
        from toolkit.agents.structured import response_tool

        return response_tool(request.response_format) if request.response_format is not None else None

    def _check_tools(self, request: ModelRequest) -> None:
        if self.chains.wrap_tool_call:
            return
        known = self.setup.plan.by_name
        if unknown := [tool.name for tool in request.tools if tool.name not in known]:
            raise UpdateError(
                f"A middleware offers {', '.join(map(repr, unknown))}, which nobody can run. Give the agent these "
                "tools, or supply them in wrap_tool_call with request.override(tool=…)."
            )

    def response(self, reply: Reply, question: arms.Question, request: ModelRequest) -> ModelResponse:
        """Return the response for a reply.

        Raises:
            ModelError: the server failed.
        """
        if self.runtime.estimates or reply.prompt_tokens or reply.completion_tokens:
            self.runtime.count(reply, question.messages)
        try:
            # elsewhere ids stay as the server gave them: nothing tells the calls of a turn apart by them
            apart = self.choice is not arms.AUTO or bool(self.extra or self.chains.after_model)
            reading = arms.read(reply, question, self.setup.arms, len(request.messages), apart=apart)
        except Exception:
            self.trace.record("model_reply", reply=reply, number=self.runtime.model_calls)
            raise
        message = arms.as_message(reading, self.setup.name, self.state.fresh_id())
        self.trace.record(
            "model_reply",
            reply=reply,
            extraction=reading.extraction,
            calls=reading.calls,
            number=self.runtime.model_calls,
        )
        extra = self._response_tool(request)
        return extra.read(message) if extra and reading.calls else ModelResponse([message])

    def take(self, response: ModelResponse, commands: Sequence[tuple[Command, Hook]]) -> str | None:
        """Merge a response and the commands that came with it, inner first; a later one wins a plain field."""
        said = response.result
        if len(said) == 1 and type(said[0]) is ChatMessage:  # the common case
            self.state.put(said[0])
        else:
            self.state.add(said, "the model")
        if response.structured_response is not None:
            self.state.values["structured_response"] = response.structured_response
        jump = None
        for command, hook in commands:
            jump = self.merge(command, hook.label) or jump
        return jump

    # ------------------------------------------------------------------ tools
    def tool_request(self, call: ToolCall) -> ToolCallRequest:
        """Return the request of one call, before middleware."""
        tool = self.setup.plan.by_name.get(call.tool_name)
        return ToolCallRequest(tool_call=call, tool=tool, state=self.state.view(), runtime=self.runtime)

    def tool_started(self, call: ToolCall) -> int:
        """Note that a call starts, on disk too, before anything can go wrong in it."""
        number = len(self.trace.events)
        self.trace.record("tool_call", call=call, number=number)
        return number

    def tool_finished(self, call: ToolCall, outcome: Any, number: int, seconds: float) -> None:
        """Note the result of a call."""
        if isinstance(outcome, ChatMessage):
            self.trace.record("tool_result", result=outcome._content[0], number=number, seconds=seconds)
            return
        found = [m for m in items_of(outcome.update.get("messages", ()), "a Command") if isinstance(m, ChatMessage)]
        result = next((r for m in found for r in m.tool_call_results if r.origin.id == call.id), None)
        self.trace.record("tool_result", result=result, number=number, seconds=seconds)


def _brief(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return an update for the trace: messages as short text, the rest as it is."""
    return {key: repr(value)[:500] if key == "messages" else value for key, value in update.items()}
