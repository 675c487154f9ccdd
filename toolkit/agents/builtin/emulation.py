"""Let a model play the tools: ToolEmulation.

For trying prompts before the tools exist, and for tools that must not run for real.
Not here: recorded results; give such a tool a function that looks them up.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.agents.builtin.wrappers import ToolRun, ToolWrapper
from toolkit.agents.modes import Mode
from toolkit.agents.requests import ToolAnswer, ToolCallRequest
from toolkit.agents.wording import quote
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel
from toolkit.models.registry import as_model
from toolkit.tools import Tool


class ToolEmulation(ToolWrapper):
    """Have a model invent the results of some tools; the tools need no function, and need not even exist.

    >>> import toolkit as tk
    >>> spec = {"name": "weather", "description": "Tell the weather.", "parameters": {"type": "object"}}
    >>> model = tk.ScriptedModel([tk.ToolCall("weather", {}), "It rains."])
    >>> emulator = ToolEmulation(tk.ScriptedModel(['{"sky": "rain"}']))
    >>> tk.Agent(model, tools=[spec], middleware=[emulator]).run("weather?").tool_results[0].result
    '{"sky": "rain"}'

    Args:
        model: who plays the tools, or its name; None is the agent's own model.
        tools: names of the tools to play; None for all, those too that the calling model made up.
    """

    def __init__(self, model: ChatModel | str | None = None, tools: Iterable[Tool | str] | None = None) -> None:
        super().__init__(tools)
        self.tools_named = ()
        self.model: ChatModel | None = None if model is None else as_model(model)

    async def around(self, request: ToolCallRequest, handler: ToolRun, mode: Mode) -> ToolAnswer:
        """Ask the model in the tool's place."""
        if not self.concerns(request):
            return await handler(request)
        call, runtime = request.tool_call, request.runtime
        prompt = quote("emulate_tool", tool=request.tool, name=call.name, arguments=call.arguments)
        reply = await runtime.ask(self.model or runtime.model, prompt, self.name, mode)
        return ChatMessage.from_tool(reply.text, call)
