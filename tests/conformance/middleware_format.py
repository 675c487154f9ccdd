"""How are messages, state and requests written in the middleware format? Ours from its data, and the other way.

Not here: building and running an agent (`middleware_world`).
"""

from __future__ import annotations

import json
import operator
from typing import Any

import toolkit as tk
from toolkit.agents.state import REMOVE_ALL, RemoveMessage, StateField

Data = dict[str, Any]
TYPES = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system"}


def calls_of(specs: list[Data]) -> list[tk.ToolCall]:
    return [tk.ToolCall(c["name"], c["args"], c["id"]) for c in specs]


def invalid_of(specs: list[Data]) -> list[Data]:
    return [{"name": c["name"], "id": c["id"], "reason": c.get("error"), "text": c["args"]} for c in specs]


def message_of(spec: Data) -> Any:
    """Build a message, or a mark that removes some."""
    role, meta = spec["role"], {"id": spec["id"]} if spec.get("id") else {}
    if role == "user":
        return tk.ChatMessage.from_user(spec["content"], meta)
    if role == "system":
        return tk.ChatMessage.from_system(spec["content"], meta)
    if role == "ai":
        if spec.get("invalid_tool_calls"):
            meta["invalid_calls"] = invalid_of(spec["invalid_tool_calls"])
        return tk.ChatMessage.from_assistant(spec.get("content", ""), meta, None, calls_of(spec.get("tool_calls", [])))
    if role == "tool":
        origin = tk.ToolCall(spec.get("name") or "", {}, spec["tool_call_id"])
        return tk.ChatMessage.from_tool(spec["content"], origin, spec.get("status") == "error", meta)
    return RemoveMessage(REMOVE_ALL if role == "remove_all" else spec["id"])


def update_of(spec: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    return {key: [message_of(m) for m in value] if key == "messages" else value for key, value in spec.items()}


def schema_of(fields: dict[str, str] | None) -> Any:
    made = {
        "replace": StateField(),
        "add": StateField(operator.add, default=0),
        "extend": StateField(operator.add, default=list),
        "private": StateField(private=True),
    }
    return {name: made[kind] for name, kind in fields.items()} if fields else None


def text_of(m: tk.ChatMessage) -> str:
    results = [r.result if isinstance(r.result, str) else json.dumps(r.result) for r in m.tool_call_results]
    return "\n".join([*m.texts, *results])


def brief(m: tk.ChatMessage) -> str:
    said = text_of(m)
    said = said if len(said) <= 160 else f"{said[:40]}...[{len(said)} chars]"
    calls = ",".join(call.tool_name for call in m.tool_calls)
    return f"{TYPES[m.role.value]}:{said}" + (f" calls={calls}" if calls else "")


def seen_request(request: Data, tag: str) -> Data:
    """Return what a model was given; the original passes stop strings on their own."""
    usual = tk.Options().to_dict()
    settings = {k: v for k, v in request["options"].items() if k not in ("stop", "transport") and v != usual.get(k)}
    seen: Data = {"model": tag, "messages": [brief(m) for m in request["messages"]]}
    if request.get("tools"):
        seen["tools"] = [tool.name for tool in request["tools"]]
    if request.get("tool_choice") is not None:
        seen["tool_choice"] = request["tool_choice"]
    return seen | ({"settings": settings} if settings else {})


def summary(m: tk.ChatMessage) -> Data:
    found: Data = {"type": TYPES[m.role.value], "content": text_of(m)}
    result = m.tool_call_result
    # there a result has the name of the tool that ran, here it notes that beside the called one's
    if name := m.name or m.meta.get("ran") or (result and result.origin.tool_name):
        found["name"] = name
    if m.tool_calls:
        found["tool_calls"] = [{"name": c.tool_name, "args": c.arguments, "id": c.id} for c in m.tool_calls]
    if result:
        found |= {"tool_call_id": result.origin.id, "status": "error" if result.error else "success"}
    return found


def outcome_of(trace: tk.Trace) -> Data:
    rest = dict(trace.state)
    if trace.structured_response is not None:
        rest["structured_response"] = trace.structured_response
    return {"final_messages": [summary(m) for m in trace.messages]} | ({"final_state": rest} if rest else {})
