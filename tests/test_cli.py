"""The command line: what it prints, and how it ends."""

import json
import subprocess
import sys

import pytest

from toolkit import resources
from toolkit.evaluation import Result
from toolkit.models.store import Store
from toolkit.testing import FakeModel

TOOLS = [{"name": "weather", "description": "Tell.", "parameters": {"type": "object", "properties": {"city": {}}}}]


def toolkit(*arguments, stdin="", cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "toolkit", *map(str, arguments)], input=stdin, capture_output=True, text=True, cwd=cwd,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def tools(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS))
    return path


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", ["", "models", "evaluate", "extract", "demo"])
def test_help_says_what_a_command_does(command, flag):
    done = toolkit(*([command] if command else []), flag)
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_extract_reads_a_reply_from_standard_input(tools):
    done = toolkit(
        "extract", "--tools", tools, stdin='Sure: <tool_call>{"name": "weather", "arguments": {"city": "Bern"}}'
    )
    assert done.returncode == 0, done.stderr
    [call] = json.loads(done.stdout)["calls"]
    assert (call["tool_name"], call["arguments"]) == ("weather", {"city": "Bern"})


def test_extract_without_a_call_exits_with_1(tools):
    done = toolkit("extract", "--tools", tools, "--format", "table", stdin="It rains.")
    assert done.returncode == 1
    assert "abstained" in done.stdout


def test_evaluate_prints_the_best_against_the_rest(tmp_path):
    with Store(tmp_path / "replies.sqlite") as store:
        store.import_jsonl(resources.root() / "data" / "recordings" / "evaluate.jsonl")
    recipes = resources.path("notebooks/batch/recipes")
    done = toolkit("evaluate", recipes, "--tag", "demo", "--run", tmp_path, "--mode", "replay")
    assert done.returncode == 0, done.stderr
    shown = [line for line in done.stdout.splitlines() if " minus " in line]
    assert len(shown) == 3
    assert all("points [" in line for line in shown)
    assert " leads: " in done.stdout or "No recipe leads" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("extract", "--format", "xml"), "'xml' is not one of"),
        (("extract", "nothing.txt"), "Cannot read 'nothing.txt'"),
        (("extract", "--tools", "nothing.json"), "Cannot read 'nothing.json'"),
        (("evaluate", "nothing.toml"), "nothing.toml"),
        (("evaluate", "empty"), "No recipe in 'empty'."),
        (("evaluate", "RECIPE", "--cases", "markets"), "There is no case file 'markets'"),
        (("evaluate", "RECIPE", "--run", "tools.json/x"), "Choose another run folder"),
        (("evaluate", "RECIPE", "--mode", "wild"), "'wild' is not one of"),
        (("evaluate", "RECIPE", "--cases", "home", "--cases", "lab"), "--cases is given 2 times and takes one value"),
        (("demo", "--model", "embedded/a", "--model", "embedded/b"), "--model is given 2 times and takes one value"),
        (("demo", "--model", "embedded/none", "--run", "r"), "no embedded model 'none'"),
        (("nonsense",), "nonsense"),
    ],
    ids=[
        "format",
        "no reply",
        "no tools",
        "no recipe",
        "empty",
        "no cases",
        "unwritable",
        "mode",
        "cases twice",
        "model twice",
        "no model",
        "no command",
    ],
)
def test_a_mistake_is_one_message_without_a_traceback(tmp_path, tools, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "recipe.toml").write_text('model = "embedded/smollm2-135m"')
    done = toolkit(*("recipe.toml" if a == "RECIPE" else a for a in arguments), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r" / "evaluate.ipynb").exists()


def test_a_replay_without_a_store_says_so_before_a_folder_is_made(tmp_path):
    recipes = resources.path("notebooks/batch/recipes")
    done = toolkit("evaluate", recipes, "--tag", "demo", "--run", tmp_path / "new", "--mode", "replay")
    assert done.returncode == 2
    assert "no store of replies" in done.stderr
    assert not (tmp_path / "new").exists()


def test_every_model_that_is_named_is_run(fake_ollama, tmp_path):
    """inspect_ai#4833: several models in one command; here the last `--model` won and nothing said so."""
    (tmp_path / "recipe.toml").write_text('model = "ollama/none"')
    for name in ("a:1b", "b:1b"):
        fake_ollama.pulled(FakeModel(name, tools=False))
    for _ in range(4):
        fake_ollama.says("No.", prompt_eval_count=400)
    models = ("--model", "ollama/a:1b", "--model", "ollama/b:1b")
    done = toolkit("evaluate", "recipe.toml", "--cases", "home", "--limit", "2", *models, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [request["model"] for request in fake_ollama.requests] == ["a:1b", "a:1b", "b:1b", "b:1b"]
    assert "recipe ollama/a:1b" in done.stdout
    assert "recipe ollama/b:1b" in done.stdout


def test_a_second_evaluate_in_the_same_folder_loses_and_mixes_nothing(tmp_path):
    """NeMo-Agent-Toolkit#325, NeMo Evaluator#856, metacoder#24."""
    recipes = resources.path("notebooks/batch/recipes")
    with Store(tmp_path / "runs" / "evaluate" / "replies.sqlite") as store:
        store.import_jsonl(resources.root() / "data" / "recordings" / "evaluate.jsonl")
    first, second = (path for path in sorted(recipes.glob("*.toml"))[:2])
    more = ("--cases", "demo", "--mode", "replay", "--limit", "3")
    for recipe in (first, first, second):
        done = toolkit("evaluate", recipe, *more, cwd=tmp_path)
        assert done.returncode == 0
    assert "Note: 'runs/evaluate' held another result; 3 of its rows" in done.stderr
    folder = tmp_path / "runs" / "evaluate"
    [aside] = (folder / "earlier").iterdir()
    for place, recipe in ((aside, first), (folder, second)):
        assert [path.stem for path in (place / "recipes").glob("*.toml")] == [recipe.stem]
        assert {name.replace(" ", "_") for name in Result.load(place).names} == {recipe.stem}
        assert (place / "rows.csv").is_file()
        assert (place / "table.csv").is_file()
