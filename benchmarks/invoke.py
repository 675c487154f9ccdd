"""What does one tool call cost through ToolInvoker, beside the peers?

    python benchmarks/invoke.py --setup        make the peers' environments (once; needs a package index), then measure
    python benchmarks/invoke.py                measure; peers without an environment are left out, and said so

The work is the same for all: an assistant message with calls of `add(a: int, b: int) -> int`, arguments checked, result
as text. Each case runs in its own process with its own environment, the cases take turns, and a ratio compares with
the best peer of the same round, so that a slow moment of the machine hits all alike.
Not here: the agent loop around it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
PACKAGES = {
    "floor": ["jsonschema-rs==0.61.2", "fastjsonschema==2.22.3", "jsonschema==4.26.0"],
    "haystack2": ["haystack-ai==2.31.0"],
    "haystack3": ["haystack-ai==3.4.1"],
    "langchain": ["langchain==1.5.2", "langgraph==1.2.24", "langgraph-prebuilt==1.1.3"],
    "pydantic_ai": ["pydantic-ai-slim==2.68.0"],
    "smolagents": ["smolagents==1.26.0"],
}


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: first number
        b: second number
    """
    return a + b


async def add_async(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# ------------------------------------------------------------------ cases: n -> a callable that does the work once
def toolkit(n):
    import toolkit as tk

    invoker = tk.ToolInvoker([tk.Tool.from_function(add)])
    message = tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("add", {"a": i, "b": 2}, str(i)) for i in range(n)])
    return lambda: [m.tool_call_result.result for m in invoker.run(messages=[message])["tool_messages"]]


def _floor(n, check):
    calls = [{"a": i, "b": 2} for i in range(n)]

    def work():
        found = []
        for arguments in calls:
            check(arguments)
            found.append(str(add(**arguments)))
        return found

    return work


def bare(n):
    return _floor(n, lambda arguments: None)


def with_jsonschema_rs(n):
    import jsonschema_rs

    return _floor(n, jsonschema_rs.validator_for(SCHEMA).validate)


def with_fastjsonschema(n):
    import fastjsonschema

    return _floor(n, fastjsonschema.compile(SCHEMA))


def with_jsonschema(n):
    import jsonschema

    return _floor(n, jsonschema.Draft202012Validator(SCHEMA).validate)


def _haystack_message(n):
    from haystack.dataclasses import ChatMessage, ToolCall

    return ChatMessage.from_assistant(tool_calls=[ToolCall("add", {"a": i, "b": 2}, id=str(i)) for i in range(n)])


def haystack2(n):
    from haystack.components.tools import ToolInvoker
    from haystack.tools import create_tool_from_function

    invoker, message = ToolInvoker(tools=[create_tool_from_function(add)]), _haystack_message(n)
    return lambda: [m.tool_call_result.result for m in invoker.run(messages=[message])["tool_messages"]]


def haystack3(n):
    from haystack.components.agents.state.state import State
    from haystack.components.agents.tool_calling import _run_tool  # what its Agent calls for one turn
    from haystack.tools import create_tool_from_function

    tools, state, message = [create_tool_from_function(add)], State(schema={}), _haystack_message(n)
    return lambda: [m.tool_call_result.result for m in _run_tool(messages=[message], state=state, tools=tools)[0]]


def langchain_toolnode(n):
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime

    node, config = ToolNode([tool(add)]), {"configurable": {"__pregel_runtime": Runtime()}}
    calls = [{"name": "add", "args": {"a": i, "b": 2}, "id": str(i), "type": "tool_call"} for i in range(n)]
    state = {"messages": [AIMessage(content="", tool_calls=calls)]}
    return lambda: [m.content for m in node.invoke(state, config=config)["messages"]]


def pydantic_ai_sync(n, function=add):
    import asyncio

    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.tools import RunContext
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    loop = asyncio.new_event_loop()
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager = loop.run_until_complete(ToolManager(FunctionToolset([function])).for_run_step(context))
    calls = [ToolCallPart(function.__name__, {"a": i, "b": 2}, str(i)) for i in range(n)]

    async def work():
        return [str(await manager.handle_call(call)) for call in calls]

    return lambda: loop.run_until_complete(work())


def pydantic_ai_async(n):
    return pydantic_ai_sync(n, add_async)


def smolagents(n):
    from smolagents import LogLevel, ToolCallingAgent, tool
    from smolagents.memory import ActionStep
    from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model
    from smolagents.monitoring import Timing

    agent = ToolCallingAgent(tools=[tool(add)], model=Model(), verbosity_level=LogLevel.OFF)
    calls = [
        ChatMessageToolCall(ChatMessageToolCallFunction({"a": i, "b": 2}, "add"), f"{i:04d}", "function")
        for i in range(n)
    ]
    message = ChatMessage(MessageRole.ASSISTANT, "", calls)

    def work():
        step = ActionStep(step_number=1, timing=Timing(0.0))
        found = {o.id: o.observation for o in agent.process_tool_calls(message, step) if hasattr(o, "observation")}
        return [found[key] for key in sorted(found)]

    return work


CASES = {  # function -> (label, environment); "" is this interpreter
    "bare": ("floor: bare call", "floor"),
    "with_jsonschema_rs": ("floor: jsonschema-rs and call", "floor"),
    "with_fastjsonschema": ("floor: fastjsonschema and call", "floor"),
    "with_jsonschema": ("floor: jsonschema and call", "floor"),
    "toolkit": ("toolkit ToolInvoker.run", ""),
    "pydantic_ai_async": ("pydantic-ai ToolManager, async tool", "pydantic_ai"),
    "pydantic_ai_sync": ("pydantic-ai ToolManager, sync tool", "pydantic_ai"),
    "smolagents": ("smolagents process_tool_calls", "smolagents"),
    "haystack2": ("Haystack 2.31 ToolInvoker", "haystack2"),
    "haystack3": ("Haystack 3.4 Agent's runner", "haystack3"),
    "langchain_toolnode": ("LangChain ToolNode", "langchain"),
}


# ------------------------------------------------------------------ measuring
def worker(case: str, n: int, seconds: float) -> None:
    """Time one case in this process; print microseconds of CPU and of wall time per tool call."""
    work = globals()[case](n)
    assert [str(text) for text in work()] == [str(i + 2) for i in range(n)], "wrong results"
    times, repeat, stop = [], 1, time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times) < 3:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeat):
            work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if wall < 0.02:
            repeat *= 2
            continue
        times.append((cpu / repeat / n * 1e6, wall / repeat / n * 1e6))
    print("RESULT " + json.dumps([statistics.median(t[k] for t in times) for k in (0, 1)]))


def measure(case: str, python: str, n: int, seconds: float) -> list[float] | None:
    command = [python, __file__, "--worker", case, "--calls", str(n), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    return json.loads(line[7:]) if line else None


def python_of(environment: str, folder: Path) -> str | None:
    if not environment:
        return sys.executable
    found = folder / environment / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    return str(found) if found.exists() else None


def set_up(folder: Path) -> None:
    for name, packages in PACKAGES.items():
        venv.create(folder / name, with_pip=True)
        subprocess.run([python_of(name, folder), "-m", "pip", "install", "-q", *packages], check=True)


def compare(n: int, folder: Path, rounds: int, seconds: float) -> None:
    """Measure all cases in turns and print one table."""
    found: dict[str, list[list[float]]] = {case: [] for case in CASES}
    left_out = {case for case, (_, environment) in CASES.items() if python_of(environment, folder) is None}
    for _ in range(rounds):
        for case, (_, environment) in CASES.items():
            python = python_of(environment, folder)
            result = measure(case, python, n, seconds) if python else None
            if result:
                found[case].append(result)
    peers = [c for c, (label, environment) in CASES.items() if environment and not label.startswith("floor")]
    best = [min((found[c][i][0] for c in peers if len(found[c]) > i), default=None) for i in range(rounds)]
    print(f"\n{n} call{'s' * (n > 1)} in one message, microseconds per call, median of {rounds} rounds")
    print(f"{'case':38} {'cpu':>8} {'wall':>8}  ratio (best peer = 1)")
    for case, (label, _) in CASES.items():
        if not found[case]:
            print(f"{label:38} {'-':>8} {'-':>8}  {'no environment; see --setup' if case in left_out else 'failed'}")
            continue
        cpu, wall = (statistics.median(r[k] for r in found[case]) for k in (0, 1))
        ratios = [r[0] / best[i] for i, r in enumerate(found[case]) if best[i]]
        print(f"{label:38} {cpu:8.2f} {wall:8.2f}  {f'{statistics.median(ratios):.3f}' if ratios else '-'}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the cost of one tool call beside the peers.")
    parser.add_argument("--setup", action="store_true", help="make the peers' environments first")
    parser.add_argument("--venvs", type=Path, default=Path(tempfile.gettempdir()) / "toolkit-bench-peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--calls", type=int, default=0, help="calls in one message; 0 measures 1 and 100")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.calls or 1, options.seconds)
        return
    if options.setup:
        set_up(options.venvs)
    for n in [options.calls] if options.calls else [1, 100]:
        compare(n, options.venvs, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
