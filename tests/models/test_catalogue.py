"""What is said of a server's models: road, capabilities and windows; pulls that end well, and those that do not."""

from __future__ import annotations

import subprocess
import sys

import pytest

import toolkit as tk
from toolkit.errors import ModelNotFoundError, UserError
from toolkit.models.catalogue import _follow
from toolkit.models.roads import ROADS
from toolkit.models.wire import ServerError
from toolkit.testing import FakeModel, FakeOllama

MODELS = [
    FakeModel("jinja", road="native", thinking=True, trained=2048),
    FakeModel("gotmpl"),
    FakeModel("own:7b", road="builtin"),
]


@pytest.fixture
def server(monkeypatch):
    with FakeOllama(MODELS) as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.host)
        yield fake


@pytest.mark.parametrize(
    ("name", "road"), [("ollama/jinja", "native"), ("gotmpl:latest", "go"), ("ollama/library/own:7b", "builtin")]
)
def test_a_card_tells_road_capabilities_and_windows(server, name, road):
    card = tk.models.show_model(name)
    assert card.road == road
    assert ROADS[road] in str(card)
    assert "tools" in card.capabilities
    assert (card.quantization, card.loaded) == ("Q4_1", None)
    assert card.configured == tk.Options().num_ctx
    assert card.server == f"ollama {server.version}"


def test_the_window_that_is_loaded_is_the_one_in_force(server):  # ollama#2732: cut down to the trained one
    server.says("Hi")
    with tk.load_model("ollama/jinja", num_ctx=8192) as model:
        model.chat("Hi")
    card = tk.models.show_model("jinja")
    assert (card.trained, card.configured, card.loaded) == (2048, 8192, 2048)
    assert [running.name for running in tk.models.running_models()] == ["ollama/jinja:latest"]


def test_the_table_has_a_line_for_each_model(server):
    table = tk.models.model_table()
    assert set(table["model"]) == {"ollama/jinja:latest", "ollama/gotmpl:latest", "ollama/own:7b"}
    assert set(table["loaded"]) == {"not in memory"}


def test_a_server_without_models_has_an_empty_table():
    with FakeOllama([]) as server:
        assert tk.models.model_table(server.host).empty
        assert tk.models.running_models(server.host) == []


def test_older_servers_say_less(server):  # ollama-python#494: no capabilities
    server.pulled(FakeModel("old", shows={"modelfile": "", "template": "{{ .Prompt }}"}))
    server.version = "0.1.32"
    card = tk.models.show_model("old")
    assert (card.road, card.capabilities, card.trained, card.blob) == ("go", (), None, "")
    assert "not said" in str(card)


def test_pull_says_what_came(server, capsys):
    assert tk.models.pull_model("ollama/new:1b").name == "ollama/new:1b"
    assert "success" in capsys.readouterr().err


def test_a_pull_can_be_quiet(server, capsys):
    tk.models.pull_model("new", progress=False)
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_said_with_the_way_out(server):  # ollama#1731, ollama#15547
    server.catalogue.disk_full = True
    with pytest.raises(UserError, match=r"no space left.*Make room"):
        tk.models.pull_model("big", progress=False)


def test_a_registry_that_does_not_answer(server):  # recorded: pull.stream.refused
    with pytest.raises(UserError, match=r"connection refused.*cannot reach"):
        tk.models.pull_model("http://127.0.0.1:1/library/none", progress=False)


@pytest.mark.parametrize("pieces", [[], [{"status": "pulling manifest"}], [{"status": "a", "digest": "b", "total": 4}]])
def test_a_pull_that_breaks_off_is_no_success(pieces):  # ollama#8786
    with pytest.raises(ServerError, match="broke off"):
        _follow(iter(pieces), progress=False)


@pytest.mark.parametrize("name", ["embedded/smollm2-135m", "openai/x@http://127.0.0.1:1/v1", "", "ollama/"])
def test_other_models_have_no_card(server, name):
    with pytest.raises(ModelNotFoundError, match="ollama/NAME"):
        tk.models.show_model(name)


def test_a_name_that_is_not_pulled(server):
    with pytest.raises(ModelNotFoundError, match=r"Did you mean 'ollama/jinja"):
        tk.models.show_model("ollama/jinjaa")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "ollama/own:7b"], 0, "builtin"), (["running"], 0, "No model is in memory"),
        (["pull", "new"], 0, "ollama/new:latest"), (["show"], 2, "Which model?"), (["list", "x"], 2, "takes no name"),
        ([], 0, "ollama/own:7b"),
    ],
)  # fmt: skip
def test_the_command_line_says_the_same(server, words, code, said):
    done = subprocess.run(
        [sys.executable, "-m", "toolkit", "models", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert said in done.stdout + done.stderr
