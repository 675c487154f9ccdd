"""Speak OpenAI's chat format: the body of a request, and the pieces of a streamed answer.

The in-process llama.cpp and every OpenAI-compatible server use it, so both back ends share this file.

Not here: sending it (`embedded`, `openai`); Ollama's own format (`ollama`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.messages import to_openai
from toolkit.models.answers import Answer, ServerError
from toolkit.models.base import ChatRequest, Chunk, Options

_SAMPLING = ("temperature", "seed", "top_p", "top_k", "min_p", "repeat_penalty")
_STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


def request_body(request: ChatRequest) -> dict[str, Any]:
    """Return the body of a streamed request, for a chat or a raw completion."""
    body = _sampling(request.options) | _STREAMED
    if request.prompt is not None:
        body = {"prompt": request.prompt, **body}
        # vLLM reads the first, llama.cpp the second
        return body | ({"json_schema": request.schema, **_format(request.schema)} if request.schema is not None else {})
    body = {"messages": [wire for message in request.messages for wire in to_openai(message)], **body}
    if request.tools:
        body["tools"] = request.tool_specs
        if request.tool_choice:
            body["tool_choice"] = _choice(request.tool_choice)
    if request.schema is not None:
        body |= _format(request.schema)
    if request.options.think is not None:
        body["chat_template_kwargs"] = _thinking(request.options.think)
    return body


def _sampling(options: Options) -> dict[str, Any]:
    body = {name: value for name in _SAMPLING if (value := getattr(options, name)) is not None}
    body["max_tokens"] = options.num_predict
    if options.stop:
        body["stop"] = list(options.stop)
    return body


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field that holds decoding to a schema."""
    named = {"name": "reply", "strict": True, "schema": dict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _choice(tool_choice: str) -> Any:
    if tool_choice in ("auto", "none", "required"):
        return tool_choice
    if tool_choice == "any":
        return "required"
    return {"type": "function", "function": {"name": tool_choice}}


def _thinking(think: bool | str) -> dict[str, Any]:
    return {"enable_thinking": think} if isinstance(think, bool) else {"reasoning_effort": think}


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
