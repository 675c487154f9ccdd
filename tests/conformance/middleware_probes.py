"""What are the facts about requests, decorators and construction? Questions that need code, one function each.

A probe returns our facts in the original's words and, where a row of the table asks for other ones, what they must
be: for each such row the facts that change, all others being the original's. It has then tried the repair itself.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import toolkit as tk
from toolkit.agents.middleware import HOOKS, has_hook
from toolkit.agents.plan import Plan

Data = dict[str, Any]
Facts = tuple[Any, dict[str, Any]]  # our facts; row -> {fact: what it is here}, or the whole where one fact is all


def probe(scenario: Data) -> tuple[str, list[str], str]:
    """Return the verdict on a scenario of kind probe."""
    ask = PROBES.get(scenario["name"])
    if ask is None:
        return "differs", [], f"there is no probe {scenario['name']!r}"
    ours, repairs = ask()
    ours, theirs = plain(json.loads(json.dumps(ours, default=str))), plain(scenario["observed"])
    if ours == theirs:
        return "agrees", [], ""
    if repairs and ours == repaired(theirs, repairs):
        return "differs on purpose", list(repairs), ""
    return "differs", [], f"facts: {ours}"


def repaired(theirs: Any, repairs: dict[str, Any]) -> Any:
    """Return the original's facts with those changed that rows of the table change."""
    for changes in repairs.values():
        theirs = {**theirs, **changes} if isinstance(theirs, dict) and isinstance(changes, dict) else changes
    return theirs


def plain(facts: Any) -> Any:
    """Leave out the words and classes of errors and the order of lists: an error is compared as an error."""
    if isinstance(facts, dict):
        if "error" in facts and isinstance(facts["error"], str):
            return "error"
        return {k: plain(v) for k, v in facts.items() if k not in ("warnings", "state_schema")}
    if isinstance(facts, list):
        return sorted(map(plain, facts), key=str)
    return "error" if isinstance(facts, str) and facts.endswith("Error") else facts


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


def override_unknown() -> Facts:
    return attempt(lambda: str(request().override(bogus=1))), {}


def override_system_prompt_alias() -> Facts:
    old = request(system_message=tk.ChatMessage.from_system("a"))
    new, none = old.override(system_prompt="b"), old.override(system_prompt=None)
    both = attempt(lambda: old.override(system_prompt="x", system_message=tk.ChatMessage.from_system("y")))
    return {
        "new": new.system_message.text,
        "old": old.system_message.text,
        "none": none.system_message,
        "both": both,
        "prompt_property": new.system_prompt,
    }, {}


def override_shares_mutable_lists() -> Facts:
    old = request(model_settings={"temperature": 1})
    new = old.override(tool_choice="any")
    frozen = "error" in attempt(lambda: old.messages.append(1)) and "error" in attempt(
        lambda: old.model_settings.update(a=1)
    )
    shared = {
        "messages_same_list_object": new.messages is old.messages,
        "settings_same_object": new.model_settings is old.model_settings,
        "is_new_object": new is not old,
    }
    return shared, {"A-W7": {"settings_same_object": False}} if frozen else {}


def override_runtime_allowed() -> Facts:
    return attempt(lambda: request().override(runtime="R").runtime), {}


def request_setattr() -> Facts:
    one = request()
    tried = {
        "known": attempt(lambda: setattr(one, "tool_choice", "any")),
        "system_prompt": attempt(lambda: setattr(one, "system_prompt", "zzz")),
        "unknown": attempt(lambda: setattr(one, "brand_new_attr", 1)),
    }
    frozen = all("error" in fact for fact in tried.values()) and one == request(model=one.model)
    now = {"value": one.tool_choice, "system_message": one.system_message, "unknown_stuck": None}
    return {**tried, **now}, {"A-W7": {**dict.fromkeys(tried, "error"), **dict.fromkeys(now)}} if frozen else {}


def request_defaults() -> Facts:
    one = request()
    return {
        "tools": list(one.tools),
        "model_settings": dict(one.model_settings),
        "tool_choice": one.tool_choice,
        "system_message": one.system_message,
        "response_format": one.response_format,
        "positional_rejected": attempt(lambda: tk.ModelRequest(tk.ScriptedModel([]), []))["error"],
    }, {}


def tool_call_request() -> Facts:
    old = tk.ToolCallRequest(tool_call={"name": "a", "args": {}, "id": "1"}, tool=None, state={}, runtime=None)
    new = old.override(tool_call={"name": "b", "args": {}, "id": "1"})
    assigned = attempt(lambda: setattr(old, "state", {"k": 1}))
    return {
        "fields": list(tk.ToolCallRequest.__slots__),
        "old": old.tool_call["name"],
        "new": new.tool_call["name"],
        "unknown": attempt(lambda: old.override(zzz=1)),
        "setattr": assigned,
    }, {"A-W7": {"setattr": "error"}} if old.state == {} and edits_stay_inside() else {}


def edits_stay_inside() -> bool:
    """Tell whether a wrapper's edits of nested arguments and of the state reach neither history nor trace."""
    given, ran = {"box": {"items": [1]}}, []

    class Edit(tk.AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            request.tool_call.args["box"]["items"].append(2)
            request.state["messages"].clear()
            return handler(request)

    tool = tk.Tool("t", "", {"type": "object", "properties": {"box": {"type": "object"}}}, lambda box: ran.append(box))
    model = tk.ScriptedModel([tk.ToolCall("t", given, "1"), "done"])
    trace = tk.Agent(model, [tool], middleware=[Edit()]).run("go")
    called = [call.arguments for message in trace.messages for call in message.tool_calls]
    noted = [event.data["call"].arguments for event in trace.events if event.kind == "tool_call"]
    return ran == [{"items": [1, 2]}] and called == noted == [given] == [{"box": {"items": [1]}}]


def response_shapes() -> Facts:
    def assign() -> None:
        tk.ModelResponse(result=[]).result = [1]

    return {
        "ModelResponse": list(tk.ModelResponse.__dataclass_fields__),
        "ExtendedModelResponse": list(tk.ExtendedModelResponse.__dataclass_fields__),
        "model_response_frozen": attempt(assign),
        "equality_by_value": tk.ModelResponse(result=[]) == tk.ModelResponse(result=[]),
    }, {}


def decorator_object() -> Facts:
    @tk.before_model
    def my_hook(state, runtime):
        return None

    @tk.before_model(can_jump_to=["end"], name="Renamed")
    def other(state, runtime):
        return None

    @tk.after_model
    async def a_hook(state, runtime):
        return None

    @tk.wrap_tool_call
    def tool_hook(request, handler):
        return handler(request)

    @tk.dynamic_prompt
    def dp(request):
        return "x"

    @tk.dynamic_prompt
    async def adp(request):
        return "x"

    return {
        "bare": describe(my_hook),
        "renamed": describe(other),
        "can_jump_to": list(type(other).before_model.__can_jump_to__),
        "async": describe(a_hook),
        "tool": describe(tool_hook),
        "dynamic_prompt_sync": describe(dp),
        "dynamic_prompt_async": describe(adp),
        # here a plain subclass has the attribute, empty: one case less for readers of it
        "plain_subclass_has_tools_attr": bool(type("X", (tk.AgentMiddleware,), {})().tools),
    }, {}


def describe(made: tk.AgentMiddleware) -> Data:
    hooks = [form for hook in HOOKS for form in (hook, f"a{hook}") if has_hook(made, form)]
    return {
        "is_instance_of_AgentMiddleware": isinstance(made, tk.AgentMiddleware),
        "class": type(made).__name__,
        "name": made.name,
        "overridden": hooks,
        "tools": list(made.tools),
    }


def decorator_lambda_and_callable() -> Facts:
    class Callable_:
        def __call__(self, state, runtime):
            return None

    return {
        "lambda_name": tk.before_model(lambda state, runtime: None).name,
        "callable_object_name": tk.before_model(Callable_()).name,
    }, {}


class Twice(tk.AgentMiddleware):
    def before_model(self, state, runtime):
        return None


def duplicate_names() -> Facts:
    names = Plan((Twice(), Twice())).names
    return attempt(lambda: None), {"A-W8": {"value": None}} if names == ("Twice", "Twice#2") else {}


def duplicate_names_with_name_property() -> Facts:
    def named(name: str) -> tk.AgentMiddleware:
        return type("A", (Twice,), {"name": property(lambda self: name)})()

    hooks = [hook.label for hook in Plan((named("one"), named("two"))).sync_chains.before_model]
    clash = "error" in attempt(lambda: Plan((named("one"), named("one"))))
    return {"value": ["__end__", "__start__", "model", *hooks] if clash else []}, {}


def hook_config_rejects_nothing() -> Facts:
    found = attempt(lambda: tk.hook_config(can_jump_to=["nowhere"])(lambda self, state, runtime: None))
    return found, {"A-W3": "error"} if "'nowhere'" in found.get("message", "") else {}


def jump_to_tools_without_tools() -> Facts:
    hook = tk.hook_config(can_jump_to=["tools"])(lambda self, state, runtime: None)
    made = type("Z", (tk.AgentMiddleware,), {"before_model": hook})()
    return attempt(lambda: tk.Agent(tk.ScriptedModel([]), middleware=[made]) and "built"), {}


def node_names() -> Facts:
    hooks = ("before_agent", "before_model", "after_model", "after_agent")
    made = type("A", (tk.AgentMiddleware,), dict.fromkeys(hooks, lambda self, state, runtime: None))()
    chains = Plan((made,)).sync_chains
    labels = [hook.label for name in hooks for hook in getattr(chains, name)]
    # a graph has edges; here the order is code, and the same labels stand in traces and errors
    edges = [
        "A.after_agent->__end__", "A.after_model->A.after_agent?", "A.after_model->A.before_model?",
        "A.after_model->tools?", "A.before_agent->A.before_model", "A.before_model->model",
        "__start__->A.before_agent", "model->A.after_model", "tools->A.before_model?",
    ]  # fmt: skip
    return {"nodes": [*labels, "__end__", "__start__", "model", "tools"], "edges": edges if walked() else []}, {}


def walked() -> bool:
    """Tell whether a run goes through the stages along the edges of the original's graph."""
    seen: list[str] = []
    hooks = ("before_agent", "before_model", "after_model", "after_agent")
    body = {h: (lambda self, state, runtime, h=h: seen.append(h)) for h in hooks}
    t = tk.Tool("t", "", {"type": "object"}, lambda: seen.append("tools"))
    model = tk.ScriptedModel([tk.ToolCall("t"), "done"])
    tk.Agent(model, [t], middleware=[type("A", (tk.AgentMiddleware,), body)()]).run("hi")
    turn = ["before_model", "after_model"]
    return seen == ["before_agent", *turn, "tools", *turn, "after_agent"]


def default_recursion_limit() -> Facts:
    limit = tk.Agent(tk.ScriptedModel([])).recipe.agent.max_model_calls
    return {"recursion_limit": limit}, {"A-W14": {"recursion_limit": 25}}


def duplicate_tool_names() -> Facts:
    tools = [
        tk.Tool("t", "", {"type": "object"}, lambda: "first"),
        tk.Tool("t", "", {"type": "object"}, lambda: "second"),
    ]
    found = attempt(lambda: tk.Agent(tk.ScriptedModel([]), tools))
    return found, {"A-W17": "error"} if "'t'" in found.get("message", "") else {}


PROBES: dict[str, Callable[[], Facts]] = {
    work.__name__: work
    for work in (
        override_unknown, override_system_prompt_alias, override_shares_mutable_lists, override_runtime_allowed,
        request_setattr, request_defaults, tool_call_request, response_shapes, decorator_object,
        decorator_lambda_and_callable, duplicate_names, duplicate_names_with_name_property,
        hook_config_rejects_nothing, jump_to_tools_without_tools, node_names, default_recursion_limit,
        duplicate_tool_names,
    )
}  # fmt: skip
