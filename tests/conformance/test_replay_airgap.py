"""The replayer of AirgapChat agrees with our own scenarios, and a difference on purpose is no blanket excuse."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import replay_airgap
from airgap_oracle import copied, holds, sure_calls, visible
from airgap_world import run
from replay_airgap import judge

FILE = Path(__file__).with_name("airgap_own.json")
SCENARIOS = {s["name"]: s for s in json.loads(FILE.read_text("utf-8"))["scenarios"]}
pytestmark = pytest.mark.filterwarnings("ignore:AirgapChat drops")


@pytest.mark.parametrize("name", SCENARIOS)
def test_compat_agrees(name):
    assert judge(SCENARIOS[name], "compat") == ("agrees", [])


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_default_differs_only_on_purpose(name):
    verdict, found = judge(SCENARIOS[name], "default")
    assert verdict != "differs", found


def test_the_command_counts_and_ends(tmp_path, capsys):
    assert replay_airgap.main([str(FILE)]) == 0
    path = tmp_path / "wrong.json"
    wrong = {"name": "w", "messages": [{"role": "human", "content": "q"}], "replies": ["a"], "observed": {"final": "b"}}
    path.write_text(json.dumps({"scenarios": [wrong]}))
    assert replay_airgap.main([str(path)]) == 1
    assert capsys.readouterr().out.endswith("agree 0, on purpose 0, differ 1\n")


def turn(ours, request, place):
    return ours["calls"][request]["messages"][place]


def reword(request, place, old, new):
    def tamper(ours):
        assert old in turn(ours, request, place)[1]
        turn(ours, request, place)[1] = turn(ours, request, place)[1].replace(old, new)

    return tamper


TAMPERED = [
    ("one_good_one_raising", lambda ours: ours.update(final="fin")),
    ("one_good_one_raising", lambda ours: ours["tool_log"].reverse()),
    ("one_good_one_raising", lambda ours: ours["tool_log"].pop()),
    ("one_good_one_raising", lambda ours: ours["tool_log"].append(["clock", {}])),
    ("one_good_one_raising", lambda ours: ours["tool_log"][1][1].update(n=2)),
    ("one_good_one_raising", reword(1, -1, '"noon"', '"midnight"')),
    ("one_good_one_raising", reword(1, -1, "no air", "no")),
    ("one_good_one_raising", lambda ours: ours["calls"].append(copy.deepcopy(ours["calls"][-1]))),
    ("one_good_one_raising", lambda ours: ours.update(error="ValueError: x")),
    ("nested_object_is_cut", lambda ours: ours["tool_log"].clear()),
    ("nested_object_is_cut", lambda ours: (ours["calls"].pop(), ours["tool_log"].clear())),
    ("nested_object_is_cut", lambda ours: turn(ours, 1, 1).__setitem__(1, "")),  # C-W7
    ("unknown_tool_alone", reword(1, -1, "clock", "")),  # C-W4: the names
    ("earlier_turns_dropped", lambda ours: ours["calls"][0]["messages"].pop(1)),  # C-W2
    ("result_as_python_repr", reword(0, 0, "TOOL_CALL: tool_name", "")),
    ("result_as_python_repr", reword(1, -1, "<tool_result", "<result")),  # C-W8
    ("stop_and_options", lambda ours: ours["calls"][0]["kwargs"].clear()),  # C-W12
    ("stop_and_options", lambda ours: ours["calls"][0].update(stop=["other"])),
    ("streaming_keeps_every_option", lambda ours: ours["calls"][1]["kwargs"].pop("seed")),
    ("second_reply_calls_again", lambda ours: (ours["calls"].pop(), ours["tool_log"].pop())),  # C-W6
    ("thought_in_the_answer", lambda ours: ours.update(final="noon.")),
    ("blanks_round_the_answer", lambda ours: ours.update(final="")),
    ("not_a_number", lambda ours: ours["tool_log"].append(["clock", {"zone": None}])),
    ("copied_from_the_user", lambda ours: ours["tool_log"].append(["clock", {"zone": 1}])),
    ("nameless_tool_beside", lambda ours: ours["tool_log"].append(["clock", {}])),
    ("model_raises", lambda ours: (ours.pop("error"), ours.update(final="x"))),
    ("no_question_with_results", reword(0, -1, "noon", "late")),
    ("clean", lambda ours: ours.update(refused="Tool names must be unique.", calls=[], tool_log=[])),
]


@pytest.mark.parametrize(("name", "tamper"), TAMPERED, ids=[f"{name}-{i}" for i, (name, _) in enumerate(TAMPERED)])
def test_a_broken_behaviour_is_a_difference(name, tamper):
    scenario = SCENARIOS.get(name, SCENARIOS["one_good_one_raising"])
    ours = copy.deepcopy(run(scenario, "default"))
    assert judge(scenario, "default", copy.deepcopy(ours))[0] != "differs"
    tamper(ours)
    assert judge(scenario, "default", ours)[0] == "differs"


@pytest.mark.parametrize("name", ["nameless_tool_beside", "nameless_tool_alone", "one_name_twice"])
def test_taking_tools_that_cannot_be_told_apart_is_a_difference(name):
    scenario = SCENARIOS[name]
    assert judge(scenario, "default")[0] == "differs on purpose (C-W5)"
    assert judge(scenario, "default", run(scenario, "compat"))[0] != "differs on purpose (C-W5)"


@pytest.mark.parametrize(
    ("observed", "ours"),
    [
        pytest.param({"colour": "red"}, "colour: cannot be judged", id="unknown-key"),
        pytest.param({"stream_length": [3]}, "stream_length: cannot be judged", id="unknown-value"),
        pytest.param({"stream_bypasses_tools": False}, "True, observed False", id="bypass"),
        pytest.param({"stream_uses_tools": True}, "False, observed True", id="uses"),
        pytest.param({"overrides__stream": True}, "False, observed True", id="own"),
        pytest.param({"_astream_is_parents": False}, "True, observed False", id="parent"),
        pytest.param({"_stream_owner": "AirgapChatOpenAI"}, "'parent', observed", id="owner"),
        pytest.param({"own_methods": ["bind"]}, "['_generate', 'bind'], observed", id="methods"),
        pytest.param({"in_class_dict": ["_stream"]}, "[], observed ['_stream']", id="class-dict"),
        pytest.param({"bind_type": "AirgapChatOpenAI"}, "'Bound', observed", id="wrapper"),
        pytest.param({"bound_is_same": False}, "True, observed False", id="bound"),
        pytest.param({"tools_after_bind_stream": False}, "True, observed False", id="tools-stay"),
        pytest.param({"kept": {"top_p": 1.0, "toolkit": 1}}, "{'top_p': 1.0}, observed", id="kept"),
    ],
)
def test_false_facts_are_differences(observed, ours):
    verdict, found = judge({"kind": "probe", "observed": observed}, "compat")
    assert verdict == "differs"
    assert ours in found[0]


def test_the_default_is_not_excused_from_facts():
    for key in ("tools_after_bind_stream", "colour"):
        assert judge({"kind": "probe", "observed": {key: False}}, "default")[0] == "differs"


# ---------------------------------------------------------------------- the reader behind the verdicts
@pytest.mark.parametrize(
    ("reply", "sure"),
    [
        ('TOOL_CALL: f {"a": {"b": "}"}}\nTOOL_CALL: g {}', [("f", {"a": {"b": "}"}}), ("g", {})]),
        ("I look.\nTOOL_CALL: f {}", [("f", {})]),
        ("Say TOOL_CALL: f {}", []),
        ("TOOL_CALL: f {'a': 1}\nTOOL_CALL: g {}", []),
        ('TOOL_CALL: f {"a": NaN}', []),
        ("TOOL_CALL: f {} is how", []),
        ("TOOL_CALL: copied {}", []),
    ],
)
def test_sure_calls(reply, sure):
    assert sure_calls(reply, ["Look: TOOL_CALL: copied {}"]) == sure


@pytest.mark.parametrize(
    ("reply", "name", "arguments", "there"),
    [
        ("TOOL_CALL: f {'a': [1, True]}", "f", {"a": [1, True]}, True),
        ("TOOL_CALL: f {'a': [1, True]}", "f", {"a": [2, True]}, False),
        ('TOOL_CALL: f {"a": 1}', "f", {}, False),
        ('TOOL_CALL: F {"a": 1}', "f", {"a": 1}, True),
        ('I could TOOL_CALL: f {"a": 1}', "f", {"a": 1}, False),
        ('<think>\nTOOL_CALL: f {"a": 1}</think>', "f", {"a": 1}, False),
        ('{"name": "f", "arguments": {"a": 1}}', "f", {"a": 1}, True),
        ('{"name": "f", "arguments": {"a": 1}}', "g", {"a": 1}, False),
    ],
)
def test_calls_that_stand_in_a_reply(reply, name, arguments, there):
    assert holds(reply, name, arguments) is there


def test_copies_and_thoughts():
    assert copied("TOOL_CALL: f {}", "f", {}, ["say tool_call:  f {}"])
    assert not copied("TOOL_CALL: f {}", "f", {}, ["say f {}"])
    assert visible("<think>a</think>b") == "b"
    assert visible("a</think>b") == "a</think>b"
