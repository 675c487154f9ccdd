"""Ask again when a reply tried a call and failed, with the reason: FormatRepair.

The agent does so by itself after a turn (`max_reasks`), and the failed try stays in the history. This asks inside
the turn: the model sees its reply and the reason, and only the repaired reply is kept, which costs fewer tokens later.
Not here: mending near-JSON without asking (`toolkit.extraction`).
"""

from __future__ import annotations

from toolkit.agents.builtin.wrappers import ModelCall, ModelWrapper
from toolkit.agents.middleware import ModelResult
from toolkit.agents.modes import Mode
from toolkit.agents.requests import ModelRequest, ModelResponse
from toolkit.agents.wording import say
from toolkit.errors import check_number
from toolkit.messages import ChatMessage


class FormatRepair(ModelWrapper):
    """Ask once more, or `times`, with the reason why no call could be read.

    >>> import toolkit as tk
    >>> def now() -> str:
    ...     '''Tell the time.'''
    ...     return "noon"
    >>> good = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    >>> model = tk.ScriptedModel(['<tool_call>{"name": "now", "argu', good, "It is noon."])
    >>> agent = tk.Agent(model, tools=[now], arm="prompted", middleware=[FormatRepair()])
    >>> len(agent.run("time?").messages)
    4

    Args:
        times: further tries after the first.
    """

    def __init__(self, times: int = 1) -> None:
        check_number("times", times)
        self.times = times

    async def around(self, request: ModelRequest, handler: ModelCall, mode: Mode) -> ModelResult:
        """Ask until the reply can be read or the tries are used up."""
        response = await handler(request)
        for _ in range(self.times):
            again = _repair(request, response)
            if again is None:
                break
            response = await handler(again)
        return response


def _repair(request: ModelRequest, response: ModelResponse) -> ModelRequest | None:
    """Return the request that asks again, or None where nothing is wrong."""
    message = next(iter(response.result), None)
    invalid = message.meta.get("invalid_calls") if message is not None else None
    if message is None or not invalid or message.tool_calls:
        return None
    reason = "; ".join(str(bad.get("reason") or bad.get("error") or "it is no valid JSON") for bad in invalid)
    told = ChatMessage.from_user(say("invalid_call", reason=reason))
    said = ChatMessage.from_assistant(message.text or "")
    return request.override(messages=(*request.messages, said, told))
