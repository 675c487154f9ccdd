"""The batch notebook runs under papermill on committed recordings, and its parameters explain themselves."""

import subprocess
import sys

import pytest

from toolkit import batch, resources
from toolkit.errors import UserError
from toolkit.evaluation import Result

pytestmark = [pytest.mark.notebook, pytest.mark.slow]
NOTEBOOK = "notebooks/batch/evaluate.ipynb"
RECORDING = resources.root() / "data" / "recordings" / "evaluate.jsonl"


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


def test_a_mistake_inside_the_notebook_comes_out_as_one_message(tmp_path):
    with pytest.raises(UserError, match="There is no case file 'nope'"):
        batch.run_demo(tmp_path / "run", {"recording": str(RECORDING), "cases": "nope"})


def test_a_model_that_fails_every_request_still_leaves_a_report(fake_ollama, tmp_path):
    for _ in range(8):
        fake_ollama.fails(500, "out of memory")
    text = batch.run_demo(tmp_path / "run", {"model": "ollama/qwen3:4b", "cases": "home", "limit": 2})
    assert "2 server_fault" in text
    assert "No reply was judged" in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_papermill_explains_every_parameter():
    done = subprocess.run(
        [sys.executable, "-m", "papermill", "--help-notebook", str(resources.path(NOTEBOOK))],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    for name in ("model", "recipes", "cases", "tag", "limit", "repeats", "run_as", "run", "recording"):
        assert f"{name}: " in done.stdout
    assert "Unknown type" not in done.stdout
    assert "Unable to parse" not in done.stdout + done.stderr


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
