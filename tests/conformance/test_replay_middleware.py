"""The replayer on our own scenarios: every rule of the table is met, and a real difference is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import middleware_probes
import pytest
import replay_middleware
from middleware_compare import COUNTS, LEFT_OUT, text_of
from middleware_oracle import Oracle, predict
from middleware_oracle_ops import coerced
from middleware_oracle_pii import NARROW, WIDE, hidden
from middleware_probes import PROBES
from middleware_rows import ROWS
from middleware_verdict import judge, run
from middleware_wording import same_words

FILES = [Path(__file__).with_name(f"middleware_{name}.json") for name in ("scenarios", "more")]
SCENARIOS = [s for file in FILES for s in json.loads(file.read_text("utf-8"))["scenarios"]]
VERDICTS = {s["name"]: replay_middleware.verdict_of(s) for s in SCENARIOS}
AGREEING = [s for s in SCENARIOS if VERDICTS[s["name"]][0] == "agrees"]
PURPOSE = [s for s in SCENARIOS if VERDICTS[s["name"]][0] == "differs on purpose"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s["name"])
def test_nothing_differs_but_on_purpose(scenario):
    assert VERDICTS[scenario["name"]][0] in ("agrees", "differs on purpose")


def test_names_are_given_once():
    assert len(VERDICTS) == len(SCENARIOS)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_last_line_counts_and_the_exit_code_tells(file, capsys):
    assert replay_middleware.main([str(file)]) == 0
    names = {s["name"] for s in json.loads(file.read_text("utf-8"))["scenarios"]}
    agree, meant = (sum(s["name"] in names for s in part) for part in (AGREEING, PURPOSE))
    assert capsys.readouterr().out.splitlines()[-1] == f"agree {agree}, on purpose {meant}, differ 0"


def test_every_row_of_the_table_is_met_and_explained():
    assert {row for _, rows, _ in VERDICTS.values() for row in rows} == set(ROWS)


def test_rows_are_explained_where_asked(capsys):
    replay_middleware.main([str(FILES[1]), "--only", "tool_call_null_id", "-v"])
    assert f"D2: {ROWS['D2']}" in capsys.readouterr().out.splitlines()


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
    for scenario in [s for s in AGREEING if "error" not in s["observed"]][:8]:
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
        first_prompt(spoiled["observed"])[0] = "human:another prompt"
        assert judge(spoiled)[0] == "differs", scenario["name"]


def met_late(scenario):
    """Tell whether events and a model call come before the first weakness of a scenario."""
    calls = min((point.calls for point in predict(scenario)[1].values()), default=0)
    return any(call["model"] == "model" for call in scenario["observed"]["model_calls"][:calls])


# ---------------------------------------------------------------------- a difference in what we do
def history(ours):
    return ours.get("final_messages") or (ours.get("partial") or {}).get("final_messages")


def fields(ours):
    part = ours if "final_messages" in ours else ours["partial"]
    return part.setdefault("final_state", {})


def first_prompt(notes):
    """Return the first prompt that is not in the words of a library, as that for a summary is."""
    return next(call["messages"] for call in notes["model_calls"] if call["model"] == "model")


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
    "first prompt wrong": lambda o: first_prompt(o).__setitem__(0, "human:another text"),
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


SEEN = ("first event lost", "last message lost", "first message wrong", "last message wrong", "result's text",
        "result's id", "first prompt wrong", "line of a prompt lost", "last call missing")  # fmt: skip


@pytest.mark.parametrize("tamper", SEEN)
def test_ready_made_middleware_excuses_no_text(tamper):
    tried = 0
    for scenario in [s for s in AGREEING if any("builtin" in m for m in s.get("middlewares", []))]:
        if "error" in scenario["observed"] or LEFT_OUT in str(scenario["observed"]):
            continue
        ours = run(scenario)
        changed = copy.deepcopy(ours)
        try:
            TAMPERED[tamper](changed)
        except CANNOT:
            continue
        tried += 1
        assert judge(scenario, changed)[0] == "differs", scenario["name"]
    assert tried


UNKNOWN = "Error: ad is not a valid tool, try one of [add, sub]."
LIMIT = "Tool call limit reached: run limit exceeded (3/2 calls)."


@pytest.mark.parametrize(
    ("theirs", "ours", "same"),
    [
        (UNKNOWN, 'There is no tool "ad". Call one of: add, sub.', True),
        (UNKNOWN, 'There is no tool "ad". Call one of: add.', True),
        (UNKNOWN, 'There is no tool "ad". Call one of: ad.', False),
        (UNKNOWN, 'There is no tool "add". Call one of: add.', False),
        (LIMIT, "No tool may be called again; all 2 calls are used up.", True),
        (LIMIT, "No tool may be called again; all 3 calls are used up.", False),
        ("Here is a summary of the conversation to date:\n\nS1", "Summary of the conversation so far:\nS1", True),
        ("Here is a summary of the conversation to date:\n\nS1", "Summary of the conversation so far:\nS2", False),
        ("Updated todo list to [{'a': True}]", 'The list is kept: [{"a": true}]', True),
        ("Updated todo list to [{'a': True}]", "The list is kept: []", False),
        ("bob@****.com", "***@bob.com", None),
    ],
)
def test_texts_of_both_libraries_are_compared_by_what_they_say(theirs, ours, same):
    assert same_words(theirs, ours) is same


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ('[{"type": "text", "text": "a"}]', "a"),
        ('[{"a": 1}]', '[{"a": 1}]'),
        ([], "[]"),
    ],
    ids=["blocks", "blocks as JSON", "other JSON", "nothing"],
)
def test_only_text_blocks_are_read_as_their_text(content, text):
    assert text_of(content) == text


# ---------------------------------------------------------------------- the prediction itself
@pytest.mark.parametrize("name", ["order", "anything", "A-W4"])
def test_names_decide_nothing(name):
    for scenario in SCENARIOS[:20]:
        renamed = {**scenario, "name": name}
        assert replay_middleware.verdict_of(renamed) == VERDICTS[scenario["name"]]


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
        ("bool", "yes", None),
        ("bool", 1, None),
        ("float", "inf", None),
        ("float", True, None),
        ("int", "1_000", None),
        ("list", [1], [1]),
        ("dict", [1], None),
    ],
)
def test_values_are_made_to_fit_without_loss(kind, value, expected):
    assert coerced(kind, value) == expected


@pytest.mark.parametrize(
    ("text", "narrow", "wide"),
    [
        ("4111 1111 1111 1111", "**** **** **** 1111", "**** **** **** 1111"),
        ("3782 822463 10005", "3782 822463 10005", "**** **** **** 0005"),
        ("4111111111111112", "4111111111111112", "4111111111111112"),
    ],
    ids=["16 digits", "15 digits", "check digit"],
)
def test_both_rules_for_personal_data_are_written_down(text, narrow, wide):
    said = {"type": "human", "content": text}
    for shapes, expected in ((NARROW, narrow), (WIDE, wide)):
        assert hidden("credit_card", shapes, {"strategy": "mask"}, said, calls=True)["content"] == expected


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
