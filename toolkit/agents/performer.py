"""Do what an agent's loop wants: call the model through its wrappers, run tools, run hooks; sync and async twins.

Here too a whole run is wrapped (`wrap_agent_call`) and carried out from input to trace.
Not here: what is done when (`toolkit.agents.loop`), the drivers of any run (`toolkit.agents.drivers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from toolkit.agents import drivers
from toolkit.agents.drivers import Ask, Send, Token
from toolkit.agents.layers import alayered, layered, no_stop
from toolkit.agents.loop import CallModel, RunHook, RunTools, Step, agent_steps
from toolkit.agents.places import Place, places, take
from toolkit.agents.plan import Hook
from toolkit.agents.requests import AgentRequest, ExtendedModelResponse, ModelRequest, ModelResponse, ToolAnswer
from toolkit.agents.run import Run, Setup
from toolkit.agents.runtime import Runtime
from toolkit.agents.tool_calls import CallRunner
from toolkit.errors import UpdateError
from toolkit.execution.threads import in_order
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models.base import Chunk
from toolkit.traces import Event, Trace

File = str | Path | None


class AgentPerformer:
    """Perform the steps of one run of an agent.

    Args:
        run: the run.
        token: gets each piece of a reply that holds words.
    """

    def __init__(self, run: Run, token: Token | None = None) -> None:
        self.run = run
        self.token = token
        self.calls = CallRunner(run.setup.stage, run.chains.wrap_tool_call, run)
        hooks = run.chains.wrap_model_call
        self.model = layered(hooks, self._ask, self._checked, run.commands)
        self.amodel = alayered(hooks, self._aask, self._checked, run.commands)

    def perform(self, step: Step) -> Any:
        """Do one step."""
        if type(step) is CallModel:
            return self.model(step.request)
        if type(step) is RunTools:
            return self._tools(step.calls)
        assert type(step) is RunHook
        return step.hook.call(*step.subject, self.run.runtime)

    async def aperform(self, step: Step) -> Any:
        """Do one step on the running event loop."""
        if type(step) is CallModel:
            return await self.amodel(step.request)
        if type(step) is RunTools:
            return await self._atools(step.calls)
        assert type(step) is RunHook
        if step.hook.is_async:
            return await step.hook.call(*step.subject, self.run.runtime)
        return await asyncio.to_thread(no_stop(step.hook.call), *step.subject, self.run.runtime)

    def _ask(self, request: ModelRequest) -> ModelResponse:
        sent = self.run.question(request)
        if self.token is None:
            return self.run.response(sent.send(request.model), sent, request)
        return self.run.response(drivers.put(Ask(request.model, sent), self.token), sent, request)

    async def _aask(self, request: ModelRequest) -> ModelResponse:
        sent = self.run.question(request)
        return self.run.response(await drivers.aput(Ask(request.model, sent), self.token), sent, request)

    def _checked(self, given: Any, hook: Hook) -> ModelResponse:
        """Return what a model wrapper gave as a response, and note its command behind those of the layers below.

        Raises:
            UpdateError: it gave something else.
        """
        response = given
        if isinstance(given, ExtendedModelResponse):
            response = given.model_response
            if given.command is not None:
                self.run.commands.append((given.command, hook))
        if isinstance(response, ChatMessage):
            response = ModelResponse([response])
        if not isinstance(response, ModelResponse):
            raise UpdateError(f"{hook.label} returned {given!r}. Return a ModelResponse or an assistant ChatMessage.")
        if not all(isinstance(message, ChatMessage) for message in response.result):
            raise UpdateError(f"{hook.label} returned {response.result!r}. ModelResponse.result holds ChatMessages.")
        return response

    def _tools(self, calls: list[ToolCall]) -> list[ToolAnswer]:
        if len(calls) == 1:
            return [self.calls.call(calls[0])]
        if not self.run.settings.concurrent:
            return [self.calls.call(call) for call in calls]
        jobs = [_caught(self.calls.call, call, place) for call, place in zip(calls, places(len(calls)), strict=True)]
        found = list(in_order(jobs, self.calls.stage.most))
        for _, error in found:
            if error is not None:
                raise error
        return [outcome for outcome, _ in found]

    async def _atools(self, calls: list[ToolCall]) -> list[ToolAnswer]:
        if len(calls) == 1 or not self.run.settings.concurrent:
            return [await self.calls.acall(call) for call in calls]
        room = asyncio.Semaphore(self.calls.stage.most)

        async def one(call: ToolCall, place: Place) -> ToolAnswer:
            take(place)
            try:
                async with room:
                    return await self.calls.acall(call)
            finally:
                place.passes()

        found = await asyncio.gather(*map(one, calls, places(len(calls))), return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in found if not isinstance(outcome, BaseException)]


def _caught(
    work: Callable[[ToolCall], ToolAnswer], call: ToolCall, place: Place
) -> Callable[[], tuple[Any, BaseException | None]]:
    def job() -> tuple[Any, BaseException | None]:
        take(place)
        try:
            return work(call), None
        except BaseException as error:  # crosses threads as a value
            return None, error
        finally:
            place.passes()

    return job


def execute(setup: Setup, state: Mapping[str, Any], context: Any, file: File, send: Send | None = None) -> Trace:
    """Carry out a run on this thread.

    Args:
        setup: the agent.
        state: the input.
        context: what hooks find as `runtime.context`.
        file: where to write the trace as it goes.
        send: gets each event as it happens.
    """
    chains, runtime = setup.plan.sync_chains, _runtime(setup, context, file, send)

    def innermost(request: AgentRequest) -> Trace:
        run = Run(setup, chains, runtime)
        return drivers.drive(agent_steps(run, request.state), AgentPerformer(run, _token(run, send)))

    try:
        return layered(chains.wrap_agent_call, innermost, _trace)(AgentRequest(state=state, runtime=runtime))  # type: ignore[no-any-return]
    finally:
        runtime.trace.close()


async def aexecute(setup: Setup, state: Mapping[str, Any], context: Any, file: File, send: Send | None = None) -> Trace:
    """Carry out a run on the running event loop; see `execute`."""
    chains, runtime = setup.plan.async_chains, _runtime(setup, context, file, send)

    async def innermost(request: AgentRequest) -> Trace:
        run = Run(setup, chains, runtime)
        return await drivers.adrive(agent_steps(run, request.state), AgentPerformer(run, _token(run, send)))

    handler: Callable[[AgentRequest], Awaitable[Trace]] = alayered(chains.wrap_agent_call, innermost, _trace)
    try:
        return await handler(AgentRequest(state=state, runtime=runtime))
    finally:
        runtime.trace.close()


def stream(setup: Setup, state: Mapping[str, Any], context: Any, file: File) -> Iterator[Event]:
    """Yield the events of a sync run, and at the end one of kind `end` with the trace."""
    return drivers.stream(lambda send: _end(execute(setup, state, context, file, send)))


def astream(setup: Setup, state: Mapping[str, Any], context: Any, file: File) -> AsyncIterator[Event]:
    """Yield the events of an async run, and at the end one of kind `end` with the trace."""

    async def work(send: Send) -> Event:
        return _end(await aexecute(setup, state, context, file, send))

    return drivers.astream(work)


def _runtime(setup: Setup, context: Any, file: File, send: Send | None) -> Runtime:
    trace = Trace(setup.name, file)
    trace.listener = send
    estimates = setup.recipe.agent.max_run_tokens is not None
    return Runtime(setup.name, context, trace, model=setup.model, estimates=estimates)


def _token(run: Run, send: Send | None) -> Token | None:
    if send is None:
        return None

    def token(chunk: Chunk) -> None:
        if chunk.text or chunk.thinking:
            send(Event("token", run.runtime.seconds, "agent", {"text": chunk.text, "thinking": chunk.thinking}))

    return token


def _end(trace: Trace) -> Event:
    trace.listener = None
    return Event("end", trace.seconds, "agent", {"trace": trace})


def _trace(given: Any, hook: Hook) -> Trace:
    if not isinstance(given, Trace):
        raise UpdateError(f"{hook.label} returned {given!r}. Return a Trace, such as the one `handler(request)` gave.")
    return given
