"""How does one plain model both trigger actions and chat? TwoModeAgent: a tool prompt, then a chat prompt.

    agent = TwoModeAgent("ollama/neural-chat", actions=shop.actions(), about="You work in a fashion shop.")
    turn = agent.respond("Show me warm dresses for the winter.")     # also arespond
    turn.text, turn.actions, turn.context, turn.reason

Each message is first put to the model in tool mode, which answers with JSON; the data of the action then become
the context of chat mode. The default repairs what the published rule gets wrong; `mode="faithful"` keeps it.

Not here: reading the JSON (`reading`), the actions (`actions`), the history (`history`),
the published rule (`faithful`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolkit.agents.foreign import as_model
from toolkit.agents.originals import two_mode as faithful
from toolkit.agents.partial import keep_partial
from toolkit.agents.two_mode.actions import Runner, as_actions, reply_schema
from toolkit.agents.two_mode.history import CONTEXTS, Contexts, ShownTurn, shown_turns
from toolkit.agents.two_mode.prompts import load_examples, load_template, load_text
from toolkit.agents.two_mode.reading import ToolModeReading, read_actions
from toolkit.agents.two_mode.steps import Act, Complete, Driver, Steps, Writer
from toolkit.agents.two_mode.turn import ActionRun, ModeCall, TwoModeTurn
from toolkit.errors import ConfigError, ModelError, did_you_mean
from toolkit.models.base import Options, Reply, cut_at_stop
from toolkit.prompting import templates

Mode = Literal["default", "faithful"]
Raw = Literal["tool", "both", "neither"]
STOP = ("\nUser:", "\n### User", "\n### System")
# failures that the user is told of; the other reasons mean that nothing was to be done
_TOLD = ("parse_error", "unknown_action", "bad_arguments", "tool_failed", "truncated", "model_failed")


@dataclass(eq=False, repr=False)
class TwoModeAgent:
    """Talk with a user and act for them, with any model that can follow a prompt.

    Attributes:
        model: a ChatModel, a name that `load_model` reads, or a function of (prompt, stop, max_tokens) that gives text.
        actions: Actions, Tools, typed functions, or LangChain tools; afterwards a dict by name.
        tool_prompt: jinja template of tool mode, as text or file; sees about, actions, examples, turns, user, problem.
        chat_prompt: jinja template of chat mode, as text or file; sees about, turns, user, context, rows, problem.
        mode: "default", or "faithful" for the published rule, with `str.format` templates.
        chat_model: another model, or function, for chat mode.
        about: what the agent is and knows; stands first in both prompts.
        examples: few-shot turns with user, action and action_input; None for the bundled ones where they fit.
        constrained: hold tool mode to a JSON Schema of the actions; needs a ChatModel.
        several: run all actions of a reply, not the first alone.
        repairs: how often tool mode is asked again with the reason, where it tried and failed.
        gate: a function of the message; where it says False, tool mode is skipped.
        context_in_history: whose data the prompts show: of "all" turns, of the "last" with data, of "none".
        history_tokens: most tokens of history, by estimate; oldest data go first.
        max_context_chars: longest context that is shown whole.
        max_tokens: most tokens of one reply.
        stop: strings at which a reply is cut, whether or not the server did.
        raw: which prompts are sent as they are: of "tool" mode, of "both" or of "neither"; the others are one user
            message in the model's own chat template. The faithful mode is raw in both.
        dispatch: carries out every action: in the default mode a function of (action, action_input), in faithful mode
            of the parsed value.
        options: further options of each request, such as `{"temperature": 0.7}`.
        turns: the record of each turn so far.
        history: the lines of the faithful mode; the default keeps `turns` alone.

    Raises:
        ConfigError: an unknown mode or option, something that is no action, or a template that cannot be read.
    """

    model: Any
    actions: Any = ()
    tool_prompt: Any = None
    chat_prompt: Any = None
    mode: Mode = field(default="default", kw_only=True)
    chat_model: Any = field(default=None, kw_only=True)
    about: str = field(default="", kw_only=True)
    examples: Any = field(default=None, kw_only=True)
    constrained: bool = field(default=False, kw_only=True)
    several: bool = field(default=False, kw_only=True)
    repairs: int = field(default=0, kw_only=True)
    gate: Callable[[str], bool] | None = field(default=None, kw_only=True)
    context_in_history: Contexts = field(default="all", kw_only=True)
    history_tokens: int = field(default=2000, kw_only=True)
    max_context_chars: int = field(default=4000, kw_only=True)
    max_tokens: int = field(default=faithful.MAX_TOKENS, kw_only=True)
    stop: tuple[str, ...] = field(default=STOP, kw_only=True)
    raw: Raw = field(default="tool", kw_only=True)
    dispatch: Callable[..., Any] | None = field(default=None, kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    turns: list[TwoModeTurn] = field(default_factory=list, init=False)
    history: faithful.Conversation = field(default_factory=faithful.Conversation, init=False)

    def __post_init__(self) -> None:
        _check_word("mode", self.mode, ("default", "faithful"))
        _check_word("raw", self.raw, ("tool", "both", "neither"))
        _check_word("context_in_history", self.context_in_history, CONTEXTS)
        Options.of(self.options)
        self.stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        self.actions = as_actions(self.actions)
        load, names = load_template, ("tool.jinja", "chat.jinja")
        if self.mode == "faithful":
            load, names = load_text, ("faithful_tool.txt", "faithful_chat.txt")
        self.tool_prompt = load(self.tool_prompt, names[0])
        self.chat_prompt = load(self.chat_prompt, names[1])
        self.examples = load_examples(self.examples, self.actions)
        self._driver = self._make_driver()

    def _make_driver(self) -> Driver:
        raw = "both" if self.mode == "faithful" else self.raw
        self.model = as_model(self.model)
        self.chat_model = self.model if self.chat_model is None else as_model(self.chat_model)
        writers: dict[Any, Writer] = {
            "tool": Writer(self.model, raw != "neither", self.options),
            "chat": Writer(self.chat_model, raw == "both", self.options),
        }
        if self.mode == "faithful":
            return Driver(writers, dispatcher=self.dispatch or faithful.dispatcher_of(self.actions))
        return Driver(writers, runner=Runner(self.actions, self.dispatch))

    def respond(self, message: str) -> TwoModeTurn:
        """Answer one message; the turn's `text` is the answer, the rest says how it came about.

        Raises:
            ModelError: the model failed in chat mode; `partial` on it, as on whatever the model raises, holds the turn
                so far.
        """
        turn = self._driver.run(self._steps(message))
        self.turns.append(turn)
        return turn

    async def arespond(self, message: str) -> TwoModeTurn:
        """Answer one message without blocking the event loop; see `respond`."""
        turn = await self._driver.arun(self._steps(message))
        self.turns.append(turn)
        return turn

    def reset(self) -> None:
        """Forget the conversation."""
        self.turns.clear()
        self.history.conversation_history.clear()

    def _steps(self, message: str) -> Steps:
        if self.mode == "faithful":
            return faithful.converse(message, self.tool_prompt.source, self.chat_prompt.source, self.history)
        return self._converse(message)

    def _converse(self, message: str) -> Steps:
        """Yield the steps of one turn and return its record."""
        shown = shown_turns(self.turns, self.context_in_history, self.history_tokens)
        asked: list[ModeCall] = []
        runs: list[ActionRun] = []
        wanted, spoken = ToolModeReading((), "model_failed", "The model failed in tool mode."), {}
        try:
            wanted = yield from self._tool_mode(message, shown, asked)
            for action in wanted.actions:
                data, failed = yield Act(action.name, action.input)
                runs.append(ActionRun(action.name, action.input, data, failed, action.repairs))
            prompt = self.chat_text(message, _settled(message, asked, wanted, runs), shown)
            reply: Reply = yield Complete("chat", prompt, self.stop, self.max_tokens)
            spoken = {"text": cut_at_stop(reply.text, self.stop).strip(), "chat_call": ModeCall(prompt, reply)}
            if reply.fault is not None:
                raise ModelError(f"The model failed in chat mode: {reply.fault.message}", reply.fault)
        except Exception as error:
            keep_partial(error, lambda: _settled(message, asked, wanted, runs).replace(**spoken))
            raise
        return _settled(message, asked, wanted, runs).replace(**spoken)

    def _tool_mode(self, message: str, shown: Sequence[ShownTurn], asked: list[ModeCall]) -> Any:
        """Ask in tool mode, again where a repair is due; note the requests and return what is wanted."""
        if self.gate is not None and not self.gate(message):
            return ToolModeReading((), "gate", "The gate said that no action is needed.")
        problem = ""
        schema = reply_schema(self.actions.values(), self.several) if self.constrained else None
        for _ in range(self.repairs + 1):
            prompt = self.tool_text(message, shown, problem)
            reply: Reply = yield Complete("tool", prompt, self.stop, self.max_tokens, schema)
            asked.append(ModeCall(prompt, reply))
            wanted = self._read(reply)
            problem = wanted.detail
            if not wanted.mendable:
                break
        return wanted

    def _read(self, reply: Reply) -> ToolModeReading:
        if reply.fault is not None:
            return ToolModeReading((), "model_failed", f"The model failed in tool mode: {reply.fault.message}")
        return read_actions(reply.replace(text=cut_at_stop(reply.text, self.stop)), self.actions, self.several)

    def tool_text(self, message: str, shown: Sequence[ShownTurn] | None = None, problem: str = "") -> str:
        """Return the prompt of tool mode for a message."""
        turns = shown_turns(self.turns, self.context_in_history, self.history_tokens) if shown is None else shown
        prompt: str = self.tool_prompt.fill(
            about=self.about,
            actions=[action.shown for action in self.actions.values()],
            examples=self.examples,
            turns=turns,
            user=message,
            problem=problem,
        )
        return prompt

    def chat_text(self, message: str, turn: TwoModeTurn, shown: Sequence[ShownTurn]) -> str:
        """Return the prompt of chat mode for a message and what its action gave."""
        context = None if turn.reason in _TOLD else _capped(turn.context, self.max_context_chars)
        prompt: str = self.chat_prompt.fill(
            about=self.about,
            turns=shown,
            user=message,
            context=context,
            rows=context if isinstance(context, list) else [],
            problem=turn.detail if turn.reason in _TOLD else "",
        )
        return prompt

    def __repr__(self) -> str:
        return f"TwoModeAgent({', '.join(self.actions) or 'no actions'}; mode={self.mode!r}, {len(self.turns)} turns)"


def _settled(
    message: str, asked: Sequence[ModeCall], wanted: ToolModeReading, runs: Sequence[ActionRun]
) -> TwoModeTurn:
    """Return the turn as far as it is known before chat mode speaks."""
    turn = TwoModeTurn(message, "", tool_calls=tuple(asked), actions=tuple(runs))
    good = [run for run in runs if run.error is None]
    failed = "; ".join(f"{run.name}: {run.error}" for run in runs if run.error is not None)
    if good:
        data = [run.result for run in good]
        return turn.replace(tool=True, context=data[0] if len(data) == 1 else data, detail=failed or wanted.detail)
    reason, detail = ("tool_failed", failed) if runs else (wanted.reason, wanted.detail)
    context = {"error": detail, "reason": reason} if reason in _TOLD else None
    return turn.replace(context=context, reason=reason, detail=detail)


def _capped(context: Any, most: int) -> Any:
    """Return a context that fits: a list loses its last items, anything else is cut as text."""
    if len(templates.as_json(context)) <= most:
        return context
    if isinstance(context, list):
        kept: list[Any] = []
        for item in context:
            if len(templates.as_json([*kept, item])) > most:
                break
            kept.append(item)
        if kept:
            return [*kept, f"{len(context) - len(kept)} more are left out"]
    return templates.as_json(context)[:most] + " … (cut)"


def _check_word(what: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise ConfigError(f"Unknown {what} {word!r} of TwoModeAgent. {did_you_mean(str(word), known)}")
