"""What no recording shows of the fake of llama.cpp's server: whole answers with calls, thinking, slots, faults."""

from __future__ import annotations

import threading

import httpx
import pytest

import toolkit as tk
from toolkit.testing import FakeLlamaServer, FakeModel

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}  # fmt: skip
HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def server():
    with FakeLlamaServer() as server:
        yield server


def chat(server, **more):
    return httpx.post(f"{server.host}/v1/chat/completions", json={"messages": HI, **more})


def test_a_whole_answer_with_a_call(server):
    server.says("Look. ", calls=[("weather", {"city": "Oslo"})])
    answer = chat(server, tools=[TOOL]).json()
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Look. "
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert answer["usage"]["total_tokens"] == sum(
        answer["usage"][key] for key in ("prompt_tokens", "completion_tokens")
    )


@pytest.mark.parametrize(("parses", "thinking", "text"), [(True, "Hm.", "Yes."), (False, "", "<think>Hm.</think>Yes.")])
def test_thinking_is_split_off_where_the_template_has_a_format_for_it(parses, thinking, text):
    model = FakeModel("m.gguf", "native", thinking=True, parses_thinking=parses)
    with FakeLlamaServer(model) as server, tk.load_model(f"openai/m@{server.host}/v1") as client:
        server.says("Yes.", thinking="Hm.")
        reply = client.chat("Hi")
    assert (reply.thinking, reply.text) == (thinking, text)


def test_a_third_request_waits_for_one_of_two_slots():
    with FakeLlamaServer(slots=2) as server:
        gate = threading.Event()
        server.says("a", gate=gate).says("b", gate=gate).says("c")
        threads = [threading.Thread(target=chat, args=(server,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(server.used) < 2:
            gate.wait(0.005)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.host}/v1/chat/completions", json={"messages": HI}, timeout=0.1)
        assert [slot["is_processing"] for slot in httpx.get(f"{server.host}/slots").json()] == [True, True]
        gate.set()
        for thread in threads:
            thread.join()
        assert chat(server).json()["choices"][0]["message"]["content"] == "c"


def test_the_second_request_finds_the_start_of_its_prompt_in_the_cache(server):
    server.follows(lambda body: "x")
    cached = [chat(server, cache_prompt=cache).json()["timings"]["cache_n"] for cache in (True, True, False)]
    assert cached[0] == cached[2] == 0 < cached[1]


def test_a_connection_that_breaks_and_a_server_that_goes(server):
    server.says("one two three", cut_after=2).says("again")
    with pytest.raises(httpx.RemoteProtocolError):
        chat(server, stream=True)
    assert chat(server).json()["choices"][0]["message"]["content"] == "again"
    server.stop()
    with pytest.raises(httpx.ConnectError):
        chat(server)


def test_the_toolkit_calls_tools_over_it(server):
    server.says(calls=[("tell", {"city": "Oslo"})]).says("Sunny.")

    def tell(city: str) -> str:
        """Tell the weather of a city."""
        return f"sunny in {city}"

    with tk.load_model(f"openai/any@{server.host}/v1") as model:
        assert tk.Agent(model, tools=[tell], arm="native").run("Weather in Oslo?").text == "Sunny."
    assert server.requests[1]["messages"][-1]["content"] == "sunny in Oslo"
