"""What do our ToolInvoker and OpenAIFunctionCaller do in a scenario? Build what it describes, run it, note what came.

The same builders serve every generation: `x_invoker` ran its calls one by one (max_workers=1), the later two on
threads and always with a state.
Not here: OpenAPI (`openapi_world`), facts (`invoker_probes`).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from invoker_probes import PROBES
from openapi_world import run_openapi, run_openapitool
from scripted import attempt, error_of, function_of

import toolkit as tk

Data = dict[str, Any]
TYPES = {"str": str, "int": int, "list": list, "dict": dict, "float": float, "bool": bool}


# ---------------------------------------------------------------------- what a scenario describes
def append(old: Any, new: Any) -> list[Any]:
    return (old or []) + (new if isinstance(new, list) else [new])


def upper(value: Any) -> str:
    return str(value).upper()


def fail(value: Any) -> Any:
    return 1 / 0


HANDLERS = {"upper": upper, "fail": fail, "append": append}


def configured(config: Any) -> Any:
    """Put the functions where a scenario names handlers."""
    if not isinstance(config, dict):
        return config
    named = {k: HANDLERS.get(v, v) for k, v in config.items() if k == "handler" and isinstance(v, str)}
    return {k: configured(v) for k, v in config.items()} | named


def tool_of(spec: Data, events: list[str]) -> tk.Tool:
    wiring = ("outputs_to_string", "inputs_from_state", "outputs_to_state")
    return tk.Tool(
        name=spec["name"],
        description=spec.get("description", "d"),
        parameters=spec.get("parameters", {"type": "object", "properties": {}}),
        function=function_of(spec, events.append, spec.get("signature"), {}),
        **{key: configured(spec[key]) for key in wiring if key in spec},
    )


def state_of(scenario: Data) -> tk.State:
    described = scenario.get("state", {"schema": {}})
    schema = {
        key: {"type": TYPES[spec["type"]]} | ({"handler": HANDLERS[spec["handler"]]} if "handler" in spec else {})
        for key, spec in described["schema"].items()
    }
    return tk.State(schema, described.get("data"))


def messages_of(scenario: Data) -> list[tk.ChatMessage]:
    found = []
    for message in scenario.get("messages", [{"calls": scenario.get("calls", [])}]):
        if "user" in message:
            found.append(tk.ChatMessage.from_user(message["user"]))
            continue
        calls = [tk.ToolCall(call["name"], call.get("args", {}), call.get("id")) for call in message.get("calls", ())]
        found.append(tk.ChatMessage.from_assistant(message.get("text"), tool_calls=calls))
    return found


# ---------------------------------------------------------------------- invokers
def run_invoker(scenario: Data) -> Data:
    events: list[str] = []
    chunks: list[Any] = []
    out: Data = {}
    one_by_one = scenario["kind"] == "x_invoker"
    state = None if one_by_one else state_of(scenario)
    try:
        tools = [tool_of(spec, events) for spec in scenario.get("tools", [])]
        settings = dict(scenario.get("init", {})) | ({"max_workers": 1} if one_by_one else {})
        invoker = tk.ToolInvoker(tk.Toolset(tools) if scenario.get("toolset") else tools, **settings)
        extra: Data = {} if state is None else {"state": state}
        if scenario.get("runtime_tools"):
            extra["tools"] = [tool_of(spec, events) for spec in scenario["runtime_tools"]]
        found = run(invoker, scenario, extra, chunks)
        out |= {"tool_messages": [seen(m) for m in found["tool_messages"]], "output_keys": sorted(found)}
        if state is not None and "state" in scenario:
            out["state"] = {key: value for key, value in state.data.items() if key != "messages"}
    except Exception as error:
        out["error"] = error_of(error)
    out["events"] = events
    return out | ({"chunks": [chunk_seen(chunk) for chunk in chunks]} if chunks else {})


def run(invoker: tk.ToolInvoker, scenario: Data, extra: Data, chunks: list[Any]) -> Data:
    messages = messages_of(scenario)
    if not scenario.get("async"):
        extra |= {"streaming_callback": chunks.append} if scenario.get("streaming") else {}
        return invoker.run(messages=messages, **extra)

    async def note(chunk: Any) -> None:
        chunks.append(chunk)

    extra |= {"streaming_callback": note} if scenario.get("streaming") else {}
    return asyncio.run(invoker.run_async(messages=messages, **extra))


def seen(message: tk.ChatMessage) -> Data:
    result = message.tool_call_result
    return {
        "role": str(message.role),
        "result": result.result if isinstance(result.result, (str, list)) else repr(result.result),
        "error": result.error,
        "origin": result.origin.to_dict(),
    }


def chunk_seen(chunk: Any) -> Data:
    found = {"index": chunk.index, "start": chunk.start, "finish_reason": chunk.finish_reason}
    return found | ({"result": chunk.tool_call_result.result} if chunk.tool_call_result is not None else {})


def run_tool(scenario: Data) -> Data:
    """Build one tool."""
    found = attempt(lambda: tool_of(scenario["tool"], []).tool_spec)
    return {"error" if "message" in found else "tool_spec": found}


# ---------------------------------------------------------------------- function callers
def weather(city: str) -> Data:
    return {"city": city, "temp": 20}


def bad() -> Any:
    raise ValueError("boom")


FUNCTIONS = {"weather": weather, "uni": lambda: "é", "bad": bad, "set": lambda: {1, 2}}


def run_caller(scenario: Data) -> Data:
    messages = []
    for message in scenario["messages"]:
        said = message["content"] if isinstance(message["content"], str) else json.dumps(message["content"])
        messages.append(tk.ChatMessage.from_assistant(said, meta=dict(message.get("meta", {}))))
    before = list(messages)
    try:
        caller = tk.OpenAIFunctionCaller(available_functions={name: FUNCTIONS[name] for name in scenario["functions"]})
        found = caller.run(messages=messages)
    except Exception as error:
        return {"error": error_of(error)}
    (key,) = found
    told = [{"role": str(m.role), "content": m.content, "name": m.name} for m in found[key]]
    return {"output_key": [key], "messages": told, "input_list_mutated": messages != before or found[key] is messages}


RUNS = dict.fromkeys(("x_invoker", "c2_invoker", "c3"), run_invoker) | {
    "c2_tool": run_tool,
    "x_caller": run_caller,
    "x_openapi": run_openapi,
    "x_openapitool": run_openapitool,
    "probe": lambda scenario: PROBES[scenario["name"]](),
}


def play(scenario: Data) -> Data:
    """Run a scenario and return what came, in the form of `observed`."""
    return RUNS[scenario["kind"]](scenario)
