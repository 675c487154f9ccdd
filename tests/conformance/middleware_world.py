"""What does our agent do in a middleware scenario? Build it from data, run it, and note what can be seen.

The notes have the format's words: events, model_calls, final_messages, final_state, error.
Not here: messages (`middleware_format`), what wrappers do (`middleware_ops`), ready-made middleware
(`middleware_ready`), facts (`middleware_probes`).
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from middleware_format import calls_of, invalid_of, outcome_of, schema_of, seen_request, update_of
from middleware_ops import MODEL_OPS, TOOL_OPS, wrapper
from middleware_probes import PROBES
from middleware_ready import ready_made
from scripted import Speaker, error_of, exception, function_of

import toolkit as tk

Data = dict[str, Any]
NODE_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
MANY = 200  # turns; the original allows 9999 steps, and no script is that long


class World:
    """Hold what a scenario made, and what happened in the order it happened."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.model_calls: list[Data] = []
        self.models: dict[str, Speaker] = {}
        self.tools: dict[str, tk.Tool] = {}
        self.lock = threading.Lock()

    def add(self, event: str) -> None:
        with self.lock:
            self.events.append(event)

    def model(self, turns: list[Data], tag: str = "model") -> Speaker:
        """Build a model that says the turns in order and notes what it was given."""
        left = iter(turns)

        def answer(request: Data) -> tk.Reply:
            self.model_calls.append(seen_request(request, tag))
            self.add(f"{tag}:call")
            turn = next(left, {"raise": "RuntimeError:script exhausted"})
            if "raise" in turn:
                raise exception(turn["raise"])
            invalid = invalid_of(turn.get("invalid_tool_calls", []))
            raw = {"invalid_tool_calls": invalid} if invalid else {}
            calls = tuple(calls_of(turn.get("tool_calls", [])))
            return tk.Reply(turn.get("content", ""), tool_calls=calls, raw=raw, model=tag)

        return Speaker(answer, tag)

    def tool(self, spec: Data) -> tk.Tool:
        """Build a tool whose function notes when it starts and ends."""
        kinds = {p: t if isinstance(t, dict) else {"type": t} for p, t in spec.get("params", {}).items()}
        parts = [f"{p}: {t['type']}" + (f" = {t['default']!r}" if "default" in t else "") for p, t in kinds.items()]
        work = function_of(spec, lambda event: self.add(f"tool:{event}"), ["*", *parts] if parts else [], IMPLS)
        name, words = spec["name"], spec.get("description", f"{spec['name']} tool")
        parameters = tk.Tool.from_function(work, name=name, description=words).parameters
        made = tk.Tool(name, words, parameters, work, return_direct=spec.get("return_direct", False))
        self.tools[name] = made
        return made

    def middleware(self, spec: Data) -> tk.AgentMiddleware:
        if "builtin" in spec:
            return ready_made(spec, self.models)
        flavour, body = spec.get("flavour", "sync"), {}
        if spec.get("state_fields"):
            body["state_schema"] = schema_of(spec["state_fields"])
        if "tools" in spec:
            body["tools"] = [self.tool(t) for t in spec["tools"]]
        for hook, given in spec.get("hooks", {}).items():
            if hook in NODE_HOOKS:
                plain, waiting = node_hook(f"{spec['name']}.{hook}", given, flavour == "both", self)
            else:
                work = MODEL_OPS[given["op"]] if hook == "wrap_model_call" else TOOL_OPS[given["op"]]
                plain, waiting = wrapper(work, given, spec["name"], hook, self)
            body |= {hook: plain} if flavour in ("sync", "both") else {}
            body |= {f"a{hook}": waiting} if flavour in ("async", "both") else {}
        made: tk.AgentMiddleware = type(spec["name"], (tk.AgentMiddleware,), body)()
        return made


IMPLS = {"command": lambda spec, given: tk.Command(update=update_of(spec["update"]))}


def node_hook(name: str, spec: Data, both: bool, world: World) -> tuple[Any, Any]:
    """Return the sync and the async form of a node hook; they share one count of calls."""
    counter = iter(range(10_000))

    def act(state: Data, which: str) -> Any:
        turn, label = next(counter), name + (f"[{which}]" if both else "")
        if spec.get("show_state"):
            shown = {k: len(v) if k == "messages" else v for k, v in state.items() if k in spec["show_state"]}
            label += ":" + json.dumps(shown, sort_keys=True)
        world.add(label)
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

    if "can_jump_to" not in spec:
        return plain, waiting
    mark = tk.hook_config(can_jump_to=spec["can_jump_to"])
    return mark(plain), mark(waiting)


def play(scenario: Data) -> Data:
    """Run a scenario, or answer a probe, and return what can be seen in the form of `observed`."""
    if scenario.get("kind") == "probe":
        found: Data = PROBES[scenario["name"]]()
        return found
    world = World()
    try:
        seen = run(scenario, world)
    except BaseException as error:
        seen = {"error": error_of(error)}
    return seen | {"events": world.events, "model_calls": world.model_calls}


def run(scenario: Data, world: World) -> Data:
    agent = build(scenario, world)
    given = update_of(scenario["input"])
    for number in range(scenario.get("repeat_invocations", 1)):
        if number:
            world.add("--- next invocation")
        trace = asyncio.run(agent.arun(given)) if scenario.get("mode") == "async" else agent.run(given)
    return outcome_of(trace)


def build(scenario: Data, world: World) -> tk.Agent:
    for tag, turns in scenario.get("extra_models", {}).items():
        world.models[tag] = world.model(turns, tag)
    tools = [world.tool(t) for t in scenario.get("tools", [])]
    for spec in scenario.get("unregistered_tools", []):
        world.tool(spec)
    return tk.Agent(
        world.model(scenario.get("model_turns", [])),
        tools,
        middleware=[world.middleware(m) for m in scenario.get("middlewares", [])],
        system_prompt=scenario.get("system_prompt"),
        state_schema=schema_of(scenario.get("agent_state_fields")),
        response_format=scenario.get("response_format"),
        name=scenario.get("agent_name"),
        max_model_calls=scenario.get("recursion_limit", MANY),  # the original counts every step
        max_repeats=None,  # the original has no such limit
    )
