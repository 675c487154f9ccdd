"""The road of each recorded and each fake model, and the words that could mislead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.models.roads import ROADS, road
from toolkit.testing import FakeModel

FAKES = [
    FakeModel("a", road="native"), FakeModel("a", road="native", tools=False), FakeModel("a", road="go"),
    FakeModel("a", road="go", tools=False), FakeModel("a", road="builtin"),
    FakeModel("a", road="builtin", parser="passthrough"), FakeModel("a", road="native", template="{{ .Prompt }}"),
]  # fmt: skip


@pytest.mark.parametrize("model", FAKES)
@pytest.mark.parametrize("version", ["0.0.0", "0.30.0", "0.32.15", "1.2", "v0.40.1-rc1", "", "unknown"])
def test_what_show_says_tells_the_road(model, version):
    assert road(model.shown(), version) == model.road


@pytest.mark.parametrize("version", ["0.1.32", "0.11.4", "0.29.9", "ollama 0.6.8"])
def test_before_0_30_every_template_was_a_go_template(version):  # ollama#17282
    assert road({"template": "{{ .Prompt }}", "modelfile": "TEMPLATE {{ .Prompt }}"}, version) == "go"


@pytest.mark.parametrize("word", ["RENDERER", "PARSER"])
def test_a_line_within_a_template_or_a_system_text_is_no_renderer(word):
    text = f"Write:\n{word} qwen3-coder\n"
    shown = FakeModel("a", road="go", template=f'{{{{ .System }}}} "x"\n{text}{{{{ .Prompt }}}}').shown()
    assert road(shown, "0.32.1") == "go"
    for line in (f'TEMPLATE "{text}"', f'SYSTEM Say "hi\nTEMPLATE "{text}"', f'MESSAGE user "{text}"'):
        assert road({**shown, "modelfile": line}, "0.32.1") == "go"


def test_the_harmony_template_has_a_parser_of_its_own():
    shown = {"template": "{{ if .System }}<|start|>system<|end|>{{ end }}", "details": {"family": "gptoss"}}
    assert road(shown, "0.32.1") == "builtin"


@pytest.mark.parametrize("key", ["renderer", "parser"])
def test_a_field_counts_as_the_line_does(key):
    assert road({"template": "{{ .Prompt }}", key: "qwen3"}, "0.32.1") == "builtin"


@given(
    st.dictionaries(
        st.sampled_from(["template", "modelfile", "details", "renderer", "parser"]),
        st.none() | st.text() | st.integers() | st.lists(st.text()),
    ),
    st.text(),
)
def test_whatever_a_server_says_is_some_road(shown, version):
    assert road(shown, version) in ROADS
