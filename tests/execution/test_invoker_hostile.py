"""ToolInvoker against tools and hooks that misbehave: ending the program, blocking the loop, changing what they get."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import toolkit as tk
from toolkit.execution import threads
from toolkit.execution.threads import OutOfTime, run_coroutine, within_async

OBJECT = {"type": "object"}


def quiet(*tools, **options) -> tk.ToolInvoker:
    return tk.ToolInvoker(tools, raise_on_failure=False, **options)


def asked(*calls: tk.ToolCall) -> list[tk.ChatMessage]:
    return [tk.ChatMessage.from_assistant(tool_calls=calls)]


def results(out: dict) -> list[tuple]:
    return [(r.result, r.error) for m in out["tool_messages"] for r in m.tool_call_results]


def every_way(invoker: tk.ToolInvoker, *calls: tk.ToolCall) -> list[tuple]:
    """Run the calls in each of the four ways and return all results."""

    async def one_by_one():
        return [await invoker.ainvoke(call) for call in calls]

    found = [(r.result, r.error) for r in (*map(invoker.invoke, calls), *asyncio.run(one_by_one()))]
    found += results(invoker.run(asked(*calls)))
    return found + results(asyncio.run(invoker.run_async(asked(*calls))))


async def leave():
    raise SystemExit(3)


async def leave_from_a_task():
    await asyncio.create_task(leave())


async def interrupt():
    raise KeyboardInterrupt


async def stop_the_loop():
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return "went on"


async def fine():
    return "fine"


def named(name, function, **options) -> tk.Tool:
    return tk.Tool(name, "", OBJECT, function, **options)


@pytest.mark.parametrize("timeout_s", [None, 5], ids=["no_limit", "limit"])
def test_a_coroutine_that_ends_the_program_is_an_error_and_the_next_one_runs(timeout_s):
    invoker = quiet(named("leave", leave), named("fine", fine), timeout_s=timeout_s)
    want = [("Tool 'leave' failed with SystemExit: 3", True), ("fine", False)]
    assert every_way(invoker, tk.ToolCall("leave"), tk.ToolCall("fine")) == want * 4


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (leave_from_a_task, ("Tool 't' failed with SystemExit: 3", True)),
        (stop_the_loop, ("went on", False)),
    ],
    ids=["task", "stop"],
)
def test_the_shared_loop_outlives_what_a_tool_does_to_it(function, want):
    result = quiet(named("t", function, timeout_s=5)).invoke(tk.ToolCall("t"))
    assert (result.result, result.error) == want
    assert quiet(named("fine", fine, timeout_s=5)).invoke(tk.ToolCall("fine")).result == "fine"


def test_others_on_the_loop_go_on_when_one_ends_the_program():
    gate = threading.Event()

    async def wait():
        gate.set()
        await asyncio.sleep(0.1)
        return "waited"

    async def leave_later():
        while not gate.is_set():
            await asyncio.sleep(0.001)
        await leave_from_a_task()

    calls = asked(tk.ToolCall("wait"), tk.ToolCall("leave"))
    out = results(quiet(named("wait", wait), named("leave", leave_later), timeout_s=5).run(calls))
    assert out == [("waited", False), ("Tool 'leave' failed with SystemExit: 3", True)]


def test_a_loop_that_died_is_replaced(monkeypatch):
    dead = object.__new__(threads._Loop)
    dead.loop, dead.thread = asyncio.new_event_loop(), threading.Thread(target=print)
    dead.loop.close()
    monkeypatch.setattr(threads, "_shared", [dead])
    assert not dead.answers()
    assert run_coroutine(fine(), 5) == "fine"


@pytest.mark.parametrize("timeout_s", [None, 5], ids=["no_limit", "limit"])
def test_keyboard_interrupt_of_a_coroutine_is_passed_on(timeout_s):
    invoker = quiet(named("t", interrupt), named("fine", fine), timeout_s=timeout_s)
    with pytest.raises(KeyboardInterrupt):
        invoker.invoke(tk.ToolCall("t"))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(invoker.run_async(asked(tk.ToolCall("t"))))
    assert invoker.invoke(tk.ToolCall("fine")).result == "fine"


# ------------------------------------------------------------------ time on the caller's loop
def test_a_coroutine_that_blocked_the_callers_loop_too_long_is_a_timeout():
    async def block():
        time.sleep(0.3)
        return "late"

    invoker = quiet(named("block", block, timeout_s=0.1), named("fine", fine, timeout_s=5))
    out = results(asyncio.run(invoker.run_async(asked(tk.ToolCall("block"), tk.ToolCall("fine")))))
    assert out == [("Tool 'block' did not finish within 0.1 s; it was given up.", True), ("fine", False)]


def test_run_frees_the_caller_of_a_coroutine_that_blocks():
    gate = threading.Event()

    async def block():
        gate.wait(5)

    start = time.perf_counter()
    assert quiet(named("block", block, timeout_s=0.05)).run(asked(tk.ToolCall("block")))["tool_messages"]
    assert time.perf_counter() - start < 2
    gate.set()


def test_coroutine_tools_with_a_limit_stay_on_the_callers_loop():
    async def where():
        return str(id(asyncio.get_running_loop()))

    async def main():
        out = await quiet(named("where", where, timeout_s=5)).run_async(asked(tk.ToolCall("where")))
        return results(out) == [(str(id(asyncio.get_running_loop())), False)]

    assert asyncio.run(main())


def test_a_sync_tool_that_was_in_time_counts_though_the_loop_was_busy():
    async def main():
        running = asyncio.ensure_future(quiet(named("t", lambda: "done", timeout_s=0.1)).ainvoke(tk.ToolCall("t")))
        await asyncio.sleep(0)
        time.sleep(0.3)
        return await running

    assert asyncio.run(main()).result == "done"


def test_within_async_tells_late_from_failed():
    async def late():
        time.sleep(0.2)
        return "late"

    with pytest.raises(OutOfTime):
        asyncio.run(within_async(late(), 0.05))
    with pytest.raises(SystemExit):
        asyncio.run(within_async(leave(), 5))


# ------------------------------------------------------------------ changing what they get
def spoil(given: dict, items: list) -> str:
    given["deep"]["x"] = "changed"
    given["more"] = 1
    items[0].append("changed")
    return "done"


def test_a_tool_that_changes_its_arguments_does_not_rewrite_the_call():
    call = tk.ToolCall("spoil", {"given": {"deep": {"x": 1}}, "items": [[1], (2,)]})
    typed = tk.Tool.from_function(spoil, parameters=OBJECT)
    loose = tk.Tool("loose", "", OBJECT, lambda **keywords: spoil(**keywords))
    for tool in (typed, loose):
        again = tk.ToolCall(tool.name, call.arguments)
        assert every_way(quiet(tool), again) == [("done", False)] * 4
    assert call.arguments == {"given": {"deep": {"x": 1}}, "items": [[1], (2,)]}


def test_arguments_nested_beyond_reason_are_an_error():
    deep: list = []
    for _ in range(20_000):
        deep = [deep]
    out = every_way(quiet(tk.Tool("t", "", OBJECT, lambda a: "ran")), tk.ToolCall("t", {"a": deep}))
    assert [flag for _, flag in out] == [True] * 4


def test_an_ask_cannot_change_what_runs():
    ran = []
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "where": {"type": "object"}}}
    tool = tk.Tool("t", "", schema, lambda n, where: ran.append((n, where)) or "ok", effect="dangerous")

    def ask(call):
        call.arguments["n"] = "rm -rf"
        call.arguments["where"]["path"] = "/"
        call.arguments["extra"] = 1
        return True

    call = tk.ToolCall("t", {"n": 1, "where": {"path": "a"}}, "c1")
    assert every_way(quiet(tool, ask=ask), call) == [("ok", False)] * 4
    assert ran == [(1, {"path": "a"})] * 4
    assert call.arguments == {"n": 1, "where": {"path": "a"}}


class Strange:
    """Answer no question about its truth, as an array does."""

    def __bool__(self):
        raise ValueError("ambiguous")

    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "answer", [Strange(), "no", "true", 1, [0], None, False, ()], ids=lambda answer: type(answer).__name__
)
def test_anything_but_a_clear_yes_refuses(answer):
    tool = named("t", lambda: "ran", effect="dangerous")
    out = every_way(quiet(tool, ask=lambda call: answer), tk.ToolCall("t"))
    assert all("did not allow" in text and flag for text, flag in out)


def test_an_array_refuses():
    numpy = pytest.importorskip("numpy")
    tool = named("t", lambda: "ran", effect="dangerous")
    result = quiet(tool, ask=lambda call: numpy.array([True, True])).invoke(tk.ToolCall("t"))
    assert "the answer was a ndarray, not True" in result.result


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()], ids=lambda error: type(error).__name__)
def test_an_async_ask_that_ends_the_program_refuses(error):
    async def ask(call):
        raise error

    out = every_way(quiet(named("t", lambda: "ran", effect="dangerous"), ask=ask), tk.ToolCall("t"))
    assert all("asking failed" in text and flag for text, flag in out)
