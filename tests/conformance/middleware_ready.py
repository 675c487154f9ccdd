"""Which of our ready middlewares stands for one of LangChain's, and how are its arguments called here?

Not here: middleware that a scenario defines itself (`middleware_world`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scripted import Speaker

import toolkit as tk

Data = dict[str, Any]
NAMES = {
    "ModelRetryMiddleware": "ModelRetry", "ToolRetryMiddleware": "ToolRetry", "PIIMiddleware": "PIIRedaction",
    "ModelFallbackMiddleware": "ModelFallback", "ToolErrorMiddleware": "ToolErrors", "TodoListMiddleware": "Planning",
    "ModelCallLimitMiddleware": "ModelCallLimit", "ToolCallLimitMiddleware": "ToolCallLimit",
    "SummarizationMiddleware": "Summarization", "ContextEditingMiddleware": "ContextEditing",
    "HumanInTheLoopMiddleware": "HumanApproval", "LLMToolSelectorMiddleware": "ToolSelection",
    "LLMToolEmulator": "ToolEmulation",
}  # fmt: skip
HEADING = len("Here is a summary of the conversation to date:\n\n") - len("Summary of the conversation so far:\n")
NO_LIMIT = 1_000  # tools; without max_tools the original offers whatever was chosen


def ready_made(spec: Data, models: dict[str, Speaker]) -> tk.AgentMiddleware:
    """Build our middleware for one of the original's, with its arguments in our words."""

    def value(given: Any) -> Any:
        if isinstance(given, str) and given.startswith("$model:"):
            return models[given[7:]]
        if isinstance(given, dict) and "$tuple" in given:
            return tuple(given["$tuple"])
        return [value(item) for item in given] if isinstance(given, list) else given

    args = [value(given) for given in spec.get("args", [])]
    options = {key: value(given) for key, given in spec.get("kwargs", {}).items()}
    name = NAMES[spec["builtin"]]
    made: tk.AgentMiddleware = (TRANSLATED.get(name) or getattr(tk.middleware, name))(*args, **options)
    return made


# ---------------------------------------------------------------------- counting as the original does
def approximate(messages: Sequence[tk.ChatMessage]) -> int:
    """Return how many tokens the original takes messages for: four characters each, with roles, names and ids."""
    return sum(3 + -(-characters(message) // 4) for message in messages)


def characters(message: tk.ChatMessage) -> int:
    count = len(message.role.value) + sum(map(len, message.texts)) + len(message.name or "")
    if message.tool_calls:
        keys = [{"name": c.tool_name, "args": c.arguments, "id": c.id, "type": "tool_call"} for c in message.tool_calls]
        count += len(repr(keys))
    for result in message.tool_call_results:
        count += len(str(result.result)) + len(result.origin.tool_name) + len(result.origin.id or "")
    return count + (HEADING if "summary" in message.meta else 0)


def no_tokenizer(messages: Sequence[tk.ChatMessage]) -> int:
    """Fail as the original does where a model that is a script is to count."""
    raise RuntimeError("a script has no tokenizer")


# ---------------------------------------------------------------------- arguments in our words
class Edits(tk.AgentMiddleware):
    """Several edits of the context in a row."""

    def __init__(self, edits: list[Any]) -> None:
        self.edits = edits

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        for edit in reversed(self.edits):
            handler = lambda given, edit=edit, inner=handler: edit.wrap_model_call(given, inner)  # noqa: E731
        return handler(request)


# in the functions below `_` takes what only the wording of a prompt depends on
def context_editing(edits: Sequence[Data] = (), token_count_method: str = "approximate", **_: Any) -> Any:
    known = ("trigger", "keep", "exclude_tools", "placeholder")
    count = no_tokenizer if token_count_method == "model" else approximate
    options = [{key: edit[key] for key in known if key in edit} for edit in edits or [{}]]
    made = [tk.middleware.ContextEditing(**{"trigger": 100_000, **given}, count_tokens=count) for given in options]
    return made[0] if len(made) == 1 else Edits(made)


def human_approval(interrupt_on: Data, **_: Any) -> Any:
    def nobody(call: tk.ToolCall) -> Any:
        raise AssertionError(f"no scenario answers for {call.tool_name}")

    return tk.middleware.HumanApproval([name for name, asked in interrupt_on.items() if asked], nobody)


def chooser(model: Speaker) -> Speaker:
    """Return a model that says as text what the original's answers as data, since our selection reads text."""

    def answer(request: Data) -> tk.Reply:
        reply = model.answer(request)
        chosen = [name for call in reply.tool_calls for name in call.arguments.get("tools", [])]
        return tk.Reply(", ".join(chosen) or reply.text, model=model.name)

    return Speaker(answer, model.name)


def selection(model: Any = None, max_tools: int | None = None, always_include: Sequence[str] = (), **_: Any) -> Any:
    asked = None if model is None else chooser(model)
    return tk.middleware.ToolSelection(asked, max_tools=max_tools or NO_LIMIT, always_include=always_include)


def summarization(*args: Any, summary_prompt: Any = None, trim_tokens_to_summarize: Any = None, **options: Any) -> Any:
    return tk.middleware.Summarization(*args, **options, count_tokens=approximate)


def tool_retry(*args: Any, on_failure: Any = "continue", **options: Any) -> Any:
    older = {"raise": "error", "return_message": "continue"}  # words that the original's retry of models never knew
    return tk.middleware.ToolRetry(*args, on_failure=older.get(on_failure, on_failure), **options)


TRANSLATED: dict[str, Callable[..., Any]] = {
    "ContextEditing": context_editing,
    "HumanApproval": human_approval,
    "Planning": lambda system_prompt=None, **_: tk.middleware.Planning(system_prompt),
    "Summarization": summarization,
    "ToolRetry": tool_retry,
    "ToolSelection": selection,
}
