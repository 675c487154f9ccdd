from __future__ import annotations

import asyncio
import threading

import pytest

from toolkit.errors import ModelError, UserError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models import Fault, Options, Reply, ScriptedModel

CALL = ToolCall("f", {"x": 1}, "c1")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("text", Reply("text", model="scripted")),
        (Reply("r", fault=Fault("server", "x")), Reply("r", fault=Fault("server", "x"), model="scripted")),
        (CALL, Reply(tool_calls=(CALL,), finish_reason="tool_calls", model="scripted")),
        (ChatMessage.from_assistant("t", tool_calls=[CALL]), Reply("t", "", (CALL,), "tool_calls", model="scripted")),
        (ChatMessage.from_assistant("t"), Reply("t", model="scripted")),
        (lambda messages: messages[-1].text.upper(), Reply("HI", model="scripted")),
        (lambda messages: CALL, Reply(tool_calls=(CALL,), finish_reason="tool_calls", model="scripted")),
    ],
    ids=["text", "reply", "call", "message with call", "message", "function", "function giving a call"],
)
def test_lines(line, expected):
    assert ScriptedModel([line]).chat("hi") == expected


def test_an_exception_is_raised():
    with pytest.raises(ModelError, match="down"):
        ScriptedModel([ModelError("down")]).chat("hi")


def test_what_is_no_line():
    with pytest.raises(UserError, match="3 is no line of a script"):
        ScriptedModel([3]).chat("hi")


def test_end_of_the_script_and_cycle():
    model = ScriptedModel(["a"])
    model.chat("1")
    with pytest.raises(UserError, match="has 1 line;"):
        model.chat("2")
    cycling = ScriptedModel(["a", "b"], cycle=True)
    assert [cycling.chat("x").text for _ in range(4)] == ["a", "b", "a", "b"]


def test_requests_are_kept():
    model = ScriptedModel(["a", "b"])
    model.chat("hi", tools=[{"name": "t"}], schema={"type": "object"}, options={"seed": 2}, tool_choice="required")
    model.complete("raw", options={"stop": "x"})
    assert model.requests[0]["messages"] == [ChatMessage.from_user("hi")]
    assert model.requests[0]["options"] == Options(seed=2)
    assert model.requests[0]["tool_choice"] == "required"
    assert model.requests[1]["prompt"] == "raw"


def test_stop_strings_cut():
    assert ScriptedModel(["one STOP two"]).complete("x", options={"stop": ["STOP"]}).text == "one "


def test_two_open_streams_keep_their_lines():
    model = ScriptedModel(["a", "b"])
    first, second = model.stream("1"), model.stream("2")
    assert next(second).text == "b"
    assert next(first).text == "a"


def test_threads_get_one_line_each():
    model = ScriptedModel([str(number) for number in range(50)])
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(model.chat("x").text)) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=int) == [str(number) for number in range(50)]


def test_async_twins():
    async def both():
        model = ScriptedModel(["a", "b"])
        return (await model.achat("x")).text, (await model.acomplete("x")).text

    assert asyncio.run(both()) == ("a", "b")


def test_fingerprint_follows_the_script():
    assert ScriptedModel(["a"]).fingerprint() == ScriptedModel(["a"]).fingerprint()
    assert ScriptedModel(["a"]).fingerprint() != ScriptedModel(["b"]).fingerprint()
