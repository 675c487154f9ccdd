"""Drive any run: a run is a generator of steps without I/O, and here stands all that makes it go.

    drive(steps, performer)          on this thread; needs no event loop, so it works inside a notebook's
    adrive(steps, performer)         on the running event loop
    stream(work), astream(work)      what a run sends while it goes, and at the end what it returned

Every design supplies its steps (`toolkit.agents.loop`, `airgap.rounds`, `two_mode.agent`, `originals`). What fails
while a step is performed is thrown into the run, which can note how far it came.
Not here: hooks and tools of an agent (`toolkit.agents.performer`).
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, Protocol, TypeVar

from toolkit.agents.modes import BLOCKING, YIELDING, Mode, at_once
from toolkit.asking import Request
from toolkit.models.base import ChatModel, Chunk, Reply, last_reply
from toolkit.traces import Trace

T = TypeVar("T")
Token = Callable[[Chunk], None]
Send = Callable[[Any], None]
Work = Callable[[Send, Mode], Coroutine[Any, Any, Any]]


class Performer(Protocol):
    """Do what a run asks for, one step at a time."""

    def perform(self, step: Any, mode: Mode) -> Any:
        """Do a step, and return what came of it, or a coroutine that does."""


def drive(steps: Generator[Any, Any, T], performer: Performer) -> T:
    """Run to the end on this thread and return what the run returns."""
    return at_once(driven(steps, performer, BLOCKING))


async def adrive(steps: Generator[Any, Any, T], performer: Performer) -> T:
    """Run to the end on the running event loop and return what the run returns."""
    return await driven(steps, performer, YIELDING)


async def driven(steps: Generator[Any, Any, T], performer: Performer, mode: Mode) -> T:
    """Run to the end and return what the run returns."""
    move: Callable[[Any], Any] = steps.send
    given: Any = None
    while True:
        try:
            step = move(given)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # what the generator returns
        try:
            given, move = performer.perform(step, mode), steps.send
            if type(given) is CoroutineType:
                given = await given
        except BaseException as error:  # the run must hear of it, whatever it is
            given, move = error, steps.throw


class StreamEnd(BaseException):
    """Stop a run whose stream nobody listens to any more; what it sends next ends it."""


def stream(work: Work) -> Iterator[Any]:
    """Yield what `work` sends, then what it returns; it goes on a thread of its own. Closing the iterator stops it."""
    sent: queue.SimpleQueue[tuple[bool, Any, BaseException | None]] = queue.SimpleQueue()
    closed, told = threading.Event(), threading.Event()

    def send(value: Any) -> None:
        if not closed.is_set():
            sent.put((False, value, None))
        elif not told.is_set():  # once: what the run notes of its end must not fail
            told.set()
            raise StreamEnd

    def run() -> None:
        try:
            sent.put((True, at_once(work(send, BLOCKING)), None))
        except BaseException as error:  # crosses threads as a value
            sent.put((True, None, error))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="toolkit-run", daemon=True).start()
    try:
        while True:
            done, value, error = sent.get()
            if error is not None:
                raise error
            yield value
            if done:
                return
    finally:
        closed.set()


async def astream(work: Work) -> AsyncIterator[Any]:
    """Yield what `work` sends, then what it returns. Closing the iterator cancels it."""
    sent: asyncio.Queue[tuple[bool, Any, BaseException | None]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def send(value: Any, done: bool = False, error: BaseException | None = None) -> None:
        loop.call_soon_threadsafe(sent.put_nowait, (done, value, error))

    async def run() -> None:
        try:
            send(await work(send, YIELDING), True)
        except BaseException as error:  # a CancelledError of the run's own is told too, or the reader waits for ever
            send(None, True, error)

    task = asyncio.ensure_future(run())
    try:
        while True:
            done, value, error = await sent.get()
            if error is not None:
                raise error
            yield value
            if done:
                return
    finally:
        task.cancel()


@dataclass(slots=True)
class Ask:
    """Want a request put to a model; the answer is its `Reply`."""

    model: ChatModel
    request: Request


@dataclass(slots=True)
class Act:
    """Want something done; the answer is what the body returns."""

    body: Callable[[Mode], Awaitable[Any]]


def asked(
    trace: Trace, model: ChatModel, request: Request, source: str = "agent", **noted: Any
) -> Generator[Ask, Reply, Reply]:
    """Put one request, note it and its reply in the trace, and return the reply."""
    number = len(trace.events)
    trace.record("model_call", source, model=model.name, messages=request.messages, number=number, **noted)
    reply = yield Ask(model, request)
    trace.record("model_reply", source, reply=reply, number=number)
    return reply


class Worker:
    """Perform `Ask` and `Act`, all that a run without hooks wants.

    Args:
        token: gets each piece of a reply as it is written.
    """

    def __init__(self, token: Token | None = None) -> None:
        self.token = token

    async def perform(self, step: Ask | Act, mode: Mode) -> Any:
        """Do a step."""
        if isinstance(step, Ask):
            return await put(step.request, step.model, self.token, mode)
        return await step.body(mode)


async def put(request: Request, model: ChatModel, token: Token | None, mode: Mode) -> Reply:
    """Put a request to its model; with `token` the reply is streamed."""
    if token is None:
        return request.send(model) if mode is BLOCKING else await request.asend(model)
    reply = None
    async with aclosing(_pieces(request, model, mode)) as pieces:
        async for chunk in pieces:
            token(chunk)
            reply = chunk.reply or reply
    return reply or last_reply(iter(()))  # which says what is wrong


async def _pieces(request: Request, model: ChatModel, mode: Mode) -> AsyncGenerator[Chunk, None]:
    if mode is YIELDING:
        async for chunk in request.astream(model):
            yield chunk
        return
    with closing(request.stream(model)) as chunks:  # type: ignore[type-var] # every back end's stream is a generator
        for chunk in chunks:
            yield chunk
