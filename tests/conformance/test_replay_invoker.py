"""The replayer agrees with our own scenarios, and notices when ours goes wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import replay_invoker
from replay_invoker import KINDS, judge

FILE = Path(__file__).parent / "invoker_scenarios.json"
SCENARIOS = {s["name"]: s for s in json.loads(FILE.read_text(encoding="utf-8"))["scenarios"]}


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_unexplained_difference(name):
    verdict = judge(SCENARIOS[name])
    assert not verdict.differ, str(verdict)


def test_the_command_counts_and_ends_well(capsys):
    assert replay_invoker.main([str(FILE), "--only", "c3_shop"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(", differ 0")


def first(ours):
    return ours["tool_messages"][0]


TAMPERED = [
    ("c3_shop_one_call", lambda ours: first(ours).update(result="other")),
    ("c3_shop_one_call", lambda ours: first(ours).update(error=True)),
    ("c3_shop_one_call", lambda ours: ours.update(events=[])),
    ("c3_shop_two_faults", lambda ours: first(ours).update(result="Arguments of 'stock' do not fit.")),
    ("c3_shop_two_faults", lambda ours: first(ours).update(error=False, result='stock({"item": 3, "size": 99})')),
    ("x_shop_fails_quiet", lambda ours: first(ours).update(result="Tool 'till' failed with RuntimeError: ")),
    ("c3_shop_last_unknown_quiet", lambda ours: ours["tool_messages"].insert(0, ours["tool_messages"].pop(1))),
    ("c2_odd_badstr_raise", lambda ours: ours["error"].update(type="ToolOutputMergeError")),
    (
        "c2_odd_badstr_quiet",
        lambda ours: (ours.pop("tool_messages"), ours.update(error={"type": "ValueError", "message": ""})),
    ),
    ("c2_gives_unicode", lambda ours: first(ours).update(result="{'ß': '日本'}")),
    ("c2_chain", lambda ours: ours["state"].update(shop="S1")),
    ("c2_same_name_signature", lambda ours: first(ours).update(result='{"shop": "S1"}')),
    ("c2_sync_stream_fail", lambda ours: ours.update(chunks=[])),
    ("fc_unicode", lambda ours: ours.update(input_list_mutated=True)),
    ("fc_unknown", lambda ours: ours["messages"][-1].update(content="I'm sorry.")),
    ("fc_null_args", lambda ours: ours["messages"].pop()),
    ("x_to_dict_lambda", lambda ours: (ours.pop("error"), ours.update(value="module.<lambda>"))),
    ("c2_max_workers", lambda ours: ours.update(peak_concurrency_with_max_workers_2=5)),
    ("oa_escape", lambda ours: ours["request"].update(url="https://shop.example/api/i/a b/ü?")),
    ("oa_zero_query", lambda ours: ours["request"].update(params=[("d", "x")])),
    ("oa_path_and_body", lambda ours: ours["request"].update(json={"id": 4, "n": "x", "k": 0})),
    ("oa_no_params", lambda ours: ours["definitions"].pop(0)),
    (
        "oa_op_security_missing",
        lambda ours: (ours.pop("error"), ours.update(request={"url": "https://x", "method": "get"})),
    ),
    ("ot_not_allowed", lambda ours: ours.update(requests=[{"url": "https://shop.example/api/i/1", "method": "get"}])),
    ("ot_run_spec_alone", lambda ours: ours["service_response"][0].update(content='{"error": "bad key T0KEN"}')),
]


@pytest.mark.parametrize(("name", "tamper"), TAMPERED, ids=[f"{name}-{i}" for i, (name, _) in enumerate(TAMPERED)])
def test_a_broken_behaviour_is_a_difference(name, tamper):
    scenario = SCENARIOS[name]
    run, weigh = KINDS[scenario["kind"]]
    ours = copy.deepcopy(run(scenario))
    assert not weigh(scenario, copy.deepcopy(ours)).differ
    tamper(ours)
    assert weigh(scenario, ours).differ


def test_unknown_kinds_and_probes_are_differences():
    assert judge({"name": "x", "kind": "telepathy", "observed": {}}).differ
    assert judge({"name": "x_new_probe", "kind": "probe", "observed": {"value": 1}}).differ
