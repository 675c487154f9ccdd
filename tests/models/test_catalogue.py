"""What is said of a server's models: road, capabilities and windows; pulls that end well, and those that do not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.errors import ModelNotFoundError, UserError
from toolkit.models.ollama import OllamaServer
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


def scripted_pull(monkeypatch, *attempts):
    """Let each pull give pieces, and then break as it says; return the list of attempts made."""
    left, made = list(attempts), []

    def answer(self, route, body, idle_s):
        pieces, error = left.pop(0)
        made.append(body["model"])
        yield from pieces
        if error is not None:
            raise error

    monkeypatch.setattr(OllamaServer, "answer", answer)
    return made


def layer(done, total=100, digest="sha256:a"):
    return {"status": "pulling a", "digest": digest, "total": total, "completed": done}


SUCCESS = {"status": "success"}
BROKEN = ServerError(200, "max retries exceeded: EOF")


@pytest.mark.parametrize("pieces", [[], [{"status": "pulling manifest"}], [{"status": "a", "digest": "b", "total": 4}]])
def test_a_pull_that_breaks_off_is_no_success(server, monkeypatch, pieces):  # ollama#8786
    scripted_pull(monkeypatch, (pieces, None))
    with pytest.raises(UserError, match="broke off"):
        tk.models.pull_model("new", progress=False)


@pytest.mark.parametrize(
    "error",
    [BROKEN, ServerError(0, "the connection broke"), TimeoutError(), ServerError(200, "read: connection reset")],
)
def test_a_pull_that_gets_on_is_taken_up_again(server, monkeypatch, error):  # ollama#1158, ollama#8533, ollama#8167
    made = scripted_pull(monkeypatch, ([layer(10)], error), ([layer(60)], error), ([layer(100), SUCCESS], None))
    assert tk.models.pull_model("gotmpl", progress=False).name == "ollama/gotmpl:latest"
    assert len(made) == 3


@pytest.mark.parametrize("error", [BROKEN, TimeoutError()])
def test_a_pull_that_stands_still_is_given_up(server, monkeypatch, error):  # ollama#4602: 98 %, again and again
    made = scripted_pull(monkeypatch, ([layer(98)], error), ([layer(98)], error), ([SUCCESS], None))
    with pytest.raises(UserError, match="pull again: what came is kept"):
        tk.models.pull_model("gotmpl", progress=False)
    assert len(made) == 2


def test_a_full_disk_is_not_tried_again(server, monkeypatch):  # ollama#15547
    made = scripted_pull(monkeypatch, ([layer(50)], ServerError(200, "write x: no space left on device")))
    with pytest.raises(UserError, match="Make room"):
        tk.models.pull_model("gotmpl", progress=False)
    assert len(made) == 1


def test_a_name_that_no_registry_has(server, monkeypatch):  # ollama#1770
    scripted_pull(monkeypatch, ([], ServerError(200, "pull model manifest: file does not exist")))
    with pytest.raises(UserError, match="Look name and tag up"):
        tk.models.pull_model("gotmpll", progress=False)


def test_a_server_that_counts_back_breaks_nothing(server, monkeypatch, capsys):  # ollama#1736
    scripted_pull(monkeypatch, ([layer(90), layer(40), layer(100), layer(3, 7, "sha256:b"), SUCCESS], None))
    assert tk.models.pull_model("gotmpl").name == "ollama/gotmpl:latest"


SHOWN = st.none() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.integers())


@given(st.dictionaries(st.sampled_from(["details", "capabilities", "model_info", "modelfile", "template"]), SHOWN))
@settings(max_examples=40)
def test_whatever_show_says_is_a_card_or_an_error_of_ours(shown):  # docker/model-runner#1046: empty details
    with FakeOllama([FakeModel("odd", shows=shown)]) as server:
        try:
            card = tk.models.show_model("odd", server.host)
        except tk.ToolkitError:
            return
    assert card.road in ROADS
    assert "odd" in str(card)


def test_empty_details_are_not_said():  # docker/model-runner#1046, ollama#10693
    details = {"format": "gguf", "family": "", "families": [""], "parameter_size": "", "quantization_level": ""}
    with FakeOllama([FakeModel("odd", shows={"details": details, "modelfile": "", "template": ""})]) as server:
        assert tk.models.show_model("odd", server.host).row["capabilities"] == "not said"


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
