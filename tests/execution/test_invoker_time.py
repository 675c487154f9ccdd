"""ToolInvoker in time: at once, within a limit, on threads and on event loops."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import warnings

import pytest

import toolkit as tk

EMPTY = {"type": "object", "properties": {}}


@tk.tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"{city}, 1 days, C"


@tk.tool
def bad() -> str:
    """Fail."""
    raise ValueError("boom")


@tk.tool
async def later(seconds: float = 0.0) -> dict:
    """Wait."""
    await asyncio.sleep(seconds)
    return {"waited": True}


def named(name: str, function, **options) -> tk.Tool:
    return tk.Tool(name, "d", EMPTY, function, **options)


def done():
    return "done"


def asked(*calls: tk.ToolCall) -> list[tk.ChatMessage]:
    return [tk.ChatMessage.from_assistant(tool_calls=calls)]


def results(out: dict) -> list[tuple]:
    return [(r.result, r.error) for m in out["tool_messages"] for r in m.tool_call_results]


def quiet(*tools, **options) -> tk.ToolInvoker:
    return tk.ToolInvoker(tools, raise_on_failure=False, **options)


def test_several_calls_run_at_once_and_max_workers_bounds_them():
    now, peak, lock = [0], [0], threading.Lock()
    gate = threading.Barrier(2, timeout=5)

    def busy():
        with lock:
            now[0] += 1
            peak[0] = max(peak[0], now[0])
        gate.wait()
        with lock:
            now[0] -= 1

    out = quiet(named("t", busy), max_workers=2).run(asked(*[tk.ToolCall("t")] * 6))
    assert len(results(out)) == 6
    assert peak[0] == 2


def test_a_single_call_runs_on_the_calling_thread():
    invoker = quiet(named("t", threading.get_ident))
    assert results(invoker.run(asked(tk.ToolCall("t")))) == [(str(threading.get_ident()), False)]


def test_a_timeout_frees_the_caller():
    gate = threading.Event()
    invoker = quiet(named("hang", gate.wait, timeout_s=0.05), named("quick", done))
    start = time.perf_counter()
    assert "did not finish within 0.05 s" in invoker.invoke(tk.ToolCall("hang")).result
    out = results(invoker.run(asked(tk.ToolCall("hang"), tk.ToolCall("quick"))))
    out += results(asyncio.run(invoker.run_async(asked(tk.ToolCall("hang")))))
    assert time.perf_counter() - start < 2
    assert [flag for _, flag in out] == [True, False, True]
    gate.set()
    with pytest.raises(tk.ToolTimeoutError):
        tk.ToolInvoker([later], timeout_s=0.02).invoke(tk.ToolCall("later", {"seconds": 5}))


def test_a_coroutine_that_blocks_its_loop_blocks_nobody_else():
    gate = threading.Event()

    async def block():
        gate.wait()

    invoker = quiet(named("block", block, timeout_s=0.05), later)
    assert invoker.invoke(tk.ToolCall("block")).error
    assert invoker.invoke(tk.ToolCall("later")).result == '{"waited": true}'
    gate.set()


def test_a_coroutine_that_will_not_be_cancelled_is_given_up():
    async def stubborn():
        for _ in range(40):
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    start = time.perf_counter()
    result = asyncio.run(_first(quiet(named("s", stubborn, timeout_s=0.02))))
    assert "did not finish" in result.result
    assert time.perf_counter() - start < 2


async def _first(invoker):
    return await invoker.ainvoke(tk.ToolCall("s"))


def test_sync_calls_work_inside_a_running_loop():
    async def notebook():
        return quiet(later, weather).run(asked(tk.ToolCall("later"), tk.ToolCall("weather", {"city": "A"})))

    assert results(asyncio.run(notebook())) == [('{"waited": true}', False), ("A, 1 days, C", False)]


def test_coroutine_tools_share_one_loop_across_calls():
    async def where():
        return str(id(asyncio.get_running_loop()))

    invoker = quiet(named("where", where))
    assert invoker.invoke(tk.ToolCall("where")).result == invoker.invoke(tk.ToolCall("where")).result


def test_async_runs_do_not_block_the_loop_and_keep_order():
    invoker = quiet(named("slow", lambda: time.sleep(0.05) or "S"), later, bad)
    ticks = []

    async def main():
        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.005)

        ticker = asyncio.create_task(tick())
        out = await invoker.run_async(asked(tk.ToolCall("slow"), tk.ToolCall("later"), tk.ToolCall("bad")))
        ticker.cancel()
        return out

    assert [flag for _, flag in results(asyncio.run(main()))] == [False, False, True]
    assert len(ticks) > 3


def test_cancelling_an_async_run_cancels_its_tools():
    seen = []

    async def wait():
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main():
        task = asyncio.create_task(quiet(named("w", wait)).run_async(asked(tk.ToolCall("w"))))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["cancelled"]


def test_a_sync_function_that_returns_an_awaitable_is_awaited():
    invoker = quiet(named("t", lambda: asyncio.sleep(0, result="late")))
    assert invoker.invoke(tk.ToolCall("t")).result == "late"
    assert results(asyncio.run(invoker.run_async(asked(tk.ToolCall("t"))))) == [("late", False)]


def test_warnings_of_no_coroutine_are_left_behind():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quiet(later).invoke(tk.ToolCall("later", {"seconds": "x"})).error


def test_context_variables_reach_tools_on_threads():
    user = contextvars.ContextVar("user", default="nobody")
    user.set("me")
    invoker = quiet(named("t", user.get), named("u", user.get, timeout_s=5))
    out = results(invoker.run(asked(tk.ToolCall("t"), tk.ToolCall("u"))))
    assert out == [("me", False)] * 2
