"""Whoever lets go of a request lets go of the server: at once, in a thread of its own or not."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from toolkit.models import Store, load_model
from toolkit.models.abort import Abort, current

SOON = 5.0  # seconds; what is waited for otherwise comes in 60 or never


@pytest.fixture
def model(fake_ollama):
    with load_model("ollama/qwen3:4b", timeout_s=60) as model:
        yield model


def wrapped(model):
    return Store(":memory:").wrap(model)


async def cancelled(make, *, after):
    """Run a coroutine, cancel it once the event is set, and return what came of it."""
    task = asyncio.create_task(make())
    await asyncio.to_thread(after.wait, SOON)
    task.cancel()
    return (await asyncio.gather(task, return_exceptions=True))[0]


async def _all(model):
    return [chunk async for chunk in model.astream("Hi")]


ASKS = {
    "achat": lambda model: model.achat("Hi"),
    "acomplete": lambda model: model.acomplete("Hi"),
    "astream": _all,
    "achat, stored": lambda model: wrapped(model).achat("Hi"),
    "astream, stored": lambda model: _all(wrapped(model)),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_a_cancelled_request_closes_the_connection_while_the_server_writes(fake_ollama, model, ask):  # cline#7484
    gate = threading.Event()
    fake_ollama.says(pieces=["x "], gate=gate)
    try:
        came = asyncio.run(cancelled(lambda: ask(model), after=fake_ollama.asked))
        assert isinstance(came, asyncio.CancelledError)
        assert fake_ollama.left.wait(SOON)
    finally:
        gate.set()


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_a_cancelled_request_does_not_wait_for_a_server_that_says_nothing(fake_ollama, model, ask):
    gate = threading.Event()
    fake_ollama.says(gate=gate)
    started = time.monotonic()
    try:
        came = asyncio.run(cancelled(lambda: ask(model), after=fake_ollama.asked))
        assert isinstance(came, asyncio.CancelledError)
        assert time.monotonic() - started < SOON  # asyncio.run waits for the thread, which has been let go
    finally:
        gate.set()


async def _leave_early(model):
    stream = model.astream("Hi")
    first = await anext(stream)
    await stream.aclose()
    return first.text


def test_leaving_an_async_stream_closes_the_connection(fake_ollama, model):
    gate = threading.Event()
    fake_ollama.says(pieces=["x "], gate=gate)
    try:
        assert asyncio.run(_leave_early(model)) == "x "
        assert fake_ollama.left.wait(SOON)
    finally:
        gate.set()


def test_a_request_that_was_stopped_before_it_began_is_broken_at_once():
    abort, broken = Abort(), []
    abort.ask()
    with abort.breaking(lambda: broken.append(1)):
        assert broken == [1]
    assert current().asked.is_set() is False


def test_what_is_over_is_not_broken():
    abort, broken = Abort(), []
    with abort.breaking(lambda: broken.append(1)):
        pass
    abort.ask()
    assert broken == []
