"""Build what a scenario describes (tools, messages, state) and run it with our ToolInvoker.

The same builders serve every generation: `x_invoker` ran its calls one by one (max_workers=1), the later two on
threads and always with a state.
Not here: what should come out (`invoker_oracle`), comparing it (`invoker_compare`).
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import toolkit as tk

SEQUENTIAL = ("x_invoker",)
EXCEPTIONS = {"ValueError": ValueError, "KeyError": KeyError, "RuntimeError": RuntimeError}
TYPES = {"str": str, "int": int, "list": list, "dict": dict, "float": float, "bool": bool}


class BadStr:
    def __str__(self):
        raise ValueError("no str for you")

    __repr__ = __str__


class Opaque:
    def __repr__(self):
        return "<Opaque>"


class HasToDict:
    def to_dict(self):
        return {"kind": "HasToDict", "v": 1}


SPECIAL = {
    "badstr": BadStr,
    "opaque": Opaque,
    "set": lambda: {1},
    "nan": lambda: float("nan"),
    "bytes": lambda: b"\xff",
    "hastodict": HasToDict,
    "nested_todict": lambda: {"a": [HasToDict()]},
}


def append(old, new):
    return (old or []) + (new if isinstance(new, list) else [new])


def upper(value):
    return str(value).upper()


def fail(value):
    return 1 / 0


HANDLERS = {"upper": upper, "fail": fail, "append": append}


def answer(spec: dict, keywords: dict) -> Any:
    """Do what the tool of a scenario does."""
    how = spec.get("impl", "echo")
    if how == "echo":
        said = json.dumps(dict(keywords), sort_keys=True, ensure_ascii=False, default=str)
        return f"{spec['name']}({said})"
    if how == "const":
        return spec["value"]
    if how == "special":
        return SPECIAL[spec["value"]]()
    if how == "raise":
        kind, _, message = spec["exc"].partition(":")
        raise EXCEPTIONS.get(kind, RuntimeError)(message)
    if how == "dict_of_args":
        return dict(keywords)
    raise AssertionError(f"impl {how!r} is not in the format")


def function_of(spec: dict, events: list, received: list):
    def body(keywords):
        events.append(f"{spec['name']}:start")
        received.append((spec["name"], dict(keywords)))
        if spec.get("sleep"):
            time.sleep(spec["sleep"])
        try:
            return answer(spec, keywords)
        finally:
            events.append(f"{spec['name']}:end")

    parameters = spec.get("signature")
    if parameters is None:
        return lambda **keywords: body(keywords)
    names = [part.split("=")[0].split(":")[0].strip() for part in parameters]
    given = ", ".join(f"{name!r}: {name}" for name in names)
    scope = {"body": body, "State": tk.State}
    exec(f"def fn({', '.join(parameters)}):\n    return body({{{given}}})", scope)  # the file is ours, never a model's
    return scope["fn"]


def configured(config: Any) -> Any:
    """Put the functions where a scenario names handlers."""
    if isinstance(config, dict):
        return {
            k: HANDLERS.get(v, v) if k == "handler" and isinstance(v, str) else configured(v) for k, v in config.items()
        }
    return config


def tool_of(spec: dict, events: list | None = None, received: list | None = None) -> tk.Tool:
    wiring = ("outputs_to_string", "inputs_from_state", "outputs_to_state")
    extra = {key: configured(spec[key]) for key in wiring if key in spec}
    return tk.Tool(
        name=spec["name"],
        description=spec.get("description", "d"),
        parameters=schema_of(spec),
        function=function_of(spec, [] if events is None else events, [] if received is None else received),
        **extra,
    )


def schema_of(spec: dict) -> dict:
    return spec.get("parameters", {"type": "object", "properties": {}})


def state_of(scenario: dict) -> tk.State:
    described = scenario.get("state", {"schema": {}})
    schema = {}
    for key, spec in described["schema"].items():
        schema[key] = {"type": TYPES[spec["type"]]}
        if "handler" in spec:
            schema[key]["handler"] = HANDLERS[spec["handler"]]
    return tk.State(schema, described.get("data"))


def calls_in(scenario: dict) -> list[dict]:
    """Return the calls of a scenario in order."""
    messages = scenario.get("messages", [{"calls": scenario.get("calls", [])}])
    return [call for message in messages for call in message.get("calls", ())]


def messages_of(scenario: dict) -> list[tk.ChatMessage]:
    found = []
    for message in scenario.get("messages", [{"calls": scenario.get("calls", [])}]):
        if "user" in message:
            found.append(tk.ChatMessage.from_user(message["user"]))
            continue
        calls = [tk.ToolCall(call["name"], call.get("args", {}), call.get("id")) for call in message.get("calls", ())]
        found.append(tk.ChatMessage.from_assistant(message.get("text"), tool_calls=calls))
    return found


def run_invoker(scenario: dict) -> dict:
    """Run a scenario of kind x_invoker, c2_invoker or c3; return what came, in the file's own form."""
    events, received, chunks, out = [], [], [], {}
    state = None if scenario["kind"] in SEQUENTIAL else state_of(scenario)
    try:
        tools = [tool_of(spec, events, received) for spec in scenario.get("tools", [])]
        settings = dict(scenario.get("init", {}))
        if scenario["kind"] in SEQUENTIAL:
            settings["max_workers"] = 1
        invoker = tk.ToolInvoker(tk.Toolset(tools) if scenario.get("toolset") else tools, **settings)
        found = _run(invoker, scenario, state, events, received, chunks)
        out["tool_messages"] = [_seen(message) for message in found["tool_messages"]]
        out["output_keys"] = sorted(found)
        if "state" in scenario:
            out["state"] = {key: value for key, value in state.data.items() if key != "messages"}
    except Exception as error:
        out["error"] = error_of(error)
    out["events"], out["received"] = events, received
    if chunks:
        out["chunks"] = [_chunk(chunk) for chunk in chunks]
    return out


def _run(invoker, scenario, state, events, received, chunks) -> dict:
    extra: dict[str, Any] = {}
    if state is not None:
        extra["state"] = state
    if scenario.get("runtime_tools"):
        extra["tools"] = [tool_of(spec, events, received) for spec in scenario["runtime_tools"]]
    if not scenario.get("async"):
        if scenario.get("streaming"):
            extra["streaming_callback"] = chunks.append
        return invoker.run(messages=messages_of(scenario), **extra)

    async def note(chunk):
        chunks.append(chunk)

    if scenario.get("streaming"):
        extra["streaming_callback"] = note
    return asyncio.run(invoker.run_async(messages=messages_of(scenario), **extra))


def _seen(message: tk.ChatMessage) -> dict:
    result = message.tool_call_result
    return {
        "role": str(message.role),
        "result": result.result if isinstance(result.result, (str, list)) else repr(result.result),
        "error": result.error,
        "origin": result.origin.to_dict(),
    }


def _chunk(chunk) -> dict:
    seen = {"index": chunk.index, "start": chunk.start, "finish_reason": chunk.finish_reason}
    if chunk.tool_call_result is not None:
        seen["result"] = chunk.tool_call_result.result
    return seen


def error_of(error: BaseException) -> dict:
    found = {"type": type(error).__name__, "message": str(error)}
    if error.__cause__ is not None:
        found["cause"] = type(error.__cause__).__name__
    return found


def run_tool(scenario: dict) -> dict:
    """Run a scenario of kind c2_tool: build one tool."""
    try:
        return {"tool_spec": tool_of(scenario["tool"]).tool_spec}
    except Exception as error:
        return {"error": error_of(error)}
