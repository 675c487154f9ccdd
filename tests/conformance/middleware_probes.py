"""What are the facts about requests, decorators and construction? Questions that need code, one function each.

Each function does with ours what the probe of its name did with the original, and answers in the same words.
Not here: whether the facts are the same (`meaning`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import toolkit as tk

Data = dict[str, Any]
NODES = ("before_agent", "before_model", "after_model", "after_agent")


def request(**given: Any) -> tk.ModelRequest:
    base = {"model": tk.ScriptedModel([]), "messages": [tk.ChatMessage.from_user("hi")], "state": {"messages": []}}
    return tk.ModelRequest(**{**base, **given})


def attempt(work: Callable[[], Any]) -> Data:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return {"value": work()}
        except Exception as error:
            return {"error": type(error).__name__, "message": str(error)}


def override_unknown() -> Data:
    return attempt(lambda: str(request().override(bogus=1)))


def override_system_prompt_alias() -> Data:
    old = request(system_message=tk.ChatMessage.from_system("a"))
    new, none = old.override(system_prompt="b"), old.override(system_prompt=None)
    return {
        "new": new.system_message.text,
        "old": old.system_message.text,
        "none": none.system_message,
        "both": attempt(lambda: old.override(system_prompt="x", system_message=tk.ChatMessage.from_system("y"))),
        "prompt_property": new.system_prompt,
    }


def override_shares_mutable_lists() -> Data:
    old = request(model_settings={"temperature": 1})
    new = old.override(tool_choice="any")
    return {
        "messages_same_list_object": new.messages is old.messages,
        "settings_same_object": new.model_settings is old.model_settings,
        "is_new_object": new is not old,
    }


def override_runtime_allowed() -> Data:
    return attempt(lambda: request().override(runtime="R").runtime)


def request_setattr() -> Data:
    one = request()
    return {
        "known": attempt(lambda: setattr(one, "tool_choice", "any")),
        "system_prompt": attempt(lambda: setattr(one, "system_prompt", "zzz")),
        "unknown": attempt(lambda: setattr(one, "brand_new_attr", 1)),
        "value": one.tool_choice,
        "system_message": one.system_message and one.system_message.text,
        "unknown_stuck": getattr(one, "brand_new_attr", None),
    }


def request_defaults() -> Data:
    one = request()
    return {
        "tools": list(one.tools),
        "model_settings": dict(one.model_settings),
        "tool_choice": one.tool_choice,
        "system_message": one.system_message,
        "response_format": one.response_format,
        "positional_rejected": attempt(lambda: tk.ModelRequest(tk.ScriptedModel([]), []))["error"],
    }


def tool_call_request() -> Data:
    old = tk.ToolCallRequest(tool_call={"name": "a", "args": {}, "id": "1"}, tool=None, state={}, runtime=None)
    new = old.override(tool_call={"name": "b", "args": {}, "id": "1"})
    return {
        "fields": list(tk.ToolCallRequest.__slots__),
        "old": old.tool_call["name"],
        "new": new.tool_call["name"],
        "unknown": attempt(lambda: old.override(zzz=1)),
        "setattr": attempt(lambda: setattr(old, "state", {"k": 1})),
    }


def response_shapes() -> Data:
    return {
        "ModelResponse": list(tk.ModelResponse.__dataclass_fields__),
        "ExtendedModelResponse": list(tk.ExtendedModelResponse.__dataclass_fields__),
        "model_response_frozen": attempt(lambda: setattr(tk.ModelResponse(result=[]), "result", [1])),
        "equality_by_value": tk.ModelResponse(result=[]) == tk.ModelResponse(result=[]),
    }


def decorator_lambda_and_callable() -> Data:
    nothing = lambda state, runtime: None  # noqa: E731
    called = type("Called", (), {"__call__": lambda self, state, runtime: None})()
    return {"lambda_name": tk.before_model(nothing).name, "callable_object_name": tk.before_model(called).name}


# ---------------------------------------------------------------------- agents
def updating(class_name: str, *hooks: str, **body: Any) -> tk.AgentMiddleware:
    """Return a middleware whose hooks each add a message, so that the trace names them."""

    def hook(self: Any, state: Any, runtime: Any) -> Data:
        return {"messages": [tk.ChatMessage.from_user("more")]}

    made: tk.AgentMiddleware = type(class_name, (tk.AgentMiddleware,), {**dict.fromkeys(hooks, hook), **body})()
    return made


def stages(tools: list[tk.Tool], *middleware: tk.AgentMiddleware) -> list[str]:
    """Run an agent that calls its tools once, and return the hooks, model calls and tool calls in order."""
    model = tk.ScriptedModel([*(tk.ToolCall(tool.name) for tool in tools), "done", "done"])
    trace = tk.Agent(model, tools, middleware=list(middleware)).run("hi")
    named = {"update": lambda event: event.source, "model_call": lambda _: "model", "tool_call": lambda _: "tools"}
    return [named[event.kind](event) for event in trace.events if event.kind in named]


def duplicate_names() -> Data:
    return attempt(lambda: stages([], updating("Twice", "before_model"), updating("Twice", "before_model")) and None)


def duplicate_names_with_name_property() -> Data:
    def named(name: str) -> tk.AgentMiddleware:
        return updating("A", "before_model", name=property(lambda self: name))

    return attempt(lambda: ["__end__", "__start__", *stages([], named("one"), named("two"))])


def hook_config_rejects_nothing() -> Data:
    return attempt(lambda: tk.hook_config(can_jump_to=["nowhere"])(lambda self, state, runtime: None) and "built")


def jump_to_tools_without_tools() -> Data:
    hook = tk.hook_config(can_jump_to=["tools"])(lambda self, state, runtime: None)
    return attempt(lambda: tk.Agent(tk.ScriptedModel([]), middleware=[updating("Z", before_model=hook)]) and "built")


def node_names() -> Data:
    """Return the stages of two runs, with a tool call and with a jump, and the steps from each to the next."""

    @tk.hook_config(can_jump_to=["model"])
    def again(self: Any, state: Any, runtime: Any) -> Data:
        turn = sum(message.role == "assistant" for message in state["messages"])
        return {"messages": [tk.ChatMessage.from_user("more")], **({"jump_to": "model"} if turn < 2 else {})}

    tool = tk.Tool("t", "", {"type": "object"}, lambda: "r")
    runs = [stages([tool], updating("A", *NODES)), stages([], updating("A", *NODES, after_model=again))]
    steps = {step for run in runs for step in pairwise(["__start__", *run, "__end__"])}
    turns = ("A.after_model", "tools")  # where a run may go on in more than one way
    edges = {f"{a}->{b}" + "?" * (a in turns) for a, b in steps}
    return {"nodes": sorted({stage for step in steps for stage in step}), "edges": sorted(edges)}


def default_recursion_limit() -> Data:
    tool = tk.Tool("t", "", {"type": "object"}, lambda: "r")
    model = tk.ScriptedModel([tk.ToolCall("t")], cycle=True)
    attempt(lambda: tk.Agent(model, [tool], max_repeats=None).run("hi"))
    return {"recursion_limit": len(model.requests)}


def duplicate_tool_names() -> Data:
    tools = [tk.Tool("t", "", {"type": "object"}, lambda: "first"), tk.Tool("t", "", {"type": "object"}, lambda: "2")]
    return attempt(lambda: tk.Agent(tk.ScriptedModel([]), tools))


PROBES: dict[str, Callable[[], Data]] = {
    work.__name__: work
    for work in (
        override_unknown, override_system_prompt_alias, override_shares_mutable_lists, override_runtime_allowed,
        request_setattr, request_defaults, tool_call_request, response_shapes,
        decorator_lambda_and_callable, duplicate_names, duplicate_names_with_name_property,
        hook_config_rejects_nothing, jump_to_tools_without_tools, node_names, default_recursion_limit,
        duplicate_tool_names,
    )
}  # fmt: skip
