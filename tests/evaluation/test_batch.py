"""The batch notebook runs under papermill on committed recordings, and its parameters explain themselves."""

import json
import subprocess
import sys

import pytest

from toolkit import batch, resources
from toolkit.errors import UserError
from toolkit.evaluation import Result

NOTEBOOK = "notebooks/batch/evaluate.ipynb"
RECORDING = resources.root() / "data" / "recordings" / "evaluate.jsonl"


@pytest.mark.notebook
@pytest.mark.slow
def test_the_notebook_runs_on_recordings_and_leaves_everything_a_reader_wants(tmp_path):
    text = batch.run_demo(tmp_path / "run", {"recording": str(RECORDING), "model": "embedded/smollm2-135m", "limit": 8})
    made = {path.name for path in (tmp_path / "run").iterdir()}
    assert made >= {"evaluate.ipynb", "report.html", "table.csv", "table.parquet", "recipes", "replies.sqlite"}
    assert "32 of 32 replies came from the store" in text
    result = Result.load(tmp_path / "run")
    assert len(result.recipes) == 4
    assert set(result.table()["judged"]) <= set(range(9))
    report = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "<img" in report
    assert "Traceback" not in report


@pytest.mark.notebook
@pytest.mark.slow
def test_a_mistake_inside_the_notebook_comes_out_as_one_message(tmp_path):
    with pytest.raises(UserError, match="There is no case file 'nope'"):
        batch.run_demo(tmp_path / "run", {"recording": str(RECORDING), "cases": "nope"})


@pytest.mark.notebook
@pytest.mark.slow
def test_a_model_that_fails_every_request_still_leaves_a_report(fake_ollama, tmp_path):
    for _ in range(8):
        fake_ollama.fails(500, "out of memory")
    text = batch.run_demo(tmp_path / "run", {"model": "ollama/qwen3:4b", "cases": "home", "limit": 2})
    assert "2 server_fault" in text
    assert "No reply was judged" in (tmp_path / "run" / "report.html").read_text("utf-8")


@pytest.mark.notebook
@pytest.mark.slow
def test_papermill_explains_every_parameter():
    done = subprocess.run(
        [sys.executable, "-m", "papermill", "--help-notebook", str(resources.path(NOTEBOOK))],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    for name in ("model", "recipes", "cases", "tag", "limit", "repeats", "run_as", "run", "recording"):
        assert f"{name}: " in done.stdout
    assert "Unknown type" not in done.stdout
    assert "Unable to parse" not in done.stdout + done.stderr


@pytest.mark.notebook
@pytest.mark.slow
def test_the_demo_runs_against_an_ollama_server(fake_ollama, tmp_path):
    call = '{"action": "set_temperature", "action_input": {"room": "bedroom", "celsius": 19}}'
    for _ in range(8):
        fake_ollama.says(call, prompt_eval_count=400)
    text = batch.run_demo(tmp_path / "run", {"model": "ollama/qwen3:4b", "cases": "home", "limit": 2})
    assert "ollama/qwen3:4b on 2 cases" in text
    assert len(fake_ollama.requests) == 8
    assert {request["options"]["num_ctx"] for request in fake_ollama.requests} == {4096}
    assert sum("format" in request for request in fake_ollama.requests) == 2
    again = batch.run_demo(tmp_path / "run", {"model": "ollama/qwen3:4b", "cases": "home", "limit": 2})
    assert "8 of 8 replies came from the store" in again
    assert len(fake_ollama.requests) == 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"casez": "travel"}, "'casez'. Did you mean 'cases'"),
        ({"Model": "x"}, "'Model'. Did you mean 'model'"),
        ({"repeat": 2}, "Did you mean 'repeats'"),
        ({"nonsense": 1}, "Unknown parameter of notebooks/batch/evaluate.ipynb 'nonsense'. Known: model, recipes"),
        ({"limit": "two"}, "'limit' .* must be of type int, not 'two'"),
        ({"limit": True}, "must be of type int"),
        ({"cases": None}, "must be of type str, not None"),
        ({"recipes": "mine.toml"}, "must be of type list"),
    ],
)
def test_a_parameter_that_the_notebook_would_ignore_or_stumble_over_is_refused(tmp_path, given, message):
    """papermill#818, papermill#245: an unknown parameter is a warning there, and the default runs."""
    with pytest.raises(UserError, match=message):
        batch.run_notebook(NOTEBOOK, tmp_path / "out.ipynb", given)
    with pytest.raises(UserError, match=message):
        batch.run_demo(tmp_path / "run", {"recording": str(RECORDING), **given})
    assert list(tmp_path.iterdir()) == []


def test_the_plan_names_the_recipe_of_each_reply_as_the_sweep_asks_for_it(tmp_path):
    for name, model in (("a", "ollama/one"), ("b", "ollama/two"), ("c", "ollama/one")):
        (tmp_path / f"{name}.toml").write_text(f'model = "{model}"\nsystem = "{name}"')
    given = {"recipes": [str(tmp_path)], "cases": "home", "limit": 2}
    assert batch.planned(given) == ["a", "a", "c", "c", "b", "b"]
    assert batch.planned({**given, "model": "ollama/three", "repeats": 2}) == [*"aaaabbbbcccc"]
    assert batch.planned({**given, "run_as": "agent", "cases": "runs"}) is None
    assert len(batch.planned({})) == 4 * 24


def test_cases_of_ones_own_need_no_tag(tmp_path):
    path = tmp_path / "mine.jsonl"
    case = {"id": "a", "messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "f"}]}
    path.write_text(json.dumps({**case, "expect": {"no_call": True}}))
    assert len(batch.planned({"cases": str(path)})) == 4
