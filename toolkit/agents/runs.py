"""Carry out one run of an agent from input to trace: sync, async, and as a stream of events.

Here a run is wrapped (`wrap_agent_call`), its failure told to `on_error`, and its trace finished, whatever happens.
Not here: the drivers of the loop (`toolkit.agents.drivers`).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from toolkit.agents.bridge import run_beside
from toolkit.agents.drivers import AsyncDriver, SyncDriver
from toolkit.agents.loop import agent_loop
from toolkit.agents.plan import Chains, Hook
from toolkit.agents.requests import AgentRequest
from toolkit.agents.run import Run, Setup
from toolkit.agents.runtime import Runtime
from toolkit.agents.tool_calls import CallRunner
from toolkit.errors import UpdateError
from toolkit.models.base import Chunk
from toolkit.traces import Event, Trace

File = str | Path | None
State = dict[str, Any]
Send = Callable[[Any], None]


def execute(setup: Setup, state: State, context: Any, file: File, send: Send | None = None) -> Trace:
    """Run on this thread.

    Args:
        setup: the agent.
        state: the input.
        context: what hooks find as `runtime.context`.
        file: where to write the trace as it goes.
        send: gets each event as it happens.
    """
    chains = setup.plan.sync_chains
    trace = Trace(setup.name, file)
    trace.listener = send
    runtime = _runtime(setup, context, trace)

    def innermost(request: AgentRequest) -> Trace:
        return _execute(setup, chains, runtime, request, send)

    handler: Callable[[AgentRequest], Trace] = innermost
    for hook in reversed(chains.wrap_agent_call):
        handler = _layer(hook, handler)
    try:
        return handler(AgentRequest(state=state, runtime=runtime))
    finally:
        trace.close()


def _runtime(setup: Setup, context: Any, trace: Trace) -> Runtime:
    return Runtime(setup.name, context, trace, model=setup.model, estimates=setup.limits.tokens is not None)


def _execute(setup: Setup, chains: Chains, runtime: Runtime, request: AgentRequest, send: Send | None) -> Trace:
    run = Run(setup, chains, runtime)
    try:
        run.state.start(request.state)
        driver = SyncDriver(run, CallRunner(setup.stage, chains.wrap_tool_call, run), _token(run, send))
        driver.drive(agent_loop(run))
    except BaseException as error:
        if isinstance(error, _Closed):
            run.trace.listener = None  # it would only raise again
        for hook in chains.on_error:
            with _noting(run, hook):
                hook.call(error, run.state.view(), runtime)
        _fail(run, error)
        raise
    return _finish(run)


async def aexecute(setup: Setup, state: State, context: Any, file: File, send: Send | None = None) -> Trace:
    """Run on the running event loop; see `execute`."""
    chains = setup.plan.async_chains
    trace = Trace(setup.name, file)
    trace.listener = send
    runtime = _runtime(setup, context, trace)

    async def innermost(request: AgentRequest) -> Trace:
        return await _aexecute(setup, chains, runtime, request, send)

    handler: Any = innermost
    for hook in reversed(chains.wrap_agent_call):
        handler = _alayer(hook, handler)
    try:
        found: Trace = await handler(AgentRequest(state=state, runtime=runtime))
        return found
    finally:
        trace.close()


async def _aexecute(setup: Setup, chains: Chains, runtime: Runtime, request: AgentRequest, send: Send | None) -> Trace:
    run = Run(setup, chains, runtime)
    try:
        run.state.start(request.state)
        driver = AsyncDriver(run, CallRunner(setup.stage, chains.wrap_tool_call, run), _token(run, send))
        await driver.drive(agent_loop(run))
    except BaseException as error:
        for hook in chains.on_error:
            with _noting(run, hook):
                told = hook.call(error, run.state.view(), runtime)
                if hook.is_async:
                    await told
        _fail(run, error)
        raise
    return _finish(run)


def _layer(hook: Hook, inner: Callable[[AgentRequest], Trace]) -> Callable[[AgentRequest], Trace]:
    def layer(request: AgentRequest) -> Trace:
        if hook.when is not None and not hook.when(dict(request.state)):
            return inner(request)
        return _checked(hook.call(request, inner), hook)

    return layer


def _alayer(hook: Hook, inner: Any) -> Any:
    async def layer(request: AgentRequest) -> Trace:
        if hook.when is not None and not hook.when(dict(request.state)):
            found: Trace = await inner(request)
            return found
        if hook.is_async:
            return _checked(await hook.call(request, inner), hook)
        return _checked(await run_beside(hook.call, request, inner), hook)

    return layer


def _checked(given: Any, hook: Hook) -> Trace:
    if not isinstance(given, Trace):
        raise UpdateError(f"{hook.label} returned {given!r}. Return a Trace, such as the one `handler(request)` gave.")
    return given


@contextlib.contextmanager
def _noting(run: Run, hook: Hook) -> Iterator[None]:
    """Keep a fault of an error hook from hiding the error it was told of."""
    try:
        yield
    except Exception as error:
        run.trace.record("error", hook.label, error=f"{type(error).__name__}: {error}")


def _fail(run: Run, error: BaseException) -> None:
    text = f"{type(error).__name__}: {error}"
    run.trace.record("error", error=text)
    run.trace.error = text
    run.trace.finish(run.state.messages, "error", run.state.output())
    with contextlib.suppress(AttributeError):  # an exception class with slots
        error.trace = run.trace  # type: ignore[attr-defined]


def _finish(run: Run) -> Trace:
    run.trace.finish(run.state.messages, run.reason, run.state.output())
    return run.trace


def _token(run: Run, send: Send | None) -> Callable[[Chunk], None] | None:
    if send is None:
        return None

    def token(chunk: Chunk) -> None:
        send(Event("token", run.runtime.seconds, "agent", {"text": chunk.text, "thinking": chunk.thinking}))

    return token


class _Closed(BaseException):
    """Stop a run whose stream nobody listens to any more; the next event ends it."""


def _end(trace: Trace) -> Event:
    trace.listener = None
    return Event("end", trace.seconds, "agent", {"trace": trace})


def stream(setup: Setup, state: State, context: Any, file: File) -> Iterator[Event]:
    """Yield the events of a sync run, which goes on a thread of its own; closing the iterator stops it."""
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    closed = threading.Event()

    def send(event: Any) -> None:
        if closed.is_set():
            raise _Closed
        events.put(event)

    def work() -> None:
        try:
            events.put(_end(execute(setup, state, context, file, send)))
        except BaseException as error:  # crosses threads as a value
            events.put(error)

    threading.Thread(target=work, name="toolkit-agent", daemon=True).start()
    try:
        while True:
            event = events.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            if event.kind == "end":
                return
    finally:
        closed.set()


async def astream(setup: Setup, state: State, context: Any, file: File) -> AsyncIterator[Event]:
    """Yield the events of an async run; closing the iterator cancels it."""
    events: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def send(event: Any) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    async def work() -> None:
        try:
            send(_end(await aexecute(setup, state, context, file, send)))
        except BaseException as error:  # a CancelledError of the run's own is told too, or the reader waits for ever
            send(error)

    task = asyncio.ensure_future(work())
    try:
        while True:
            event = await events.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            if event.kind == "end":
                return
    finally:
        task.cancel()
