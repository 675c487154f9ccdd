"""What do our OpenAPI service and OpenAPITool offer, send and answer in a scenario? The wire is a recorder.

Not here: invokers and function callers (`invoker_world`).
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

from scripted import error_of

import toolkit as tk
from toolkit.execution.openapi import service as openapi
from toolkit.execution.openapi.http import Answer

Data = dict[str, Any]
OWN_HEADERS = ("accept", "content-type", "user-agent", "content-length", "host", "cookie")


def secret(value: Any) -> Any:
    return tk.Secret.from_token(value) if isinstance(value, str) else value


@contextlib.contextmanager
def recorded(scenario: Data) -> Iterator[list[Data]]:
    """Note every request in place of sending it; answer as the scenario says."""
    sent: list[Data] = []

    def exchange(request: Any, *_: Any, **__: Any) -> Answer:
        sent.append(seen_request(request))
        if "send_error" in scenario:
            raise tk.ToolInvocationError(scenario["send_error"])
        body = json.dumps(scenario.get("response", {"ok": True})).encode()
        return Answer(200, "application/json", body, request.url)

    with mock.patch.object(openapi, "exchange", exchange):
        yield sent


def seen_request(request: Any) -> Data:
    """Return a request in the file's form, with only the parts that hold something."""
    headers = {name: value.decode() for name, value in request.headers}
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    cookies = SimpleCookie("; ".join(value for name, value in headers.items() if name.lower() == "cookie"))
    found = {
        "url": request.url.partition("?")[0],
        "method": request.method.lower(),
        "headers": {name: value for name, value in headers.items() if name.lower() not in OWN_HEADERS},
        "params": parse_qsl(urlsplit(request.url).query, keep_blank_values=True),
        "cookies": {name: morsel.value for name, morsel in cookies.items()},
    }
    found = {key: value for key, value in found.items() if value not in ({}, [])}
    if request.content is None:
        return found
    return found | ({"json": json.loads(request.content)} if "json" in kind else {"body": request.content.decode()})


def first_call(payload: Any) -> tuple[str, Any] | None:
    """Find the first object with a name and arguments, depth first."""
    if isinstance(payload, dict):
        if "name" in payload and "arguments" in payload:
            return payload["name"], payload["arguments"]
        payload = list(payload.values())
    found = map(first_call, payload) if isinstance(payload, list) else ()
    return next((call for call in found if call is not None), None)


def run_openapi(scenario: Data) -> Data:
    out: Data = {}
    with recorded(scenario) as sent:
        try:
            given = copy.deepcopy(scenario["spec"]), secret(scenario.get("credentials"))
            service = openapi.OpenAPIService.load(*given, scenario.get("allowed_operations"))
            if scenario.get("definitions", True):
                out["definitions"] = [{"type": "function", "function": tool.tool_spec} for tool in service.tools()]
            if "payload" in scenario:
                call = first_call(scenario["payload"])
                if call is None:
                    raise tk.ToolInvocationError("There is no call in this.")
                out["result"] = service.call(*call)
        except Exception as error:
            out["error"] = error_of(error)
    return out | ({"request": sent[-1]} if sent else {})


def line_of(reply: Any) -> Any:
    """Make a scripted line of a reply: what a server reads as calls are native calls, the rest is text."""
    if isinstance(reply, str) or first_call(reply) is None:
        return reply if isinstance(reply, str) else json.dumps(reply)
    calls = filter(None, map(first_call, reply if isinstance(reply, list) else [reply]))
    return tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall(name, given, "1") for name, given in calls])


def run_openapitool(scenario: Data) -> Data:
    out: Data = {}
    model = tk.ScriptedModel([line_of(reply) for reply in scenario.get("model_replies", ["not json"]) or [""]])
    messages = [
        tk.ChatMessage.from_user(m["user"]) if "user" in m else tk.ChatMessage.from_assistant(m["assistant"])
        for m in scenario.get("messages", [{"user": "do it"}])
    ]
    with recorded(scenario) as sent:
        try:
            options = {key: scenario[key] for key in ("spec", "allowed_operations") if key in scenario}
            tool = tk.OpenAPITool(model, credentials=secret(scenario.get("credentials")), **options)
            given = {"fc_generator_kwargs": scenario.get("fc_generator_kwargs"), "spec": scenario.get("run_spec")}
            found = tool.run(messages, credentials=secret(scenario.get("run_credentials")), **given)
            out["output_keys"] = sorted(found)
            out["service_response"] = [{"role": str(m.role), "content": m.text} for m in found["service_response"]]
        except Exception as error:
            out["error"] = error_of(error)
    if model.requests:
        out["tools_offered"] = [tool.name for tool in model.requests[0]["tools"] or ()]
    return out | ({"requests": sent} if sent else {})
