"""Turn chosen exceptions of tools into results of one's own wording: ToolErrors.

Not here: the agent's default, which tells the model of any exception; `on_tool_error="raise"` switches that off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from toolkit.agents.builtin.retry import matches
from toolkit.agents.builtin.wrappers import ToolRun, ToolWrapper
from toolkit.agents.modes import Mode
from toolkit.agents.requests import ToolAnswer, ToolCallRequest
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage
from toolkit.tools import Tool


class ToolErrors(ToolWrapper):
    """Say in place of a tool's exception what the model is told of it.

    >>> import toolkit as tk
    >>> def read(path: str) -> str:
    ...     '''Read a file.'''
    ...     raise FileNotFoundError(path)
    >>> model = tk.ScriptedModel([tk.ToolCall("read", {"path": "x"}), "done"])
    >>> gone = ToolErrors({"OSError": "No such file."})
    >>> tk.Agent(model, tools=[read], middleware=[gone]).run("go").tool_results[0].result
    'No such file.'

    Args:
        on_error: texts by the name of an exception class or of one above it, the first that fits counts; or a function
            of (exception, request). What has no text, or None, goes on.
        tools: names of the tools it is for; None for all.

    Raises:
        ConfigError: neither texts nor a function.
    """

    def __init__(
        self,
        on_error: Mapping[str, str] | Callable[[Exception, ToolCallRequest], str | None],
        tools: Iterable[Tool | str] | None = None,
    ) -> None:
        super().__init__(tools)
        if not callable(on_error) and not isinstance(on_error, Mapping):
            raise ConfigError(
                f"ToolErrors needs texts by exception or a function of (exception, request): {on_error!r}."
            )
        self.word = on_error

    async def around(self, request: ToolCallRequest, handler: ToolRun, mode: Mode) -> ToolAnswer:
        """Catch what the tool raises."""
        try:
            return await handler(request)
        except Exception as error:
            text = self._text(error, request) if self.concerns(request) else None
            if text is None:
                raise
            return ChatMessage.from_tool(text, request.tool_call, error=True)

    def _text(self, error: Exception, request: ToolCallRequest) -> str | None:
        if callable(self.word):
            return self.word(error, request)
        return next((text for name, text in self.word.items() if matches(error, name)), None)
