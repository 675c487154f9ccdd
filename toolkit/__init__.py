"""Prompt local models into calling tools, read their calls, run them, and measure how reliably it works.

Use it as `import toolkit as tk`; names load on first use, so the import stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "toolkit.errors": "ToolkitError UserError ConfigError ModelError ModelNotFoundError WeightsError StoreError "
    "ReplayMissError AgentError LimitError UpdateError "
    "ToolError ToolNotFoundException ToolInvocationError ToolArgumentsError ToolTimeoutError ToolNotApprovedError "
    "StringConversionError ToolOutputMergeError",
    "toolkit.messages": "ChatMessage ChatRole ToolCall ToolCallResult SystemMessage HumanMessage",
    "toolkit.tools": "Tool tool",
    "toolkit.extraction": "extract StreamExtractor Extraction ExtractedCall",
    "toolkit.execution.invoker": "ToolInvoker",
    "toolkit.execution.function_caller": "OpenAIFunctionCaller",
    "toolkit.execution.state": "State",
    "toolkit.execution.toolset": "Toolset",
    "toolkit.execution.openapi.tool": "OpenAPITool LLMProvider",
    "toolkit.secrets": "Secret",
    "toolkit.models.base": "ChatModel Reply Options Fault",
    "toolkit.models.registry": "load_model list_models",
    "toolkit.models.scripted": "ScriptedModel",
    "toolkit.models.store": "Store",
    "toolkit.agents.airgap.chat": "AirgapChat",
    "toolkit.agents.two_mode.agent": "TwoModeAgent",
    "toolkit.agents.agent": "Agent",
    "toolkit.agents.middleware": "AgentMiddleware hook_config",
    "toolkit.agents.decorators": "before_agent before_model after_model after_agent wrap_model_call wrap_tool_call "
    "dynamic_prompt",
    "toolkit.agents.requests": "ModelRequest ModelResponse ExtendedModelResponse ToolCallRequest Command",
    "toolkit.traces": "Trace",
    "toolkit.prompting.protocols": "Protocol load_protocol list_protocols",
    "toolkit.recipes": "Recipe load_recipes",
    "toolkit.evaluation.cases": "Case load_cases list_cases",
    "toolkit.asking": "ask",
    "toolkit.evaluation.sweep": "evaluate",
    "toolkit.evaluation.probes": "Probe probe",
    "toolkit.evaluation.results": "Result",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
_ROOMS = "agents asking errors evaluation execution extraction lab messages models prompting recipes resources tools"
_MODULES = {name: f"toolkit.{name}" for name in (*_ROOMS.split(), "testing", "traces", "worlds")}
_MODULES |= {"batch": "toolkit.evaluation.batch", "middleware": "toolkit.agents.builtin"}

__all__ = sorted(_HOME)  # noqa: PLE0605 - pinned by tests/test_surface.py

if TYPE_CHECKING:
    from toolkit.agents.agent import Agent
    from toolkit.agents.airgap.chat import AirgapChat
    from toolkit.agents.decorators import (
        after_agent,
        after_model,
        before_agent,
        before_model,
        dynamic_prompt,
        wrap_model_call,
        wrap_tool_call,
    )
    from toolkit.agents.middleware import AgentMiddleware, hook_config
    from toolkit.agents.requests import (
        Command,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        ToolCallRequest,
    )
    from toolkit.agents.two_mode.agent import TwoModeAgent
    from toolkit.asking import ask
    from toolkit.errors import (
        AgentError,
        ConfigError,
        LimitError,
        ModelError,
        ModelNotFoundError,
        ReplayMissError,
        StoreError,
        StringConversionError,
        ToolArgumentsError,
        ToolError,
        ToolInvocationError,
        ToolkitError,
        ToolNotApprovedError,
        ToolNotFoundException,
        ToolOutputMergeError,
        ToolTimeoutError,
        UpdateError,
        UserError,
        WeightsError,
    )
    from toolkit.evaluation.cases import Case, list_cases, load_cases
    from toolkit.evaluation.probes import Probe, probe
    from toolkit.evaluation.results import Result
    from toolkit.evaluation.sweep import evaluate
    from toolkit.execution.function_caller import OpenAIFunctionCaller
    from toolkit.execution.invoker import ToolInvoker
    from toolkit.execution.openapi.tool import LLMProvider, OpenAPITool
    from toolkit.execution.state import State
    from toolkit.execution.toolset import Toolset
    from toolkit.extraction import ExtractedCall, Extraction, StreamExtractor, extract
    from toolkit.messages import ChatMessage, ChatRole, HumanMessage, SystemMessage, ToolCall, ToolCallResult
    from toolkit.models.base import ChatModel, Fault, Options, Reply
    from toolkit.models.registry import list_models, load_model
    from toolkit.models.scripted import ScriptedModel
    from toolkit.models.store import Store
    from toolkit.prompting.protocols import Protocol, list_protocols, load_protocol
    from toolkit.recipes import Recipe, load_recipes
    from toolkit.secrets import Secret
    from toolkit.tools import Tool, tool
    from toolkit.traces import Trace


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    from toolkit.errors import closest

    near = closest(name, [*_HOME, *_MODULES], n=1)
    hint = f". Did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'toolkit' has no attribute {name!r}{hint}")


def load_ipython_extension(shell: Any) -> None:
    """Register the cell magic `%%tools`; `%load_ext toolkit` in a notebook calls this."""
    from toolkit.lab import magics

    magics.load_ipython_extension(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
