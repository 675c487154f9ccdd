"""Offer ready middleware, one small module each; names load on first use.

    ModelRetry        ask again when the model server fails          ToolRetry       run a failed tool again
    ModelFallback     ask other models when one fails                ToolErrors      turn chosen exceptions into results
    ModelCallLimit    stop after so many model calls                 ToolCallLimit   stop after so many tool calls
    ContextEditing    blank out old tool results                     Summarization   replace old history by a summary
    HumanApproval     ask a person before a tool runs                PIIRedaction    hide addresses, cards, numbers
    ToolSelection     offer only the tools that fit the question     ToolEmulation   let a model play the tools
    Planning          let the model keep a list of things to do      FormatRepair    ask again for a readable call
    FewShot           put fitting examples in front

Not here: how middleware works (`toolkit.agents.middleware`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "context_editing": "ContextEditing",
    "emulation": "ToolEmulation",
    "fallback": "ModelFallback",
    "few_shot": "FewShot",
    "format_repair": "FormatRepair",
    "human_approval": "HumanApproval",
    "limits": "ModelCallLimit ToolCallLimit",
    "pii": "PIIRedaction PIIFoundError",
    "planning": "Planning",
    "retry": "ModelRetry ToolRetry",
    "selection": "ToolSelection",
    "summarization": "Summarization",
    "tool_errors": "ToolErrors",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ContextEditing",
    "FewShot",
    "FormatRepair",
    "HumanApproval",
    "ModelCallLimit",
    "ModelFallback",
    "ModelRetry",
    "PIIFoundError",
    "PIIRedaction",
    "Planning",
    "Summarization",
    "ToolCallLimit",
    "ToolEmulation",
    "ToolErrors",
    "ToolRetry",
    "ToolSelection",
]

if TYPE_CHECKING:
    from toolkit.agents.builtin.context_editing import ContextEditing
    from toolkit.agents.builtin.emulation import ToolEmulation
    from toolkit.agents.builtin.fallback import ModelFallback
    from toolkit.agents.builtin.few_shot import FewShot
    from toolkit.agents.builtin.format_repair import FormatRepair
    from toolkit.agents.builtin.human_approval import HumanApproval
    from toolkit.agents.builtin.limits import ModelCallLimit, ToolCallLimit
    from toolkit.agents.builtin.pii import PIIFoundError, PIIRedaction
    from toolkit.agents.builtin.planning import Planning
    from toolkit.agents.builtin.retry import ModelRetry, ToolRetry
    from toolkit.agents.builtin.selection import ToolSelection
    from toolkit.agents.builtin.summarization import Summarization
    from toolkit.agents.builtin.tool_errors import ToolErrors


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
