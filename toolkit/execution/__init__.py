"""Run tool calls: ToolInvoker, OpenAIFunctionCaller, State, Toolset, and tools made of OpenAPI and MCP services.

Names load on first use, so that an invoker alone does not import an HTTP client.
Not here: reading calls out of a reply (`toolkit.extraction`), the agent loop (`toolkit.agents`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "toolkit.execution.invoker": "ToolInvoker",
    "toolkit.execution.function_caller": "OpenAIFunctionCaller",
    "toolkit.execution.state": "State",
    "toolkit.execution.toolset": "Toolset",
    "toolkit.execution.chunks": "ResultChunk",
    "toolkit.execution.conversion": "to_text",
    "toolkit.errors": "ToolError ToolNotFoundException ToolInvocationError ToolArgumentsError ToolTimeoutError "
    "ToolNotApprovedError StringConversionError ToolOutputMergeError",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the table above is the list

if TYPE_CHECKING:
    from toolkit.execution.chunks import ResultChunk as ResultChunk
    from toolkit.execution.conversion import to_text as to_text
    from toolkit.execution.function_caller import OpenAIFunctionCaller as OpenAIFunctionCaller
    from toolkit.execution.invoker import ToolInvoker as ToolInvoker
    from toolkit.execution.state import State as State
    from toolkit.execution.toolset import Toolset as Toolset


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'toolkit.execution' has no attribute {name!r}")
