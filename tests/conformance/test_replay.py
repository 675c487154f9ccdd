"""Every scenario agrees or is as expected, a real difference is found, and what `--json` prints can be used again."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import replay
import replay_airgap
import replay_invoker
import replay_middleware
import replay_two_mode
from middleware_probes import PROBES

FAMILIES = {
    "airgap": replay_airgap.family("compat"),
    "invoker": replay_invoker.FAMILY,
    "middleware": replay_middleware.FAMILY,
    "two_mode": replay_two_mode.FAMILY,
}
FILES = sorted(replay.SCENARIOS.glob("*.json"))
RUNS = [(FAMILIES[file.stem.removesuffix("_own")], file) for file in FILES]
RUNS += [(replay_airgap.family("default"), file) for file in FILES if file.stem.startswith("airgap")]
IDS = [f"{file.stem}-{family.expected}" for family, file in RUNS]


def options(*words):
    return replay.arguments().parse_args([str(word) for word in words])


@pytest.fixture(scope="module")
def played():
    """Return the scenarios and verdicts of every file, played once."""
    found = []
    for family, file in RUNS:
        scenarios = replay.scenarios_in(replay.load(file))
        found.append((family, [(scenario, replay.judge(scenario, family)) for scenario in scenarios]))
    return found


@pytest.mark.parametrize("run", range(len(RUNS)), ids=IDS)
def test_nothing_differs(run, played):
    assert [f"{s['name']}: {verdict}" for s, verdict in played[run][1] if verdict.word == "differs"] == []
    assert all(verdict.why for _, verdict in played[run][1] if verdict.word == "as expected")


def test_names_are_given_once():
    for name in FAMILIES:
        files = [file for file in FILES if file.stem in (name, f"{name}_own")]
        names = [s["name"] for file in files for s in replay.scenarios_in(replay.load(file))]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("run", range(len(RUNS)), ids=IDS)
def test_meaning_is_the_same_the_second_time(run, played):
    family, found = played[run]
    for scenario, verdict in found:
        once = family.meaning(verdict.ours, scenario)
        assert replay.different(family.meaning(copy.deepcopy(once), scenario), once) == []


TAMPERS = {
    "event lost": lambda o: o["events"].pop(),
    "event more": lambda o: o["events"].append("ghost:start"),
    "message lost": lambda o: o["final_messages"].pop(),
    "answer wrong": lambda o: o["final_messages"][-1].update(content="another"),
    "model call lost": lambda o: o["model_calls"].pop(),
    "tools wrong": lambda o: o["model_calls"][-1]["tools"].append("ghost"),
    "no error": lambda o: o.pop("error"),
    "result wrong": lambda o: o["tool_messages"][0].update(result="another"),
    "result good": lambda o: o["tool_messages"][0].update(error=not o["tool_messages"][0]["error"]),
    "url wrong": lambda o: o["request"].update(url="https://elsewhere.example"),
    "prompt wrong": lambda o: o["calls"][0]["messages"][-1].__setitem__(1, "another"),
    "call more": lambda o: o["tool_log"].append(["ghost", {}]),
    "data wrong": lambda o: o["improved"].update(tool=True, context="ghost"),
    "reason wrong": lambda o: o["faithful"].update(tool=False, why="ghost"),
}


@pytest.mark.parametrize("tamper", TAMPERS)
def test_a_changed_outcome_is_a_difference(tamper, played):
    tried = 0
    for family, found in played:
        for scenario, verdict in found:
            changed = copy.deepcopy(verdict.ours)
            try:
                TAMPERS[tamper](changed)
            except (KeyError, IndexError, AttributeError):  # this outcome has no such part
                continue
            ours, theirs = (family.meaning(outcome, scenario) for outcome in (changed, verdict.ours))
            tried += 1
            assert replay.different(ours, theirs), scenario["name"]
    assert tried >= 40


@pytest.mark.parametrize("name", FAMILIES)
def test_a_wrong_expectation_differs_and_ends_with_one(name, tmp_path, capsys):
    family = FAMILIES[name]
    data = replay.load(replay.SCENARIOS / f"{name}.json")
    scenario = next(s for s in replay.scenarios_in(data) if s.get("kind") != "probe")
    wrong = {**family.observed(scenario), **WRONG[name]}
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps({"scenarios": [{**scenario, "observed": wrong, "expected": wrong, **wrong}]}))
    assert replay.replay(options(file), family) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{scenario['name']}: differs")
    assert last == "agree 0, as expected 0, differ 1"


WRONG = {
    "airgap": {"final": "another answer"},
    "invoker": {"events": ["ghost:start"]},
    "middleware": {"events": ["Ghost.before_agent"]},
    "two_mode": {"faithful": {"tool": True, "context": "ghost"}, "improved": {"tool": False}},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_what_json_prints_agrees_when_it_is_observed(name, tmp_path, capsys):
    family, given = FAMILIES[name], replay.SCENARIOS / f"{name}.json"
    assert replay.replay(options(given, "--json"), family) == 0
    ours = {found["name"]: found["ours"] for found in json.loads(capsys.readouterr().out)["scenarios"]}
    scenarios = replay.scenarios_in(replay.load(given))
    assert list(ours) == [scenario["name"] for scenario in scenarios]
    told = [{**s, **(ours[s["name"]] if family.columns else {"observed": ours[s["name"]]})} for s in scenarios]
    file = tmp_path / "told.json"
    file.write_text(json.dumps({"scenarios": told}))
    assert replay.replay(options(file), family) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"agree {len(told)}, as expected 0, differ 0"


def test_an_accepted_difference_is_as_expected(tmp_path, capsys):
    family = FAMILIES["middleware"]
    scenario = {**replay.scenarios_in(replay.load(replay.SCENARIOS / "middleware.json"))[0], "name": "a new one"}
    scenario["observed"]["events"].append("Ghost.after_agent")
    file = tmp_path / "new.json"
    replay.save(file, {"about": "new", "scenarios": [scenario]})
    assert replay.replay(options(file, "--accept", "no ghosts here"), family) == 1
    assert replay.replay(options(file), family) == 0
    assert "a new one: as expected (no ghosts here)" in capsys.readouterr().out


def test_what_cannot_be_played_differs():
    assert replay.judge({"name": "x", "observed": {}}, FAMILIES["invoker"]).word == "differs"
    assert replay.judge({"name": "x", "kind": "probe", "observed": {}}, FAMILIES["middleware"]).word == "differs"


@pytest.mark.parametrize("probe", PROBES)
def test_every_probe_answers(probe):
    assert PROBES[probe]()


def test_it_runs_as_a_script():
    script = Path(__file__).with_name("replay_two_mode.py")
    run = [sys.executable, str(script), str(replay.SCENARIOS / "two_mode.json")]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.endswith("differ 0\n")
