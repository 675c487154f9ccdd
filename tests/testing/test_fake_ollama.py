"""What no recording shows of the fake Ollama server: its script, its faults, waiting and leaving, other models."""

from __future__ import annotations

import json
import threading
import time
from itertools import pairwise

import httpx
import ollama
import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit as tk
from toolkit.testing import FakeModel, FakeOllama, ScriptedReply
from toolkit.testing.builtin_parsers import CoderReader, Qwen3Reader
from toolkit.testing.parsers import GenericReader, LlamaReader, ParserError, ThinkingReader
from toolkit.testing.script import tokens

TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "Tell it.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}},
}  # fmt: skip
HI = [{"role": "user", "content": "Hi"}]
ROADS = [FakeModel("native", "native"), FakeModel("go"), FakeModel("builtin", "builtin")]


@pytest.fixture
def server():
    with FakeOllama([*ROADS, FakeModel("nomic", dimensions=16)]) as server:
        yield server


@pytest.fixture
def client(server):
    with httpx.Client() as held:
        client = ollama.Client(server.host)
        client._client.close()
        client._client = held
        held.base_url = server.host
        yield client


@pytest.mark.parametrize("road", ["native", "go", "builtin"])
def test_calls_come_back_on_every_road(server, client, road):
    server.says(calls=[("weather", {"city": "Oslo", "days": 2})], model=road)
    message = client.chat(road, HI, tools=[TOOL])["message"]
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == [
        ("weather", {"city": "Oslo", "days": 2})
    ]


@pytest.mark.parametrize(("road", "keys"), [("native", ["a", "z"]), ("go", ["z", "a"]), ("builtin", ["z", "a"])])
def test_llama_cpp_sorts_the_keys_of_a_schema(server, client, road, keys):
    server.says("Prose.", held={"z": 1, "a": 2}).says("Prose.", held={"z": 1, "a": 2})
    schema = {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "integer"}}}
    assert list(json.loads(client.chat(road, HI, format=schema)["message"]["content"])) == keys
    assert client.chat(road, HI)["message"]["content"] == "Prose."


def test_the_rest_of_the_native_api(server, client):
    assert {model.model for model in client.list().models} == {
        f"{name}:latest" for name in ("native", "go", "builtin", "nomic")
    }
    assert [line.status for line in client.pull("qwen3:0.6b", stream=True)][-1] == "success"
    client.copy("qwen3:0.6b", "mine")
    assert client.show("mine").capabilities == ["completion", "tools"]
    client.delete("mine")
    with pytest.raises(ollama.ResponseError, match="'mine' not found"):
        client.chat("mine", HI)
    vectors = client.embed("nomic", ["one two", "two one"]).embeddings
    assert vectors[0] == vectors[1]
    assert sum(value * value for value in vectors[0]) == pytest.approx(1)
    server.says("Once more.")
    assert client.generate("go", "Say it.")["response"] == "Once more."
    assert [model.model for model in client.ps().models] == ["go:latest"]


def test_a_modelfile_takes_part(server, client):
    client.create("brief", from_="go", system="Be brief.", parameters={"num_predict": 2})
    server.says("One two three.")
    reply = client.chat("brief", HI)
    assert (reply["message"]["content"], reply["done_reason"]) == ("One two", "length")


# loading and waiting


@pytest.mark.parametrize(
    ("first", "second", "loads"),
    [
        ({}, {}, 1),
        ({"num_ctx": 512}, {"num_ctx": 640}, 2),
        ({"temperature": 0}, {"temperature": 1}, 1),
        ({"num_thread": 1}, {"num_thread": 2}, 2),
        ({"num_ctx": 99_999}, {"num_ctx": 8192}, 1),
    ],
    ids=["same", "window", "sampling", "threads", "both above the trained window"],
)
def test_what_loads_a_model_anew(server, client, first, second, loads):
    for options in (first, second):
        server.says("x")
        client.chat("go", HI, options=options)
    assert server.runners.loads == ["go:latest"] * loads


def test_a_model_goes_when_its_time_is_up(server, client):
    server.says("x").says("y")
    client.chat("go", HI, keep_alive=0.05)
    assert len(client.ps().models) == 1
    time.sleep(0.1)
    assert client.ps().models == []
    client.chat("go", HI)
    assert server.runners.loads == ["go:latest"] * 2


def in_the_background(call, *args, **more):
    found = []
    thread = threading.Thread(target=lambda: found.append(call(*args, **more)))
    thread.start()
    return thread, found


@pytest.mark.parametrize(("parallel", "at_once"), [(1, False), (2, True)])
def test_requests_wait_for_a_slot(server, client, parallel, at_once):
    server.runners.parallel = parallel
    gate, second = threading.Event(), threading.Event()
    server.follows(lambda body: second.set() or "two")
    server.says("one", gate=gate)
    thread, found = in_the_background(client.chat, "go", HI)
    assert server.asked.wait(5)
    other, _ = in_the_background(client.chat, "go", HI)
    assert second.wait(0.3) == at_once
    gate.set()
    for each in (thread, other):
        each.join()
    assert found[0]["message"]["content"] == "one"


def test_a_client_that_leaves_frees_its_slot(server, client):
    server.says("one two three", gate=threading.Event()).says("next")
    with httpx.stream("POST", f"{server.host}/api/chat", json={"model": "go", "messages": HI}) as answer:
        next(answer.iter_lines())
    assert server.left.wait(5)
    assert client.chat("go", HI)["message"]["content"] == "next"


def test_waiting_for_a_slot_is_in_the_whole_time_only(server, client):
    server.says("x", delay_s=0.1).says("y", delay_s=0.05)
    thread, _ = in_the_background(client.chat, "go", HI)
    assert server.asked.wait(5)
    reply = client.chat("go", HI)
    thread.join()
    waited = reply["total_duration"] - reply["load_duration"] - reply["eval_duration"]
    assert waited > 100e6 > reply["load_duration"]
    assert reply["eval_duration"] > 90e6


# faults


def test_a_runner_that_dies_is_replaced(server, client):
    server.says("one two three", dies_after=2).says("again")
    with pytest.raises(ollama.ResponseError, match="unexpected EOF"):
        client.chat("go", HI)
    assert client.chat("go", HI)["message"]["content"] == "again"
    assert server.runners.loads == ["go:latest"] * 2


def test_a_restart_breaks_off_and_comes_back(server, client):
    server.says("one two three", cut_after=1, down_s=0.2).says("again")
    with pytest.raises(httpx.RemoteProtocolError):
        list(client.chat("go", HI, stream=True))
    with pytest.raises(ConnectionError):
        client.chat("go", HI)
    while not server.running:
        time.sleep(0.01)
    assert client.chat("go", HI)["message"]["content"] == "again"
    assert server.runners.loads == ["go:latest"]  # what was loaded went with the server


def test_a_fault_can_wait_for_its_request(server, client):
    server.follows(lambda body: "fine").fails(500, "no space left on device", at=2).sends("{oops", at=3)
    assert client.chat("go", HI)["message"]["content"] == "fine"
    with pytest.raises(ollama.ResponseError, match="no space left"):
        client.chat("go", HI)
    with pytest.raises(json.JSONDecodeError):
        list(client.chat("go", HI, stream=True))
    assert client.chat("go", HI)["message"]["content"] == "fine"


def test_a_refused_request_takes_no_reply(server, client):
    server.says("mine")
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        client.chat("go", HI, think=True)
    with pytest.raises(ollama.ResponseError, match="exceeds the available context size"):
        httpx_chat(server, "go", "word " * 900, truncate=False, options={"num_ctx": 256})
    assert client.chat("go", HI)["message"]["content"] == "mine"


def httpx_chat(server, model, text, **more):
    body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": False, **more}
    answer = httpx.post(f"{server.host}/api/chat", json=body)
    if answer.status_code != 200:
        raise ollama.ResponseError(answer.json()["error"], answer.status_code)
    return answer.json()


def test_a_script_that_has_ended_says_so(server, client):
    with pytest.raises(ollama.ResponseError, match="the script has ended"):
        client.chat("go", HI)


def test_a_mistake_in_a_script_can_be_read(server, client):
    server.models["odd:latest"] = {"capabilities": []}
    with pytest.raises(ollama.ResponseError, match="'dict' object has no attribute"):
        client.chat("odd", HI)


def test_an_older_server_passes_over_truncate(server):
    server.knows_truncate = False
    server.says("x")
    reply = httpx_chat(server, "go", "word " * 900, truncate=False, options={"num_ctx": 256})
    assert reply["prompt_eval_count"] == 130


def test_the_toolkit_runs_an_agent_over_it(server, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", server.host)
    server.keeps_connections = False
    server.says(calls=[("tell", {"city": "Oslo"})]).says("It is sunny.")

    def tell(city: str) -> str:
        """Tell the weather of a city."""
        return f"sunny in {city}"

    run = tk.Agent("ollama/go", tools=[tell], arm="native").run("Weather in Oslo?")
    assert run.text == "It is sunny."
    assert server.requests[1]["messages"][-1]["content"] == "sunny in Oslo"


def test_a_call_that_comes_with_text_in_one_token_is_lost(server, client):
    call = '<tool_call>{"name": "weather", "arguments": {}}</tool_call>'
    server.says(pieces=[f"Look. {call}"])
    message = client.chat("go", HI, tools=[TOOL])["message"]
    assert (message.content, message.tool_calls) == ("Look. ", None)


def test_the_runner_rounds_its_window_up(server):
    server.says("x")
    small = {"truncate": False, "options": {"num_ctx": 100}}
    assert httpx_chat(server, "go", "word " * 150, **small)["done_reason"] == "stop"
    with pytest.raises(ollama.ResponseError, match="'n_ctx': 256"):
        httpx_chat(server, "go", "word " * 300, **small)


# readers


@given(st.text())
def test_tokens_are_the_text(text):
    assert "".join(tokens(text)) == text


READERS = {
    "generic": (lambda: GenericReader("<tool_call>", ["weather"]),
                'Look. \n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'),
    "brace": (lambda: GenericReader("{", ["weather"]), '{"name": "weather", "parameters": {"city": "Oslo"}}'),
    "qwen3": (lambda: Qwen3Reader([TOOL]),
              'Look.\n<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call> Done.'),
    "coder": (lambda: CoderReader([TOOL]),
              "Look.<tool_call>\n<function=weather>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>x"),
    "llama": (lambda: LlamaReader(["weather"]),
              '3 < 4 <tool_call>\n{"name": "weather", "arguments": {"city": "Os\\"lo"}}\n</tool_call>'
              '\n<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'),
    "thinking": (lambda: ThinkingReader(GenericReader("<tool_call>", ["weather"])),
                 "<think>\nHm < a.\n</think>\n\nYes."),
}  # fmt: skip


def read(reader, pieces):
    """Return what comes, text and thinking joined, arguments joined for each call."""
    found = []
    for event in [event for piece in pieces for event in reader.feed(piece)] + list(reader.close()):
        if found and event[0] in ("text", "thinking") and found[-1][0] == event[0]:
            found[-1] = (event[0], found[-1][1] + event[1])
        elif event[0] == "delta" and found and found[-1][:2] == event[:2]:
            found[-1] = (*found[-1][:3], found[-1][3] + event[3])
        else:
            found.append(event)
    return found


@pytest.mark.parametrize("name", READERS)
@given(cuts=st.sets(st.integers(1, 150)))
def test_how_a_text_is_cut_does_not_change_what_is_read(name, cuts):
    make, text = READERS[name]
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole = read(make(), list(text))
    assert read(make(), pieces) == whole
    assert len(whole) >= 1


def test_replies_may_be_made_by_hand(server, client):
    server.follows(lambda body: ScriptedReply(f"{len(body['messages'])} messages"))
    assert client.chat("go", HI * 3)["message"]["content"] == "3 messages"


# public reports


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param("<function=f>\n<parameter=a>x</function>", "line 2: element <parameter> closed by </function>",
                     id="ollama#18563, ollama#17276"),
        pytest.param("\n<function=f>\n<parameter=a>\nx\n", "line 5: unexpected EOF", id="ollama#14834, ollama#17914"),
        pytest.param("<function=f>\n</parameter>", "line 2: element <function> closed by </parameter>",
                     id="ollama#16810"),
        pytest.param("<parameter=a>x</parameter>", "expected element type <function> but have <parameter>",
                     id="continue#10896"),
        pytest.param('{"name": "f"}', "EOF", id="JSON in place of XML"),
    ],
)  # fmt: skip
def test_errors_of_the_xml_parser(body, error):
    with pytest.raises(ParserError, match=error):
        list(CoderReader([]).feed(f"<tool_call>{body}</tool_call>"))


def test_a_call_without_its_wrapper_stays_text():
    """ollama#17353, ollama#18532: the parser looks for the wrapper only."""
    text = "I look. <function=f><parameter=a>x</parameter></function>"
    assert read(CoderReader([]), [text]) == [("text", text)]


def test_a_call_of_another_name_is_lost_and_only_counted(server, client):
    """ollama#17274: empty content, no call, `stop`; the count alone tells."""
    server.says(calls=[("open_door", {"city": "Oslo"})])
    reply = client.chat("go", HI, tools=[TOOL])
    assert (reply["message"]["content"], reply["message"].get("tool_calls"), reply["done_reason"]) == ("", None, "stop")
    assert reply["eval_count"] > 10


def test_arguments_before_the_name_are_read(server, client):
    """ollama#11505: the name is looked for anywhere."""
    server.says('<tool_call>{"arguments": {"city": "Oslo"}, "name": "weather"}</tool_call>')
    assert client.chat("go", HI, tools=[TOOL])["message"]["tool_calls"][0]["function"]["arguments"] == {"city": "Oslo"}


@pytest.mark.parametrize("said", ["😊" * 40, "." + " ." * 40], ids=["ollama#18374", "ollama#14117"])
def test_a_loop_ends_without_a_last_piece_where_ollama_reads(server, client, said):
    for name, done in (("go", False), ("native", True)):
        server.says(pieces=tokens(said) if "." in said else list(said), model=name)
        assert client.chat(name, HI)["done"] is done


def test_tokens_of_which_nothing_is_shown_count_as_a_loop(server, client):
    """ollama#17270, ollama#17360: what may begin a stop string is an empty piece, and these are equal."""
    server.model("go").parameters = {"stop": ["a" * 99]}
    server.says(pieces=["a"] * 40)
    assert list(client.chat("go", HI, stream=True)) == []


def test_a_pull_onto_a_full_disk_fails_in_the_middle(server, client):
    """ollama#1731, ollama#15547, basdonax-ai-rag#1."""
    server.catalogue.disk_full = True
    with pytest.raises(ollama.ResponseError, match="no space left on device"):
        list(client.pull("qwen3:0.6b", stream=True))
    assert server.model("qwen3:0.6b") is None


def test_the_queue_counts_no_requests_for_a_loaded_model(server, client):
    """ollama#7758: OLLAMA_MAX_QUEUE=1 refuses none of six requests for one model."""
    server.runners.most_waiting = 1
    server.follows(lambda body: ScriptedReply("x", delay_s=0.01))
    client.chat("go", HI)
    running = [in_the_background(client.chat, "go", HI) for _ in range(6)]
    for thread, _ in running:
        thread.join()
    assert [found[0]["message"]["content"] for _, found in running] == ["x"] * 6
