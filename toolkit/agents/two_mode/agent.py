"""How does one plain model both trigger actions and chat? TwoModeAgent: a tool prompt, then a chat prompt.

    agent = TwoModeAgent("ollama/neural-chat", actions=shop.actions(), about="You work in a fashion shop.")
    turn = agent.respond("Show me warm dresses for the winter.")     # also arespond
    turn.text, turn.actions, turn.context, turn.reason

Each message is first put to the model in tool mode, as a raw prompt that it continues with JSON; the data of the
action then become the context of chat mode, one user message in the model's own chat template. It repairs what
the published rule gets wrong; `mode="faithful"` makes the original instead.

Not here: reading the JSON (`reading`), the actions (`actions`), what the prompts show (`prompts`), the published rule
(`toolkit.agents.originals.two_mode`).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from toolkit.agents.drivers import Act, Ask, asked
from toolkit.agents.originals.two_mode import MAX_TOKENS, OriginalTwoModeAgent
from toolkit.agents.two_mode.actions import Runner, as_actions, reply_schema
from toolkit.agents.two_mode.prompts import CONTEXTS, Contexts, ShownTurn, load_examples, load_template, shown_turns
from toolkit.agents.two_mode.reading import ToolModeReading, read_actions, reading_protocol
from toolkit.agents.two_mode.turn import CHAT, TOOL, ActionRun, Steps, Talk, TwoModeTurn, failing
from toolkit.asking import check_reply, prompt_request
from toolkit.errors import ModelError, check_word
from toolkit.messages import ChatMessage, ToolCall, ToolCallResult
from toolkit.models.base import Reply, cut_at_stop
from toolkit.models.function import as_writer
from toolkit.prompting import templates
from toolkit.prompting.disarming import disarming
from toolkit.recipes import Recipe
from toolkit.traces import Trace

Mode = Literal["default", "faithful"]
STOP = ("\nUser:", "\n### User", "\n### System")
# failures that the user is told of; the other reasons mean that nothing was to be done
_TOLD = ("parse_error", "unknown_action", "bad_arguments", "tool_failed", "truncated", "model_failed")


@dataclass(eq=False, repr=False)
class TwoModeAgent(Talk):
    """Talk with a user and act for them, with any model that can follow a prompt.

    Attributes:
        model: a ChatModel, a name that `load_model` reads, or a function of (prompt, stop, max_tokens) that gives text.
        actions: Actions, Tools, typed functions, or LangChain tools; afterwards a dict by name.
        tool_prompt: jinja template of tool mode, as text or file; sees about, actions, examples, turns, user, problem.
        chat_prompt: jinja template of chat mode, as text or file; sees about, turns, user, context, rows, problem.
        mode: "default", or "faithful" for the original, rule for rule, with `str.format` templates.
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
        num_predict: most tokens of one reply.
        stop: strings at which a reply is cut, whether or not the server did.
        dispatch: carries out every action: a function of (action, action_input).
        options: further options of each request, such as `{"temperature": 0.7}`.
        recipe: how tool mode's requests are put and its replies are read, in place of `constrained` and `options`;
            the prompt stays `tool_prompt`.
        turns: the record of each turn so far.

    Raises:
        ConfigError: an unknown mode or option, something that is no action, or a template that cannot be read.
    """

    model: Any
    actions: Any = ()
    tool_prompt: Any = None
    chat_prompt: Any = None
    _: KW_ONLY
    mode: Mode = "default"
    chat_model: Any = None
    about: str = ""
    examples: Any = None
    constrained: bool = False
    several: bool = False
    repairs: int = 0
    gate: Callable[[str], bool] | None = None
    context_in_history: Contexts = "all"
    history_tokens: int = 2000
    max_context_chars: int = 4000
    num_predict: int = MAX_TOKENS
    stop: tuple[str, ...] = STOP
    dispatch: Callable[..., Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    recipe: Recipe | None = None
    turns: list[TwoModeTurn] = field(default_factory=list, init=False)
    recipes: dict[str, Recipe] = field(default_factory=dict, init=False)

    def __new__(cls, *given: Any, mode: Mode = "default", **more: Any) -> Any:
        """Make the original where `mode` asks for it."""
        check_word("mode of TwoModeAgent", mode, ("default", "faithful"))
        return OriginalTwoModeAgent(*given, **more) if mode == "faithful" else super().__new__(cls)

    def __post_init__(self) -> None:
        check_word("context_in_history of TwoModeAgent", self.context_in_history, CONTEXTS)
        self.stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        self.actions = as_actions(self.actions)
        self.tool_prompt = load_template(self.tool_prompt, "tool.jinja")
        self.chat_prompt = load_template(self.chat_prompt, "chat.jinja")
        self.examples = load_examples(self.examples, self.actions)
        self.model = as_writer(self.model)
        self.chat_model = self.model if self.chat_model is None else as_writer(self.chat_model)
        options = {**self.options, "stop": self.stop, "num_predict": self.num_predict}
        arm: Any = "constrained" if self.constrained else "prompted"
        self.recipes = {
            TOOL: self.recipe or Recipe.of_model(self.model, reading_protocol(), arm=arm, options=options),
            CHAT: Recipe.of_model(self.chat_model, options=options),
        }
        self._runner = Runner(self.actions, self.dispatch)
        self._disarm = disarming(tuple(self.actions))

    def steps(self, message: str) -> Steps:
        """Yield the steps of one turn, for a driver of your own, and return its record."""
        said = [ChatMessage.from_user(message)]
        trace = Trace("TwoModeAgent")
        shown = shown_turns(self.turns, self.context_in_history, self.history_tokens)
        runs: list[ActionRun] = []
        wanted = ToolModeReading((), "model_failed", "The model failed in tool mode.")
        with failing(trace, said, lambda: _settled(message, wanted, runs)):
            wanted = yield from self._tool_mode(message, shown, trace)
            for action in wanted.actions:
                runs.append((yield from self._act(action, said, trace)))
            prompt = self.chat_text(message, _settled(message, wanted, runs), shown)
            reply = yield from self._ask(CHAT, prompt, trace)
            said.append(ChatMessage.from_assistant(cut_at_stop(reply.text, self.stop).strip()))
            check_reply(reply)
        trace.finish(said, "done")
        return _settled(message, wanted, runs).replace(trace=trace)

    def _ask(self, mode: str, prompt: str, trace: Trace, schema: Any = None) -> Generator[Ask, Any, Reply]:
        recipe, model = self.recipes[mode], self.chat_model if mode == CHAT else self.model
        sent = prompt_request(recipe, prompt, schema=schema, raw=mode == TOOL)
        return asked(trace, model, sent, mode, arm=recipe.arm, schema=schema)

    def _act(self, action: ActionRun, said: list[ChatMessage], trace: Trace) -> Generator[Act, Any, ActionRun]:
        """Carry out one action and note it."""
        number, start, name, value = len(trace.events), time.perf_counter(), action.name, action.input
        call = ToolCall(name, value if isinstance(value, dict) else {"action_input": value}, f"action_{number}")
        trace.record("tool_call", call=call, number=number)
        data, failed = yield Act(lambda mode: self._runner.run(name, value, mode))
        result = ToolCallResult(data if failed is None else failed, call, failed is not None)
        trace.record("tool_result", result=result, number=number, seconds=time.perf_counter() - start)
        said.append(ChatMessage.from_assistant(tool_calls=[call]))
        said.append(ChatMessage.from_tool(result.result, call, result.error))
        return dataclasses.replace(action, result=data, error=failed)

    def _tool_mode(
        self, message: str, shown: Sequence[ShownTurn], trace: Trace
    ) -> Generator[Ask, Any, ToolModeReading]:
        """Ask in tool mode, again where a repair is due, and return what is wanted."""
        if self.gate is not None and not self.gate(message):
            return ToolModeReading((), "gate", "The gate said that no action is needed.")
        held = self.recipes[TOOL].arm == "constrained"
        schema = reply_schema(self.actions.values(), self.several) if held else None
        wanted = ToolModeReading()
        for _ in range(self.repairs + 1):
            reply = yield from self._ask(TOOL, self.tool_text(message, shown, wanted.detail), trace, schema)
            wanted = self._read(reply)
            if not wanted.mendable:
                break
        return wanted

    def _read(self, reply: Reply) -> ToolModeReading:
        try:
            check_reply(reply)
        except ModelError as error:
            return ToolModeReading((), "model_failed", f"The model failed in tool mode: {error}")
        cut = reply.replace(text=cut_at_stop(reply.text, self.stop))
        return read_actions(cut, self.actions, self.several, self.recipes[TOOL])

    def tool_text(self, message: str, shown: Sequence[ShownTurn] | None = None, problem: str = "") -> str:
        """Return the prompt of tool mode for a message; by default behind the turns that were."""
        if shown is None:
            shown = shown_turns(self.turns, self.context_in_history, self.history_tokens)
        actions = self.actions.values()
        prompt: str = self.tool_prompt.fill(
            self._disarm,
            about=self.about,
            actions=[{**self._disarm.value(one.shown), "example": one.shown["example"]} for one in actions],
            examples=self.examples,
            turns=[turn.disarmed(self._disarm) for turn in shown],
            user=self._disarm(message),
            problem=self._disarm(problem),
        )
        return prompt

    def chat_text(self, message: str, turn: TwoModeTurn, shown: Sequence[ShownTurn]) -> str:
        """Return the prompt of chat mode for a message and what its action gave."""
        context = None if turn.reason in _TOLD else self._disarm.value(_capped(turn.context, self.max_context_chars))
        prompt: str = self.chat_prompt.fill(
            self._disarm,
            about=self.about,
            turns=[turn.disarmed(self._disarm) for turn in shown],
            user=self._disarm(message),
            context=context,
            rows=context if isinstance(context, list) else [],
            problem=self._disarm(turn.detail) if turn.reason in _TOLD else "",
        )
        return prompt

    def __repr__(self) -> str:
        return f"TwoModeAgent({', '.join(self.actions) or 'no actions'}; {len(self.turns)} turns)"


def _settled(message: str, wanted: ToolModeReading, runs: Sequence[ActionRun]) -> TwoModeTurn:
    """Return the turn as far as it is known before chat mode speaks."""
    turn = TwoModeTurn(message, actions=tuple(runs))
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
