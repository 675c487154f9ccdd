"""Turn chosen exceptions of tools into results of one's own wording: ToolErrors.

Not here: the agent's default, which tells the model of any exception; `on_tool_error="raise"` switches that off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolkit.agents.middleware import AgentMiddleware
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage


class ToolErrors(AgentMiddleware):
    """Ask a function what the model is told of a tool's exception; None lets the exception go on.

    >>> import toolkit as tk
    >>> def read(path: str) -> str:
    ...     '''Read a file.'''
    ...     raise FileNotFoundError(path)
    >>> gone = ToolErrors(lambda error, request: "No such file." if isinstance(error, OSError) else None)
    >>> model = tk.ScriptedModel([tk.ToolCall("read", {"path": "x"}), "done"])
    >>> tk.Agent(model, tools=[read], middleware=[gone]).run("go").tool_results[0].result
    'No such file.'

    Args:
        on_error: function of (exception, request) that gives text or None.
        tools: names of the tools it is asked for; None for all.

    Raises:
        ConfigError: no function.
    """

    def __init__(self, on_error: Callable[[Exception, Any], str | None], tools: Iterable[Any] | None = None) -> None:
        if not callable(on_error):
            raise ConfigError(f"ToolErrors needs a function of (exception, request), not {on_error!r}.")
        self.word = on_error
        self.only = None if tools is None else {getattr(tool, "name", tool) for tool in tools}

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Catch what the tool raises."""
        try:
            return handler(request)
        except Exception as error:
            return self._answer(request, error)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Catch what the tool raises."""
        try:
            return await handler(request)
        except Exception as error:
            return self._answer(request, error)

    def _answer(self, request: Any, error: Exception) -> ChatMessage:
        mine = self.only is None or request.tool_call.name in self.only
        text = self.word(error, request) if mine else None
        if text is None:
            raise error
        return ChatMessage.from_tool(text, request.tool_call, error=True)
