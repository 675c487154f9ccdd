"""Which of our ready middlewares stands for one of the original's, and how its arguments are called here."""

from __future__ import annotations

from typing import Any

import toolkit as tk
from toolkit.agents import builtin

Data = dict[str, Any]
NAMES = {
    "ModelRetryMiddleware": "ModelRetry",
    "ToolRetryMiddleware": "ToolRetry",
    "ModelFallbackMiddleware": "ModelFallback",
    "ToolErrorMiddleware": "ToolErrors",
    "ModelCallLimitMiddleware": "ModelCallLimit",
    "ToolCallLimitMiddleware": "ToolCallLimit",
    "SummarizationMiddleware": "Summarization",
    "ContextEditingMiddleware": "ContextEditing",
    "PIIMiddleware": "PIIRedaction",
    "TodoListMiddleware": "Planning",
    "LLMToolSelectorMiddleware": "ToolSelection",
    "LLMToolEmulator": "ToolEmulation",
}


def ready_made(spec: Data, models: Data) -> tk.AgentMiddleware:
    """Build our middleware for one of the original's, with its arguments in our words."""

    def value(given: Any) -> Any:
        if isinstance(given, str) and given.startswith("$model:"):
            return models[given[7:]]
        if isinstance(given, dict) and "$tuple" in given:
            return tuple(given["$tuple"])
        return [value(item) for item in given] if isinstance(given, list) else given

    options = {key: value(given) for key, given in spec.get("kwargs", {}).items()}
    ours: Any = getattr(builtin, NAMES[spec["builtin"]])
    if ours is builtin.ContextEditing:
        (edit,) = options.pop("edits", [{}])
        options |= {k: v for k, v in edit.items() if k in ("trigger", "keep", "exclude_tools", "placeholder")}
    if ours is builtin.Planning:
        options.pop("tool_description", None)
    if ours in (builtin.ModelRetry, builtin.ToolRetry):
        words = {"raise": "error", "return_message": "continue"}
        options["on_failure"] = words.get(options.get("on_failure", "continue"), options.get("on_failure", "continue"))
    return ours(*map(value, spec.get("args", [])), **options)
