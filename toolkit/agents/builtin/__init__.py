"""Offer ready middleware, one small module each, under our names and LangChain's: `tk.middleware.NAME`.

`print(tk.middleware.names_table())` says what each does; `tk.middleware.build` makes one of plain data.

Where arguments differ from LangChain's:

    ContextEditing   no `edits`: trigger (4,000 unless set), keep, exclude_tools and placeholder are its own; take one
                     for each edit. `token_counter` is `count_tokens`; `persist` also changes the state
    HumanApproval    `interrupt_on` is `tools` (a dict will do); the run asks `ask`, and stops only with `ask="pause"`
    Planning         the words of `tool_description` are in `prompts/agents/write_todos.jinja`
    PIIRedaction     `pii_type` is `kind`; a detector gives (start, end) pairs
    Summarization    `token_counter` is `count_tokens`; `window` is what a fraction is of; the words of `summary_prompt`
                     are in `prompts/agents/summarize.jinja`
    ToolEmulation    the model comes first
    ToolErrors       no `aon_error`; texts by the exception's name will do in place of a function
    ToolSelection    without a model it compares words; `max_tools` is 5 unless set; the words of `system_prompt` are in
                     `prompts/agents/select_tools.jinja`

Not here: how middleware works (`toolkit.agents.middleware`).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.agents.builtin.emulation import ToolEmulation
from toolkit.agents.builtin.failures import FormatRepair, ModelFallback, ModelRetry, ToolErrors, ToolRetry
from toolkit.agents.builtin.history import ContextEditing, Summarization
from toolkit.agents.builtin.human_approval import HumanApproval
from toolkit.agents.builtin.limits import ModelCallLimit, ToolCallLimit
from toolkit.agents.builtin.pii import PIIFoundError, PIIRedaction
from toolkit.agents.builtin.planning import Planning
from toolkit.agents.builtin.selection import FewShot, ToolSelection
from toolkit.agents.middleware import AgentMiddleware
from toolkit.errors import ConfigError, did_you_mean
from toolkit.recipes import read_entry

# LangChain's name of each, where it has one
_LANGCHAIN: dict[type, str] = {
    ContextEditing: "ContextEditingMiddleware",
    FewShot: "",
    FormatRepair: "",
    HumanApproval: "HumanInTheLoopMiddleware",
    ModelCallLimit: "ModelCallLimitMiddleware",
    ModelFallback: "ModelFallbackMiddleware",
    ModelRetry: "ModelRetryMiddleware",
    PIIFoundError: "PIIDetectionError",
    PIIRedaction: "PIIMiddleware",
    Planning: "TodoListMiddleware",
    Summarization: "SummarizationMiddleware",
    ToolCallLimit: "ToolCallLimitMiddleware",
    ToolEmulation: "LLMToolEmulator",
    ToolErrors: "ToolErrorMiddleware",
    ToolRetry: "ToolRetryMiddleware",
    ToolSelection: "LLMToolSelectorMiddleware",
}
_KINDS = {kind.__name__: kind for kind in _LANGCHAIN} | {name: kind for kind, name in _LANGCHAIN.items() if name}
globals().update(_KINDS)

__all__ = sorted([*_KINDS, "build", "names_table"])  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    near = "" if name.startswith("__") else f" {did_you_mean(name, _KINDS)}"
    raise AttributeError(f"tk.middleware has no {name!r}.{near}")


def build(name: str, arguments: Mapping[str, Any] | Sequence[Any] = ()) -> AgentMiddleware:
    """Make a middleware from plain data, such as an entry `[[middleware]]` of a TOML file.

    >>> build("PIIMiddleware", {"kind": "email"}).name, build("ModelRetry", [3]).backoff.max_retries
    ('PIIRedaction[email]', 3)

    Args:
        name: a name of this module, or `package.module:Class`, which imports that module: read only files you trust.
        arguments: by name, or in order.

    Raises:
        ConfigError: no such middleware, or arguments that it does not take.
    """
    kind = _kind(name)
    try:
        return kind(**arguments) if isinstance(arguments, Mapping) else kind(*arguments)
    except ConfigError as error:
        raise ConfigError(f"Middleware {name!r}: {error}") from error
    except TypeError as error:
        known = list(inspect.signature(kind).parameters)
        wrong = next((key for key in arguments if key not in known), "") if isinstance(arguments, Mapping) else ""
        raise ConfigError(
            f"Middleware {name!r} cannot be made of {arguments!r}: {error}. {did_you_mean(wrong, known)}"
        ) from error


def as_middleware(value: Any) -> Any:
    """Return a middleware made of its name, or of {"name": …, "arguments": …}; anything else as it is.

    Raises:
        ConfigError: no such middleware, or arguments that it does not take.
    """
    if not isinstance(value, (str, Mapping)):
        return value
    entry = read_entry(value)
    return build(entry["name"], entry.get("arguments", {}))


def _kind(name: str) -> type[AgentMiddleware]:
    module, colon, attribute = name.rpartition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None) if colon else _KINDS.get(name)
    except ImportError as error:
        raise ConfigError(f"Middleware {name!r} cannot be imported: {error}. Write package.module:Class.") from None
    if isinstance(found, type) and issubclass(found, AgentMiddleware):
        return found
    known = [known for known, kind in _KINDS.items() if issubclass(kind, AgentMiddleware)]
    raise ConfigError(f"{name!r} is no middleware. {did_you_mean(name, known)} Or write package.module:Class.")


def names_table() -> str:
    """Return both names of each ready middleware, and what it does, as a table in Markdown.

    >>> names_table().splitlines()[2].split(" | ")[:2]
    ['| `ContextEditing`', '`ContextEditingMiddleware`']
    """
    rows = ["| name | in LangChain | what it does |", "|---|---|---|"]
    for kind, other in _LANGCHAIN.items():
        if not issubclass(kind, AgentMiddleware):  # an error
            continue
        said = (kind.__doc__ or "").partition("\n")[0]
        rows.append(f"| `{kind.__name__}` | {f'`{other}`' if other else ''} | {said} |")
    return "\n".join(rows)
