"""How did the published two-mode agent work? Step for step: one greedy cut, one silent `except`, one shared history.

`TwoModeAgent(mode="faithful")` makes this class, so that the published rule can be compared with others. Nothing here
is repaired.

But: the original printed the tool reply and the exception; here both stand in the record of the turn.
Not here: the repaired rules (`toolkit.agents.two_mode.agent`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from typing import Any

from toolkit.agents.drivers import Act, Ask, asked
from toolkit.agents.modes import BLOCKING, Mode, at_once, beside
from toolkit.agents.two_mode.actions import AnyAction, Runner, as_actions
from toolkit.agents.two_mode.prompts import load_template
from toolkit.agents.two_mode.turn import CHAT, TOOL, ActionRun, Steps, Talk, TwoModeTurn, failing
from toolkit.asking import Request
from toolkit.errors import ModelError, ToolInvocationError
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel, Options, Reply
from toolkit.models.function import as_writer
from toolkit.traces import Trace

STOP = ("User:",)
MAX_TOKENS = 800
NO_CONTEXT = (
    "There is no context to provide. Answer User based on system instructions and current conversation history. "
)


class OriginalTwoModeAgent(Talk):
    """Talk and act as the published agent did; both prompts are sent as they are.

    Args:
        model: a ChatModel, a name that `load_model` reads, or a function of (prompt, stop, max_tokens) that gives text.
        actions: Actions, Tools, typed functions, or LangChain tools.
        tool_prompt: `str.format` template of tool mode, as text or file, with numbered slots: history, user.
        chat_prompt: template of chat mode: history, user, context.
        chat_model: another model, or function, for chat mode.
        dispatch: carries out what tool mode wrote: a function of the parsed value.
        options: further options of each request.

    Attributes:
        history: the lines that both modes share, oldest first; augmented user texts carry their context and label.

    Raises:
        ConfigError: an unknown option, something that is no action, or a template that cannot be read.
    """

    mode = "faithful"

    def __init__(
        self,
        model: Any,
        actions: Any = (),
        tool_prompt: Any = None,
        chat_prompt: Any = None,
        *,
        chat_model: Any = None,
        dispatch: Callable[[Any], Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = as_writer(model)
        self.chat_model = self.model if chat_model is None else as_writer(chat_model)
        self.actions = as_actions(actions)
        self.tool_prompt = load_template(tool_prompt, "faithful_tool.txt")
        self.chat_prompt = load_template(chat_prompt, "faithful_chat.txt")
        self.dispatch = dispatch or dispatcher_of(self.actions)
        self.options = {**(options or {}), "stop": STOP, "num_predict": MAX_TOKENS}
        Options.of(self.options)
        self.turns: list[TwoModeTurn] = []
        self.history: list[str] = []

    def reset(self) -> None:
        """Forget the conversation."""
        super().reset()
        self.history.clear()

    def steps(self, message: str) -> Steps:
        """Yield the steps of one turn and return its record."""
        said = [ChatMessage.from_user(message)]
        turn = TwoModeTurn(message, Trace("TwoModeAgent"))
        trace, history, user = turn.trace, self.history, "User: " + message
        with failing(trace, said, lambda: turn):
            prompt = self.tool_prompt.source.format("\n".join(history), user)
            tool_said = yield from self._ask(TOOL, self.model, prompt, trace)
            value, context, error = yield from self._dispatched(tool_said)
            needed = error is None
            before = "\n".join(history)
            prompt = self.chat_prompt.source.format(before, user, str(context) if needed else NO_CONTEXT)
            history.append(f"User: {context}\n\n{user}" if needed else user)
            turn = turn.replace(
                tool=needed,
                context=context if needed else None,
                reason=None if needed else type(error).__name__,
                detail="" if needed else str(error),
                actions=_record(value, context, error),
            )
            answer = yield from self._ask(CHAT, self.chat_model, prompt, trace)
        history.append(f"Assistant: {answer}")
        trace.finish([*said, ChatMessage.from_assistant(answer)], "done")
        return turn

    def _ask(self, mode: str, model: ChatModel, prompt: str, trace: Trace) -> Generator[Ask, Reply, str]:
        """Put one request, note it and return what the model wrote."""
        options = Options.of(self.options, model.defaults)
        request = Request((ChatMessage.from_user(prompt),), options=options, raw=True)
        reply = yield from asked(trace, model, request, mode)
        if reply.fault is not None:  # a server that failed is not swallowed, as it was not by the original
            raise ModelError(f"The model failed: {reply.fault.message}", reply.fault)
        return reply.text

    def _dispatched(self, said: str) -> Generator[Act, Any, tuple[Any, Any, Exception | None]]:
        """Return the value in what tool mode wrote, what its dispatch gave, and what went wrong."""

        async def dispatch(mode: Mode) -> tuple[Any, Any, Exception | None]:
            value = None
            try:
                value = cut_json(said)
                return value, self.dispatch(value) if mode is BLOCKING else await beside(self.dispatch, value), None
            except Exception as error:  # the original swallows all of them
                return value, None, error

        found: tuple[Any, Any, Exception | None] = yield Act(dispatch)
        return found

    def __repr__(self) -> str:
        return f"TwoModeAgent({', '.join(self.actions) or 'no actions'}; mode='faithful', {len(self.turns)} turns)"


def cut_json(reply: str) -> Any:
    """Read what stands between the first and the last brace, newlines deleted first.

    Raises:
        ValueError: there is no brace, or it is no JSON.
    """
    text = reply.replace("\n", "")
    first = text.index("{")
    last = len(text) - text[::-1].index("}")
    return json.loads(text[first:last])


def _record(value: Any, context: Any, error: Exception | None) -> tuple[ActionRun, ...]:
    """Return what was dispatched, where it can be told."""
    if not isinstance(value, dict) or "action" not in value:
        return ()
    failed = None if error is None else f"{type(error).__name__}: {error}"
    return (ActionRun(str(value["action"]), value.get("action_input"), context, failed),)


def dispatcher_of(actions: Mapping[str, AnyAction]) -> Callable[[Any], Any]:
    """Return the dispatcher over named actions: of a parsed value; it raises on anything unexpected."""
    runner = Runner(actions)

    def dispatch(value: Any) -> Any:
        name, given = value["action"], value["action_input"]
        data, error = at_once(runner.run(name, actions[name].checked(given), BLOCKING))
        if error is not None:
            raise ToolInvocationError(error)
        return data

    return dispatch
