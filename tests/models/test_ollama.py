"""The official client over real HTTP against a fake server that has Ollama's quirks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from toolkit.errors import ConfigError, ModelNotFoundError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models import load_model
from toolkit.models.ollama import OllamaServer, same_model

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
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


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
    assert body["options"] == {"temperature": 0.0, "seed": 0, "num_ctx": 8192, "num_predict": 512}
    assert set(body) == {"model", "messages", "stream", "options"}


@pytest.mark.parametrize("think", [True, False, "low", "high"], ids=str)
def test_think_is_sent_as_given(fake_ollama, model, think):  # ollama#11751
    fake_ollama.says("x")
    model.chat("Hi", options={"think": think})
    assert fake_ollama.requests[0]["think"] is think or fake_ollama.requests[0]["think"] == think


def test_every_option_reaches_its_place(fake_ollama, model):
    fake_ollama.says("x")
    options = {"temperature": 0.7, "seed": 3, "num_ctx": 4096, "num_predict": 9, "top_p": 0.9, "top_k": 20}
    more = {"min_p": 0.1, "repeat_penalty": 1.1, "stop": ["END"], "keep_alive": "10m"}
    model.chat("Hi", options={**options, **more})
    body = fake_ollama.requests[0]
    assert body["options"] == {**options, "min_p": 0.1, "repeat_penalty": 1.1, "stop": ["END"]}
    assert body["keep_alive"] == "10m"


def test_unknown_option_is_refused(model):  # ollama-python#663
    with pytest.raises(ConfigError, match=r"'tool_choise'.*Known"):
        model.chat("Hi", options={"tool_choise": "any"})


def test_tool_schemas_arrive_whole(fake_ollama, model):  # ollama-python#718
    fake_ollama.says("x")
    model.chat("Hi", tools=[NESTED])
    assert fake_ollama.requests[0]["tools"] == [{"type": "function", "function": NESTED}]


def test_calls_get_ids_where_the_server_gives_none(fake_ollama, model):  # ollama#6708
    calls = [{"function": {"name": "f", "arguments": {"x": 1}}}] * 2
    for _ in range(2):
        fake_ollama.says(tool_calls=calls)
    first, again = model.chat("Hi", tools=[NESTED]), model.chat("Hi", tools=[NESTED])
    assert first.finish_reason == "tool_calls"
    assert len({call.id for call in first.tool_calls}) == 2
    assert first.tool_calls == again.tool_calls  # the same request gives the same ids, else replays would miss


def test_ids_of_the_server_are_kept(fake_ollama, model):
    fake_ollama.says(tool_calls=[{"id": "call_x", "function": {"name": "f", "arguments": {}}}])
    assert model.chat("Hi", tools=[NESTED]).tool_calls == (ToolCall("f", {}, "call_x"),)


def test_arguments_as_text_are_read(fake_ollama, model):  # ollama#6155
    fake_ollama.says(tool_calls=[{"function": {"name": "f", "arguments": '{"x": "a\\nb"}'}}])
    assert model.chat("Hi", tools=[NESTED]).tool_calls[0].arguments == {"x": "a\nb"}


def test_unreadable_arguments_are_a_fault_with_their_text(fake_ollama, model):
    fake_ollama.says(tool_calls=[{"function": {"name": "f", "arguments": '{"x": '}}])
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
    assert len(chunks) == 5


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
    assert (body["prompt"], body["raw"], body["options"]["stop"]) == ("Once upon a time", True, ["END"])
    assert reply.text == ", there was "


def test_empty_raw_prompt_is_still_sent(fake_ollama, model):
    fake_ollama.says("x")
    assert model.complete("").text == "x"
    assert fake_ollama.requests[0]["prompt"] == ""


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
    silent = threading.Event()

    def wait(text, gate):
        yield json.dumps({"message": {"role": "assistant", "content": text}}) + "\n"
        silent.set()
        gate.wait(5)

    fake_ollama._dripping = wait
    fake_ollama.drips("Hel", gate)
    reply = model.chat("Hi", options={"timeout_s": 0.2})
    gate.set()
    assert silent.is_set()
    assert (reply.fault.kind, reply.text, reply.finish_reason) == ("timeout", "Hel", "error")


def test_closing_a_stream_closes_the_connection(fake_ollama, model):
    gate = threading.Event()
    fake_ollama.drips("Hel", gate)
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
    fake_ollama.says("word " * 100, **last)
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
        "backend": "ollama", "name": "ollama/qwen3:4b", "digest": "digest of qwen3:4b", "server": "ollama 0.32.15",
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
    fake_ollama.models["qwen3:4b"] = facts
    assert model.supports_tools is expected


def test_three_windows(fake_ollama, model):  # ollama#2732, ollama-python#538
    fake_ollama.models["qwen3:4b"] = {"model_info": {"qwen3.context_length": 40960}}
    assert model.contexts() == {"trained": 40960, "configured": 8192, "loaded": None}
    fake_ollama.loaded = [{"name": "qwen3:4b", "context_length": 4096}]
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
