"""What counts is what the model wrote: raw completion of the server's own prompt where a chat would lose something."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.asking import ask
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage
from toolkit.models import Store, load_model
from toolkit.models.base import ChatRequest, Options
from toolkit.testing import FakeModel, FakeOllama

ROADS = ("native", "go", "builtin")
ORDERED = {
    "type": "object",
    "properties": {"name": {"const": "f"}, "arguments": {"type": "object"}},
    "required": ["name", "arguments"],
}
CODER = "Let me see.\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"
HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def weather(city: str) -> str:
    """Tell the weather."""
    return city


TOOLS = [tk.tool(weather)]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(params=ROADS)
def server(request):
    with FakeOllama([FakeModel("m", road=request.param)]) as server:
        yield server


def recipe(server, arm="prompted", **more):
    return tk.Recipe("ollama/m", arm=arm, **more), load_model("ollama/m", host=server.host)


def taken(server):
    return server.model().road


def test_the_raw_prompt_is_the_one_the_server_would_have_used(server):
    said = [ChatMessage.from_system("Be brief."), ChatMessage.from_user("Hi <b>"), ChatMessage.from_assistant("It")]
    with load_model("ollama/m", host=server.host) as model:
        for tools in (None, TOOLS):
            server.says("x")
            reply = model.chat(said, tools, options={"transport": "raw"})
            rendered, sent = server.requests[-2:]
            assert rendered["_debug_render_only"]
            assert sent["raw"] is True
            assert not sent.keys() & {"messages", "tools", "_debug_render_only"}
            assert sent["prompt"] == model.apply_template(said, tools) == reply.raw["request"]["prompt"]
            assert (reply.text, reply.transport, reply.fault) == ("x", "raw", None)
            assert (sent["truncate"], sent["shift"], sent["think"]) == (False, False, False)
            assert sent["options"] == rendered["options"]  # else the model is loaded anew


WRITTEN = ["", "<", "x <tool_call>", HERMES, CODER, HERMES + " tail", "<tool_call>{broken", "a  ", "<think>a</think>b"]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.one_of(st.sampled_from(WRITTEN), st.text(max_size=40)), tools=st.booleans())
def test_raw_hands_over_every_text_as_it_was_written(server, text, tools):
    with load_model("ollama/m", host=server.host) as model:
        server.reset()
        server.says(text)
        assert model.chat("Hi", TOOLS if tools else None, options={"transport": "raw"}).text == text


@pytest.mark.parametrize("text", [CODER, HERMES, "<tool_call>\n<function=weather>\n<parameter=city>Oslo\n</tool_call>"])
def test_the_prompted_arm_reads_what_the_model_wrote(server, text):
    """ollama#17353, ollama#18530: a built-in parser takes calls out of the text, though no tool was sent."""
    asking, model = recipe(server)
    with model:
        server.says(text)
        asked = ask(asking, "Weather in Oslo?", TOOLS, model)
    assert (asked.reply.text, asked.reply.fault) == (text, None)
    assert asked.reply.transport == ("raw" if taken(server) == "builtin" else "chat")


def test_a_schema_keeps_its_order_on_every_road(server):
    with load_model("ollama/m", host=server.host) as model:
        server.says("", held={"name": "f", "arguments": {}})
        reply = model.chat("Hi", schema=ORDERED)
    assert list(json.loads(reply.text)) == ["name", "arguments"]
    assert reply.transport == ("chat" if taken(server) == "go" else "raw")


def test_a_chat_is_a_chat_where_it_is_asked_for(server):
    asking, model = recipe(server, transport="chat")
    with model:
        server.says("Hello.")
        assert ask(asking, "Hi", TOOLS, model).reply.transport == "chat"
    assert [("messages" in body, body.get("_debug_render_only")) for body in server.requests] == [(True, None)]


def test_a_line_in_a_notebook_is_a_chat_and_looks_at_nothing_first(server):
    with load_model("ollama/m", host=server.host) as model:
        server.says("Hello.")
        assert model.chat("Hi").transport == "chat"
    assert server.looks == []


def test_the_native_arm_stays_with_the_servers_reading_unless_asked(server):
    asking, model = recipe(server, "native")
    text = CODER if taken(server) == "builtin" else HERMES
    with model:
        server.says(text).says(text)
        chat = ask(asking, "Hi", TOOLS, model)
        raw = ask(asking.replace(transport="raw"), "Hi", TOOLS, model)
    assert (chat.reply.transport, chat.extraction.read_from) == ("chat", "native")
    assert (raw.reply.transport, raw.extraction.read_from, raw.reply.text) == ("raw", "text", text)
    assert [c.arguments for c in raw.extraction.calls] == [c.arguments for c in chat.extraction.calls]


def test_a_prompt_too_long_is_refused_with_both_counts(server):
    with load_model("ollama/m", host=server.host, num_ctx=256) as model:
        for tools in (None, TOOLS):
            reply = model.chat("word " * 600, tools, options={"num_ctx": 256, "transport": "raw"})
            assert (reply.fault.kind, reply.fault.window) == ("overflow", 256)
            assert reply.fault.prompt_tokens > 256


def test_a_model_without_tools_is_told_apart_in_raw_too():
    with FakeOllama([FakeModel("m", tools=False)]) as server, load_model("ollama/m", host=server.host) as model:
        assert model.chat("Hi", TOOLS, options={"transport": "raw"}).fault.kind == "tools_unsupported"


def test_an_old_server_answers_the_chat_and_raw_is_refused(monkeypatch, server):
    """Servers before September 2025 pass over `_debug_render_only` and answer the chat."""
    whole = server._answer
    drop = lambda body, *more, **rest: whole({k: v for k, v in body.items() if k[0] != "_"}, *more, **rest)  # noqa: E731
    monkeypatch.setattr(server, "_answer", drop)
    server.follows(lambda body: '{"name": "f", "arguments": {}}')
    with load_model("ollama/m", host=server.host) as model:
        assert model.chat("Hi", schema=ORDERED).transport == "chat"
        with pytest.raises(ConfigError, match="too old to show its prompts. Set transport = 'chat'"):
            model.chat("Hi", options={"transport": "raw"})


def test_images_go_as_a_chat(server):
    """A raw prompt has no place for them that a recording shows."""
    said = {"role": "user", "content": "What is it?", "images": [PIXEL]}
    server.model().vision = True
    with load_model("ollama/m", host=server.host) as model:
        server.says("A dot.")
        assert model.chat([said]).transport == "chat"
        with pytest.raises(ConfigError, match="Images do not go"):
            model.chat([said], options={"transport": "raw"})


READ = {  # what the model wrote -> what of it the server's own parser makes on each road, against our reading
    HERMES: {"native": "same", "go": "same", "builtin": "text only"},
    HERMES + "</tool_call>": {"native": "same", "go": "same", "builtin": "text only"},
    CODER: {"native": "text only", "go": "text only", "builtin": "same"},
    "It rains.": dict.fromkeys(ROADS, "same"),
}


@pytest.mark.parametrize("text", READ)
def test_both_ways_are_asked_and_told_apart(server, text):
    asking, model = recipe(server, "native", transport="both")
    with model:
        server.follows(lambda body: text)
        asked = ask(asking, "Weather in Oslo?", TOOLS, model)
    assert asked.reply.transport == "chat"
    assert [bool(body.get("raw")) for body in server.requests] == [False, False, True]
    assert asked.written is not None
    assert asked.readings == READ[text][taken(server)]


def test_a_store_keeps_the_two_apart_and_replays_auto_as_it_went(server, tmp_path):
    asking, model = recipe(server, "constrained")
    held = {"answer": "Hello."}
    with model, Store(tmp_path / "s.sqlite") as store:
        stored = store.wrap(model)
        for transport in ("auto", "chat", "raw"):
            server.says("", held=held).says("", held=held)
            ask(asking.replace(transport=transport), "Hi", TOOLS, stored)
        assert len(store) == 2  # auto is one of the two
        replay = store.replay_model("ollama/m")
        ways = ("auto", "chat", "raw")
        replies = [ask(asking.replace(transport=way), "Hi", TOOLS, replay).reply for way in ways]
    assert [reply.transport for reply in replies] == ["chat" if taken(server) == "go" else "raw", "chat", "raw"]
    assert all(reply.from_store for reply in replies)


def test_recipes_know_their_words_and_keep_their_hash():
    plain = tk.Recipe("ollama/m")
    assert plain.transport == "auto"
    assert "transport" not in plain.to_dict()
    assert len({plain.hash, *(plain.replace(transport=way).hash for way in ("chat", "raw", "both"))}) == 4
    assert tk.Recipe("ollama/m", options={"transport": "raw"}).hash == plain.replace(transport="raw").hash
    assert plain.replace(transport="both").settings.transport == "chat"
    with pytest.raises(ConfigError, match="transport"):
        tk.Recipe("ollama/m", transport="rwa")
    with pytest.raises(ConfigError, match="transport"):
        Options(transport="both")


@pytest.mark.parametrize("way", ["chat", "raw", "both"])
def test_a_transport_survives_its_file(tmp_path, way):
    made = tk.Recipe("ollama/m", transport=way)
    assert tk.Recipe.load(made.save(tmp_path / "r.toml")).hash == made.hash


def test_a_model_that_shows_no_prompt_says_so():
    with pytest.raises(ConfigError, match="does not show the prompts"):
        tk.ScriptedModel(["x"]).apply_template("Hi")


@pytest.mark.parametrize(
    ("taken", "parser", "more", "expected"),
    [
        ("go", "", {}, "chat"),
        ("go", "", {"schema": ORDERED}, "chat"),
        ("native", "", {}, "chat"),
        ("native", "", {"schema": ORDERED}, "raw"),  # sorted there
        ("builtin", "qwen3-coder", {}, "raw"),  # ollama#14915
        ("builtin", "qwen3-coder", {"schema": ORDERED}, "raw"),
        ("builtin", "passthrough", {}, "chat"),
        ("builtin", "harmony", {}, "chat"),
        ("builtin", "qwen3-coder", {"schema": ORDERED, "options": Options(think=True)}, "chat"),
        ("builtin", "qwen3-coder", {"tools": TOOLS}, "chat"),
        ("", "", {"schema": ORDERED}, "chat"),
    ],
)
def test_the_transport_that_loses_nothing(taken, parser, more, expected):
    assert ChatRequest(**{"options": Options(), **more}).lossless(taken, parser) == expected
