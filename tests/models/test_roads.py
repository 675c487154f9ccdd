"""Each model of a server takes one road, and `show` tells which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.models import load_model
from toolkit.models.base import ChatRequest, Options
from toolkit.models.roads import parser_of, road
from toolkit.testing import FakeModel, FakeOllama
from toolkit.tools import Tool

KEPT = {
    "smollm2": "go", "smollm2-think": "native", "smollm2-go-think": "go", "smollm2-qwen3-coder": "builtin",
    "rec-system": "go", "gemma3-base": "native",
}  # fmt: skip
TOOL = Tool("f", "", {"type": "object"})
SCHEMA = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "string"}}}
HARMONY = {"details": {"family": "gptoss"}, "template": "<|start|>{{ .System }}<|end|>", "modelfile": "TEMPLATE x"}


def recorded_shows():
    for path in sorted((Path(__file__).parents[1] / "data" / "servers").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            exchange = json.loads(line)
            response = exchange["response"]
            if exchange["request"].get("path") == "/api/show" and response["status"] == 200 and response["lines"]:
                asked = exchange["request"]["json"]
                yield asked.get("model") or asked.get("name"), json.loads(response["lines"][0])


def test_the_road_of_each_recorded_model_is_known():
    found = {name: road(show) for name, show in recorded_shows()}
    assert found == {name: KEPT[name] for name in found}


@pytest.mark.parametrize("taken", ["native", "go", "builtin"])
@pytest.mark.parametrize("text", ["", "PARSER qwen3", "Be brief.\nPARSER qwen3\nRENDERER qwen3", '"quoted" {% if x %}'])
def test_what_a_modelfile_quotes_is_no_line_of_its_own(taken, text):
    """A template or system text may hold lines that look like the Modelfile's own."""
    with FakeOllama([FakeModel("m", road=taken)]) as server, load_model("ollama/m", host=server.host) as model:
        show = model._facts()
        quoted = f'"""{text}"""' if '"' in text or "\n" in text else text
        assert road({**show, "modelfile": show["modelfile"] + f"SYSTEM {quoted}\n"}) == taken
        assert model.fingerprint()["road"] == taken
        assert model.fingerprint().get("parser", "") == ("qwen3-coder" if taken == "builtin" else "")


@pytest.mark.parametrize(
    ("show", "expected"),
    [
        (HARMONY, ("builtin", "harmony")),  # ollama#15798: gpt-oss names no parser in its Modelfile
        ({**HARMONY, "details": {"family": "llama"}}, ("go", "")),
        ({"parser": "ministral", "template": "{{ .Prompt }}"}, ("builtin", "ministral")),
        ({"modelfile": "FROM x\nTEMPLATE {{ .Prompt }}\n", "template": "{{ messages[0].content }}"}, ("native", "")),
        ({"modelfile": "FROM x\nTEMPLATE {{ .Prompt }}\nRENDERER a\nPARSER b\n"}, ("builtin", "b")),
        ({}, ("native", "")),
    ],
)
def test_a_road_by_what_show_says(show, expected):
    assert (road(show), parser_of(show)) == expected


@pytest.mark.parametrize(
    ("taken", "parser", "more", "expected"),
    [
        ("go", "", {}, "chat"),
        ("go", "", {"schema": SCHEMA}, "chat"),
        ("native", "", {}, "chat"),
        ("native", "", {"schema": SCHEMA}, "raw"),  # sorted there
        ("builtin", "qwen3-coder", {}, "raw"),  # ollama#15539, ollama#17638
        ("builtin", "qwen3-coder", {"schema": SCHEMA}, "raw"),
        ("builtin", "passthrough", {}, "chat"),
        ("builtin", "harmony", {}, "chat"),
        ("builtin", "qwen3-coder", {"schema": SCHEMA, "options": Options(think=True)}, "chat"),
        ("builtin", "qwen3-coder", {"tools": [TOOL]}, "chat"),
        ("", "", {"schema": SCHEMA}, "chat"),
    ],
)
def test_the_transport_that_loses_nothing(taken, parser, more, expected):
    assert ChatRequest(**{"options": Options(), **more}).lossless(taken, parser) == expected


@given(st.text(alphabet='PARSER qwen3\n"{}%. ', max_size=200))
def test_no_modelfile_breaks_the_telling(text):
    assert road({"modelfile": text, "template": text}) in ("native", "go", "builtin")
