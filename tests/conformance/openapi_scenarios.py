"""Run scenarios of kind x_openapi and x_openapitool, with the wire replaced by a recorder.

Not here: what should come out (`openapi_oracle`), comparing it (`openapi_compare`).
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from http.cookies import SimpleCookie
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, urlsplit

from invoker_world import error_of

import toolkit as tk
from toolkit.errors import ToolInvocationError
from toolkit.execution.openapi import service as openapi_service
from toolkit.execution.openapi.http import Answer
from toolkit.execution.openapi.service import OpenAPIService
from toolkit.execution.openapi.tool import OpenAPITool
from toolkit.execution.secrets import Secret

OWN_HEADERS = ("accept", "content-type", "user-agent", "content-length", "host", "cookie")


def secret(value: Any) -> Any:
    return Secret.from_token(value) if isinstance(value, str) else value


@contextlib.contextmanager
def recorded(scenario: dict) -> Iterator[list[dict]]:
    """Note every request in place of sending it; answer as the scenario says."""
    sent: list[dict] = []

    def exchange(request, *_: Any, **__: Any):
        sent.append(seen_request(request))
        if "send_error" in scenario:
            raise ToolInvocationError(scenario["send_error"])
        body = json.dumps(scenario.get("response", {"ok": True})).encode()
        return Answer(200, "OK", "application/json", body, request.url)

    with mock.patch.object(openapi_service, "exchange", exchange):
        yield sent


def seen_request(request) -> dict:
    """Return a request in the file's form, with only the parts that hold something."""
    parts = urlsplit(request.url)
    headers = {name: value.decode() for name, value in request.headers}
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    cookies = SimpleCookie("; ".join(value for name, value in headers.items() if name.lower() == "cookie"))
    found = {
        "url": request.url.partition("?")[0],
        "method": request.method.lower(),
        "headers": {name: value for name, value in headers.items() if name.lower() not in OWN_HEADERS},
        "params": parse_qsl(parts.query, keep_blank_values=True),
        "cookies": {name: morsel.value for name, morsel in cookies.items()},
    }
    if request.content is not None:
        found["json" if "json" in kind else "body"] = (
            json.loads(request.content) if "json" in kind else request.content.decode()
        )
    return {key: value for key, value in found.items() if value not in ({}, [], None)}


def first_call(payload: Any, keys: tuple[str, ...] = ("arguments",)) -> tuple[str, Any] | None:
    """Find the first object with a name and arguments, depth first."""
    if isinstance(payload, dict):
        key = next((key for key in keys if key in payload), None)
        if "name" in payload and key is not None:
            return payload["name"], payload[key]
        payload = list(payload.values())
    if isinstance(payload, list):
        found = (first_call(item, keys) for item in payload if isinstance(item, (dict, list)))
        return next((call for call in found if call is not None), None)
    return None


def run_openapi(scenario: dict) -> dict:
    """Run one scenario of kind x_openapi; return what came, in the file's own form."""
    out: dict[str, Any] = {}
    with recorded(scenario) as sent:
        try:
            service = OpenAPIService.load(
                copy.deepcopy(scenario["spec"]), secret(scenario.get("credentials")), scenario.get("allowed_operations")
            )
            out["parameters"] = {tool.name: list(tool.properties) for tool in service.tools()}
            if scenario.get("definitions", True):
                out["definitions"] = [{"type": "function", "function": tool.tool_spec} for tool in service.tools()]
            if "payload" in scenario:
                call = first_call(scenario["payload"])
                if call is None:
                    raise ToolInvocationError("There is no call in this.")
                out["result"] = service.call(*call)
        except Exception as error:
            out["error"] = error_of(error)
    if sent:
        out["request"] = sent[-1]
    return out


def call_of_reply(reply: Any) -> tuple[str, Any] | None:
    """Return the first call of a model's reply, which may be JSON text."""
    if isinstance(reply, str):
        try:
            reply = json.loads(reply)
        except ValueError:
            return None
    return first_call(reply)


def line_of(reply: Any) -> Any:
    """Make a scripted line of a reply: what a server read as calls is a native call, the rest is text."""
    call = first_call(reply)
    if call is None:
        return reply if isinstance(reply, str) else json.dumps(reply)
    name, arguments = call
    found = reply if isinstance(reply, list) else [reply]
    if isinstance(reply, str) or len(found) != 1:
        return reply if isinstance(reply, str) else _all(found)
    return tk.ToolCall(name, arguments, "1")


def _all(replies: list) -> Any:
    calls = [first_call(item) for item in replies]
    return tk.ChatMessage.from_assistant(
        tool_calls=[tk.ToolCall(name, given, "1") for name, given in filter(None, calls)]
    )


def run_openapitool(scenario: dict) -> dict:
    """Run one scenario of kind x_openapitool with a scripted model."""
    out: dict[str, Any] = {}
    model = tk.ScriptedModel([line_of(reply) for reply in scenario.get("model_replies", ["not json"]) or [""]])
    messages = [
        tk.ChatMessage.from_user(m["user"]) if "user" in m else tk.ChatMessage.from_assistant(m["assistant"])
        for m in scenario.get("messages", [{"user": "do it"}])
    ]
    with recorded(scenario) as sent:
        try:
            options = {key: scenario[key] for key in ("spec", "allowed_operations") if key in scenario}
            tool = OpenAPITool(model, credentials=secret(scenario.get("credentials")), **options)
            given = {"fc_generator_kwargs": scenario.get("fc_generator_kwargs"), "spec": scenario.get("run_spec")}
            found = tool.run(messages, credentials=secret(scenario.get("run_credentials")), **given)
            out["output_keys"] = sorted(found)
            out["service_response"] = [{"role": str(m.role), "content": m.text} for m in found["service_response"]]
        except Exception as error:
            out["error"] = error_of(error)
    if model.requests:
        out["tools_offered"] = [tool.name for tool in model.requests[0]["tools"] or ()]
    if sent:
        out["requests"] = sent
    return out
