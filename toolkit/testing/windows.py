"""Fit a prompt into a window as an Ollama server does: drop the oldest messages, cut the middle, or refuse.

Not here: how a prompt is made (`prompts`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolkit.testing.models import FakeModel
from toolkit.testing.prompts import chatml_prompt, coder_prompt, hermes_go_prompt, jinja_prompt, tool_as_kept
from toolkit.testing.requests import RefusedError, nested

Message = Mapping[str, Any]
_TOO_LONG = (
    "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the "
    "context length in settings, or use a model with a longer context length"
)


def prompt_of(
    model: FakeModel,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    think: Any = None,
    jinja: bool = True,
) -> str:
    """Return the prompt on the road of a model; a process started without Jinja knows plain ChatML only.

    Raises:
        RefusedError: llama.cpp refuses the tools, or two turns of the assistant at the end.
    """
    kept = [tool_as_kept(tool) for tool in tools]
    if model.road != "native":
        if model.road == "builtin" and model.parser == "qwen3-coder":
            return coder_prompt(messages, kept)
        if "{{ .Function }}" in (model.template or ""):
            return hermes_go_prompt(messages, kept, think, model.thinking)
        return chatml_prompt(messages)
    if kept and not jinja:
        raise nested(500, "tools param requires --jinja flag", "server_error")
    if [message["role"] for message in messages[-2:]] == ["assistant"] * 2:
        raise nested(400, "Cannot have 2 or more assistant messages at the end of the list.")
    for tool in kept:
        _check_tool(tool)
    seen = [{key: value for key, value in message.items() if key != "thinking"} for message in messages]
    if not model.templated or not jinja:
        return chatml_prompt(seen, merge=False)
    return jinja_prompt(str(model.template), seen, kept, think if model.thinking else None)


def _check_tool(tool: Mapping[str, Any]) -> None:
    if tool["type"] != "function":
        one, all_ = json.dumps(tool, separators=(",", ":")), json.dumps([tool], indent=2)
        raise nested(500, f"Failed to parse tools: Unsupported tool type: {one}; tools = {all_}", "server_error")


def fitting(messages: Sequence[Message], window: int, size: Callable[[Sequence[Message]], int]) -> list[Message]:
    """Return the messages without the oldest, as many as must go; system messages and the last one always stay."""
    for start in range(len(messages)):
        kept = [one for one in messages[:start] if one["role"] == "system"] + list(messages[start:])
        if start == len(messages) - 1 or size(kept) <= window:
            return kept
    return list(messages)


def messages_of(model: FakeModel, body: Mapping[str, Any], chat: bool) -> list[Message]:
    """Return the messages of the Modelfile and of a request, the way round that the server puts them."""
    if not chat:
        system = body.get("system", model.system)
        asked: list[Message] = [{"role": "system", "content": system}] if system else []
        return [*asked, *model.messages, {"role": "user", "content": body["prompt"]}]
    asked = [{**message, "role": str(message.get("role") or "").lower()} for message in body["messages"]]
    own = [{"role": "system", "content": model.system}] if model.system and asked[0]["role"] != "system" else []
    return [*own, *model.messages, *asked]


def prompt_for(
    model: FakeModel, messages: list[Message], body: Mapping[str, Any], chat: bool, window: int, jinja: bool = True
) -> str:
    """Return the prompt of a request, without the messages that its window has no room for."""
    if not chat and (body.get("raw") or body.get("template") or not model.templated):
        template = "{{ .Prompt }}" if body.get("raw") else str(body.get("template", "{{ .Prompt }}"))
        return template.replace("{{ .Prompt }}", body["prompt"]).replace("{{ .System }}", body.get("system", ""))
    tools = (body.get("tools") or []) if chat else []

    def render(kept: Sequence[Message]) -> str:
        return prompt_of(model, kept, tools, body.get("think"), jinja)

    if chat and body.get("truncate", True) and not (model.road == "native" and len(messages) == 1):
        messages = fitting(messages, window, lambda kept: model.counts(render(kept)))
    return render(messages)


def runner_window(num_ctx: int) -> int:
    """Return the window of the runner, which it rounds up.

    >>> runner_window(16), runner_window(1024)
    (256, 1024)
    """
    return math.ceil(num_ctx / 256) * 256


def too_long(size: int, window: int) -> RefusedError:
    """Return the refusal of a prompt that does not fit, with both counts."""
    return nested(
        400, f"request ({size} tokens) exceeds the available context size ({window} tokens), try increasing it",
        "exceed_context_size_error", n_prompt_tokens=size, n_ctx=window,
    )  # fmt: skip


def prompt_tokens(size: int, num_ctx: int, body: Mapping[str, Any], completion: bool, keep: int) -> int:
    """Return how many tokens of a prompt are read.

    A completion that is too long is cut to about half the window without a word.

    Raises:
        RefusedError: it is too long, and may not be cut, or goes to llama.cpp's chat.
    """
    may_cut = body.get("truncate", True)
    if completion and may_cut and size > num_ctx - 1:
        if not body.get("shift", True):
            raise RefusedError(400, _TOO_LONG)
        keep = min(keep, num_ctx)
        return min(num_ctx - (num_ctx - keep) // 2, num_ctx - 1)
    if size >= (window := runner_window(num_ctx)):
        raise too_long(size, window)
    return size
