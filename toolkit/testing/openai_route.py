"""Answer the routes under /v1 of a fake Ollama server, as its middleware does: a chat, told in OpenAI's shape.

Not here: the chat itself (`ollama`), llama.cpp's own server (`llama_server`).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

from toolkit.testing.loopback import EVENTS, JSON, JSON_UTF8, Response, go_json
from toolkit.testing.models import FakeModel, with_tag
from toolkit.testing.requests import RefusedError

_TYPES = {400: "invalid_request_error", 404: "not_found_error"}
_EFFORTS = {"none": False, "minimal": "low", "xhigh": "max", "ultra": "max"}
_EARLY = ("invalid tool call arguments", "[] is too short - 'messages'")  # refused before the chat's own handler


def refusal(refused: RefusedError) -> Response:
    """Return an error in OpenAI's shape."""
    error = {"message": refused.error, "type": _TYPES.get(refused.status, "api_error"), "param": None, "code": None}
    return Response(refused.status, go_json({"error": error}), JSON_UTF8 if refused.error in _EARLY else JSON)


def models(path: str, held: list[FakeModel], find: Callable[[str], FakeModel | None]) -> Response:
    """Return the list of models, or one."""

    def entry(model: FakeModel) -> dict[str, Any]:
        return {"id": model.full_name, "object": "model", "created": int(model.modified.timestamp()),
                "owned_by": "library"}  # fmt: skip

    if name := path.removeprefix("/v1/models").strip("/"):
        model = find(name)
        if model is None:
            raise RefusedError(404, f"model '{with_tag(name)}' not found")
        return Response(200, go_json(entry(model)), JSON)
    return Response(200, go_json({"object": "list", "data": [entry(model) for model in held]}), JSON)


def answer(body: Mapping[str, Any], chat: Callable[[dict[str, Any]], Response]) -> Response:
    """Put a request to the chat and tell its answer in OpenAI's shape."""
    asked = _asked(body)
    response = chat(asked)
    if response.status != 200:
        error = json.loads(str(response.body)).get("error", "") if response.body else ""
        return refusal(RefusedError(response.status, error)) if response.status else response
    usage = bool((body.get("stream_options") or {}).get("include_usage"))
    head = {"id": f"chatcmpl-{random.randrange(1000)}", "object": "", "created": int(time.time())}  # noqa: S311
    head |= {"model": body.get("model", ""), "system_fingerprint": "fp_ollama"}
    if not isinstance(response.body, str):
        return Response(200, _events(response.body, {**head, "object": "chat.completion.chunk"}, usage), EVENTS)
    piece = json.loads(response.body)
    message = _message(piece["message"])
    choice = {"index": 0, "message": message, "finish_reason": _finish(piece, "tool_calls" in message)}
    choice |= _logprobs(piece)
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(piece)}
    return Response(200, go_json(whole), JSON)


def _asked(body: Mapping[str, Any]) -> dict[str, Any]:
    if not body.get("model"):
        raise RefusedError(400, "model is required")
    if not body.get("messages"):
        raise RefusedError(400, "[] is too short - 'messages'")
    options = {"temperature": body.get("temperature", 1.0), "top_p": body.get("top_p", 1.0)}
    names = {"max_tokens": "num_predict", "seed": "seed", "frequency_penalty": "frequency_penalty",
             "presence_penalty": "presence_penalty"}  # fmt: skip
    options |= {mine: body[theirs] for theirs, mine in names.items() if theirs in body}
    if "stop" in body:
        options["stop"] = [body["stop"]] if isinstance(body["stop"], str) else body["stop"]
    asked = {"model": body["model"], "stream": bool(body.get("stream")), "options": options}
    asked["messages"] = [one for message in body["messages"] for one in _native(message, body["messages"])]
    asked |= {key: body[key] for key in ("tools", "logprobs", "top_logprobs", "_debug_render_only") if key in body}
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_object":
        asked["format"] = "json"
    elif wanted.get("type") == "json_schema":
        asked["format"] = wanted["json_schema"]["schema"]
    effort = (body.get("reasoning") or {}).get("effort") or body.get("reasoning_effort")
    if effort is not None:
        asked["think"] = _EFFORTS.get(effort, effort)
    return asked


def _native(message: Mapping[str, Any], messages: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a message as the native API takes it; each part of a content becomes a message."""
    calls = []
    for call in message.get("tool_calls") or ():
        try:
            arguments = json.loads(call["function"].get("arguments") or "{}")
        except ValueError:
            raise RefusedError(400, "invalid tool call arguments") from None
        calls.append({"id": call.get("id", ""), "function": {**call["function"], "arguments": arguments}})
    turn = {"role": message.get("role", ""), **({"tool_calls": calls} if calls else {})}
    if message.get("tool_call_id"):
        ids = {call.get("id"): call["function"]["name"] for one in messages for call in one.get("tool_calls") or ()}
        turn |= {"tool_call_id": message["tool_call_id"], "tool_name": ids.get(message["tool_call_id"], "")}
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    return [{**turn, "content": part.get("text", "")} for part in parts]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    found = {"role": "assistant", "content": message["content"]}
    if message.get("thinking"):
        found["reasoning"] = message["thinking"]
    if calls := message.get("tool_calls"):
        found["tool_calls"] = [
            {"id": call["id"], "index": call["function"]["index"], "type": "function",
             "function": {"name": call["function"]["name"], "arguments": go_json(call["function"]["arguments"])}}
            for call in calls
        ]  # fmt: skip
    return found


def _finish(piece: Mapping[str, Any], called: bool) -> str | None:
    reason = piece.get("done_reason")
    return "tool_calls" if called and reason == "stop" else reason


def _usage(piece: Mapping[str, Any]) -> dict[str, int]:
    prompt, written = piece.get("prompt_eval_count", 0), piece.get("eval_count", 0)
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}


def _logprobs(piece: Mapping[str, Any]) -> dict[str, Any]:
    return {"logprobs": {"content": piece["logprobs"]}} if piece.get("logprobs") else {}


def _events(lines: Generator[str], head: dict[str, Any], usage: bool) -> Generator[str]:
    """Yield the events of a stream; an error in it becomes an empty piece without a model, and no `[DONE]` comes."""
    begun = called = False
    try:
        for line in lines:
            piece = json.loads(line)
            if "error" in piece:
                choice = {"index": 0, "delta": {"content": ""}, "finish_reason": None}
                yield _event({**head, "model": "", "choices": [choice]})
                return
            delta = _message(piece["message"])
            said = delta["content"] or delta.get("tool_calls") or delta.get("reasoning")
            if begun:
                del delta["role"]
            called |= "tool_calls" in delta
            if said or not piece["done"]:
                begun = True
                choice = {"index": 0, "delta": delta, "finish_reason": None} | _logprobs(piece)
                yield _event({**head, "choices": [choice]})
            if piece["done"]:
                choice = {"index": 0, "delta": {}, "finish_reason": _finish(piece, called)}
                yield _event({**head, "choices": [choice]})
                if usage:
                    yield _event({**head, "choices": [], "usage": _usage(piece)})
                yield "data: [DONE]\n\n"
    finally:
        lines.close()


def _event(value: Any) -> str:
    return f"data: {go_json(value)}\n\n"
