"""What do wrappers, models and tools do in the model of the loop? Each op of the format, by its definition.

Not here: the loop (`middleware_oracle`), what the ops do to the toolkit (`middleware_ops`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jsonschema_rs
from middleware_oracle_state import MARK, Ended, failed, note
from pydantic import TypeAdapter, ValidationError

Data = dict[str, Any]
Reply = tuple[list[Data], Any, list[tuple[Data, str]]]  # messages, structured answer, commands from the inside out


# ---------------------------------------------------------------------- model calls
def ask(run: Any, request: Data) -> Reply:
    """Ask the model through the wrappers, the first one outermost."""
    handler: Callable[[Data], Reply] = lambda given: base(run, given)  # noqa: E731
    for m, op in reversed(run.hooks("wrap_model_call")):
        handler = model_layer(run, m, op, handler)
    return handler(request)


def base(run: Any, request: Data) -> Reply:
    """Send a request to its model."""
    foreign = [name for name in request["tools"] if name not in run.registry]
    if foreign and not run.wraps_tools:
        run.refuse(None, "UpdateError", repr(foreign[0]))
    title = given_title(run, request)
    choice = chosen(request.get("tool_choice"))
    offered = [] if choice == "none" else request["tools"]
    run.offered = list(offered)
    if title and offered != request["tools"]:  # the choice is an answer's there, and all tools are shown beside it
        run.meet("A-W18")
    system = [{"type": "system", "content": request["system"]}] if request["system"] is not None else []
    names = [*offered, *([title] if title else [])]
    seen: Data = {"model": request["model"], "messages": [brief(m) for m in (*system, *request["messages"])]}
    choice = "any" if title and choice in (None, "auto", "none") else choice
    settings = {k: v for k, v in (request.get("model_settings") or {}).items() if k != "stop"}
    seen |= {"tools": names} if names else {}
    seen |= {"tool_choice": choice} if choice is not None and (names or choice == "none") else {}
    seen |= {"settings": settings} if settings else {}
    run.model_calls.append(seen)
    run.events.append(f"{request['model']}:call")
    said = note({"role": "ai", **next_turn(run, request["model"])})
    return answer(run, stamped(run, said, len(request["messages"])), request["response_format"])


def given_title(run: Any, request: Data) -> str | None:
    """Return the name of the answer that is asked for, and note where only a wrapper asks for it."""
    title: str | None = (request["response_format"] or {}).get("title")
    if title is not None and title != run.title:
        run.meet("D3")
    return title


def stamped(run: Any, said: Data, turn: int) -> Data:
    """Give the calls without an id one."""
    for number, call in enumerate(said.get("tool_calls", [])):
        if not call["id"]:
            run.meet("D2")
            call["id"] = f"call_{turn}_{number}"
    return said


def next_turn(run: Any, model: str) -> Data:
    turns = run.scenario.get("model_turns", []) if model == "model" else run.scenario["extra_models"][model]
    turn = run.counters["turn", model]
    run.counters["turn", model] += 1
    if turn >= len(turns):
        raise Ended("RuntimeError", "script exhausted")
    if "raise" in turns[turn]:
        raise Ended.scripted(turns[turn]["raise"])
    given: Data = turns[turn]
    return given


def answer(run: Any, said: Data, shape: Data | None) -> Reply:
    """Stamp the agent's name, and take the structured answer or say what is wrong with it."""
    title = (shape or {}).get("title")
    if run.scenario.get("agent_name"):
        said["name"] = run.scenario["agent_name"]
    calls = [c for c in said.get("tool_calls", []) if title and c["name"] == title]
    if not calls:
        return [said], None, []
    schema = {k: v for k, v in (shape or {}).items() if k != "title"}
    value = calls[0]["args"] if jsonschema_rs.is_valid(schema, calls[0]["args"]) else as_asked(schema, calls[0]["args"])
    if len(calls) > 1 or value != calls[0]["args"]:
        run.meet("A12")
    if len(calls) > 1 or value is None:
        return [said, *(failed(c["name"], c["id"], title) for c in calls)], None, []
    shown = [str(v) for v in calls[0]["args"].values() if isinstance(v, (str, int)) and not isinstance(v, bool)]
    taken = {**failed(title, calls[0]["id"], *shown), "status": "success"}
    return [said, taken], value, []


def as_asked(schema: Data, args: Data) -> Data | None:
    """Return an answer with values made to fit without loss, or None."""
    kinds = {"integer": "int", "number": "float", "boolean": "bool"}
    made = dict(args)
    for name, part in schema.get("properties", {}).items():
        if name in args and part.get("type") in kinds:
            made[name] = coerced(kinds[part["type"]], args[name])
    return made if jsonschema_rs.is_valid(schema, made) else None


def coerced(kind: str, value: Any) -> Any:
    """Return a value as a type of the format asks, or None where that would lose something."""
    if kind == "int":
        whole = isinstance(value, float) and value.is_integer()
        text = isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+(\.0*)?\s*", value)
        fits = (isinstance(value, int) and not isinstance(value, bool)) or whole or text
        return int(float(value)) if fits else None
    if kind == "float":
        number = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
        text = isinstance(value, str) and re.fullmatch(number, value)
        fits = (isinstance(value, (int, float)) and not isinstance(value, bool)) or text
        return float(value) if fits else None
    if kind == "bool" and isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    types = {"str": str, "bool": bool, "list": list, "dict": dict}
    return value if isinstance(value, types[kind]) else None


def lax(kind: str, value: Any) -> bool:
    """Tell whether the original's way of making a value fit, which is pydantic's, takes it."""
    types = {"int": int, "str": str, "float": float, "bool": bool, "list": list, "dict": dict}
    try:
        TypeAdapter(types[kind]).validate_python(value)
    except ValidationError:
        return False
    return True


def chosen(choice: Any) -> Any:
    """Return a tool choice in our words, where it is given in a server's."""
    return choice["function"]["name"] if isinstance(choice, dict) else choice


def brief(m: Data) -> str:
    """Return a message as the notes of a model call show it."""
    said = m["content"]
    if MARK not in said and len(said) > 160:
        said = f"{said[:40]}...[{len(said)} chars]"
    calls = ",".join(c["name"] for c in m.get("tool_calls", []))
    return f"{m['type']}:{said}" + (f" calls={calls}" if calls else "")


def model_layer(run: Any, m: Data, op: Data, inner: Callable[[Data], Reply]) -> Callable[[Data], Reply]:
    def layer(request: Data) -> Reply:
        below: list[tuple[Data, str]] = []

        def handler(given: Data) -> Reply:
            below.clear()
            got = inner(given)
            below.extend(got[2])
            return got

        if "ready" in op:
            said, structured, _ = op["ready"](run, m, request, handler)
            return said, structured, list(below)
        late(run, m)
        run.events.append(f"{m['name']}.wrap_model_call:enter")
        run.counters[id(m), "wrap_model_call"] += 1
        try:
            said, structured, own = MODEL_OPS[op["op"]](run, m, op, request, handler)
        finally:
            run.events.append(f"{m['name']}.wrap_model_call:exit")
        if said is None:
            run.refuse("A-W11", "UpdateError", f"{m['name']}.wrap_model_call")
        return said, structured, [*below, *own]

    return layer


def late(run: Any, m: Data) -> None:
    """Note a sync wrapper in an async run, which works here."""
    if run.is_async and m.get("flavour", "sync") == "sync":
        run.meet("A-W9")


def response(spec: Data) -> Any:
    said = note({"role": "ai", "content": spec.get("content", ""), "tool_calls": spec.get("tool_calls")})
    kind = spec.get("as", "ModelResponse")
    if kind == "raw":
        return None
    return [said] if kind == "AIMessage" else [said, *map(note, spec.get("extra_messages", []))]


def passthrough(run, m, op, request, handler):
    said, structured, _ = handler(request)
    return said, structured, []


def record_handler_type(run, m, op, request, handler):
    said, structured, _ = handler(request)
    run.events.append(f"{m['name']}:handler_returned:ModelResponse:{len(said)}")
    return said, structured, []


def retry(run, m, op, request, handler):
    last: Any = None
    for _attempt in range(op["attempts"]):
        try:
            return passthrough(run, m, op, request, handler)
        except Ended as error:
            last = error
            run.events.append(f"{m['name']}:caught:{error.kind}")
    raise last


def call_twice(run, m, op, request, handler):
    handler(request)
    return passthrough(run, m, op, request, handler)


def short_circuit(run, m, op, request, handler):
    return response(op["response"]), None, []


def catch(run, m, op, request, handler):
    try:
        return passthrough(run, m, op, request, handler)
    except Ended as error:
        return response({"content": f"fallback:{error.text}", "as": op.get("as", "AIMessage")}), None, []


def rewrite(run, m, op, request, handler):
    said = handler(request)[0][0]
    new = {"type": "ai", "content": op["prefix"] + said["content"], "_invalid": []}
    return [new | ({"tool_calls": said["tool_calls"]} if said.get("tool_calls") else {})], None, []


def override(run, m, op, request, handler):
    changes = dict(op["fields"])
    for word in ("system_message", "system_prompt"):
        if word in changes:
            changes["system"] = changes.pop(word)
    if "messages" in changes:
        changes["messages"] = [note(given) for given in changes["messages"]]
    run.events.append(f"{m['name']}:original_unchanged:True")
    return passthrough(run, m, op, request | changes, handler)


def append_system(run, m, op, request, handler):
    text = ((request["system"] or "") + op["text"]).strip()
    return passthrough(run, m, op, request | {"system": text}, handler)


def change_in_place(run, m, op, request, handler):
    if op["op"] == "mutate_tools_clear_once" and run.counters[id(m), "wrap_model_call"] > 1:
        return passthrough(run, m, op, request, handler)
    word = {"setattr": op.get("field"), "mutate_messages": "append", "mutate_tools_clear_once": "clear"}[op["op"]]
    return run.refuse("A-W7", "AttributeError", word)


def extended(run, m, op, request, handler):
    said, structured, _ = handler(request)
    command = op.get("command") or {}
    if "goto" in command:
        run.refuse("A1.7", "TypeError", "goto")
    who = f"{m['name']}.wrap_model_call"
    return said, structured, [(command["update"], who)] if command.get("update") else []


def extended_then_retry(run, m, op, request, handler):
    for _attempt in range(op["times"] - 1):
        handler(request)
    return passthrough(run, m, op, request, handler)


def fail(run, m, op, request, handler):
    raise Ended.scripted(op["exc"])


def fail_after(run, m, op, request, handler):
    handler(request)
    raise Ended.scripted(op["exc"])


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
    "setattr": change_in_place,
    "mutate_messages": change_in_place,
    "mutate_tools_clear_once": change_in_place,
    "extended": extended,
    "extended_then_retry": extended_then_retry,
    "raise": fail,
    "raise_after": fail_after,
}
