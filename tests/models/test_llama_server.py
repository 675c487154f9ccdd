"""llama.cpp's own server, as `openai/NAME@URL`: what it says of itself, and what it does otherwise than OpenAI's."""

from __future__ import annotations

import asyncio
import threading

import pytest

from toolkit.errors import ModelNotFoundError, UserError
from toolkit.messages import ChatMessage
from toolkit.models import Store, load_model
from toolkit.models.base import ChatRequest
from toolkit.testing import FakeLlamaServer, FakeModel
from toolkit.tools import as_tools

TOOL = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
OTHER = {"name": "now", "parameters": {"type": "object", "properties": {}}}
CROWDED = {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}


@pytest.fixture
def server(monkeypatch):
    for name in ("TOOLKIT_OPENAI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with FakeLlamaServer(FakeModel("models/a.gguf", "native"), window=512, slots=4) as server:
        server.props, server.keeps_connections = {"build_info": "b10488-abc"}, False
        yield server


@pytest.fixture
def model(server):
    with load_model(f"openai/any@{server.host}/v1") as model:
        yield model


def test_the_fingerprint_names_file_template_build_slots_and_window(model):
    facts = model.fingerprint()
    assert (facts["file"], facts["server"], facts["slots"], facts["window"]) == (
        "models/a.gguf", "llama.cpp b10488-abc", 4, 512,
    )  # fmt: skip
    assert facts["meta"]["n_params"] == 134515008
    assert len(facts["template"]) == 16


@pytest.mark.parametrize("change", [{"model_path": "models/b.gguf"}, {"chat_template": "x"}, {"build_info": "b2"}])
def test_another_model_at_the_same_url_is_not_answered_from_the_store(server, change):
    store = Store(":memory:")
    for text, props in (("one", {}), ("two", change), ("never", change)):
        server.props |= props
        server.says(text)
        reply = store.wrap(load_model(f"openai/any@{server.host}/v1")).chat("Hi")
    assert (reply.text, reply.from_store) == ("two", True)


def test_windows_and_slots(model):
    assert model.contexts() == {"trained": 8192, "configured": 512, "loaded": 512}
    assert model.slots == 4


def test_tools_that_the_template_would_drop_are_not_sent(server, model):
    server.model().tools = False
    assert model.supports_tools is False
    assert model.chat("Hi", tools=[TOOL]).fault.kind == "tools_unsupported"
    assert server.requests == []


def test_a_tool_by_name_is_offered_alone_and_required(server, model):
    server.says("x")
    model.chat("Hi", tools=[TOOL, OTHER], tool_choice="now")
    assert [tool["function"]["name"] for tool in server.requests[0]["tools"]] == ["now"]
    assert server.requests[0]["tool_choice"] == "required"


def test_patterns_are_those_of_its_grammar(server, model):
    server.says('"7"')
    assert model.chat("Hi", schema={"type": "string", "pattern": r"^\d$"}).fault is None
    assert server.requests[0]["response_format"]["json_schema"]["schema"]["pattern"] == "^[0-9]$"


def test_patterns_of_tools_do_not_make_it_refuse_all(model):  # openclaw#113562, ollama#18226, pi-oracle#5
    patterns = {"any": r".*\S.*", "path": r"^(?!\.\.?(?:\/|$))[\w\-]{1,9}$", "pattern": r"^\/a$"}
    properties = {name: {"type": "string", "pattern": pattern} for name, pattern in patterns.items()}
    tools = as_tools([{"name": "f", "parameters": {"type": "object", "properties": properties}}])
    _, body = model.body(ChatRequest(model.defaults, None, [ChatMessage.from_user("Hi")], tools))
    shown = body["tools"][0]["function"]["parameters"]["properties"]
    assert shown["path"] == {"type": "string"}
    assert shown["pattern"]["pattern"] == "^/a$"
    assert shown["any"]["pattern"].startswith("^")


@pytest.mark.parametrize("counted", [100, 9, 10_000])
def test_no_alarm_where_the_server_never_cuts(server, model, counted):
    server.window = 8192
    for text in ("中文" * 300, '{"a": 1}' * 100, "The rain in Spain stays mainly in the plain. " * 300):
        server.says("x", prompt_tokens=counted, completion_tokens=2)
        assert model.chat(text).fault is None


def test_only_a_prompt_that_is_too_long_is_an_overflow(server, model):
    long = {"code": 400, "message": "request (710 tokens) exceeds the available context size (512 tokens)",
            "type": "exceed_context_size_error", "n_prompt_tokens": 710, "n_ctx": 512}  # fmt: skip
    server.fails(400, {"error": long})
    fault = model.chat("Hi").fault
    assert (fault.kind, fault.prompt_tokens, fault.window) == ("overflow", 710, 512)
    for _ in range(3):
        server.fails(500, CROWDED)
    assert model.chat("Hi").fault.kind == "server"


def test_requests_that_filled_the_shared_window_together_are_asked_again(server, model):
    part = {"choices": [{"delta": {"content": "The"}}]}
    server.sends(part, CROWDED).says("The harbour.")
    reply = model.chat("Hi")
    assert (reply.text, reply.fault, len(server.requests)) == ("The harbour.", None, 2)


def test_after_a_shared_window_was_full_requests_go_one_at_a_time(server, model):
    most, now, lock = [0], [0], threading.Lock()

    def slow(_):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.05)
        with lock:
            now[0] -= 1
        return "x"

    server.fails(500, CROWDED)
    server.says("x")
    model.chat("Hi")
    server.follows(slow)
    threads = [threading.Thread(target=model.chat, args=("Hi",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1


def test_a_server_that_still_loads_is_waited_for(server, model):
    server.fails(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})
    server.says("Hello.")
    assert model.chat("Hi").text == "Hello."


@pytest.mark.parametrize(
    "found", ["404 page not found", '{"detail": "Not Found"}', '{"error": {"message": "File Not Found"}}']
)
def test_a_url_without_v1_is_named(server, found):  # aichat#1100
    server.fails(404, found.encode())
    with pytest.raises(ModelNotFoundError, match=r"End the URL in /v1: http.*/v1") as caught:
        load_model(f"openai/m@{server.host}").chat("Hi")
    assert "has no model" not in str(caught.value)


def test_a_raw_prompt_at_a_url_without_v1_is_no_empty_reply(server):
    server.says(" Paris")
    with pytest.raises(ModelNotFoundError, match=r"End the URL in /v1"):
        load_model(f"openai/m@{server.host}").complete("The capital of France is")


def test_a_raw_prompt_behind_ollama_is_refused(server, model):
    server.sends({"choices": [{"text": "x", "finish_reason": "stop"}], "system_fingerprint": "fp_ollama"})
    with pytest.raises(UserError, match="Load 'ollama/any'"):
        model.complete("x")


def test_a_wrong_key_is_found_by_the_check(server):
    server.api_key = "sk-other"  # the list needs no key, `/props` does
    with pytest.raises(UserError, match="refuses the key"):
        load_model(f"openai/any@{server.host}/v1").check()


def test_a_call_that_broke_the_grammar_is_the_models(server, model):  # scripted.hermes.13
    server.says(pieces=["<tool_call>", "\n{'"])
    assert model.chat("Hi", tools=[TOOL]).fault.kind == "parse"


async def _aborted(model):
    stream = model.astream("Hi")
    task = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.2)
    task.cancel()
    return (await asyncio.gather(task, return_exceptions=True))[0]


def test_an_aborted_stream_raises_the_cancellation(server, model):
    gate = threading.Event()
    server.says(gate=gate)
    try:
        assert isinstance(asyncio.run(_aborted(model)), asyncio.CancelledError)
    finally:
        gate.set()
