"""What becomes of every answer that was recorded with real servers: one line each in `outcomes.tsv`, reviewed by hand.

The answers are put to our own back ends byte for byte; what their requests asked is what ours ask, so far as it
decides how an answer is read. To write the table anew: `python tests/models/test_exchanges.py`, and review it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from toolkit.asking import read
from toolkit.errors import ToolkitError
from toolkit.models.ollama import OllamaModel
from toolkit.models.openai import OpenAIModel
from toolkit.recipes import Recipe
from toolkit.tools import Tool, as_tools

RECORDED = Path(__file__).parents[1] / "data" / "servers"
TABLE = RECORDED / "outcomes.tsv"
ROUTES = ("/api/chat", "/api/generate", "/chat/completions", "/completions")
EXCHANGES = [
    one
    for name in ("ollama.jsonl", "llama.jsonl")
    for line in (RECORDED / name).read_text(encoding="utf-8").splitlines()
    if (one := json.loads(line))["request"]["path"].endswith(ROUTES)
    and one["request"]["method"] == "POST"
    and not (one["request"].get("json") or {}).get("_debug_render_only")
]


class Recorded(httpx.BaseTransport):
    """Give a recorded answer to the generating request, and next to nothing to the others."""

    def __init__(self, one: dict[str, Any]) -> None:
        self.one = one

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer, path = self.one["response"], request.url.path
        if not path.endswith(ROUTES):
            name = (self.one["request"].get("json") or {}).get("model", "m")
            listed = {"models": [{"name": name, "digest": "d"}]} if path == "/api/tags" else {}
            return httpx.Response(404 if path == "/props" else 200, json=listed)
        if answer["status"] is None:
            raise httpx.RemoteProtocolError(answer.get("end") or "")
        content_type = {"content-type": answer.get("content_type") or ""}
        return httpx.Response(answer["status"], headers=content_type, stream=_Body(answer))


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer

    def __iter__(self):
        yield ("\n".join(self.answer["lines"]) + "\n").encode()
        if self.answer.get("end"):
            raise httpx.RemoteProtocolError(self.answer["end"])


def offered(body: dict[str, Any]) -> list[Tool]:
    try:
        return as_tools([tool["function"] for tool in body.get("tools") or ()])
    except ToolkitError:
        return []


def settings(body: dict[str, Any], status: int | None) -> dict[str, Any]:
    wait = 0.1 if status in (429, 502, 503) else 60  # a busy server is waited for
    given = body.get("options") if isinstance(body.get("options"), dict) else {}
    asked = {key: given.get(key) for key in ("num_predict", "num_ctx")} | {"num_predict": body.get("max_tokens")}
    if asked["num_predict"] is None:
        asked["num_predict"] = given.get("num_predict")
    whole = {key: value for key, value in asked.items() if isinstance(value, int) and 0 < value < 10**6}
    return {key: max(value, 16) if key == "num_ctx" else value for key, value in whole.items()} | {"timeout_s": wait}


def outcome(one: dict[str, Any]) -> str:
    """Return in one line what becomes of an answer: fault, finish, limit, status of what was read, calls, text."""
    path, body = one["request"]["path"], one["request"].get("json") or {}
    name = str(body.get("model") or "m")
    if "/api/" in path:
        model: Any = OllamaModel(name, host="http://h:1")
        client = model.server.client
    else:
        model = OpenAIModel(f"{name}@http://h:1/v1")
        client = model.connection.client
    client._transport, client._mounts = Recorded(one), {}
    tools = offered(body)
    try:
        if path.endswith(("/chat", "/chat/completions")):
            reply = model.chat("Hi", tools=tools or None, options=settings(body, one["response"]["status"]))
        else:
            reply = model.complete(str(body.get("prompt") or "x"), options=settings(body, one["response"]["status"]))
    except ToolkitError as error:
        return f"raises {type(error).__name__}"
    found = read(Recipe("m", arm="native"), reply, tools)
    told = [reply.fault.kind if reply.fault else "-", reply.finish_reason, reply.limit or "-", found.status]
    calls = ",".join(call.tool_name for call in reply.tool_calls) or "-"
    counts = f"{reply.prompt_tokens}/{reply.cached_tokens}/{reply.completion_tokens}".replace("None", "?")
    return " ".join(
        [*told, calls, counts, "text" if reply.text.strip() else "-", "thinking" if reply.thinking else "-"]
    )


@cache
def rows() -> dict[str, str]:
    return dict(line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()) if TABLE.exists() else {}


@pytest.mark.parametrize("one", EXCHANGES, ids=[one["id"] for one in EXCHANGES])
def test_what_becomes_of_a_recorded_answer(one):
    assert outcome(one) == rows()[one["id"]]


def test_the_table_holds_nothing_else():
    assert set(rows()) == {one["id"] for one in EXCHANGES}


if __name__ == "__main__":
    TABLE.write_text("".join(f"{one['id']}\t{outcome(one)}\n" for one in EXCHANGES), encoding="utf-8")
