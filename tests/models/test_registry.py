from __future__ import annotations

import socket
import time

import pytest

from toolkit.errors import ConfigError, ModelNotFoundError, WeightsError
from toolkit.models import Options, list_models, load_model
from toolkit.models.registry import ModelLine


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("embedded/smollm2-135m", "EmbeddedModel"),
        ("embedded/gemma3-270m", "EmbeddedModel"),
        ("embedded//no/such/file.gguf", "EmbeddedModel"),
        ("ollama/qwen3:4b", "OllamaModel"),
        ("ollama/hf.co/user/model:Q4_K_M", "OllamaModel"),
        ("openai/qwen3@http://127.0.0.1:1/v1", "OpenAIModel"),
        ("openai/org/model@https://host/v1", "OpenAIModel"),
    ],
)
def test_one_string_names_any_model_and_nothing_is_contacted(name, kind):
    model = load_model(name)
    assert type(model).__name__ == kind
    assert model.name == name
    model.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"Write 'embedded/smollm2-135m'"),
        ("qwen3:4b", r"Did you mean 'ollama/qwen3:4b'"),
        ("smollm2-135m", r"Did you mean 'embedded/smollm2-135m'"),
        ("embeded/smollm2-135m", r"Did you mean 'embedded/smollm2-135m'"),
        ("ollama/", r"unknown"),
        ("anthropic/x", r"openai/NAME@"),
    ],
)
def test_unknown_name_says_what_is_possible(name, message):
    with pytest.raises(ModelNotFoundError, match=message):
        load_model(name)


def test_unknown_embedded_model():
    with pytest.raises(WeightsError, match=r"Did you mean 'smollm2-135m'.*any\.gguf"):
        load_model("embedded/smollm-135m")


def test_settings_are_defaults_of_requests(fake_ollama):
    fake_ollama.says("x").says("x").says("x")
    with load_model("ollama/qwen3:4b", num_ctx=4096, temperature=0.5) as model:
        model.chat("Hi")
        model.chat("Hi", options={"temperature": 0.1})
        model.chat("Hi", options=Options())
    sent = [(body["options"]["num_ctx"], body["options"]["temperature"]) for body in fake_ollama.requests]
    assert sent == [(4096, 0.5), (4096, 0.1), (8192, 0.0)]


@pytest.mark.parametrize(
    ("name", "settings"),
    [("ollama/x", {"threads": 2}), ("embedded/smollm2-135m", {"host": "x"}), ("ollama/x", {"temprature": 1})],
    ids=["threads of ollama", "host of embedded", "typo"],
)
def test_unknown_setting(name, settings):
    with pytest.raises(ConfigError, match="Unknown setting"):
        load_model(name, **settings)


def test_bad_value_of_a_setting():
    with pytest.raises(ConfigError, match="num_predict"):
        load_model("ollama/x", num_predict=-1)


def test_list_of_models(fake_ollama, monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path))
    lines = {line.name: line for line in list_models()}
    assert lines["embedded/smollm2-135m"].state == "fetched on first use"
    assert lines["embedded/smollm2-135m"].size_text == "93 MB to fetch"
    assert "Apache-2.0" in lines["embedded/smollm2-135m"].about
    assert lines["ollama/qwen3:4b"].state == "ready"
    assert lines["ollama/qwen3:4b"].about == "qwen3 4.0B Q4_1"


def test_list_of_models_without_a_server():
    line = list_models("http://127.0.0.1:1")[-1]
    assert "No Ollama server answers" in line.state


def test_sizes_say_what_they_are():
    assert ModelLine("x", "ready", 98_362_432, "").size_text == "98 MB on disk"
    assert ModelLine("x", "away", None, "").size_text == ""


def test_a_host_that_takes_a_connection_and_says_nothing_is_soon_a_line():  # issue 12
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        lines = list_models(f"127.0.0.1:{silent.getsockname()[1]}")
    assert lines[-1].name == "ollama/…"
    assert "No Ollama server answers" in lines[-1].state
    assert time.monotonic() - started < 10  # it was 21 s
