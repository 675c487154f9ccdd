"""The scenario files of our own agree with AirgapChat and TwoModeAgent, and the replayers notice what does not."""

import json
import runpy
from pathlib import Path

import pytest

HERE = Path(__file__).parent
AIRGAP = runpy.run_path(str(HERE / "replay_airgap.py"))
TWO_MODE = runpy.run_path(str(HERE / "replay_two_mode.py"))


def load(name, key):
    return json.loads((HERE / name).read_text("utf-8"))[key]


@pytest.mark.parametrize("scenario", load("airgap_own.json", "scenarios"), ids=lambda scenario: scenario["name"])
def test_compat_agrees(scenario):
    assert AIRGAP["judge"](scenario, "compat") == ("agrees", [])


@pytest.mark.filterwarnings("ignore:AirgapChat drops")
@pytest.mark.parametrize("scenario", load("airgap_own.json", "scenarios"), ids=lambda scenario: scenario["name"])
def test_the_default_differs_only_on_purpose(scenario):
    verdict, found = AIRGAP["judge"](scenario, "default")
    assert verdict != "differs", found


@pytest.mark.parametrize("case", load("two_mode_own.json", "cases"), ids=lambda case: case["name"])
def test_both_columns_agree(case):
    assert TWO_MODE["judge"](case, load("two_mode_own.json", "known_actions")) == []


def test_the_replayers_notice_differences(tmp_path, capsys):
    path = tmp_path / "wrong.json"
    wrong = {"name": "w", "messages": [{"role": "human", "content": "q"}], "replies": ["a"], "observed": {"final": "b"}}
    path.write_text(json.dumps({"scenarios": [wrong]}))
    assert AIRGAP["main"]([str(path)]) == 1
    assert capsys.readouterr().out.endswith("agree 0, on purpose 0, differ 1\n")
    path.write_text(json.dumps({"cases": [{"reply": "x", "faithful": {"tool": True}, "improved": {"tool": True}}]}))
    assert TWO_MODE["main"]([str(path)]) == 1
    assert capsys.readouterr().out.endswith("agree 0, on purpose 0, differ 1\n")


def test_a_fact_that_nobody_knows_is_not_passed_over():
    verdict, found = AIRGAP["judge"]({"kind": "probe", "observed": {"colour": "red"}}, "compat")
    assert (verdict, found) == ("differs", ["colour: cannot be judged"])
