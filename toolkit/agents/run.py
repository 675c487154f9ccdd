"""Hold one run while it goes: state, limits used, trace, what was offered in this turn.

Not here: the order of things (`toolkit.agents.loop`), calling models and tools (`toolkit.agents.performer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.agents.fitting import OneTool
from toolkit.agents.pairs import paired
from toolkit.agents.plan import Chains, Hook, Plan
from toolkit.agents.repeats import Repeats
from toolkit.agents.requests import Command, ModelRequest, ModelResponse, ToolCallRequest
from toolkit.agents.runtime import Runtime
from toolkit.agents.state import RunState
from toolkit.agents.structured import Answers
from toolkit.agents.turns import AUTO, Choice, assistant_message
from toolkit.asking import Request, assemble, check_reply, read
from toolkit.errors import LimitError, UpdateError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models.base import ChatModel, Reply
from toolkit.recipes import AgentSettings, Recipe
from toolkit.tools import Tool
from toolkit.traces import Trace


@dataclass(frozen=True)
class Setup:
    """Hold what is the same in every run of an agent."""

    recipe: Recipe
    model: ChatModel
    plan: Plan
    name: str | None = None
    system_message: ChatMessage | None = None
    response_format: Any = None
    response: Answers | None = None
    _ready: dict[int, OneTool] = field(default_factory=dict)

    @property
    def raises(self) -> bool:
        """Tell whether a tool's exception ends the run."""
        return self.recipe.agent.on_tool_error == "raise"

    def invoker(self, tool: Tool) -> OneTool:
        """Return the invoker of one tool, made on first use."""
        found = self._ready.get(id(tool))
        if found is None:
            found = self._ready[id(tool)] = OneTool(tool, self.recipe.agent.tool_timeout_s)
        return found


@dataclass(slots=True, eq=False)
class Run:
    """Hold one run.

    Attributes:
        setup: the agent.
        chains: its hooks.
        runtime: what hooks may look at.
        offered: the tools of this turn by name; None where no model was asked, so that nothing was hidden.
        choice: the tool choice that this turn is held to.
        own: the agent's own tool choice for this turn.
        obeyed: the agent's own "any" or NAME was obeyed once.
        stop_reason: why the run ends, if it ends now.
        jumps: how many there were.
        asked_again: how many turns in a row were answered with a reason alone.
        calls: found pending at the end of a turn.
        commands: those of model wrappers, inner first.
        last_turn: the turn whose calls were all refused.
        answers: what reads the structured answer that this turn's request wants.
        plain: the last turn's request, where no wrapper has seen it, so that it may serve again.
        given: the messages of this turn's request before middleware.
        said: the message that was read out of this turn's reply.
        called: its calls.
    """

    setup: Setup
    chains: Chains
    runtime: Runtime
    offered: dict[str, Tool] | None = None
    choice: Choice = AUTO
    own: str | None = None
    obeyed: bool = False
    stop_reason: str = "done"
    jumps: int = 0
    asked_again: int = 0
    calls: list[ToolCall] = field(default_factory=list)
    commands: list[tuple[Command, Hook]] = field(default_factory=list)
    last_turn: ChatMessage | None = None
    answers: Answers | None = None
    plain: ModelRequest | None = None
    given: tuple[ChatMessage, ...] = ()
    said: ChatMessage | None = None
    called: list[ToolCall] = field(default_factory=list)
    settings: AgentSettings = field(init=False)
    trace: Trace = field(init=False)
    state: RunState = field(init=False)
    repeats: Repeats | None = field(init=False)
    extra: tuple[Tool, ...] = field(init=False)
    unread_answered: bool = field(init=False)  # results of unreadable calls may stand behind the text that held them

    def __post_init__(self) -> None:
        self.settings, self.trace = self.setup.recipe.agent, self.runtime.trace
        self.state = RunState(self.setup.plan.fields)
        most, response = self.settings.max_repeats, self.setup.response
        self.repeats = None if most is None else Repeats(most)
        self.extra = response.tools if response else ()
        self.unread_answered = self.setup.recipe.arm != "native"

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
        most = self.settings.max_model_calls
        if most is not None and self.jumps > most:
            raise LimitError(f"The run jumped {self.jumps} times without an end, at last from {who} to {target!r}.")

    def start(self, given: Mapping[str, Any]) -> None:
        """Take the input of a run."""
        self.state.start(given)
        for update in self.runtime.updates:
            self.state.merge(update, "a tool, before the run was cut off,")
        self.pair(waiting=True)
        self.keep()

    def pair(self, *, waiting: bool = False) -> None:
        """Put calls and results in order, if anybody but the loop changed the history; see `paired`."""
        self.state.pair(waiting=waiting, unread=self.unread_answered)

    def keep(self) -> None:
        """Write the history to the trace's file, if there is one: what is gone on from after a crash."""
        if self.trace.has_file:
            self.trace.keep(self.state.messages, self.state.output(), self.runtime.stage)

    def check_limits(self) -> None:
        """Start a turn.

        Raises:
            LimitError: model calls, tokens or seconds are used up.
        """
        settings, runtime = self.settings, self.runtime
        most = settings.max_model_calls
        if most is not None and runtime.model_calls >= most:
            raise LimitError(f"All {most} model calls are used up. Raise max_model_calls if it needs more.")
        if settings.max_run_tokens is not None and runtime.tokens >= settings.max_run_tokens:
            raise LimitError(f"{runtime.tokens} tokens are used; max_run_tokens is {settings.max_run_tokens}.")
        if settings.max_seconds is not None:
            self._check_time()
        runtime.model_calls += 1

    def _check_time(self) -> None:
        most = self.settings.max_seconds
        if most is not None and self.runtime.seconds >= most:
            raise LimitError(f"{self.runtime.seconds:.1f} s are used; max_seconds is {most}.")

    def request(self) -> ModelRequest:
        """Return the request of this turn, before middleware."""
        setup, wrapped = self.setup, bool(self.chains.wrap_model_call)
        choice = setup.recipe.tool_choice  # a call demanded once is not demanded for ever
        self.own = None if choice == "auto" or (self.obeyed and choice != "none") else choice
        self.given = tuple(self.state.copies.of(self.state.messages) if wrapped else self.state.messages)
        if self.plain is not None and self.plain.tool_choice == self.own and not setup.plan.conditional_tools:
            return self.plain.going_on(self.given)
        asked = ModelRequest(
            model=setup.model,
            messages=self.given,
            system_message=setup.system_message,
            tool_choice=self.own,
            tools=setup.plan.tools if not setup.plan.conditional_tools else self._tools_now(),
            response_format=setup.response_format,
            state=self.state.view() if wrapped else None,  # else nobody would see it
            runtime=self.runtime,
        )
        self.plain = None if wrapped else asked
        return asked

    def _tools_now(self) -> tuple[Tool, ...]:
        """Return the tools but those of middleware that does not act now."""
        state, hidden = self.state.view(), set[str]()
        for when, names in self.setup.plan.conditional_tools:
            if not when(state):
                hidden |= names
        return tuple(tool for tool in self.setup.plan.tools if tool.name not in hidden)

    def question(self, asked: ModelRequest) -> Request:
        """Return what is sent for the innermost request, and note what it offers.

        Raises:
            UpdateError: it offers a tool that nobody could run.
        """
        if type(asked) is not ModelRequest:
            raise UpdateError(f"A wrapper gave its handler {asked!r}. Give it the request, or request.override(…).")
        setup = self.setup
        if asked.tools is not setup.plan.tools:
            self._check_tools(asked)
        single = not setup.recipe.parallel
        choice = Choice.of(asked.tool_choice, single) if single or asked.tool_choice is not None else AUTO
        # what a middleware asks for in one call goes to the model; only the agent's own choice is held to
        self.choice = choice if asked.tool_choice == self.own else Choice.of(None, single)
        wanted, shown, said = choice.wanted, asked.tools, asked.messages
        if said is not self.given:  # a wrapper's
            said = tuple(paired(said, unread=self.unread_answered))
        extra = self.answers = self._answers(asked)
        if extra:  # the tool of a wanted answer forces a call
            shown = extra.tools if wanted == "none" else (*shown, *extra.tools)
            wanted = "any" if wanted in ("auto", "none") else wanted
        elif wanted == "none" or (not shown and wanted == "any"):
            shown, wanted = (), "none" if wanted == "none" else "auto"
        if asked.system_message is not None:
            said = (asked.system_message, *said)
        sent = assemble(setup.recipe, said, shown, wanted, not choice.single, asked.model_settings)
        if shown is setup.plan.tools:
            self.offered, names = setup.plan.by_name, setup.plan.tool_names
        else:
            self.offered = {tool.name: tool for tool in shown if not extra or tool not in extra.tools}
            names = tuple(tool.name for tool in shown)
        self.trace.record(
            "model_call",
            model=getattr(asked.model, "name", None) or str(asked.model),
            messages=sent.messages,
            tools=names,
            tool_choice=asked.tool_choice,
            arm=setup.recipe.arm,
            schema=sent.schema,
            number=self.runtime.model_calls,
        )
        return sent

    def _answers(self, request: ModelRequest) -> Answers | None:
        if request.response_format is self.setup.response_format:
            return self.setup.response
        return Answers.of(request.response_format) if request.response_format is not None else None

    def _check_tools(self, request: ModelRequest) -> None:
        if self.chains.wrap_tool_call:
            return
        known = self.setup.plan.by_name
        if unknown := [tool.name for tool in request.tools if tool.name not in known]:
            raise UpdateError(
                f"A middleware offers {', '.join(map(repr, unknown))}, which nobody can run. Give the agent these "
                "tools, or supply them in wrap_tool_call with request.override(tool=…)."
            )

    def response(self, reply: Reply, sent: Request, asked: ModelRequest) -> ModelResponse:
        """Return the response for a reply.

        Raises:
            ModelError: the server failed.
        """
        if self.runtime.estimates or reply.prompt_tokens or reply.completion_tokens:
            self.runtime.count(reply, sent.messages)
        number = self.runtime.model_calls
        try:
            if reply.fault is not None:
                check_reply(reply)
            plan = self.setup.plan
            found = read(self.setup.recipe, reply, plan.index if sent.offered is plan.tools else sent.offered)
        except Exception:
            self.trace.record("model_reply", reply=reply, number=number)
            raise
        known = self.state.fresh_id()
        message = self.said = assistant_message(found, reply, len(asked.messages), name=self.setup.name, known=known)
        calls, read_from = message.tool_calls, found.read_from
        self.called = calls
        self.trace.record("model_reply", reply=reply, extraction=found, calls=calls, read_from=read_from, number=number)
        return self.answers.read(message) if self.answers else ModelResponse([message])

    def take(self, response: ModelResponse) -> str | None:
        """Merge a response and the commands that came with it, inner first; a later one wins a plain field."""
        said = response.result
        if len(said) == 1 and said[0] is self.said and not self.answers:  # the common case
            self.state.put(self.said)
        else:
            response = self._whole(response)
            self.state.add(response.result, "the model")
        if response.structured_response is not None:
            self.state.values["structured_response"] = response.structured_response
        jump = None
        for command, hook in self.commands:
            jump = self.merge(command, hook.label) or jump
        return jump

    def _whole(self, response: ModelResponse) -> ModelResponse:
        """Return the response with its structured answer, which a wrapper leaves out that hands on the message alone.

        Source: langchainjs#10218.
        """
        answers = self.answers if self.offered is not None else self.setup.response
        alone = answers and response.structured_response is None and len(response.result) == 1
        return answers.read(response.result[0]) if answers and alone else response

    def tool_request(self, call: ToolCall) -> ToolCallRequest:
        """Return the request of one call, before middleware."""
        tool = self.setup.plan.by_name.get(call.tool_name)
        return ToolCallRequest(tool_call=call, tool=tool, state=self.state.view(), runtime=self.runtime)


def _brief(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return an update for the trace: messages as short text, the rest as it is."""
    return {key: repr(value)[:500] if key == "messages" else value for key, value in update.items()}
