"""The scenario file of our own agrees with TwoModeAgent, and the replayer notices what does not."""

import json
import runpy
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TWO_MODE = runpy.run_path(str(HERE / "replay_two_mode.py"))


def load(name, key):
    return json.loads((HERE / name).read_text("utf-8"))[key]


@pytest.mark.parametrize("case", load("two_mode_own.json", "cases"), ids=lambda case: case["name"])
def test_both_columns_agree(case):
    assert TWO_MODE["judge"](case, load("two_mode_own.json", "known_actions")) == []


def test_the_replayer_notices_differences(tmp_path, capsys):
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({"cases": [{"reply": "x", "faithful": {"tool": True}, "improved": {"tool": True}}]}))
    assert TWO_MODE["main"]([str(path)]) == 1
    assert capsys.readouterr().out.endswith("agree 0, on purpose 0, differ 1\n")
