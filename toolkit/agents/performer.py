"""Do what an agent's loop wants: call the model through its wrappers, run tools, run hooks.

Here too a whole run is wrapped (`wrap_agent_call`) and carried out from input to trace.
Not here: what is done when (`toolkit.agents.loop`), the drivers of any run (`toolkit.agents.drivers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from toolkit.agents import drivers
from toolkit.agents.drivers import Send
from toolkit.agents.layers import layered
from toolkit.agents.loop import CallModel, RunHook, RunTools, Step, agent_steps
from toolkit.agents.modes import BLOCKING, YIELDING, Mode, at_once, beside, here
from toolkit.agents.places import Place, places, take
from toolkit.agents.plan import Hook
from toolkit.agents.requests import (
    AgentRequest,
    Command,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolAnswer,
)
from toolkit.agents.resuming import Start
from toolkit.agents.run import Run, Setup
from toolkit.agents.runtime import Runtime
from toolkit.agents.state import as_message
from toolkit.agents.tokens import Tokens
from toolkit.agents.tool_calls import CallRunner
from toolkit.errors import UpdateError
from toolkit.execution.threads import in_order
from toolkit.messages import ChatMessage, ToolCall
from toolkit.traces import Event, Trace

File = str | Path | None
T = TypeVar("T")
MOST_CALLS = 4  # of one turn at the same time


class AgentPerformer:
    """Perform the steps of one run of an agent.

    Args:
        run: the run.
        mode: how to wait.
        tokens: what is sent of the model's words, where the run is streamed.
    """

    def __init__(self, run: Run, mode: Mode, tokens: Tokens | None = None) -> None:
        self.run = run
        self.mode = mode
        self.tokens = tokens
        self.calls = CallRunner(run, mode)
        # bound to the run and not to this, or every run would leave its trace in a circle for the collector
        ask = partial(_ask if mode is BLOCKING else _aask, run, tokens)
        self.model = layered(run.chains.wrap_model_call, ask, partial(_checked, run.commands), mode, run.commands)

    def perform(self, step: Step, mode: Mode) -> Any:
        """Do one step, or return the coroutine that does."""
        if type(step) is RunHook:
            if mode is BLOCKING:
                return step.hook.call(*step.given)
            return step.hook.call(*step.given) if step.hook.is_async else beside(step.hook.call, *step.given)
        if type(step) is CallModel:
            return self.model(step.request)
        assert type(step) is RunTools
        if self.tokens is not None:
            self.tokens.send_held()
        return self._tools(step.calls)

    async def _tools(self, calls: list[ToolCall]) -> list[ToolAnswer | BaseException]:
        if len(calls) == 1:
            return [await self.calls.answer(calls[0])]
        if not self.run.settings.concurrent:
            return await self._one_by_one(calls)
        jobs = [partial(self._outcome, call, place) for call, place in zip(calls, places(len(calls)), strict=True)]
        if self.mode is BLOCKING:
            return list(in_order([partial(_at_once, job) for job in jobs], MOST_CALLS))
        return await _gathered(jobs)

    async def _one_by_one(self, calls: list[ToolCall]) -> list[ToolAnswer | BaseException]:
        found: list[ToolAnswer | BaseException] = []
        for call in calls:
            found.append(await self._outcome(call, Place()))
            if isinstance(found[-1], BaseException):
                break
        return found

    async def _outcome(self, call: ToolCall, place: Place) -> ToolAnswer | BaseException:
        """Answer one of several calls, and never raise: what the others did is not to be lost."""
        take(place)
        try:
            return await self.calls.answer(call)
        except BaseException as error:  # crosses threads as a value
            return error
        finally:
            place.passes()


def _ask(run: Run, tokens: Tokens | None, request: ModelRequest) -> ModelResponse:
    sent, model = run.question(request), request.model
    if tokens is None:
        return run.response(sent.send(model), sent, request)
    return run.response(at_once(drivers.put(sent, model, tokens.of(sent), BLOCKING)), sent, request)


async def _aask(run: Run, tokens: Tokens | None, request: ModelRequest) -> ModelResponse:
    sent = run.question(request)
    token = None if tokens is None else tokens.of(sent)
    return run.response(await drivers.put(sent, request.model, token, YIELDING), sent, request)


def _checked(commands: list[tuple[Command, Hook]], given: Any, hook: Hook) -> ModelResponse:
    """Return what a model wrapper gave as a response, and note its command behind those of the layers below.

    Raises:
        UpdateError: it gave something else.
    """
    response = given
    if isinstance(given, ExtendedModelResponse):
        response = given.model_response
        if given.command is not None:
            commands.append((given.command, hook))
    if type(response) is not ModelResponse and isinstance(response := as_message(response), ChatMessage):
        response = ModelResponse([response])
    if not isinstance(response, ModelResponse):
        raise UpdateError(f"{hook.label} returned {given!r}. Return a ModelResponse or an assistant ChatMessage.")
    for message in response.result:
        if type(message) is not ChatMessage:
            return _read(response, hook)
    return response


def _read(response: ModelResponse, hook: Hook) -> ModelResponse:
    """Return a response with LangChain's messages as ours.

    Raises:
        UpdateError: it holds something else.
    """
    found = list(map(as_message, response.result))
    if not all(isinstance(message, ChatMessage) for message in found):
        raise UpdateError(f"{hook.label} returned {response.result!r}. ModelResponse.result holds ChatMessages.")
    return replace(response, result=found)


def _at_once(job: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return at_once(job())


async def _gathered(jobs: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Run jobs on the event loop, so many at once."""
    room = asyncio.Semaphore(MOST_CALLS)

    async def one(job: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with room:
            return await job()

    return await asyncio.gather(*map(one, jobs))


async def executed(setup: Setup, start: Start, context: Any, file: File, send: Send | None, mode: Mode) -> Trace:
    """Carry out a run.

    Args:
        setup: the agent.
        start: the input.
        context: what hooks find as `runtime.context`.
        file: where to write the trace as it goes.
        send: gets each event as it happens.
        mode: how to wait.
    """
    chains = setup.plan.sync_chains if mode is BLOCKING else setup.plan.async_chains
    trace = Trace(setup.name, file)
    if send is not None:
        trace.listeners.append(send)
    estimates = setup.recipe.agent.max_run_tokens is not None
    runtime = Runtime(setup.name, context, trace, model=setup.model, estimates=estimates)
    runtime.stage, runtime.approved, runtime.updates = start.stage, start.approved, start.updates

    async def innermost(request: AgentRequest) -> Trace:
        run = Run(setup, chains, runtime)
        tokens = None if send is None else Tokens(run, send)
        finished = await drivers.driven(agent_steps(run, request.state), AgentPerformer(run, mode, tokens), mode)
        if tokens is not None:
            tokens.send_held()
        return finished

    try:
        inner = here(innermost) if mode is BLOCKING else innermost
        finished = layered(chains.wrap_agent_call, inner, _trace, mode)(
            AgentRequest(state=start.state, runtime=runtime)
        )
        return finished if mode is BLOCKING else await finished  # type: ignore[no-any-return] # as checked
    finally:
        trace.close()


async def streamed(setup: Setup, start: Start, context: Any, file: File, send: Send, mode: Mode) -> Event:
    """Carry out a run and return an event of kind `end` with its trace; see `executed`."""
    trace = await executed(setup, start, context, file, send, mode)
    trace.listeners.remove(send)
    return Event("end", trace.seconds, "agent", {"trace": trace})


def _trace(given: Any, hook: Hook) -> Trace:
    if not isinstance(given, Trace):
        raise UpdateError(f"{hook.label} returned {given!r}. Return a Trace, such as the one `handler(request)` gave.")
    return given
