from __future__ import annotations

import asyncio

import pytest

from toolkit.errors import ConfigError
from toolkit.messages import ToolCall
from toolkit.models import Chunk, Fault, Options, Reply, ScriptedModel
from toolkit.models.base import last_reply


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temprature": 1}, "Unknown option 'temprature'. Did you mean 'temperature'"),
        ({"num_predict": 0}, "num_predict"),
        ({"num_predict": -1}, "num_predict"),
        ({"num_ctx": 0}, "num_ctx"),
        ({"num_ctx": 1}, "num_ctx must be at least 16 tokens, not 1"),  # llama.cpp aborts the process
        ({"think": "very"}, "think"),
        ({"mirostat": 1}, "Unknown option 'mirostat'"),
        ({"repeat_last_n": -1}, "repeat_last_n must be at least 0"),  # servers refuse what the guides say
        ({"repeat_penalty": 0}, "repeat_penalty must be above 0"),
        ({"stop": ["a", ""]}, "stop must be"),
        ({"use_mmap": 3}, "use_mmap must be true or false"),
        ({"keep_alive": "forever"}, "keep_alive must be a duration"),
        ({"keep_alive": True}, "keep_alive must be a duration"),
    ],
    ids=[
        "unknown",
        "none to write",
        "endless",
        "no window",
        "tiny window",
        "level",
        "old name",
        "whole window",
        "no penalty",
        "empty stop",
        "map",
        "no unit",
        "bool",
    ],
)
def test_unusable_options(options, message):
    with pytest.raises(ConfigError, match=message):
        Options.of(options)


def test_options_are_laid_over_defaults():
    defaults = Options(num_ctx=4096, temperature=0.5)
    assert Options.of(None, defaults) is defaults
    assert Options.of({"temperature": 0.1}, defaults) == Options(num_ctx=4096, temperature=0.1)
    assert Options.of(Options(seed=2), defaults) == Options(seed=2)
    assert Options.of(None) == Options()


def test_options_as_data():
    assert Options().to_dict() == {
        "temperature": 0.0, "seed": 0, "num_ctx": 8192, "num_predict": 512, "timeout_s": 300.0,
    }  # fmt: skip
    assert Options(stop="x").to_dict()["stop"] == ["x"]
    assert Options(think=False).to_dict()["think"] is False
    assert "timeout_s" not in Options(keep_alive="1h").for_key()
    assert "keep_alive" not in Options(keep_alive="1h").for_key()
    assert Options.of(Options(stop=("a", "b"), top_p=0.5).to_dict()) == Options(stop=("a", "b"), top_p=0.5)


def test_reply_as_data_and_back():
    reply = Reply(
        "x", "y", (ToolCall("f", {"a": 1}, "c"),), "length", "num_ctx", 1, 2, 3, 0.5, 0.1, "m", Fault("parse", "z")
    )
    assert Reply.from_dict(reply.to_dict()) == reply
    assert Reply.from_dict({"text": "x", "unknown_to_this_version": 1}) == Reply("x")


def test_repr_is_short_and_html_is_escaped():
    reply = Reply("<b>" + "x" * 200, prompt_tokens=10, completion_tokens=2, fault=Fault("overflow", "m"))
    assert len(repr(reply)) < 100
    assert repr(reply).endswith("stop 10+2 tokens fault=overflow)")
    assert "<b>" not in reply._repr_html_()


def test_a_stream_without_a_reply_is_a_mistake_of_the_back_end():
    with pytest.raises(RuntimeError, match="ended without a reply"):
        last_reply(iter([Chunk("x")]))


def test_async_stream_left_early_closes_the_stream():
    model = ScriptedModel(["a\nb\nc"])
    closed = []

    def stream(messages, **request):
        try:
            yield from ScriptedModel.stream(model, messages, **request)
        finally:
            closed.append(True)

    model.stream = stream

    async def leave():
        chunks = model.astream("Hi")
        async for _ in chunks:
            break
        await chunks.aclose()

    asyncio.run(leave())
    assert closed == [True]


def test_empty_conversation():
    with pytest.raises(ConfigError, match="at least one message"):
        ScriptedModel(["x"]).chat([])


def test_model_is_a_context_and_has_a_short_repr():
    with ScriptedModel(["x"], name="me") as model:
        assert repr(model) == "<ScriptedModel me>"
        model.check()


@pytest.mark.parametrize(
    ("option", "value"),
    [("num_ctx", "big"), ("temperature", "hot"), ("seed", 1.5), ("num_predict", True), ("top_p", "0.9")],
    ids=["word", "hot", "fraction", "bool", "number as text"],
)
def test_an_option_of_the_wrong_kind_is_named(option, value):
    with pytest.raises(ConfigError, match=f"Option {option} must be a .*number, not"):
        Options.of({option: value})


def test_what_a_notebook_shows_can_be_sent_to_it():
    assert "a\\ud83db" in Reply("a\ud83db")._repr_html_()
    Reply("a\ud83db")._repr_html_().encode()
    repr(Reply("a\ud83db")).encode()


@pytest.mark.parametrize(
    ("given", "sent"),
    [("10m", "10m"), ("1h30m", "1h30m"), ("-1s", "-1s"), ("-1", -1), ("300", 300), ("1.5", 1.5), (-1, -1), (0, 0)],
)
def test_a_duration_is_one_that_ollama_takes(given, sent):  # ha-llmvision#625
    assert Options(keep_alive=given).keep_alive == sent


def test_an_empty_stop_is_none():
    assert Options(stop="").stop == Options(stop=[]).stop == ()
