"""What a scenario's wrappers do: each op of the format as a coroutine over our requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from middleware_world import Notes, exception, message, override_fields, response, update_of

import toolkit as tk

Data = dict[str, Any]


def model_op(op: Data, name: str, notes: Notes) -> Callable[[Any, Any], Any]:
    """Return the work of a wrap_model_call."""
    work = MODEL_OPS[op["op"]]
    counter = [0]

    async def run(request: Any, call: Any) -> Any:
        notes.add(f"{name}.wrap_model_call:enter")
        counter[0] += 1
        try:
            return await work(op, request, call, name, notes, counter[0])
        finally:
            notes.add(f"{name}.wrap_model_call:exit")

    return run


async def passthrough(op, request, call, *_):
    return await call(request)


async def record_handler_type(op, request, call, name, notes, _):
    got = await call(request)
    notes.add(f"{name}:handler_returned:{type(got).__name__}:{len(got.result)}")
    return got


async def retry(op, request, call, name, notes, _):
    last = None
    for _attempt in range(op["attempts"]):
        try:
            return await call(request)
        except Exception as error:
            last = error
            notes.add(f"{name}:caught:{type(error).__name__}")
    raise last


async def call_twice(op, request, call, *_):
    await call(request)
    return await call(request)


async def short_circuit(op, request, call, *_):
    return response(op["response"])


async def catch(op, request, call, *_):
    try:
        return await call(request)
    except Exception as error:
        return response({"content": f"fallback:{error}", "as": op.get("as", "AIMessage")})


async def rewrite(op, request, call, *_):
    said = (await call(request)).result[0]
    new = tk.ChatMessage.from_assistant(op["prefix"] + (said.text or ""), tool_calls=said.tool_calls)
    return new if op.get("as") == "AIMessage" else tk.ModelResponse([new])


async def override(op, request, call, name, notes, _):
    new = request.override(**override_fields(op["fields"], notes))
    notes.add(f"{name}:original_unchanged:{new is not request}")
    return await call(new)


async def append_system(op, request, call, *_):
    text = ((request.system_prompt or "") + op["text"]).strip()
    return await call(request.override(system_message=tk.ChatMessage.from_system(text)))


async def set_attribute(op, request, call, *_):
    setattr(request, op["field"], op["value"])
    return await call(request)


async def extended(op, request, call, *_):
    got, spec = await call(request), op.get("command")
    if spec is None:
        return tk.ExtendedModelResponse(got, None)
    goto = {"goto": spec["goto"]} if "goto" in spec else {}
    return tk.ExtendedModelResponse(got, tk.Command(update=update_of(spec.get("update")), **goto))


async def extended_then_retry(op, request, call, *_):
    got = None
    for _attempt in range(op["times"]):
        got = await call(request)
    return got


async def mutate_messages(op, request, call, *_):
    request.messages.append(tk.ChatMessage.from_user(op["content"]))
    return await call(request)


async def mutate_tools_clear_once(op, request, call, name, notes, turn):
    if turn == 1:
        request.tools.clear()
    return await call(request)


async def fail(op, request, call, *_):
    raise exception(op["exc"])


async def fail_after(op, request, call, *_):
    await call(request)
    raise exception(op["exc"])


MODEL_OPS: dict[str, Any] = {
    "passthrough": passthrough,
    "record_handler_type": record_handler_type,
    "retry": retry,
    "call_twice": call_twice,
    "short_circuit": short_circuit,
    "catch": catch,
    "rewrite": rewrite,
    "override": override,
    "append_system": append_system,
    "setattr": set_attribute,
    "extended": extended,
    "extended_then_retry": extended_then_retry,
    "mutate_messages": mutate_messages,
    "mutate_tools_clear_once": mutate_tools_clear_once,
    "raise": fail,
    "raise_after": fail_after,
}


def tool_op(op: Data, name: str, notes: Notes) -> Callable[[Any, Any], Any]:
    """Return the work of a wrap_tool_call."""
    work = TOOL_OPS[op["op"]]

    async def run(request: Any, call: Any) -> Any:
        called = request.tool_call["name"]
        missing = "" if request.tool is not None else ":tool=None"
        notes.add(f"{name}.wrap_tool_call:enter:{called}{missing}")
        try:
            return await work(op, request, call, name, notes)
        finally:
            notes.add(f"{name}.wrap_tool_call:exit:{called}")

    return run


async def tool_passthrough(op, request, call, *_):
    return await call(request)


async def tool_retry(op, request, call, name, notes):
    got = None
    for attempt in range(op["attempts"]):
        try:
            got = await call(request)
            if not (isinstance(got, tk.ChatMessage) and got.tool_call_result.error):
                return got
            notes.add(f"{name}:error_message")
        except Exception as error:
            notes.add(f"{name}:caught:{type(error).__name__}")
            if attempt == op["attempts"] - 1:
                raise
    return got


async def tool_short_circuit(op, request, call, *_):
    return tk.ChatMessage.from_tool(op["content"], request.tool_call)


async def tool_catch(op, request, call, *_):
    try:
        return await call(request)
    except Exception as error:
        return tk.ChatMessage.from_tool(f"caught:{type(error).__name__}:{error}", request.tool_call, error=True)


async def tool_fail(op, request, call, *_):
    raise exception(op["exc"])


async def modify_args(op, request, call, *_):
    changed = {**request.tool_call, "args": {**request.tool_call["args"], **op["args"]}}
    return await call(request.override(tool_call=changed))


async def override_tool(op, request, call, name, notes):
    return await call(request.override(tool=notes.tools[op["tool"]]))


async def command(op, request, call, *_):
    return tk.Command(update=update_of(json.loads(json.dumps(op["update"]).replace("$ID", request.tool_call["id"]))))


async def raw(op, request, call, *_):
    return op["value"]


async def wrong_id(op, request, call, *_):
    return message({"role": "tool", "content": "x", "tool_call_id": "nope", "name": request.tool_call["name"]})


TOOL_OPS: dict[str, Any] = {
    "passthrough": tool_passthrough,
    "retry": tool_retry,
    "short_circuit": tool_short_circuit,
    "catch": tool_catch,
    "raise": tool_fail,
    "modify_args": modify_args,
    "override_tool": override_tool,
    "command": command,
    "raw": raw,
    "wrong_id": wrong_id,
}
