"""Write a wrapper once for sync and async runs: ModelWrapper, ToolWrapper.

Not here: how one body serves both (`toolkit.agents.modes`), the hooks themselves (`toolkit.agents.middleware`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from toolkit.agents.middleware import AgentMiddleware, ModelHandler, ModelResult, ToolHandler
from toolkit.agents.modes import BLOCKING, YIELDING, Mode, at_once
from toolkit.agents.requests import ModelRequest, ModelResponse, ToolAnswer, ToolCallRequest
from toolkit.tools import Tool

ModelCall = Callable[[ModelRequest], Awaitable[ModelResponse]]
ToolRun = Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
Given = TypeVar("Given")
T = TypeVar("T")


def _lifted(handler: Callable[[Given], T]) -> Callable[[Given], Awaitable[T]]:
    async def call(request: Given) -> T:
        return handler(request)

    return call


def names_of(tools: Iterable[Tool | str] | str) -> tuple[str, ...]:
    """Return the names of tools; one name alone will do.

    >>> names_of("add"), names_of(["add", Tool("sum", "Add.", {})])
    (('add',), ('add', 'sum'))
    """
    given = [tools] if isinstance(tools, str) else tools
    return tuple(tool if isinstance(tool, str) else tool.name for tool in given)


class ModelWrapper(AgentMiddleware):
    """Stand around model calls; override `changed` to change the request, or `around` for more."""

    def changed(self, request: ModelRequest) -> ModelRequest:
        """Return the request that is passed on."""
        return request

    async def around(self, request: ModelRequest, handler: ModelCall, mode: Mode) -> ModelResult:
        """Stand around one model call."""
        return await handler(self.changed(request))

    def wrap_model_call(self, request: ModelRequest, handler: ModelHandler) -> ModelResult:
        """Run the body."""
        return at_once(self.around(request, _lifted(handler), BLOCKING))

    async def awrap_model_call(self, request: ModelRequest, handler: ModelCall) -> ModelResult:
        """Run the body."""
        return await self.around(request, handler, YIELDING)


class ToolWrapper(AgentMiddleware):
    """Stand around the calls of some tools; override `around`.

    Args:
        tools: the tools or their names; None for all.
    """

    def __init__(self, tools: Iterable[Tool | str] | str | None = None) -> None:
        self.only = None if tools is None else names_of(tools)
        self.tools_named = self.only or ()

    def concerns(self, request: ToolCallRequest) -> bool:
        """Tell whether the call is of one of the tools."""
        return self.only is None or request.tool_call.name in self.only

    async def around(self, request: ToolCallRequest, handler: ToolRun, mode: Mode) -> ToolAnswer:
        """Stand around one call."""
        return await handler(request)

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolAnswer:
        """Run the body."""
        return at_once(self.around(request, _lifted(handler), BLOCKING))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolRun) -> ToolAnswer:
        """Run the body."""
        return await self.around(request, handler, YIELDING)
