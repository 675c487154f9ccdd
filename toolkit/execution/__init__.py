"""Run tool calls: ToolInvoker, OpenAIFunctionCaller, State, Toolset, and tools made of OpenAPI and MCP services.

Names load on first use, so that an invoker alone does not import an HTTP client.
Not here: reading calls out of a reply (`toolkit.extraction`), the agent loop (`toolkit.agents`).
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ToolInvoker": "toolkit.execution.invoker",
    "OpenAIFunctionCaller": "toolkit.execution.function_caller",
    "State": "toolkit.execution.state",
    "Toolset": "toolkit.execution.toolset",
}
__all__ = sorted(_HOME)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'toolkit.execution' has no attribute {name!r}")
