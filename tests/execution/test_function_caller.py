"""OpenAIFunctionCaller reads both forms of calls, and answers failures in words."""

from __future__ import annotations

import json

import pytest

import toolkit as tk


def weather(city):
    return {"city": city, "temp": 20}


def uni():
    return "é"


def bad():
    raise ValueError("boom")


def shapes():
    return {1}


async def later(n: int) -> int:
    return n + 1


FUNCTIONS = {"weather": weather, "uni": uni, "bad": bad, "shapes": shapes, "later": later}


def old(*calls, finish="tool_calls"):
    listed = [{"id": "1", "type": "function", "function": {"name": name, "arguments": given}} for name, given in calls]
    return tk.ChatMessage.from_assistant(json.dumps(listed), meta={"finish_reason": finish})


def caller():
    return tk.OpenAIFunctionCaller(available_functions=FUNCTIONS)


def test_the_given_list_stays_and_replies_follow_it():
    messages = [old(("weather", '{"city": "Berlin"}'))]
    out = caller().run(messages)["function_replies"]
    assert len(messages) == 1
    assert out[0] is messages[0]
    assert (out[1].role, out[1].name, out[1].content) == ("function", "weather", '{"city": "Berlin", "temp": 20}')


@pytest.mark.parametrize(
    ("name", "given", "role", "words"),
    [
        ("uni", "", "function", '"é"'),
        ("uni", None, "function", '"é"'),
        ("shapes", "{}", "function", "{1}"),
        ("later", '{"n": 1}', "function", "2"),
        ("bad", "{}", "assistant", "Tool 'bad' failed with ValueError: boom"),
        ("storm", "{}", "assistant", "No function is called 'storm'. Known: weather, uni, bad, shapes, later."),
        ("weather", '{"town": "X"}', "assistant", "city: expected a value, got none"),
        ("weather", "{city: X}", "assistant", "expected a JSON object, got"),
        ("later", '{"n": "x"}', "assistant", "n: expected integer"),
    ],
    ids=["empty", "null", "set", "async", "raises", "unknown", "wrong-name", "no-json", "wrong-type"],
)
def test_each_call_has_one_reply(name, given, role, words):
    reply = caller().run([old((name, given))])["function_replies"][-1]
    assert reply.role == role
    assert words in reply.text


def test_calls_of_every_message_are_run_in_both_forms():
    new = tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("weather", {"city": "B"})])
    out = caller().run([tk.ChatMessage.from_assistant("hello"), old(("uni", "{}")), new])["function_replies"]
    assert [message.name for message in out[3:]] == ["uni", "weather"]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [tk.ChatMessage.from_assistant("hello", meta={"finish_reason": "stop"})],
        [tk.ChatMessage.from_assistant("hello")],
        [old(("uni", "{}"), finish="stop")],
        [tk.ChatMessage.from_user(old(("uni", "{}")).text, meta={"finish_reason": "tool_calls"})],
    ],
    ids=["none", "stop", "no-reason", "json-text", "user"],
)
def test_text_of_other_messages_is_never_read_as_a_call(messages):
    assert caller().run(messages) == {"assistant_replies": messages}


@pytest.mark.parametrize("text", ["I will call it", "{}", '["x"]', '[{"function": {"arguments": "{}"}}]'], ids=repr)
def test_calls_that_cannot_be_read_are_answered(text):
    out = caller().run([tk.ChatMessage.from_assistant(text, meta={"finish_reason": "tool_calls"})])["function_replies"]
    assert out[-1].role == "assistant"
    assert "expected" in out[-1].text


def test_a_caller_survives_json():
    data = json.loads(json.dumps(caller().to_dict()))
    back = tk.OpenAIFunctionCaller.from_dict(data)
    assert back.available_functions == FUNCTIONS
    assert isinstance(data["init_parameters"]["available_functions"]["uni"], str)
    with pytest.raises(tk.ConfigError):
        tk.OpenAIFunctionCaller({"l": lambda: 1}).to_dict()
    with pytest.raises(tk.ConfigError, match="is no OpenAIFunctionCaller"):
        tk.OpenAIFunctionCaller.from_dict({"type": "os.system"})


def test_what_cannot_be_called_is_refused():
    with pytest.raises(tk.ConfigError, match="must be a function"):
        tk.OpenAIFunctionCaller({"x": 3})
    assert tk.OpenAIFunctionCaller({}).run([old(("uni", "{}"))])["function_replies"][-1].role == "assistant"
