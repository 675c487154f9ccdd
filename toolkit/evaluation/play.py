"""Play a case with an agent: its tools made to run, every turn of the user, one trace.

Each run has a world of its own. Calls of one turn reach it in the order in which the model wrote them, also where
the agent runs them at once: what a tool answers, and so what is asked next, is the same each time.
Not here: making the agent (`toolkit.evaluation.sweep`), the verdict (`toolkit.evaluation.trajectories`).
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolkit.errors import ConfigError, ReplayMissError, StoreError, ToolError, ToolkitError, UpdateError
from toolkit.evaluation.cases import Case
from toolkit.evaluation.matching import differences
from toolkit.evaluation.trajectories import tool_raised
from toolkit.messages import ChatMessage
from toolkit.secrets import scrub
from toolkit.tools import Tool, as_tools
from toolkit.traces import Trace
from toolkit.worlds import World

# the user's own mistakes, or a store that keeps nothing any more: these end a sweep
MISTAKES = (ConfigError, ReplayMissError, StoreError, UpdateError)
FAULTS = (ToolkitError, OSError, RuntimeError, ValueError)  # of a server; others are a bug of somebody's code
_LONGEST = 10_000  # characters of a traceback


def runnable(case: Case, world: World | None, given: Iterable[Tool] = ()) -> list[Tool]:
    """Return the tools of a case with functions: those given, else the world's, recorded results, or its own.

    Raises:
        ConfigError: nothing runs one of them; says what to give.
    """
    functions = {tool.name: tool for tool in case.tools if tool.function is not None}
    if case.scenario and case.scenario.results:
        recorded = {tool.name: replace(tool, function=_recorded(tool, case.scenario.results)) for tool in case.tools}
        functions = {**recorded, **functions}
    if world is not None:
        functions |= {tool.name: replace(tool, function=_in_order(tool.function)) for tool in as_tools(world.tools)}
    functions |= {tool.name: tool for tool in given}
    missing = [tool.name for tool in case.tools if tool.name not in functions]
    if missing:
        raise ConfigError(
            f"Case {case.id!r} cannot be run: nothing runs {', '.join(map(repr, missing))}. Give functions, "
            'tools=[…], or the case a "world" or "results"; or ask single requests, run="ask".'
        )
    return [functions[tool.name] for tool in case.tools]


def _recorded(tool: Tool, results: Iterable[Mapping[str, Any]]) -> Callable[..., Any]:
    """Return a function that answers with the first recorded result whose arguments match."""
    mine = [item for item in results if item["name"] == tool.name]

    def answer(**arguments: Any) -> Any:
        for item in mine:
            if not differences(item.get("arguments", {}), arguments, tool.parameters):
                if "error" in item:
                    raise ToolError(str(item["error"]))
                return item["result"]
        raise ToolError(f"{tool.name} knows nothing about {arguments!r}. Try other arguments.")

    return answer


def _in_order(function: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a tool's function that waits until the calls before it in the same turn are done."""
    from toolkit.agents.places import current

    assert function is not None

    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        current().wait()
        return function(**arguments)

    return call


def play(agent: Any, case: Case) -> Trace:
    """Run an agent through all turns of a case and return one trace of them all.

    A run that fails ends there; the trace says why in `error`, and where in `traceback`.

    Raises:
        UserError: something the user can mend.
        UpdateError: a middleware or tool gave what no run can use.
    """
    trace = _turn(agent, {"messages": list(case.messages)})
    for turn in case.scenario.turns if case.scenario else ():
        if trace.error is not None:
            break
        before, said = trace.events, [*trace.messages, ChatMessage.from_user(turn)]
        trace = _turn(agent, {**trace.state, "messages": said})
        trace.events[:0] = before
    return trace


def _turn(agent: Any, state: dict[str, Any]) -> Trace:
    try:
        trace: Trace = agent.run(state)
    except MISTAKES:
        raise
    except Exception as error:
        failed: Trace | None = getattr(error, "trace", None)
        if failed is None or not (isinstance(error, FAULTS) or tool_raised(failed)):
            raise
        failed.traceback = told(error)
        return failed
    return trace


def told(error: BaseException) -> str:
    """Return the traceback of an exception as text; of a long one the start and the end."""
    text = str(scrub("".join(traceback.format_exception(error))))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}\n…\n{text[-_LONGEST // 2 :]}"
