"""A listener hears of each finished call, in call order."""

from __future__ import annotations

import asyncio

import pytest

import toolkit as tk
from toolkit.execution.turns import ResultChunk

EMPTY = {"type": "object", "properties": {}}


@tk.tool
def weather(city: str) -> str:
    """Tell the weather."""
    return city


@tk.tool
def bad() -> str:
    """Fail."""
    raise ValueError("boom")


def asked(*calls: tk.ToolCall) -> list[tk.ChatMessage]:
    return [tk.ChatMessage.from_assistant(tool_calls=calls)]


def results(out: dict) -> list[tuple]:
    return [(r.result, r.error) for m in out["tool_messages"] for r in m.tool_call_results]


def quiet(*tools, **options) -> tk.ToolInvoker:
    return tk.ToolInvoker(tools, raise_on_failure=False, **options)


def test_the_stream_tells_of_each_result_and_of_the_end():
    chunks: list[ResultChunk] = []
    calls = [tk.ToolCall("nope"), tk.ToolCall("weather", {"city": "A"}), tk.ToolCall("bad")]
    out = quiet(weather, bad).run(asked(*calls), streaming_callback=chunks.append)
    told = [(c.index, c.start, c.finish_reason) for c in chunks]
    assert told == [(1, True, None), (2, True, None), (None, False, "tool_call_results")]
    assert chunks[0].tool_call_result is out["tool_messages"][1].tool_call_result
    chunks.clear()
    quiet(weather).run(asked(tk.ToolCall("nope")), streaming_callback=chunks.append)
    assert chunks == []


def test_a_listener_that_fails_is_a_warning_in_message_mode():
    calls = asked(tk.ToolCall("weather", {"city": "A"}))
    with pytest.warns(UserWarning, match="streaming_callback failed with ConnectionError"):
        assert not results(quiet(weather, streaming_callback=raising_one).run(calls))[0][1]
    with pytest.raises(ConnectionError):
        tk.ToolInvoker([weather], streaming_callback=raising_one).run(calls)


def raising_one(chunk):
    raise ConnectionError


def test_the_callback_is_handed_to_tools_that_take_it():
    schema = {"type": "object", "properties": {}}
    tool = tk.Tool("t", "d", schema, lambda streaming_callback=None: str(streaming_callback is not None))
    heard = []
    for enabled in (True, False):
        invoker = quiet(tool, streaming_callback=heard.append, enable_streaming_callback_passthrough=enabled)
        assert results(invoker.run(asked(tk.ToolCall("t")))) == [(str(enabled), False)]


def test_async_runs_take_both_kinds_of_listeners():
    calls = asked(tk.ToolCall("weather", {"city": "A"}), tk.ToolCall("bad"))
    heard = []

    async def note(chunk):
        heard.append(chunk.index)

    asyncio.run(quiet(weather, bad).run_async(calls, streaming_callback=note))
    asyncio.run(quiet(weather, bad).run_async(calls, streaming_callback=lambda chunk: heard.append(chunk.index)))
    quiet(weather, bad).run(calls, streaming_callback=note)
    assert heard == [0, 1, None] * 3


def test_a_listener_of_one_run_leaves_the_invoker_as_it_was():
    class Own(tk.ToolInvoker):
        pass

    invoker, heard = Own([weather]), []
    invoker.run(asked(tk.ToolCall("weather", {"city": "A"})), streaming_callback=heard.append)
    assert (len(heard), invoker.streaming_callback) == (2, None)
    assert type(invoker._for_run(None, heard.append, None)) is Own
