"""What does one tool call come to in the model of the loop? Arguments, wrappers, result, failure.

Not here: model calls and ready-made middleware (`middleware_oracle_ops`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from middleware_oracle_ops import coerced, late, lax
from middleware_oracle_state import Ended, failed, worded

Data = dict[str, Any]
Handler = Callable[[Data], Data]  # request -> result message, or {"update", "who"}


def run_call(run: Any, call: Data) -> Data:
    """Run one call through the wrappers; a failure of the tool itself becomes an error result."""
    handler: Handler = lambda request: run_tool(run, request, call)  # noqa: E731
    for m, op in reversed(run.hooks("wrap_tool_call")):
        handler = tool_layer(run, m, op, handler, call)
    try:
        return handler({"call": call, "tool": run.registry.get(call["name"])})
    except Ended as error:
        if not error.from_tool:
            raise
        run.meet("A-W4")
        return failed(call["name"], call["id"], *error.text.split("\0")[-1:])


def run_tool(run: Any, request: Data, original: Data) -> Data:
    call, tool = request["call"], request["tool"]
    if tool is None:
        return failed(call["name"], call["id"], call["name"])
    offered = run.offered is None or call["name"] in run.offered
    if run.registry.get(call["name"]) is tool and not offered:
        run.meet("A-W18")
        return failed(call["name"], call["id"], call["name"])
    given = fitted(tool.get("params", {}), call["args"])
    if given is None:
        if fitted(tool.get("params", {}), call["args"], lambda kind, value: value if lax(kind, value) else None):
            run.meet("D1")
        return failed(call["name"], call["id"], tool["name"])
    if tool.get("impl") == "todos":  # a ready-made tool does not note that it runs
        told = {"role": "tool", "content": worded(), "name": call["name"], "tool_call_id": call["id"]}
        return {"update": {"todos": given["todos"], "messages": [told]}, "who": repr(call["name"])}
    run.events.append(f"tool:{tool['name']}:start")
    try:
        return outcome(tool, given, original)
    finally:
        run.events.append(f"tool:{tool['name']}:end")


def outcome(tool: Data, given: Data, call: Data) -> Data:
    how = tool.get("impl", "echo")
    if how == "raise":
        raise Ended.scripted(tool["exc"], from_tool=True)
    if how == "command":
        if count_answers(tool["update"], call) != 1:
            raise Ended("ToolInvocationError", worded(repr(call["id"])), from_tool=True)
        messages = [named(m, call) for m in tool["update"]["messages"]]
        return {"update": tool["update"] | {"messages": messages}, "who": repr(call["name"])}
    value = tool["value"] if how == "const" else None
    if how == "add":
        value = given["x"] + given["y"]
    if how == "echo":
        value = f"{tool['name']}({json.dumps(given, sort_keys=True, ensure_ascii=False)})"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    made = {"type": "tool", "content": text, "name": tool["name"], "tool_call_id": call["id"], "status": "success"}
    return made | {"_ran": tool["name"]}


def count_answers(update: Data, call: Data) -> int:
    return sum(m.get("tool_call_id") == call["id"] for m in update.get("messages", []))


def named(m: Data, call: Data) -> Data:
    """Return the result with its tool's name, where the tool left it out."""
    return {**m, "name": m.get("name") or call["name"]} if m.get("tool_call_id") == call["id"] else m


def fitted(params: Data, args: Data, fit: Callable[[str, Any], Any] = coerced) -> Data | None:
    """Return the arguments as their types ask, without unknown ones; None where they cannot be made to fit."""
    given = {}
    for name, kind in params.items():
        if name in args:
            value = fit(kind["type"] if isinstance(kind, dict) else kind, args[name])
            if value is None:
                return None
            given[name] = value
        elif isinstance(kind, dict):
            given[name] = kind["default"]
        else:
            return None
    return given


# ---------------------------------------------------------------------- wrappers
def tool_layer(run: Any, m: Data, op: Data, inner: Handler, call: Data) -> Handler:
    def layer(request: Data) -> Data:
        if "ready" in op:
            return checked(run, m, op["ready"](run, m, request, inner), call)
        late(run, m)
        called = request["call"]["name"]
        run.events.append(f"{m['name']}.wrap_tool_call:enter:{called}" + (":tool=None" * (request["tool"] is None)))
        try:
            given = TOOL_OPS[op["op"]](run, m, op, request, inner)
        finally:
            run.events.append(f"{m['name']}.wrap_tool_call:exit:{called}")
        return checked(run, m, given, call)

    return layer


def checked(run: Any, m: Data, given: Any, call: Data) -> Data:
    """Return what a wrapper gave if it answers the call exactly once."""
    is_command = isinstance(given, dict) and "update" in given
    is_result = isinstance(given, dict) and given.get("type") == "tool" and given["tool_call_id"] == call["id"]
    if not is_result and not (is_command and count_answers(given["update"], call) == 1):
        run.refuse("A-W11", "UpdateError", f"{m['name']}.wrap_tool_call")
    found: Data = given
    return found


def result(request: Data, text: str, status: str = "success") -> Data:
    call = request["call"]
    return {"type": "tool", "content": text, "name": call["name"], "tool_call_id": call["id"], "status": status}


def passthrough(run, m, op, request, handler):
    return handler(request)


def retry(run, m, op, request, handler):
    got: Any = None
    for attempt in range(op["attempts"]):
        try:
            got = handler(request)
            if got.get("status") != "error":
                return got
            run.events.append(f"{m['name']}:error_message")
        except Ended as error:
            run.events.append(f"{m['name']}:caught:{error.kind}")
            if attempt == op["attempts"] - 1:
                raise
    return got


def short_circuit(run, m, op, request, handler):
    return result(request, op["content"])


def catch(run, m, op, request, handler):
    try:
        return handler(request)
    except Ended as error:
        return result(request, f"caught:{error.kind}:{error.text}", "error")


def fail(run, m, op, request, handler):
    raise Ended.scripted(op["exc"])


def modify_args(run, m, op, request, handler):
    call = {**request["call"], "args": {**request["call"]["args"], **op["args"]}}
    return handler({**request, "call": call})


def override_tool(run, m, op, request, handler):
    return handler({**request, "tool": run.known[op["tool"]]})


def command(run, m, op, request, handler):
    update = json.loads(json.dumps(op["update"]).replace("$ID", request["call"]["id"]))
    return {"update": update, "who": repr(request["call"]["name"])}


def raw(run, m, op, request, handler):
    return op["value"] if not isinstance(op["value"], dict) else None


def wrong_id(run, m, op, request, handler):
    return {**result(request, "x"), "tool_call_id": "nope"}


TOOL_OPS: dict[str, Any] = {
    "passthrough": passthrough,
    "retry": retry,
    "short_circuit": short_circuit,
    "catch": catch,
    "raise": fail,
    "modify_args": modify_args,
    "override_tool": override_tool,
    "command": command,
    "raw": raw,
    "wrong_id": wrong_id,
}
