"""Speak OpenAI's chat format: the body of a request, and the pieces of a streamed answer.

The in-process llama.cpp and every OpenAI-compatible server use it, so both back ends share this file.

Not here: sending it (`embedded`, `openai`); Ollama's own format (`ollama`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.messages import to_openai
from toolkit.models.backend import Answer, ServerError
from toolkit.models.base import ChatRequest, Chunk

_SAMPLING = ("temperature", "seed", "top_p", "top_k", "min_p", "repeat_penalty")
_STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def request_body(request: ChatRequest) -> dict[str, Any]:
    """Return the body of a streamed request, for a chat or a raw completion."""
    options, body = request.options, dict(_STREAMED)
    body |= {name: value for name in _SAMPLING if (value := getattr(options, name)) is not None}
    body["max_tokens"] = options.num_predict
    if options.stop:
        body["stop"] = list(options.stop)
    if request.schema is not None:
        named = {"name": "reply", "strict": True, "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    if request.prompt is not None:
        # vLLM reads response_format here, llama.cpp this
        return {"prompt": request.prompt, **body, **({"json_schema": request.schema} if request.schema else {})}
    if request.tools:
        body["tools"] = request.tool_specs
        if request.tool_choice:
            named = {"type": "function", "function": {"name": request.tool_choice}}
            body["tool_choice"] = {"auto": "auto", "none": "none"}.get(request.tool_choice, named)
            if request.tool_choice in ("any", "required"):
                body["tool_choice"] = "required"
    if isinstance(options.think, bool):
        body["chat_template_kwargs"] = {"enable_thinking": options.think}
    elif options.think is not None:
        body["chat_template_kwargs"] = {"reasoning_effort": options.think}
    return {"messages": [wire for message in request.messages for wire in to_openai(message)], **body}


def sendable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request with lone surrogates replaced: a model can write them, UTF-8 cannot carry them.

    >>> sendable({"prompt": chr(0xD83D) + "!"})
    {'prompt': '?!'}
    """
    text = json.dumps(body, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return dict(json.loads(text.encode("utf-8", "replace")))
    return dict(body)


class OpenAIAnswer(Answer):
    """Collect the pieces of a chat or a raw completion."""

    def feed(self, piece: Mapping[str, Any]) -> Iterator[Chunk]:
        """Take one piece and yield what can be shown of it."""
        if piece.get("error"):
            raise ServerError.read(200, piece["error"])
        self._count(piece)
        for choice in piece.get("choices") or ():
            self.finish = choice.get("finish_reason") or self.finish
            delta = choice.get("delta") or choice.get("message") or {}
            for place, call in enumerate(delta.get("tool_calls") or ()):
                index = call.get("index")
                self.add_call(place if index is None else index, call)
            text = choice.get("text") or delta.get("content") or ""
            yield from self.say(text, delta.get("reasoning_content") or delta.get("reasoning") or "")

    def _count(self, piece: Mapping[str, Any]) -> None:
        if "load_seconds" in piece:  # in this process
            self.counts["load_seconds"] = piece["load_seconds"]
        if usage := piece.get("usage"):
            self.closing["usage"] = usage
            self.counts |= {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
        if timings := piece.get("timings"):
            self.closing["timings"] = timings
            self.counts.setdefault("cached_tokens", timings.get("cache_n"))
        details = (usage or {}).get("prompt_tokens_details") or {}
        if "cached_tokens" in details:
            self.counts["cached_tokens"] = details["cached_tokens"]
