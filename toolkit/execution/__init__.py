"""Run tool calls: ToolInvoker, OpenAIFunctionCaller, State, Toolset, and tools made of OpenAPI and MCP services.

Names load on first use, so that an invoker alone does not import an HTTP client.
Not here: reading calls out of a reply (`toolkit.extraction`), the agent loop (`toolkit.agents`).
"""

from __future__ import annotations

from typing import Any

import toolkit

__all__ = ["OpenAIFunctionCaller", "State", "ToolInvoker", "Toolset"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(toolkit, name)
    raise AttributeError(f"module 'toolkit.execution' has no attribute {name!r}")
