"""The replayer on our own scenarios: every rule of the table is met, and a real difference is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import replay_middleware
from middleware_probes import PROBES

FILE = Path(__file__).with_name("middleware_scenarios.json")
SCENARIOS = json.loads(FILE.read_text("utf-8"))["scenarios"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s["name"])
def test_nothing_differs_but_on_purpose(scenario):
    assert replay_middleware.verdict_of(scenario)[0] in ("agrees", "differs on purpose")


def test_the_last_line_counts_and_the_exit_code_tells(capsys, tmp_path):
    assert replay_middleware.main([str(FILE)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "agree 26, on purpose 16, differ 0"


SPOILED = {
    "events": lambda o: o["events"].insert(0, "Ghost.before_agent"),
    "model_calls": lambda o: o["model_calls"].pop(),
    "final_messages": lambda o: o["final_messages"][-1].update(content="something else"),
    "final_state": lambda o: o.update(final_state={"n": 99}),
    "error": lambda o: o.update(error={"type": "ValueError", "message": "made up"}),
}


@pytest.mark.parametrize("part", SPOILED)
def test_a_real_difference_is_found(part):
    agreeing = [s for s in SCENARIOS if replay_middleware.verdict_of(s)[0] == "agrees" and "error" not in s["observed"]]
    for scenario in agreeing[:8]:
        spoiled = copy.deepcopy(scenario)
        SPOILED[part](spoiled["observed"])
        assert replay_middleware.verdict_of(spoiled)[0] == "differs", scenario["name"]


@pytest.mark.parametrize("name", ["order", "anything", "A-W4"])
def test_names_decide_nothing(name):
    for scenario in SCENARIOS[:20]:
        renamed = {**scenario, "name": name}
        assert replay_middleware.verdict_of(renamed) == replay_middleware.verdict_of(scenario)


@pytest.mark.parametrize("name", PROBES)
def test_probes_answer(name):
    facts, rows = PROBES[name]()
    assert facts is not None
    assert isinstance(rows, list)


def test_a_broken_scenario_is_a_difference(capsys, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(json.dumps({"scenarios": [{"name": "x", "observed": {}}, {"name": "y", "kind": "probe"}]}))
    assert replay_middleware.main([str(path), "-v"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "agree 0, on purpose 0, differ 2"
