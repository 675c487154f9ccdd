"""Let a model play the tools: ToolEmulation.

For trying prompts before the tools exist, and for tools that must not run for real.
Not here: recorded results; give such a tool a function that looks them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolkit.agents.middleware import AgentMiddleware
from toolkit.agents.wording import say
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel


class ToolEmulation(AgentMiddleware):
    """Have a model invent the results of some tools; the tools need no function, and need not even exist.

    >>> import toolkit as tk
    >>> spec = {"name": "weather", "description": "Tell the weather.", "parameters": {"type": "object"}}
    >>> model = tk.ScriptedModel([tk.ToolCall("weather", {}), "It rains."])
    >>> emulator = ToolEmulation(tk.ScriptedModel(['{"sky": "rain"}']))
    >>> tk.Agent(model, tools=[spec], middleware=[emulator]).run("weather?").tool_results[0].result
    '{"sky": "rain"}'

    Args:
        model: who plays the tools.
        tools: names of the tools to play; None for all, those too that the calling model made up.
    """

    def __init__(self, model: ChatModel, tools: Iterable[Any] | None = None) -> None:
        self.model = model
        self.only = None if tools is None else {getattr(tool, "name", tool) for tool in tools}

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Ask the model in the tool's place."""
        if not self._plays(request):
            return handler(request)
        reply = request.runtime.call_model(self.model, _prompt(request), source=self.name)
        return ChatMessage.from_tool(reply.text, request.tool_call)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Ask the model in the tool's place."""
        if not self._plays(request):
            return await handler(request)
        reply = await request.runtime.acall_model(self.model, _prompt(request), source=self.name)
        return ChatMessage.from_tool(reply.text, request.tool_call)

    def _plays(self, request: Any) -> bool:
        return self.only is None or request.tool_call.name in self.only


def _prompt(request: Any) -> str:
    call = request.tool_call
    return say("emulate_tool", tool=request.tool, name=call.name, arguments=call.arguments)
