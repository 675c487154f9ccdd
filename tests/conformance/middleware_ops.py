"""What do a scenario's wrappers do? Each op of the format, once as a coroutine for sync and async runs.

Not here: node hooks (`middleware_world`).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from middleware_format import message_of, update_of
from scripted import exception

import toolkit as tk

Data = dict[str, Any]
Op = Callable[..., Awaitable[Any]]  # of the op's data, the request, the handler, and where it stands


def wrapper(work: Op, op: Data, name: str, hook: str, world: Any) -> tuple[Any, Any]:
    """Return the sync and the async form of a wrapper."""
    place = {"name": name, "world": world, "turn": 0}

    async def noted(request: Any, call: Any) -> Any:
        label = f"{name}.{hook}"
        called = "" if hook == "wrap_model_call" else f":{request.tool_call['name']}"
        world.add(f"{label}:enter{called}" + (":tool=None" if called and request.tool is None else ""))
        place["turn"] += 1
        try:
            return await work(op, request, call, place)
        finally:
            world.add(f"{label}:exit{called}")

    def plain(self: Any, request: Any, handler: Any) -> Any:
        async def call(new: Any) -> Any:
            return handler(new)

        return finish(noted(request, call))

    async def waiting(self: Any, request: Any, handler: Any) -> Any:
        return await noted(request, handler)

    return plain, waiting


def finish(coroutine: Any) -> Any:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a sync handler waited")


async def passthrough(op, request, call, place):
    return await call(request)


async def fail(op, request, call, place):
    raise exception(op["exc"])


async def raw(op, request, call, place):
    return op["value"]


# ---------------------------------------------------------------------- round the model
def response(spec: Data) -> Any:
    said = message_of({**spec, "role": "ai"})
    if spec.get("as") == "raw":
        return spec["value"]
    more = map(message_of, spec.get("extra_messages", []))
    return said if spec.get("as") == "AIMessage" else tk.ModelResponse([said, *more])


async def record_handler_type(op, request, call, place):
    got = await call(request)
    place["world"].add(f"{place['name']}:handler_returned:{type(got).__name__}:{len(got.result)}")
    return got


async def retry(op, request, call, place):
    last = None
    for _ in range(op["attempts"]):
        try:
            return await call(request)
        except Exception as error:
            last = error
            place["world"].add(f"{place['name']}:caught:{type(error).__name__}")
    raise last


async def repeat(op, request, call, place):
    got = None
    for _ in range(op.get("times", 2)):
        got = await call(request)
    return got


async def short_circuit(op, request, call, place):
    return response(op["response"])


async def catch(op, request, call, place):
    try:
        return await call(request)
    except Exception as error:
        return response({"content": f"fallback:{error}", "as": op.get("as", "AIMessage")})


async def rewrite(op, request, call, place):
    said = (await call(request)).result[0]
    new = tk.ChatMessage.from_assistant(op["prefix"] + (said.text or ""), tool_calls=said.tool_calls)
    return new if op.get("as") == "AIMessage" else tk.ModelResponse([new])


async def override(op, request, call, place):
    world = place["world"]
    made: dict[str, Callable[[Any], Any]] = {
        "system_message": lambda v: tk.ChatMessage.from_system(v) if isinstance(v, str) else v,
        "messages": lambda v: [message_of(m) for m in v],
        "model": lambda v: world.models[v],
        "tools": lambda v: [world.tools[n] for n in v],
        "state": update_of,
    }
    new = request.override(**{key: made.get(key, lambda v: v)(value) for key, value in op["fields"].items()})
    world.add(f"{place['name']}:original_unchanged:{new is not request}")
    return await call(new)


async def append_system(op, request, call, place):
    text = ((request.system_prompt or "") + op["text"]).strip()
    return await call(request.override(system_message=tk.ChatMessage.from_system(text)))


async def set_attribute(op, request, call, place):
    setattr(request, op["field"], op["value"])
    return await call(request)


async def extended(op, request, call, place):
    got, spec = await call(request), op.get("command")
    if spec is None:
        return tk.ExtendedModelResponse(got, None)
    goto = {"goto": spec["goto"]} if "goto" in spec else {}
    return tk.ExtendedModelResponse(got, tk.Command(update=update_of(spec.get("update")), **goto))


async def mutate_messages(op, request, call, place):
    request.messages.append(tk.ChatMessage.from_user(op["content"]))
    return await call(request)


async def mutate_tools_clear_once(op, request, call, place):
    if place["turn"] == 1:
        request.tools.clear()
    return await call(request)


async def fail_after(op, request, call, place):
    await call(request)
    raise exception(op["exc"])


MODEL_OPS: dict[str, Op] = {
    "passthrough": passthrough, "record_handler_type": record_handler_type, "retry": retry, "call_twice": repeat,
    "short_circuit": short_circuit, "catch": catch, "rewrite": rewrite, "override": override,
    "append_system": append_system, "setattr": set_attribute, "extended": extended, "extended_then_retry": repeat,
    "mutate_messages": mutate_messages, "mutate_tools_clear_once": mutate_tools_clear_once, "raise": fail,
    "raise_after": fail_after,
}  # fmt: skip


# ---------------------------------------------------------------------- round a tool
async def tool_retry(op, request, call, place):
    got = None
    for attempt in range(op["attempts"]):
        try:
            got = await call(request)
            if not (isinstance(got, tk.ChatMessage) and got.tool_call_result.error):
                return got
            place["world"].add(f"{place['name']}:error_message")
        except Exception as error:
            place["world"].add(f"{place['name']}:caught:{type(error).__name__}")
            if attempt == op["attempts"] - 1:
                raise
    return got


async def tool_short_circuit(op, request, call, place):
    return tk.ChatMessage.from_tool(op["content"], request.tool_call)


async def tool_catch(op, request, call, place):
    try:
        return await call(request)
    except Exception as error:
        return tk.ChatMessage.from_tool(f"caught:{type(error).__name__}:{error}", request.tool_call, error=True)


async def modify_args(op, request, call, place):
    changed = {**request.tool_call, "args": {**request.tool_call["args"], **op["args"]}}
    return await call(request.override(tool_call=changed))


async def override_tool(op, request, call, place):
    return await call(request.override(tool=place["world"].tools[op["tool"]]))


async def command(op, request, call, place):
    update = json.loads(json.dumps(op["update"]).replace("$ID", request.tool_call["id"]))
    return tk.Command(update=update_of(update))


async def wrong_id(op, request, call, place):
    spec = {"role": "tool", "content": "x", "tool_call_id": "nope", "name": request.tool_call["name"]}
    return message_of(spec)


TOOL_OPS: dict[str, Op] = {
    "passthrough": passthrough, "retry": tool_retry, "short_circuit": tool_short_circuit, "catch": tool_catch,
    "raise": fail, "modify_args": modify_args, "override_tool": override_tool, "command": command, "raw": raw,
    "wrong_id": wrong_id,
}  # fmt: skip
