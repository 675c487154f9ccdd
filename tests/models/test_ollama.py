"""The official client over real HTTP against a fake server that has Ollama's quirks."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from toolkit.asking import request
from toolkit.errors import ConfigError, ModelNotFoundError, UserError
from toolkit.messages import ChatMessage, ChatRole, ReasoningContent, ToolCall
from toolkit.models import load_model
from toolkit.models.base import ChatRequest, Options, Reply
from toolkit.models.ollama import OllamaServer, same_model
from toolkit.recipes import Recipe

NESTED = {
    "name": "order",
    "description": "Order things.",
    "parameters": {
        "type": "object",
        "properties": {
            "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "size": {"type": "string", "enum": ["S", "M"], "default": "M"},
            "count": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        },
    },
}
PLAIN = {
    "top_k": 40, "top_p": 0.9, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0, "repeat_last_n": 64,
    "presence_penalty": 0.0, "frequency_penalty": 0.0,
}  # fmt: skip
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def called(*calls, **last):
    """Return the lines of a reply with calls, for what other versions of the server send."""
    said = {"role": "assistant", "content": "", "tool_calls": list(calls)}
    closing = {"done": True, "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 5}
    return {"message": said, "done": False}, {"message": {"role": "assistant", "content": ""}, **closing, **last}


@pytest.fixture
def model(fake_ollama):
    with load_model("ollama/qwen3:4b") as model:
        yield model


def test_reply_keeps_text_counts_and_load_time(fake_ollama, model):
    fake_ollama.says("Hello there!", prompt_eval_count=12, eval_count=4, load_duration=1_500_000_000)
    reply = model.chat("Hi")
    assert (reply.text, reply.finish_reason, reply.fault) == ("Hello there!", "stop", None)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.load_seconds) == (12, 4, 1.5)
    assert reply.model == "ollama/qwen3:4b"
    assert reply.raw["request"] == fake_ollama.requests[0]
    assert reply.raw["response"]["done_reason"] == "stop"


def test_window_and_cap_are_always_sent_and_inside_options(fake_ollama, model):  # ollama#7814, ollama#5274
    fake_ollama.says("x")
    model.chat("Hi")
    body = fake_ollama.requests[0]
    assert body["options"] == {**PLAIN, "temperature": 0.0, "seed": 0, "num_ctx": 8192, "num_predict": 512}
    assert set(body) == {"model", "messages", "stream", "options", "truncate", "shift"}


def test_prompts_are_never_cut_nor_the_window_slid(fake_ollama, model):  # ollama#3839, ollama#14259
    for ask in (lambda: model.chat("Hi"), lambda: model.complete("Hi")):
        fake_ollama.says("x")
        ask()
    assert [(body["truncate"], body["shift"]) for body in fake_ollama.requests] == [(False, False)] * 2


TOO_LONG = {
    "error": {
        "code": 400,
        "message": "request (940 tokens) exceeds the available context size (256 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 940,
        "n_ctx": 256,
    }
}


@pytest.mark.parametrize(
    "error", [json.dumps(TOO_LONG), TOO_LONG, TOO_LONG["error"]], ids=["nested", "object", "plain"]
)
def test_a_refused_prompt_is_an_overflow_with_both_counts(fake_ollama, model, error):
    fake_ollama.fails(400, error)
    reply = model.chat("Hi", options={"num_ctx": 256})
    assert (reply.fault.kind, reply.finish_reason) == ("overflow", "overflow")
    assert (reply.prompt_tokens, reply.fault.prompt_tokens, reply.fault.window) == (940, 940, 256)
    assert Reply.from_dict(reply.to_dict()).fault == reply.fault


def test_a_server_that_refuses_long_prompts_raises_no_alarm(fake_ollama, model):  # ollama#16428
    for counted in (1024, 9):  # looks like a cut at half of the window, and like a count of the rest of a cached prompt
        fake_ollama.says("x", prompt_eval_count=counted)
        reply = model.chat("The rain in Spain stays mainly in the plain. " * 190, options={"num_ctx": 2048})
        assert reply.fault is None
    assert [body.get("truncate") for body in fake_ollama.requests] == [False, "?", False]


@pytest.mark.parametrize("think", [True, False, "low", "high"], ids=str)
def test_think_is_sent_as_given(fake_ollama, model, think):  # ollama#11751
    fake_ollama.says("x")
    model.chat("Hi", options={"think": think})
    assert fake_ollama.requests[0]["think"] is think or fake_ollama.requests[0]["think"] == think


def test_every_option_reaches_its_place(fake_ollama, model):
    fake_ollama.says("x")
    options = {
        "temperature": 0.7, "seed": 3, "num_ctx": 4096, "num_predict": 9, "top_p": 0.8, "top_k": 20, "min_p": 0.1,
        "typical_p": 0.9, "repeat_penalty": 1.1, "repeat_last_n": 32, "presence_penalty": 0.2, "frequency_penalty": 0.3,
        "num_keep": 8, "stop": ["END"], "num_batch": 64, "num_gpu": 0, "num_thread": 2, "main_gpu": 1,
        "use_mmap": False,
    }  # fmt: skip
    outside = {"think": True, "keep_alive": "10m", "timeout_s": 9.0}
    assert {*options, *outside} == {item.name for item in dataclasses.fields(Options)}
    model.chat("Hi", options={**options, **outside})
    body = fake_ollama.requests[0]
    assert body["options"] == options | {"stop": ["END", "<|im_start|>", "<|im_end|>"]}
    assert (body["keep_alive"], body["think"]) == ("10m", True)


@pytest.mark.parametrize(
    ("schema", "think", "sent"),
    [(CITY, None, False), (CITY, True, True), (CITY, "low", "low"), (None, None, None), (None, False, False)],
    ids=str,
)
def test_a_held_reply_is_not_thought_about_unless_that_is_asked(fake_ollama, model, schema, think, sent):
    fake_ollama.says('{"city": "Oslo"}')
    model.chat("Hi", schema=schema, options={"think": think})
    assert fake_ollama.requests[0].get("think") == sent


PARAMETERS = {"num_ctx": 512, "stop": ["<|im_start|>", 'a "b"'], "temperature": 0.3}


@pytest.mark.parametrize(
    ("own", "sent"),
    [([], None), (["END"], ["END", "<|im_start|>", 'a "b"']), (["<|im_start|>"], ["<|im_start|>", 'a "b"'])],
    ids=str,
)
def test_stops_of_ones_own_come_on_top_of_the_modelfiles(fake_ollama, model, own, sent):  # ollama#4524
    fake_ollama.model().parameters = PARAMETERS
    fake_ollama.says("x")
    model.chat("Hi", options={"stop": own})
    assert fake_ollama.requests[0]["options"].get("stop") == sent


@pytest.mark.parametrize("name", ["num_ctx", "num_thread", "num_batch", "num_gpu"])
def test_what_loads_the_model_anew_is_noted(fake_ollama, model, name):
    for value in (32, 64):
        fake_ollama.says("x")
        reply = model.chat("Hi", options={name: value})
    assert f"{name} changed from 32 to 64: Ollama loads the model again" in reply.raw["notes"]


def test_unknown_option_is_refused(model):  # ollama-python#663
    with pytest.raises(ConfigError, match=r"'tool_choise'.*Known"):
        model.chat("Hi", options={"tool_choise": "any"})


def test_tool_schemas_arrive_whole(fake_ollama, model):  # ollama-python#718
    fake_ollama.says("x")
    model.chat("Hi", tools=[NESTED])
    assert fake_ollama.requests[0]["tools"] == [{"type": "function", "function": NESTED}]


def test_references_and_patterns_of_tools_reach_the_model(fake_ollama, model):  # mellea#911, pattern_in_items.native
    room = {"type": "string", "enum": ["small", "big"]}
    listed = [{"type": "string", "pattern": r"\d"}, {"type": "string", "pattern": r"\bx"}]
    properties = {
        "room": {"$ref": "#/$defs/Room"},
        **{f"l{n}": {"type": "array", "items": i} for n, i in enumerate(listed)},
    }
    fake_ollama.says("x")
    model.chat("Hi", tools=[{"name": "f", "parameters": {"$defs": {"Room": room}, "properties": properties}}])
    shown = fake_ollama.requests[0]["tools"][0]["function"]["parameters"]
    assert shown["properties"]["room"] == room
    assert "$defs" not in shown
    assert shown["properties"]["l0"]["items"]["pattern"].startswith("^")
    assert shown["properties"]["l1"]["items"] == {"type": "string"}


def test_calls_get_ids_where_the_server_gives_none(fake_ollama, model):  # ollama#6708
    calls = [{"function": {"name": "f", "arguments": {"x": 1}}}] * 2
    for _ in range(2):
        fake_ollama.sends(*called(*calls))
    first, again = model.chat("Hi", tools=[NESTED]), model.chat("Hi", tools=[NESTED])
    assert first.finish_reason == "tool_calls"
    assert len({call.id for call in first.tool_calls}) == 2
    assert first.tool_calls == again.tool_calls  # the same request gives the same ids, else replays would miss


def test_ids_of_the_server_are_kept(fake_ollama, model):
    fake_ollama.sends(*called({"id": "call_x", "function": {"name": "f", "arguments": {}}}))
    assert model.chat("Hi", tools=[NESTED]).tool_calls == (ToolCall("f", {}, "call_x"),)


def test_arguments_as_text_are_read(fake_ollama, model):  # ollama#6155
    fake_ollama.sends(*called({"function": {"name": "f", "arguments": '{"x": "a\\nb"}'}}))
    assert model.chat("Hi", tools=[NESTED]).tool_calls[0].arguments == {"x": "a\nb"}


def test_unreadable_arguments_are_a_fault_with_their_text(fake_ollama, model):
    fake_ollama.sends(*called({"function": {"name": "f", "arguments": '{"x": '}}))
    reply = model.chat("Hi", tools=[NESTED])
    assert reply.fault.kind == "parse"
    assert reply.text == '{"name": "f", "arguments": {"x": }'


def test_tool_choice_is_not_sent_and_said_so(fake_ollama, model):  # ollama#11171, ollama#17921
    fake_ollama.says("x")
    reply = model.chat("Hi", tools=[NESTED], tool_choice="required")
    assert "tool_choice" not in json.dumps(fake_ollama.requests[0])
    assert "tool_choice='required' was not sent" in reply.raw["notes"][0]


def test_conversation_with_calls_and_results_on_the_wire(fake_ollama, model):
    fake_ollama.says("Sunny.")
    call = ToolCall("weather", {"city": "Oslo"}, "c1")
    model.chat([
        ChatMessage.from_user("Weather?"),
        ChatMessage.from_assistant(tool_calls=[call]),
        ChatMessage.from_tool("sun", call),
    ])  # fmt: skip
    assert fake_ollama.requests[0]["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}],
        },
        {"role": "tool", "content": "sun", "tool_name": "weather", "tool_call_id": "c1"},
    ]


def test_stream_gives_pieces_thinking_and_the_reply(fake_ollama, model):
    fake_ollama.says("Hello there!", thinking="Hm.")
    chunks = list(model.stream("Hi"))
    assert "".join(chunk.text for chunk in chunks) == "Hello there!"
    assert "".join(chunk.thinking for chunk in chunks) == "Hm."
    assert chunks[-1].reply.thinking == "Hm."
    assert len(chunks) == 6


async def _achat(model):
    chunks = [chunk async for chunk in model.astream("Hi")]
    return (await model.achat("Hi")).text, chunks[-1].reply.text


def test_async_twins(fake_ollama, model):
    import asyncio

    fake_ollama.says("one").says("two")
    assert asyncio.run(_achat(model)) == ("two", "one")


def test_raw_completion_with_stop_strings(fake_ollama, model):
    fake_ollama.says(", there was END and more")
    reply = model.complete("Once upon a time", options={"stop": ["END"]})
    body = fake_ollama.requests[0]
    assert (body["prompt"], body["raw"], body["options"]["stop"][0]) == ("Once upon a time", True, "END")
    assert reply.text == ", there was "


def test_empty_raw_prompt_only_loads_the_model(fake_ollama, model):
    assert model.complete("").text == ""
    assert fake_ollama.requests[0]["prompt"] == ""
    assert fake_ollama.runners.loads == ["qwen3:4b"]


@pytest.mark.parametrize(
    ("error", "status", "kind", "text"),
    [
        pytest.param("error parsing tool call: raw='{\"it's\"', err=eof", 500, "parse", '{"it\'s"', id="12064"),
        pytest.param("error parsing tool call: raw='x\ny', err=", 500, "parse", "x\ny", id="17638 without reason"),
        pytest.param("error parsing tool call: invalid character", 500, "parse", "", id="no raw text"),
        pytest.param("the input length exceeds the context length", 400, "overflow", "", id="context length"),
        pytest.param("prompt too long; exceeded max context length by 31 tokens", 400, "overflow", "", id="17889"),
        pytest.param("registry/x does not support tools", 400, "tools_unsupported", "", id="12115"),
        pytest.param("llama runner process has terminated", 500, "server", "", id="crash"),
    ],
)  # fmt: skip
def test_errors_of_the_server_are_data(fake_ollama, model, error, status, kind, text):  # ollama#13710
    fake_ollama.fails(status, error)
    reply = model.chat("Hi", tools=[NESTED])
    assert (reply.fault.kind, reply.text) == (kind, text)
    assert error in reply.fault.message
    assert reply.finish_reason == {"overflow": "overflow", "parse": "stop"}.get(kind, "error")


@pytest.mark.parametrize(
    ("piece", "kind"),
    [
        ({"error": "error parsing tool call: raw='{', err=eof"}, "parse"),
        ({"error parsing tool call": "invalid character 'c' looking for beginning of value"}, "parse"),  # ollama#11781
        ({"error": "an error was encountered while running the model"}, "server"),
    ],
    ids=["error", "wrong key", "crash"],
)
def test_errors_within_a_stream_keep_what_was_written(fake_ollama, model, piece, kind):
    fake_ollama.sends({"message": {"role": "assistant", "content": "I will call "}}, piece)
    reply = model.chat("Hi")
    assert reply.fault.kind == kind
    assert reply.text.startswith("I will call ")


def test_answer_that_breaks_off_is_a_server_fault(fake_ollama, model):
    fake_ollama.sends({"message": {"role": "assistant", "content": "I will"}})
    reply = model.chat("Hi")
    assert (reply.fault.kind, reply.text, reply.finish_reason) == ("server", "I will", "error")


def test_silence_is_a_timeout_and_leaves_the_connection(fake_ollama, model):  # ollama#2764
    gate = threading.Event()
    fake_ollama.says("Hel", gate=gate)
    reply = model.chat("Hi", options={"timeout_s": 0.2})
    assert fake_ollama.left.wait(5)
    gate.set()
    assert (reply.fault.kind, reply.text, reply.finish_reason) == ("timeout", "Hel", "error")


def test_closing_a_stream_closes_the_connection(fake_ollama, model):
    gate = threading.Event()
    fake_ollama.says("Hel", gate=gate)
    chunks = model.stream("Hi")
    assert next(chunks).text == "Hel"
    chunks.close()
    assert fake_ollama.left.wait(5)


@pytest.mark.parametrize(
    ("last", "limit"),
    [
        ({"done_reason": "length", "eval_count": 512}, "num_predict"),
        ({"done_reason": "length", "eval_count": 100}, "num_ctx"),
        ({"done_reason": "stop", "eval_count": 512}, ""),
    ],
    ids=["cap", "window", "none"],
)
def test_the_limit_that_was_hit_is_named(fake_ollama, model, last, limit):  # chatlas#327
    fake_ollama.says("one two " * 100, **last)
    assert model.chat("Hi").limit == limit


def test_a_cap_spent_on_thinking_is_named(fake_ollama, model):
    fake_ollama.says("", thinking="well, " * 50, done_reason="length", eval_count=512)
    assert model.chat("Hi").limit == "thinking"


def test_format_carries_the_schema(fake_ollama, model):
    fake_ollama.says('{"city": "Oslo"}')
    reply = model.chat("Hi", schema=CITY)
    assert fake_ollama.requests[0]["format"] == CITY
    assert reply.fault is None


@pytest.mark.parametrize("said", ["Oslo", '{"town": "Oslo"}', '{"city": 3}'], ids=["prose", "missing", "type"])
def test_schema_not_honoured_is_the_servers_fault(fake_ollama, model, said):  # ollama#15260, ollama#8063
    fake_ollama.says(said)
    reply = model.chat("Hi", schema=CITY)
    assert (reply.fault.kind, reply.text) == ("schema_not_honoured", said)


def test_text_cut_by_the_cap_does_not_break_the_schema(fake_ollama, model):
    fake_ollama.says('{"city": "Os', done_reason="length", eval_count=512)
    assert model.chat("Hi", schema=CITY).fault is None


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"properties": []}, "json"], ids=str)
def test_a_broken_schema_never_reaches_the_server(fake_ollama, model, schema):  # ollama#8543
    with pytest.raises(ConfigError, match="schema"):
        model.chat("Hi", schema=schema)
    assert fake_ollama.requests == []


@pytest.mark.parametrize("counted", [2048, 1026, 1023, 2047], ids=["window", "half + 2", "half - 1", "window - 1"])
def test_a_silently_cut_prompt_is_an_overflow(fake_ollama, model, counted):  # ollama#17889, #17427, #4079
    fake_ollama.knows_truncate = False
    fake_ollama.says("What do you mean?", prompt_eval_count=counted)
    reply = model.chat("The rain in Spain stays mainly in the plain. " * 300, options={"num_ctx": 2048})
    assert (reply.fault.kind, reply.finish_reason) == ("overflow", "overflow")
    assert f"read {counted} tokens" in reply.fault.message


def test_an_honest_prompt_is_no_overflow(fake_ollama, model):
    fake_ollama.says("Yes.", prompt_eval_count=1030)
    assert model.chat("The rain in Spain stays mainly in the plain. " * 92, options={"num_ctx": 2048}).fault is None


def test_think_that_was_not_honoured_is_noted(fake_ollama, model):  # ollama#13154
    fake_ollama.says("<think>Hm.</think>Yes.")
    reply = model.chat("Hi", options={"think": False})
    assert reply.text == "<think>Hm.</think>Yes."
    assert "think=False was not honoured" in reply.raw["notes"][0]


def test_hidden_thinking_is_noted(fake_ollama, model):  # ollama#17588
    fake_ollama.says("Yes.", eval_count=300)
    assert "hidden thinking" in model.chat("Hi").raw["notes"][0]


def test_a_changed_window_is_noted(fake_ollama, model):  # aider#3594, ollama#7773
    fake_ollama.says("a").says("b").says("c")
    assert model.chat("Hi").raw["notes"] == []
    assert "num_ctx changed from 8192 to 4096" in model.chat("Hi", options={"num_ctx": 4096}).raw["notes"][0]


def test_model_that_is_not_pulled(fake_ollama):
    with (
        load_model("ollama/qwen3:8b") as model,
        pytest.raises(ModelNotFoundError, match=r"'ollama/qwen3:4b'.*ollama pull qwen3:8b.*Found: qwen3:4b"),
    ):
        model.chat("Hi")


def test_check_finds_a_model_that_is_not_pulled_before_any_request(fake_ollama):
    with load_model("ollama/llama3.2") as model, pytest.raises(ModelNotFoundError, match=r"ollama pull llama3\.2"):
        model.check()
    assert fake_ollama.requests == []


@pytest.fixture
def dead_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize("ask", [lambda m: m.chat("Hi"), lambda m: m.check(), lambda m: m.fingerprint()])
def test_no_server(dead_port, ask):
    with (
        load_model("ollama/qwen3:4b", host=f"http://user:secret@127.0.0.1:{dead_port}") as model,
        pytest.raises(ModelNotFoundError, match=r"No Ollama server answers at http://127.0.0.1.*ollama serve") as error,
    ):
        ask(model)
    assert "secret" not in str(error.value)


def test_broken_variable_is_said_without_a_traceback():
    # in a process of its own, for the official client reads the variable once, on import
    code = (
        "from toolkit.errors import ModelNotFoundError\nfrom toolkit.models import list_models, load_model\n"
        "try:\n    load_model('ollama/x').check()\nexcept ModelNotFoundError as error:\n    print(error)\n"
        "print(list_models()[-1].state)"
    )
    environment = {**os.environ, "OLLAMA_HOST": "http://[bad"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    line = "'http://[bad' is no address of an Ollama server (Invalid IPv6 URL). Set OLLAMA_HOST.\n"
    assert (done.stdout, done.stderr) == (line * 2, "")


def test_lone_surrogates_reach_the_server_as_question_marks(fake_ollama):
    fake_ollama.says("x")
    with load_model("ollama/qwen3:4b") as model:
        assert model.chat("Hi \ud83d").fault is None
    assert fake_ollama.requests[0]["messages"][0]["content"] == "Hi ?"


def test_host_that_is_no_address():
    with (
        load_model("ollama/x", host="http://127.0.0.1:notaport") as model,
        pytest.raises(ModelNotFoundError, match="address"),
    ):
        model.chat("Hi")


def test_fingerprint_names_digest_and_server_and_is_cached(fake_ollama, model):  # ollama#586
    expected = {
        "backend": "ollama", "name": "ollama/qwen3:4b", "digest": fake_ollama.model().digest,
        "server": "ollama 0.32.15",
    }  # fmt: skip
    assert model.fingerprint() == model.fingerprint() == expected
    assert sorted(fake_ollama.looks) == ["/api/show", "/api/tags", "/api/version"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"capabilities": ["completion", "tools"]}, True),
        ({"capabilities": ["completion"]}, False),  # ollama#12115
        ({"template": "{{ if .Tools }}"}, True),  # ollama-python#494
        ({"template": "{{ .Prompt }}"}, False),
        ({}, False),
    ],
    ids=["says so", "says not", "old server, template", "old server, no template", "nothing"],
)
def test_supports_tools(fake_ollama, model, facts, expected):
    fake_ollama.model().shows = facts
    assert model.supports_tools is expected


def test_three_windows(fake_ollama, model):  # ollama#2732, ollama-python#538
    fake_ollama.model().trained = 40960
    assert model.contexts() == {"trained": 40960, "configured": 8192, "loaded": None}
    fake_ollama.says("x")
    model.chat("Hi", options={"num_ctx": 4096})
    assert model.contexts()["loaded"] == 4096


def test_what_answers_is_no_ollama(httpserver):
    httpserver.expect_request("/api/tags").respond_with_data("<html>")
    server = OllamaServer(httpserver.url_for(""))
    with pytest.raises(ModelNotFoundError, match="no Ollama server"):
        server.models()
    server.close()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a", "a:latest", True),
        ("a:1b", "a", False),
        ("hf.co/u/m:Q4", "hf.co/u/m:q4", True),
        ("x:5000/a", "x:5000/a:latest", True),
    ],
)  # fmt: skip
def test_same_model(one, other, same):
    assert same_model(one, other) is same


def test_many_threads_share_one_model(fake_ollama, model):
    for _ in range(8):
        fake_ollama.says("Hello there!")
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(model.chat("Hi").text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["Hello there!"] * 8


def loop(*before: str, times: int = 31, key: str = "content"):
    return [{"message": {"role": "assistant", key: text}, "done": False} for text in [*before, *["1"] * times]]


@pytest.mark.parametrize("key", ["content", "thinking"])
def test_a_loop_that_the_server_gave_up_is_cut_at_its_length(fake_ollama, model, key):  # ollama#8786
    fake_ollama.sends(*loop("The ", "code ", key=key))
    reply = model.chat("Which code?")
    assert (reply.finish_reason, reply.limit, reply.fault) == ("length", "loop", None)
    assert (reply.text or reply.thinking).startswith("The code 111")


def test_a_few_equal_pieces_and_no_end_are_no_loop(fake_ollama, model):
    fake_ollama.sends(*loop("The ", times=9))
    assert model.chat("Which code?").fault.kind == "server"


def test_a_call_that_came_with_the_cap_is_not_run(fake_ollama, model):  # tools.native.cut_after_arguments
    call = {"id": "c1", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
    fake_ollama.sends(*called(call, done_reason="length", eval_count=25))
    reply = model.chat("Go.", tools=[NESTED], options={"num_predict": 25})
    assert (reply.tool_calls, reply.limit) == ((), "num_predict")
    assert reply.raw["invalid_tool_calls"][0]["name"] == "weather"


@pytest.mark.parametrize(("counted", "fault"), [(40, "parse"), (1, None)])
def test_an_empty_reply_with_tools_lost_a_call(fake_ollama, model, counted, fault):  # issue 12, l04
    fake_ollama.says(eval_count=counted)
    reply = model.chat("Read a.log", tools=[NESTED])
    assert (reply.fault and reply.fault.kind) == fault
    assert (reply.fault is None) or "40 tokens" in reply.fault.message


def test_an_empty_reply_for_which_tokens_were_counted_is_noted(fake_ollama, model):
    fake_ollama.says(eval_count=3)
    assert any("3 tokens were written" in note for note in model.chat("Hi").raw["notes"])


def test_two_calls_of_one_id_get_two(fake_ollama, model):
    calls = [{"id": "same", "function": {"name": "f", "arguments": {"x": n}}} for n in (1, 2)]
    fake_ollama.sends(*called(*calls))
    made = model.chat("Hi", tools=[NESTED]).tool_calls
    assert [call.arguments["x"] for call in made] == [1, 2]
    assert len({call.id for call in made}) == 2


def test_only_line_feeds_end_a_line(fake_ollama, model):  # modaic#188
    text = "low\u0085tide\u2028and\u2029\x0b\x0c\x1c\x1d\x1ehigh"
    pieces = [{"message": {"content": text}, "done": False}, {"message": {"content": ""}, "done": True}]
    fake_ollama.sends(*(json.dumps(piece, ensure_ascii=False) + "\r" for piece in pieces))
    assert model.chat("Hi").text == text


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_a_reply_that_only_loaded_is_a_fault(fake_ollama, model, reason):  # oh-my-pi#7465
    fake_ollama.says("", done_reason=reason)
    reply = model.chat("Hi")
    assert (reply.fault.kind, reply.finish_reason) == ("server", "error")


def test_tokens_from_the_cache_are_counted(fake_ollama, model):  # ollama#17943
    fake_ollama.says("x", prompt_eval_count=900, prompt_eval_cached_count=850)
    reply = model.chat("Hi")
    assert (reply.prompt_tokens, reply.cached_tokens) == (900, 850)


BUSY = "server busy, please try again.  maximum pending requests exceeded"


def test_a_busy_server_is_waited_for(fake_ollama, model):  # prompt-declaration-language#702
    fake_ollama.fails(503, BUSY).fails(503, BUSY).says("Hello.")
    reply = model.chat("Hi")
    assert (reply.text, reply.fault, len(fake_ollama.requests)) == ("Hello.", None, 3)


def test_a_server_that_stays_busy_is_given_up(fake_ollama, model):
    fake_ollama.fails(503, BUSY).fails(503, BUSY)
    assert model.chat("Hi", options={"timeout_s": 0.1}).fault.kind == "server"
    assert len(fake_ollama.requests) == 1


@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (400, '"qwen3:4b" does not support thinking', "leave the option think unset"),
        (400, {"message": "Multimodal data provided, but model does not support multimodal requests."}, "no images"),
        (500, json.dumps({"error": {"message": "image input is not supported - hint: mmproj"}}), "no images"),
        (400, "illegal base64 data at input byte 0", "no Base64"),
    ],
)
def test_what_a_model_cannot_do_is_the_users_to_mend(fake_ollama, model, status, said, hint):
    fake_ollama.fails(status, said)
    with pytest.raises(UserError, match=hint):
        model.chat("Hi")


PIXEL = "iVBORw0KGgo="


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "What is it?", "images": [PIXEL]},
        {"role": "user", "content": [{"type": "text", "text": "What is it?"},
                                     {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]},
        {"role": "user", "content": ["What is it?", {"type": "image", "base64": PIXEL, "mime_type": "image/png"}]},
        {"role": "user", "content": ["What is it?", {"type": "image", "source": {
            "type": "base64", "media_type": "image/png", "data": PIXEL}}]},
    ],
    ids=["ollama", "openai", "langchain", "anthropic"],
)  # fmt: skip
@pytest.mark.parametrize("arm", ["native", "prompted"])
def test_images_reach_the_server_and_the_key(fake_ollama, model, message, arm):  # agent-os#2392
    fake_ollama.model().vision = True
    fake_ollama.says("A cat.")
    sent = request(Recipe("ollama/qwen3:4b", arm=arm, protocol="hermes"), [message], [NESTED])
    sent.send(model)
    wire = fake_ollama.requests[0]["messages"][-1]
    assert (wire["content"], wire["images"]) == ("What is it?", [PIXEL])
    assert PIXEL in json.dumps(ChatRequest(Options(), messages=sent.messages).to_dict())


def test_thinking_goes_back_within_its_loop_only(fake_ollama, model):  # ollama-python#533
    call = ToolCall("weather", {"city": "Oslo"}, "c1")
    thought = ChatMessage(ChatRole.ASSISTANT, (ReasoningContent("First Oslo."), call))
    loop = [ChatMessage.from_user("Weather?"), thought, ChatMessage.from_tool("sun", call)]
    for said in (loop, [*loop, ChatMessage.from_assistant("Sun."), ChatMessage.from_user("And now?")]):
        fake_ollama.says("x", prompt_eval_count=40)
        model.chat(said)
    assert [body["messages"][1].get("thinking") for body in fake_ollama.requests] == ["First Oslo.", None]


def test_a_reason_without_done_is_an_end(fake_ollama, model):  # ollama-vscode#61, ollama#10015
    fake_ollama.sends(
        {"message": {"content": "Hi."}, "done": False}, {"message": {"content": ""}, "done_reason": "stop"}
    )
    reply = model.chat("Hi")
    assert (reply.text, reply.finish_reason, reply.fault) == ("Hi.", "stop", None)


def test_a_proxy_that_the_client_does_not_know_is_no_obstacle(fake_ollama):  # ollama-python#424
    script = "import toolkit as tk; print(tk.load_model('ollama/qwen3:4b').fingerprint()['digest'])"
    odd = {"ALL_PROXY": "socks9://127.0.0.1:1", "HTTP_PROXY": "socks5h://127.0.0.1:1"}
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, env={**os.environ, **odd}, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == load_model("ollama/qwen3:4b").fingerprint()["digest"]


@pytest.mark.parametrize("indent", [None, 2])
def test_an_answer_in_one_piece_is_read(fake_ollama, model, indent):  # issue 12, o04
    whole = {"message": {"role": "assistant", "content": "Low."}, "done": True, "done_reason": "stop", "eval_count": 2}
    fake_ollama.sends(json.dumps(whole, indent=indent))
    reply = model.chat("Hi")
    assert (reply.text, reply.finish_reason, reply.fault) == ("Low.", "stop", None)
