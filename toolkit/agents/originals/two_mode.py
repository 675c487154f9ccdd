"""How did the published two-mode agent work? Step for step: one greedy cut, one silent `except`, one shared history.

Nothing here is repaired: `TwoModeAgent(mode="faithful")` exists so that the published rule can be compared with others.

But: the original printed the tool reply and the exception; here both stand in the record of the turn.
Not here: the repaired rules, which are the default (`toolkit.agents.two_mode.agent`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.agents.partial import keep_partial
from toolkit.agents.two_mode.actions import AnyAction, Runner
from toolkit.agents.two_mode.steps import Complete, Dispatch, Steps
from toolkit.agents.two_mode.turn import ActionRun, ModeCall, TwoModeTurn
from toolkit.errors import ModelError, ToolInvocationError
from toolkit.models.base import Reply

STOP = ("User:",)
MAX_TOKENS = 800
NO_CONTEXT = (
    "There is no context to provide. Answer User based on system instructions and current conversation history. "
)


@dataclass
class Conversation:
    """Keep the lines that both modes share.

    Attributes:
        conversation_history: the lines, oldest first; augmented user texts carry their context and their label.
    """

    conversation_history: list[str] = field(default_factory=list)

    def add_message(self, label: str, text: str) -> None:
        """Add one line: the label, then the text."""
        self.conversation_history.append(label + text)


def cut_json(reply: str) -> Any:
    """Read what stands between the first and the last brace, newlines deleted first.

    Raises:
        ValueError: there is no brace, or it is no JSON.
    """
    text = reply.replace("\n", "")
    first = text.index("{")
    last = len(text) - text[::-1].index("}")
    return json.loads(text[first:last])


def converse(message: str, tool_prompt: str, chat_prompt: str, history: Conversation) -> Steps:
    """Yield what is to be completed and dispatched, receive the answers, and return the record of the turn."""
    user = "User: " + message
    asked = tool_prompt.format("\n".join(history.conversation_history), user)
    tool_reply: Reply = yield Complete("tool", asked, STOP, MAX_TOKENS)
    tool_said, context, error = _said(tool_reply), None, None
    try:
        value = cut_json(tool_said)
    except Exception as problem:  # the original swallows all of them
        value, error = None, problem
    else:
        context, error = yield Dispatch(value)
    needed = error is None
    before = "\n".join(history.conversation_history)
    prompt = chat_prompt.format(before, user, str(context) if needed else NO_CONTEXT)
    history.add_message("User: ", f"{context}\n\n{user}" if needed else message)
    turn = TwoModeTurn(
        message,
        "",
        tool=needed,
        context=context if needed else None,
        reason=None if needed else type(error).__name__,
        detail="" if needed else str(error),
        actions=_record(value, context, error),
        tool_calls=(ModeCall(asked, tool_reply),),
    )
    try:
        chat_reply: Reply = yield Complete("chat", prompt, STOP, MAX_TOKENS)
        answer = _said(chat_reply)
    except Exception as failure:
        keep_partial(failure, lambda: turn)
        raise
    history.add_message("Assistant: ", answer)
    return turn.replace(text=answer, chat_call=ModeCall(prompt, chat_reply))


def _said(reply: Reply) -> str:
    """Return what the model wrote; a server that failed is not swallowed, as it was not by the original."""
    if reply.fault is not None:
        raise ModelError(f"The model failed: {reply.fault.message}", reply.fault)
    return reply.text


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
        data, error = runner.run(name, actions[name].checked(given))
        if error is not None:
            raise ToolInvocationError(error)
        return data

    return dispatch
