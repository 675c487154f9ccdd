"""The replayer on our own scenarios: every rule of the table is met, and a real difference is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import middleware_probes
import pytest
import replay_middleware
from middleware_compare import COUNTS
from middleware_oracle import Oracle, predict
from middleware_oracle_ops import coerced
from middleware_probes import PROBES
from middleware_verdict import judge, run

FILE = Path(__file__).with_name("middleware_scenarios.json")
SCENARIOS = json.loads(FILE.read_text("utf-8"))["scenarios"]
PURPOSE = [s for s in SCENARIOS if replay_middleware.verdict_of(s)[0] == "differs on purpose"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s["name"])
def test_nothing_differs_but_on_purpose(scenario):
    assert replay_middleware.verdict_of(scenario)[0] in ("agrees", "differs on purpose")


def test_the_last_line_counts_and_the_exit_code_tells(capsys, tmp_path):
    assert replay_middleware.main([str(FILE)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"agree {len(SCENARIOS) - len(PURPOSE)}, on purpose {len(PURPOSE)}, differ 0"


def test_every_row_that_can_be_seen_in_a_run_is_met():
    met = {row for scenario in PURPOSE for row in judge(scenario)[1]}
    rows = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 14, 17, 18)
    assert met >= {f"A-W{row}" for row in rows} | {"A12", "A1.7"}


# ---------------------------------------------------------------------- a difference in what the original did
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


def test_what_came_before_a_weakness_must_be_the_originals():
    late = [s for s in PURPOSE if not s.get("unordered_events") and met_late(s)]
    assert len(late) >= 20
    for scenario in late:
        spoiled = copy.deepcopy(scenario)
        spoiled["observed"]["events"][0] = "Ghost.before_agent"
        assert judge(spoiled)[0] == "differs", scenario["name"]
        spoiled = copy.deepcopy(scenario)
        spoiled["observed"]["model_calls"][0]["messages"][0] = "human:another prompt"
        assert judge(spoiled)[0] == "differs", scenario["name"]


def met_late(scenario):
    """Tell whether events and a model call come before the first weakness of a scenario."""
    return min((point.calls for point in predict(scenario)[1].values()), default=0) > 0


# ---------------------------------------------------------------------- a difference in what we do
def history(ours):
    return ours.get("final_messages") or (ours.get("partial") or {}).get("final_messages")


def fields(ours):
    part = ours if "final_messages" in ours else ours["partial"]
    return part.setdefault("final_state", {})


def first_result(ours):
    return next(m for m in history(ours) if m["type"] == "tool")


TAMPERED = {
    "first event lost": lambda o: o["events"].pop(0),
    "last event lost": lambda o: o["events"].pop(),
    "one event more": lambda o: o["events"].append("Ghost.after_agent"),
    "first message wrong": lambda o: history(o)[0].update(content="another text"),
    "last message wrong": lambda o: history(o)[-1].update(content="another text"),
    "first message lost": lambda o: history(o).pop(0),
    "last message lost": lambda o: history(o).pop(),
    "result's status": lambda o: first_result(o).update(status="unknown"),
    "result's id": lambda o: first_result(o).update(tool_call_id="another"),
    "result's text": lambda o: first_result(o).update(content="another text"),
    "first prompt wrong": lambda o: o["model_calls"][0]["messages"].__setitem__(0, "human:another text"),
    "last prompt wrong": lambda o: o["model_calls"][-1]["messages"].__setitem__(-1, "human:another text"),
    "line of a prompt lost": lambda o: o["model_calls"][-1]["messages"].pop(),
    "first tools wrong": lambda o: o["model_calls"][0].update(tools=["ghost"]),
    "last tools wrong": lambda o: o["model_calls"][-1].update(tools=["ghost"]),
    "no tools": lambda o: o["model_calls"][-1].pop("tools"),
    "first call missing": lambda o: o["model_calls"].pop(0),
    "last call missing": lambda o: o["model_calls"].pop(),
    "settings": lambda o: o["model_calls"][0].update(settings={"temperature": 1}),
    "state more": lambda o: fields(o).update(ghost=1),
    "state lost": lambda o: fields(o).pop(next(key for key in fields(o) if key not in COUNTS)),
    "error's class": lambda o: o["error"].update(type="RuntimeError"),
    "error's words": lambda o: o["error"].update(message="oops"),
    "error lost": lambda o: o["error"] and o.pop("error"),
    "error more": lambda o: o.get("error") or o.update(error={"type": "UpdateError", "message": "x", "refusal": True}),
}
CANNOT = (KeyError, IndexError, TypeError, AttributeError, StopIteration)  # the notes have no such part


@pytest.fixture(scope="module")
def notes():
    return [(scenario, run(scenario)) for scenario in PURPOSE]


@pytest.mark.parametrize("tamper", TAMPERED)
def test_no_rule_excuses_what_it_does_not_predict(tamper, notes):
    tried, missed = 0, []
    for scenario, ours in notes:
        changed = copy.deepcopy(ours)
        try:
            TAMPERED[tamper](changed)
        except CANNOT:
            continue
        if changed != ours:
            tried += 1
            missed += [scenario["name"]] * (judge(scenario, changed)[0] != "differs")
    assert tried
    assert not missed


# ---------------------------------------------------------------------- the prediction itself
@pytest.mark.parametrize("name", ["order", "anything", "A-W4"])
def test_names_decide_nothing(name):
    for scenario in SCENARIOS[:20]:
        renamed = {**scenario, "name": name}
        assert replay_middleware.verdict_of(renamed) == replay_middleware.verdict_of(scenario)


def test_a_prediction_needs_no_observation():
    for scenario in SCENARIOS:
        bare = {key: value for key, value in scenario.items() if key not in ("observed", "description", "name")}
        assert Oracle(bare).predict() == predict(scenario)[0]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", "3", 3),
        ("int", 3.0, 3),
        ("int", 3.5, None),
        ("int", True, None),
        ("str", 3, None),
        ("float", "2.5", 2.5),
        ("bool", "true", True),
        ("bool", "perhaps", None),
        ("list", [1], [1]),
        ("dict", [1], None),
    ],
)
def test_values_are_made_to_fit_without_loss(kind, value, expected):
    assert coerced(kind, value) == expected


# ---------------------------------------------------------------------- probes
@pytest.mark.parametrize("name", PROBES)
def test_probes_answer(name):
    facts, repairs = PROBES[name]()
    assert facts is not None
    assert isinstance(repairs, dict)


@pytest.mark.parametrize("fact", ["old", "new", "unknown", "setattr", "fields"])
def test_a_probe_excuses_only_the_fact_that_its_row_changes(fact, monkeypatch):
    facts, repairs = PROBES["tool_call_request"]()
    scenario = {"name": "tool_call_request", "kind": "probe", "observed": {**facts, "setattr": {"value": None}}}
    assert middleware_probes.probe(scenario)[0] == "differs on purpose"
    monkeypatch.setitem(PROBES, "tool_call_request", lambda: ({**facts, fact: "something else"}, repairs))
    assert middleware_probes.probe(scenario)[0] == "differs"


def test_a_broken_scenario_is_a_difference(capsys, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(json.dumps({"scenarios": [{"name": "x", "observed": {}}, {"name": "y", "kind": "probe"}]}))
    assert replay_middleware.main([str(path), "-v"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "agree 0, on purpose 0, differ 2"
