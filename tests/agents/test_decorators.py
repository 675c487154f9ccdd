"""The seven decorators."""

from __future__ import annotations

import asyncio

import pytest

import toolkit as tk
from toolkit.agents.middleware import has_hook
from toolkit.errors import ConfigError, UpdateError

NODES = [tk.before_agent, tk.before_model, tk.after_model, tk.after_agent]
ALL = [*NODES, tk.wrap_model_call, tk.wrap_tool_call]


@pytest.mark.parametrize("decorator", ALL, ids=lambda d: d.__name__)
def test_each_works_bare_and_with_a_name(decorator):
    @decorator
    def bare(one, two): ...

    @decorator(name="Other")
    def named(one, two): ...

    assert isinstance(bare, tk.AgentMiddleware)
    assert (bare.name, named.name) == ("bare", "Other")
    assert has_hook(bare, decorator.__name__)
    assert not has_hook(bare, f"a{decorator.__name__}")


@pytest.mark.parametrize("decorator", ALL, ids=lambda d: d.__name__)
def test_a_coroutine_function_fills_only_the_async_hook(decorator):
    @decorator
    async def later(one, two): ...

    assert has_hook(later, f"a{decorator.__name__}")
    assert not has_hook(later, decorator.__name__)


@pytest.mark.parametrize("decorator", NODES, ids=lambda d: d.__name__)
def test_node_decorators_take_schema_tools_and_jumps(decorator):
    tool = tk.Tool("t", "", {"type": "object"}, lambda: "ok")

    @decorator(can_jump_to=["end"], tools=[tool], state_schema={})
    def gate(state, runtime): ...

    assert gate.tools == (tool,)
    assert gate.state_schema == {}
    with pytest.raises(ConfigError, match="'nowhere'"):
        decorator(can_jump_to=["nowhere"])


def test_something_else_than_a_function_is_refused():
    with pytest.raises(ConfigError, match="decorates a function"):
        tk.before_model("name")
    with pytest.raises(ConfigError, match="takes no arguments"):
        tk.dynamic_prompt("text")


@pytest.mark.parametrize("value", ["Be brief.", tk.ChatMessage.from_system("Be brief.")], ids=["text", "message"])
def test_dynamic_prompt_replaces_the_system_message(value):
    model = tk.ScriptedModel(["x", "y"])
    agent = tk.Agent(model, middleware=[tk.dynamic_prompt(lambda request: value)], system_prompt="Old.")
    agent.run("go")
    asyncio.run(agent.arun("go"))
    assert [r["messages"][0].text for r in model.requests] == ["Be brief.", "Be brief."]


def test_dynamic_prompt_must_give_text():
    with pytest.raises(UpdateError, match="returned 5"):
        tk.Agent(tk.ScriptedModel(["x"]), middleware=[tk.dynamic_prompt(lambda request: 5)]).run("go")


def test_async_dynamic_prompt():
    @tk.dynamic_prompt
    async def prompt(request):
        return "Later."

    model = tk.ScriptedModel(["x"])
    asyncio.run(tk.Agent(model, middleware=[prompt]).arun("go"))
    assert model.requests[0]["messages"][0].text == "Later."
