"""What is measured is what runs: one reply gives the same calls to whoever asks, sync and async."""

import asyncio
import json

import pytest

import toolkit as tk

ARGUMENTS = {"city": "Oslo", "days": 2}
BODY = json.dumps(ARGUMENTS)
CALL = f'{{"name": "forecast", "arguments": {BODY}}}'
NATIVE = (tk.ToolCall("forecast", ARGUMENTS, "c1"),)
RIGHT = [("forecast", ARGUMENTS)]

WRITTEN = {
    "hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "hermes behind words": f"Let me look.\n<tool_call>{CALL}</tool_call>",
    "fenced json": f"```json\n{CALL}\n```",
    "bare json": CALL,
    "json list": f"[{CALL}]",
    "parameters": f'{{"name": "forecast", "parameters": {BODY}}}',
    "openai wire": json.dumps({"type": "function", "function": {"name": "forecast", "arguments": BODY}}),
    "airgap": f"TOOL_CALL: forecast {BODY}",
    "action": f'{{"action": "forecast", "action_input": {BODY}}}',
    "mistral": f"[TOOL_CALLS][{CALL}]",
    "llama pythonic": '[forecast(city="Oslo", days=2)]',
    "python tag": f"<|python_tag|>{CALL}",
    "qwen coder": "<tool_call>\n<function=forecast>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n"
    "</parameter>\n</function>\n</tool_call>",
    "functionary": f"<function=forecast>{BODY}</function>",
    "anthropic": '<invoke name="forecast"><parameter name="city">Oslo</parameter><parameter name="days">2</parameter>'
    "</invoke>",
    "glm": "<tool_call>forecast\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
    "<arg_value>2</arg_value>\n</tool_call>",
    "react": f"Thought: I look it up.\nAction: forecast\nAction Input: {BODY}",
    "kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>functions.forecast:0<|tool_call_argument_begin|>{BODY}"
    "<|tool_call_end|><|tool_calls_section_end|>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>forecast\n```json\n"
    f"{BODY}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "harmony": f"<|channel|>commentary to=functions.forecast <|constrain|>json<|message|>{BODY}<|call|>",
    "command r": f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "forecast", "parameters": {BODY}}}]'
    "<|END_ACTION|>",
    "granite": f"<|tool_call|>[{CALL}]",
    "functiongemma": "<start_function_call>call:forecast{city:<escape>Oslo<escape>,days:2}<end_function_call>",
    "yaml": "```yaml\ntool: forecast\narguments:\n  city: Oslo\n  days: 2\n```",
    "text for a number": '<tool_call>{"name": "forecast", "arguments": {"city": "Oslo", "days": "2"}}</tool_call>',
    "trailing comma": '<tool_call>{"name": "forecast", "arguments": {"city": "Oslo", "days": 2,}}</tool_call>',
    "behind a thought": f"<think>They want rain.</think>\n<tool_call>{CALL}</tool_call>",
}
REPLIES = {
    **{name: (tk.Reply(text), RIGHT) for name, text in WRITTEN.items()},
    "native": (tk.Reply(tool_calls=NATIVE, finish_reason="tool_calls"), RIGHT),
    "native beside words": (tk.Reply("I look.", tool_calls=NATIVE), RIGHT),
    "native beside the same call": (tk.Reply(WRITTEN["hermes"], tool_calls=NATIVE), RIGHT),
    "native beside another call": (tk.Reply('TOOL_CALL: forecast {"city": "Rome"}', tool_calls=NATIVE), RIGHT),
    "native with a text for a number": (
        tk.Reply(tool_calls=(tk.ToolCall("forecast", {"city": "Oslo", "days": "2"}, "c1"),)),
        RIGHT,
    ),
    "unread by the server": (tk.Reply(WRITTEN["hermes"], fault=tk.Fault("parse", "no JSON")), RIGHT),
    "empty": (tk.Reply(""), []),
    "words": (tk.Reply("It will rain in Oslo."), []),
    "cut": (tk.Reply('<tool_call>{"name": "forecast", "arguments": {"city": "Os', finish_reason="length"), []),
    "broken": (tk.Reply('<tool_call>{"name": "forecast", "arguments": {city</tool_call>'), []),
    "in a thought": (tk.Reply(f"<think><tool_call>{CALL}</tool_call></think>It rains."), []),
    "a list of signatures": (tk.Reply("I have forecast(city, days) for that."), []),
    "only told of": (tk.Reply("You would call `forecast` with a city."), []),
}


def forecast(city: str, days: int = 1) -> str:
    """Tell the weather of a city."""
    return f"{city}: {days}"


TOOL = tk.Tool.from_function(forecast)


class Plain(tk.ScriptedModel):
    """Answer once with the reply, then with plain words, whatever is asked."""

    def __init__(self, reply):
        super().__init__([reply, *["So it is."] * 9])


def noting(log):
    def note(city: str, days: int = 1) -> str:
        """Tell the weather of a city."""
        log.append(("forecast", {"city": city, "days": days}))
        return "rain"

    return tk.Tool("forecast", TOOL.description, TOOL.parameters, note)


def document(log):
    """Describe the tool as the one operation of a service."""
    body = {"required": True, "content": {"application/json": {"schema": TOOL.parameters}}}
    operation = {"operationId": "forecast", "requestBody": body, "responses": {"200": {"description": "ok"}}}
    return {"openapi": "3.1.0", "info": {"title": "w", "version": "1"}, "paths": {"/forecast": {"post": operation}}}


def ask(recipe, reply, log):
    log += [(c.tool_name, c.arguments) for c in tk.ask(recipe, "Rain?", [TOOL], Plain(reply)).extraction.calls]


def agent(recipe, reply, log):
    tk.Agent(Plain(reply), [noting(log)], recipe=recipe).run("Rain?")


def agent_async(recipe, reply, log):
    asyncio.run(tk.Agent(Plain(reply), [noting(log)], recipe=recipe).arun("Rain?"))


def agent_stream(recipe, reply, log):
    list(tk.Agent(Plain(reply), [noting(log)], recipe=recipe).stream("Rain?"))


def airgap(recipe, reply, log):
    tk.AirgapChat(Plain(reply), recipe=recipe).bind_tools([noting(log)]).invoke("Rain?")


def airgap_async(recipe, reply, log):
    asyncio.run(tk.AirgapChat(Plain(reply), recipe=recipe).bind_tools([noting(log)]).ainvoke("Rain?"))


def airgap_stream(recipe, reply, log):
    list(tk.AirgapChat(Plain(reply), recipe=recipe).bind_tools([noting(log)]).stream("Rain?"))


def two_mode(recipe, reply, log):
    tk.TwoModeAgent(Plain(reply), [noting(log)], recipe=recipe).respond("Rain?")


def two_mode_async(recipe, reply, log):
    asyncio.run(tk.TwoModeAgent(Plain(reply), [noting(log)], recipe=recipe).arespond("Rain?"))


def openapi(recipe, reply, log):
    tool = tk.OpenAPITool(Plain(reply), spec=document(log), recipe=recipe, server="http://127.0.0.1:9")
    meta = tool.run([tk.ChatMessage.from_user("Rain?")])["service_response"][0].meta
    log += [(meta["operation"], meta["arguments"])] if "operation" in meta else []


WAYS = [ask, agent, agent_async, agent_stream, airgap, airgap_async, airgap_stream, two_mode, two_mode_async, openapi]


@pytest.mark.parametrize("arm", ["prompted", "native"])
@pytest.mark.parametrize(("reply", "right"), REPLIES.values(), ids=REPLIES)
def test_one_reply_gives_the_same_calls_to_whoever_asks(reply, right, arm):
    recipe = tk.Recipe("scripted", arm=arm, protocol="hermes", extraction="auto")
    for way in WAYS:
        log = []
        way(recipe, reply, log)
        assert log == right, way.__name__


@pytest.mark.parametrize(
    ("name", "read_from"),
    [("native", "native"), ("hermes", "text"), ("native beside another call", "both"), ("words", "")],
)
def test_where_a_call_was_read_stands_in_extraction_and_trace(name, read_from):
    reply, recipe = REPLIES[name][0], tk.Recipe("scripted", arm="native", agent={"max_reasks": 0})
    assert tk.ask(recipe, "Rain?", [TOOL], Plain(reply)).extraction.read_from == read_from
    trace = tk.Agent(Plain(reply), [TOOL], recipe=recipe).run("Rain?")
    assert trace.of_kind("model_reply")[0].data["read_from"] == read_from


def test_an_agent_sends_what_its_recipe_sends():
    recipe = tk.Recipe("scripted", protocol="airgap", system="Be brief.", options={"num_predict": 7, "seed": 3})
    asked, run = Plain(tk.Reply("No.")), Plain(tk.Reply("No."))
    tk.ask(recipe, "Rain?", [TOOL], asked)
    tk.Agent(run, [TOOL], recipe=recipe).run("Rain?")
    assert asked.requests == run.requests
