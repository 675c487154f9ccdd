"""What does our agent do in a scenario? Build it from data, run it, and note what can be seen.

The notes have the format's words: events, model_calls, final_messages, final_state, error. Only `Agent` and its
public neighbours are used. Not here: whether the notes agree (`middleware_verdict`), probes (`middleware_probes`).
"""

from __future__ import annotations

import asyncio
import inspect
import json
import operator
import threading
import time
from collections.abc import Callable
from typing import Any

from pydantic import create_model

import toolkit as tk
from toolkit.agents.middleware import NODE_HOOKS
from toolkit.agents.state import REMOVE_ALL, RemoveMessage, StateField
from toolkit.models.base import Chunk

Data = dict[str, Any]
TYPES = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system"}
KINDS = {"int": int, "str": str, "float": float, "bool": bool, "list": list, "dict": dict}
MANY = 200  # turns; the original allows 9999 steps, and no script is that long


class ToolException(Exception):
    """The original's exception for tools."""


EXCEPTIONS = {e.__name__: e for e in (ValueError, KeyError, RuntimeError, TypeError, ToolException)}


class Notes:
    """What happened, in the order it happened."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.model_calls: list[Data] = []
        self.models: dict[str, Any] = {}
        self.tools: dict[str, tk.Tool] = {}
        self.words: set[str] = set()  # error results as a model saw them
        self.lock = threading.Lock()

    def add(self, event: str) -> None:
        with self.lock:
            self.events.append(event)


def exception(spec: str) -> Exception:
    kind, _, text = spec.partition(":")
    return EXCEPTIONS[kind](text)


def calls_of(specs: list[Data]) -> list[tk.ToolCall]:
    return [tk.ToolCall(c["name"], c["args"], c["id"]) for c in specs]


def invalid_of(specs: list[Data]) -> list[Data]:
    return [{"name": c["name"], "id": c["id"], "reason": c.get("error"), "text": c["args"]} for c in specs]


def message(spec: Data) -> Any:
    role = spec["role"]
    meta = {"id": spec["id"]} if spec.get("id") else {}
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
    return {key: [message(m) for m in value] if key == "messages" else value for key, value in spec.items()}


def text_of(m: tk.ChatMessage) -> str:
    results = [r.result if isinstance(r.result, str) else json.dumps(r.result) for r in m.tool_call_results]
    return "\n".join([*m.texts, *results])


def brief(m: tk.ChatMessage) -> str:
    said = text_of(m)
    said = said if len(said) <= 160 else f"{said[:40]}...[{len(said)} chars]"
    calls = ",".join(call.tool_name for call in m.tool_calls)
    return f"{TYPES[m.role.value]}:{said}" + (f" calls={calls}" if calls else "")


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


class Scripted(tk.ChatModel):
    """A model that says the scenario's turns and notes what it was given."""

    supports_tools = True

    def __init__(self, turns: list[Data], notes: Notes, tag: str = "model") -> None:
        self.turns, self.notes, self.name, self.place = turns, notes, tag, 0

    def stream(self, messages: Any, *, tools=None, schema=None, options=None, tool_choice=None) -> Any:
        said = [messages] if isinstance(messages, str) else messages
        said = [tk.ChatMessage.from_user(m) if isinstance(m, str) else m for m in said]
        self.notes.words |= {r.result for m in said for r in m.tool_call_results if r.error}
        seen: Data = {"model": self.name, "messages": [brief(m) for m in said]}
        if tools:
            seen["tools"] = [tool.name for tool in tools]
        if tool_choice is not None:
            seen["tool_choice"] = tool_choice
        usual = tk.Options().to_dict()
        given = tk.Options.of(options).to_dict()
        settings = {k: v for k, v in given.items() if k != "stop" and usual.get(k) != v}  # stop is passed on its own
        if settings:
            seen["settings"] = settings
        self.notes.model_calls.append(seen)
        self.notes.add(f"{self.name}:call")
        self.place += 1
        if self.place > len(self.turns):
            raise RuntimeError("script exhausted")
        turn = self.turns[self.place - 1]
        if "raise" in turn:
            raise exception(turn["raise"])
        calls = tuple(calls_of(turn.get("tool_calls", [])))
        invalid = invalid_of(turn.get("invalid_tool_calls", []))
        raw = {"invalid_tool_calls": invalid} if invalid else {}
        yield Chunk(reply=tk.Reply(turn.get("content", ""), tool_calls=calls, raw=raw, model=self.name))

    def complete_stream(self, prompt: str, **request: Any) -> Any:
        return self.stream(prompt)

    def fingerprint(self) -> Data:
        return {"backend": "scenario"}


def tool(spec: Data, notes: Notes) -> tk.Tool:
    """Build a tool whose function notes when it starts and ends."""
    name = spec["name"]
    fields = {
        p: (KINDS[t["type"]], t["default"]) if isinstance(t, dict) else (KINDS[t], ...)
        for p, t in spec.get("params", {}).items()
    }
    schema = {k: v for k, v in create_model(f"{name}_args", **fields).model_json_schema().items() if k != "title"}

    def work(**given: Any) -> Any:
        notes.add(f"tool:{name}:start")
        time.sleep(spec.get("sleep") or 0)
        given = {p: t["default"] for p, t in spec.get("params", {}).items() if isinstance(t, dict)} | given
        try:
            return outcome(spec, given)
        finally:
            notes.add(f"tool:{name}:end")

    declare(work, fields)
    made = tk.Tool(
        name,
        spec.get("description", f"{name} tool"),
        {"type": "object", "properties": {}, **schema},
        work,
        return_direct=spec.get("return_direct", False),
    )
    notes.tools[name] = made
    return made


def declare(work: Any, fields: Data) -> None:
    """Give a function the signature that its schema stands for, so that 1.0 becomes the int it asks for."""
    work.__annotations__ = {p: kind for p, (kind, _) in fields.items()}
    work.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                p, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=inspect.Parameter.empty if d is ... else d
            )
            for p, (kind, d) in fields.items()
        ]
    )


def outcome(spec: Data, given: Data) -> Any:
    how = spec.get("impl", "echo")
    if how == "add":
        return given["x"] + given["y"]
    if how == "echo":
        return f"{spec['name']}({json.dumps(given, sort_keys=True, ensure_ascii=False)})"
    if how == "const":
        return spec["value"]
    if how == "raise":
        raise exception(spec["exc"])
    return tk.Command(update=update_of(spec["update"]))


def schema(fields: dict[str, str] | None) -> Any:
    made = {
        "replace": StateField(),
        "add": StateField(operator.add, default=0),
        "extend": StateField(operator.add, default=list),
        "private": StateField(private=True),
    }
    return {name: made[kind] for name, kind in fields.items()} if fields else None


def finish(coroutine: Any) -> Any:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a sync handler waited")


def response(spec: Data) -> Any:
    kind = spec.get("as", "ModelResponse")
    said = message({"role": "ai", "content": spec.get("content", ""), "tool_calls": spec.get("tool_calls", [])})
    if kind == "raw":
        return spec["value"]
    return said if kind == "AIMessage" else tk.ModelResponse([said, *map(message, spec.get("extra_messages", []))])


def override_fields(fields: Data, notes: Notes) -> Data:
    made: dict[str, Callable[[Any], Any]] = {
        "system_message": lambda v: tk.ChatMessage.from_system(v) if isinstance(v, str) else v,
        "messages": lambda v: [message(m) for m in v],
        "model": lambda v: notes.models[v],
        "tools": lambda v: [notes.tools[n] for n in v],
        "state": lambda v: update_of(v),
    }
    return {key: made.get(key, lambda v: v)(value) for key, value in fields.items()}


def node_hook(name: str, hook: str, spec: Data, both: bool, notes: Notes) -> tuple[Any, Any]:
    """Return the sync and the async form of a node hook; they share one count of calls."""
    counter = iter(range(10_000))

    def act(state: Data, which: str) -> Any:
        turn = next(counter)
        label = f"{name}.{hook}" + (f"[{which}]" if both else "")
        if spec.get("show_state"):
            shown = {k: len(v) if k == "messages" else v for k, v in state.items() if k in spec["show_state"]}
            label += ":" + json.dumps(shown, sort_keys=True)
        notes.add(label)
        if str(turn) in spec.get("raise_on", {}):
            raise exception(spec["raise_on"][str(turn)])
        returns = spec.get("returns", [])
        given = returns[turn] if turn < len(returns) else spec.get("default")
        if not spec.get("as_command"):
            return update_of(given)
        goto = {"goto": spec["goto"]} if "goto" in spec else {}
        return tk.Command(update=update_of(given), **goto) if given is not None or goto else None

    def plain(self: Any, state: Data, runtime: Any) -> Any:
        return act(state, "sync")

    async def waiting(self: Any, state: Data, runtime: Any) -> Any:
        return act(state, "async")

    if "can_jump_to" in spec:
        mark = tk.hook_config(can_jump_to=spec["can_jump_to"])
        return mark(plain), mark(waiting)
    return plain, waiting


def wrap_hook(work: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the sync and the async form of a wrapper written once, as a coroutine function."""

    def plain(self: Any, request: Any, handler: Any) -> Any:
        async def call(new: Any) -> Any:
            return handler(new)

        return finish(work(request, call))

    async def waiting(self: Any, request: Any, handler: Any) -> Any:
        return await work(request, handler)

    return plain, waiting


def middleware(spec: Data, notes: Notes) -> tk.AgentMiddleware:
    from middleware_ops import model_op, tool_op
    from middleware_ready import ready_made

    if "builtin" in spec:
        return ready_made(spec, notes.models)
    name, flavour = spec["name"], spec.get("flavour", "sync")
    body: Data = {}
    if spec.get("state_fields"):
        body["state_schema"] = schema(spec["state_fields"])
    if "tools" in spec:
        body["tools"] = [tool(t, notes) for t in spec["tools"]]
    forms = {}
    for hook, given in spec.get("hooks", {}).items():
        if hook in NODE_HOOKS:
            forms[hook] = node_hook(name, hook, given, flavour == "both", notes)
        else:
            make = model_op if hook == "wrap_model_call" else tool_op
            forms[hook] = wrap_hook(make(given, name, notes))
    for hook, (plain, waiting) in forms.items():
        body |= {hook: plain} if flavour in ("sync", "both") else {}
        body |= {f"a{hook}": waiting} if flavour in ("async", "both") else {}
    return type(name, (tk.AgentMiddleware,), body)()


def play(scenario: Data, **settings: Any) -> Data:
    """Run a scenario and return the notes."""
    notes, seen = Notes(), {}
    try:
        agent = build(scenario, notes, settings)
        given = {k: [message(m) for m in v] if k == "messages" else v for k, v in scenario["input"].items()}
        for number in range(scenario.get("repeat_invocations", 1)):
            if number:
                notes.add("--- next invocation")
            trace = asyncio.run(agent.arun(given)) if scenario.get("mode") == "async" else agent.run(given)
        seen = outcome_of(trace)
    except BaseException as error:
        seen["error"] = {"type": type(error).__name__, "message": str(error)}
        partial = getattr(error, "trace", None)
        seen["partial"] = outcome_of(partial) if partial else None
        seen["error"]["refusal"] = isinstance(error, tk.ToolkitError) or type(error) not in EXCEPTIONS.values()
    seen |= {"events": notes.events, "model_calls": notes.model_calls, "words": sorted(notes.words)}
    return json.loads(json.dumps(seen, default=str))


def build(scenario: Data, notes: Notes, settings: Data) -> tk.Agent:
    model = Scripted(scenario.get("model_turns", []), notes)
    for tag, turns in scenario.get("extra_models", {}).items():
        notes.models[tag] = Scripted(turns, notes, tag)
    tools = [tool(t, notes) for t in scenario.get("tools", [])]
    for spec in scenario.get("unregistered_tools", []):
        tool(spec, notes)
    return tk.Agent(
        model,
        tools,
        middleware=[middleware(m, notes) for m in scenario.get("middlewares", [])],
        system_prompt=scenario.get("system_prompt"),
        state_schema=schema(scenario.get("agent_state_fields")),
        response_format=scenario.get("response_format"),
        name=scenario.get("agent_name"),
        max_model_calls=turns_for(scenario),
        max_repeats=None,  # the original has no such limit
        **settings,
    )


def turns_for(scenario: Data) -> int:
    """Return how many turns our limit allows, which counts turns where the original counts every step."""
    return scenario.get("recursion_limit", MANY)


def outcome_of(trace: tk.Trace) -> Data:
    found: Data = {"final_messages": [summary(m) for m in trace.messages]}
    rest = dict(trace.state)
    if trace.structured_response is not None:
        rest["structured_response"] = trace.structured_response
    return found | ({"final_state": rest} if rest else {})
