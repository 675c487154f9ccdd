"""The batch notebook runs under papermill on committed recordings, and its parameters explain themselves."""

import subprocess
import sys

import pytest

from toolkit import batch, resources
from toolkit.errors import UserError
from toolkit.evaluation import Result

NOTEBOOK = "notebooks/batch/evaluate.ipynb"
RECORDING = resources.root() / "data" / "recordings" / "evaluate.jsonl"


@pytest.mark.notebook
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
def test_a_mistake_inside_the_notebook_comes_out_as_one_message(tmp_path):
    with pytest.raises(UserError, match="There is no case file 'nope'"):
        batch.run_demo(tmp_path / "run", {"recording": str(RECORDING), "cases": "nope"})


def test_papermill_explains_every_parameter():
    done = subprocess.run(
        [sys.executable, "-m", "papermill", "--help-notebook", str(resources.path(NOTEBOOK))],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    for name in ("model", "recipes", "cases", "tag", "limit", "repeats", "run", "recording"):
        assert f"{name}: " in done.stdout
    assert "Unknown type" not in done.stdout
