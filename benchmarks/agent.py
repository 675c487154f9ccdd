"""How much does the agent loop cost a turn, beside other libraries? All are measured in one run, turn about.

    python benchmarks/agent.py [--venvs DIR] [--turns 20] [--rounds 3]

A scripted model asks for one tool call a turn, then answers; what is left is the loop's own cost. `--middleware 3` has
every hook in it, each doing nothing, or what comes nearest in the other library. Peers are looked for in
DIR/NAME/bin/python, for NAME in langchain, pydantic-ai, smolagents, haystack; `--install` makes these environments.
Times are CPU time, the least of many batches of 40 ms: the machine may be busy with other things.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PEERS = {
    "toolkit": (),
    "langchain": ("langchain==1.5.2", "langgraph==1.2.24", "langgraph-prebuilt==1.1.3"),
    "pydantic-ai": ("pydantic-ai-slim==2.68.0",),
    "smolagents": ("smolagents==1.26.0",),
    "haystack": ("haystack-ai==3.4.1",),
}
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
Go = Callable[[], int]  # runs once, gives the number of tool results


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: one number
        b: another number
    """
    return a + b


def toolkit(turns: int, layers: int) -> Go:
    import toolkit as tk

    body: dict[str, Any] = dict.fromkeys(HOOKS, lambda self, state, runtime: None)
    body |= dict.fromkeys(("wrap_model_call", "wrap_tool_call"), lambda self, request, handler: handler(request))
    every = type("Every", (tk.AgentMiddleware,), body)
    lines = [*(tk.ToolCall("add", {"a": n, "b": 2}, f"c{n}") for n in range(turns)), "done"]
    model = tk.ScriptedModel(lines, cycle=True)
    agent = tk.Agent(model, [add], middleware=[every() for _ in range(layers)], max_model_calls=None)

    def go() -> int:
        model.requests.clear()
        return len(agent.run("go").tool_results)

    return go


def langchain(turns: int, layers: int) -> Go:
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    place = [0]

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self):
            return "scripted"

        def bind_tools(self, tools, **kwargs):
            return self

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            n, place[0] = place[0], place[0] + 1
            calls = [{"name": "add", "args": {"a": n, "b": 2}, "id": f"c{n}", "type": "tool_call"}] if n < turns else []
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content="", tool_calls=calls))])

    body: dict[str, Any] = dict.fromkeys(HOOKS, lambda self, state, runtime: None)
    body |= dict.fromkeys(("wrap_model_call", "wrap_tool_call"), lambda self, request, handler: handler(request))
    made = [type(f"Every{n}", (AgentMiddleware,), body)() for n in range(layers)]
    agent = create_agent(Scripted(), [add], middleware=made)

    def go() -> int:
        place[0] = 0
        out = agent.invoke({"messages": [("user", "go")]}, {"recursion_limit": 100_000})
        return sum(isinstance(message, ToolMessage) for message in out["messages"])

    return go


def _pydantic_hooks() -> dict[str, Any]:
    async def nothing(self, ctx):
        return None

    async def same_result(self, ctx, *, result):
        return result

    async def same_request(self, ctx, request_context):
        return request_context

    async def same_response(self, ctx, *, request_context, response):
        return response

    async def ask(self, ctx, *, request_context, handler):
        return await handler(request_context)

    async def run(self, ctx, *, call, tool_def, args, handler):
        return await handler(args)

    return {
        "before_run": nothing, "after_run": same_result, "before_model_request": same_request,
        "after_model_request": same_response, "wrap_model_request": ask, "wrap_tool_execute": run,
    }  # fmt: skip


def pydantic_ai(turns: int, layers: int) -> Go:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    place = [0]

    def scripted(messages, info):
        n, place[0] = place[0], place[0] + 1
        return ModelResponse([ToolCallPart("add", {"a": n, "b": 2}, f"c{n}") if n < turns else TextPart("done")])

    made = [type(f"Every{n}", (AbstractCapability,), _pydantic_hooks())() for n in range(layers)]
    more = {"capabilities": made} if made else {}
    agent = Agent(FunctionModel(scripted), tools=[add], **more)
    loop, limits = asyncio.new_event_loop(), UsageLimits(request_limit=None)

    def go() -> int:
        place[0] = 0
        out = loop.run_until_complete(agent.run("go", usage_limits=limits))
        return sum(isinstance(part, ToolReturnPart) for message in out.all_messages() for part in message.parts)

    return go


def smolagents(turns: int, layers: int) -> Go:
    from smolagents import LogLevel, ToolCallingAgent, tool
    from smolagents.memory import ActionStep
    from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model

    place = [0]

    class Scripted(Model):
        def generate(self, messages, **kwargs):
            n, place[0] = place[0], place[0] + 1
            given = ("add", {"a": n, "b": 2}) if n < turns else ("final_answer", {"answer": "done"})
            call = ChatMessageToolCallFunction(name=given[0], arguments=given[1])
            return ChatMessage(MessageRole.ASSISTANT, "", [ChatMessageToolCall(call, f"c{n}", "function")])

    # it has callbacks after a step in place of hooks
    after = [lambda step, agent=None: None for _ in range(layers)] or None
    agent = ToolCallingAgent(
        [tool(add)], Scripted(), max_steps=turns + 5, verbosity_level=LogLevel.OFF, step_callbacks=after
    )

    def go() -> int:
        place[0] = 0
        agent.run("go")
        return sum(isinstance(step, ActionStep) and bool(step.observations) for step in agent.memory.steps) - 1

    return go


def haystack(turns: int, layers: int) -> Go:
    from haystack import component
    from haystack.components.agents import Agent
    from haystack.components.agents.state.state import State
    from haystack.dataclasses import ChatMessage, ToolCall
    from haystack.tools import create_tool_from_function

    place = [0]

    @component
    class Scripted:
        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage], tools: list | None = None):
            n, place[0] = place[0], place[0] + 1
            call = [ToolCall("add", {"a": n, "b": 2}, id=f"c{n}")]
            said = ChatMessage.from_assistant(tool_calls=call) if n < turns else ChatMessage.from_assistant("done")
            return {"replies": [said]}

    class Nothing:
        def run(self, state: State) -> None:
            return None

    points = ("before_run", "before_llm", "before_tool", "after_tool", "on_exit", "after_run")
    more = {"hooks": {point: [Nothing() for _ in range(layers)] for point in points}} if layers else {}
    agent = Agent(chat_generator=Scripted(), tools=[create_tool_from_function(add)], max_agent_steps=turns + 5, **more)
    agent.warm_up()

    def go() -> int:
        place[0] = 0
        out = agent.run(messages=[ChatMessage.from_user("go")])
        return sum(message.tool_call_result is not None for message in out["messages"])

    return go


ADAPTERS = {
    "toolkit": toolkit,
    "langchain": langchain,
    "pydantic-ai": pydantic_ai,
    "smolagents": smolagents,
    "haystack": haystack,
}


def measure(name: str, turns: int, layers: int, seconds: float = 1.0) -> dict[str, float]:
    """Return CPU seconds a turn: the least and the median over batches."""
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    go = ADAPTERS[name](turns, layers)
    found = go()
    if found != turns:
        raise AssertionError(f"{name} made {found} tool results, not {turns}")
    start = time.perf_counter()
    go()
    runs = max(1, round(0.04 / (time.perf_counter() - start)))  # in a batch, so that each pays for its own garbage
    times, stop = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < stop:
        gc.collect()
        start = time.process_time()
        for _ in range(runs):
            go()
        times.append((time.process_time() - start) / runs / turns)
    return {"least": min(times), "median": statistics.median(times)}


def install(venvs: Path) -> None:
    for name, wanted in PEERS.items():
        home = venvs / name
        if wanted and not (home / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            subprocess.run([str(home / "bin" / "python"), "-m", "pip", "install", "-q", *wanted], check=True)


def ask(python: str, *arguments: str) -> dict[str, float] | None:
    done = subprocess.run([python, __file__, "--worker", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{arguments[0]}: {done.stderr.strip().splitlines()[-1][:160]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(venvs: Path, turns: int, layers: int, rounds: int) -> None:
    """Print one table; each round measures every library once, so that all share the machine's moods."""
    pythons = {name: str(venvs / name / "bin" / "python") for name in PEERS} | {"toolkit": sys.executable}
    present = [name for name in PEERS if Path(pythons[name]).exists()]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in present}
    for _ in range(rounds):
        for name in present:
            if got := ask(pythons[name], name, str(turns), str(layers)):
                found[name].append(got)
    base = min(got["least"] for got in found["toolkit"])
    print(f"\n{turns} tool turns and an answer, {layers} middlewares with every hook; CPU time a turn\n")
    print("| library | least | median | ratio of least |\n|---|--:|--:|--:|")
    for name, got in found.items():
        if got:
            least, median = min(g["least"] for g in got), statistics.median(g["median"] for g in got)
            print(f"| {name} | {1e6 * least:.0f} µs | {1e6 * median:.0f} µs | {least / base:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venvs", type=Path, default=Path(".venvs"))
    parser.add_argument("--install", action="store_true", help="make the peers' environments first")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--middleware", type=int, nargs="*", default=[0, 3])
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(measure(given.worker[0], int(given.worker[1]), int(given.worker[2]))))
        return
    if given.install:
        install(given.venvs)
    for layers in given.middleware:
        compare(given.venvs, given.turns, layers, given.rounds)


if __name__ == "__main__":
    main()
