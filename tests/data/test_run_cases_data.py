"""Can every case that is a whole run be solved, does it ask for something, and do its tags say what it is?"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest

import toolkit as tk
from toolkit.evaluation.matching import is_matcher

FOLDER = Path(__file__).parents[2] / "data" / "cases" / "runs"
DOMAINS = ("home", "lab", "marketplace", "travel")
ROWS = {
    name: [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()] for name in DOMAINS
}
ALL = [pytest.param(name, row, id=row["id"]) for name in DOMAINS for row in ROWS[name]]
KINDS = {"one_step", "several", "chain", "abstain"}
MISSING = object()


def make_readme():
    spec = importlib.util.spec_from_file_location("make_readme", FOLDER.parent / "make_readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reading(value):
    """Return one plain value that an expected value lets through."""
    if is_matcher(value):
        kind = next(key for key in value if key.startswith("$"))
        return {"$any_of": lambda items: reading(items[0]), "$optional": lambda _: MISSING}.get(kind, lambda v: v)(
            value[kind]
        )
    if isinstance(value, dict):
        read = {key: reading(item) for key, item in value.items()}
        return {key: item for key, item in read.items() if item is not MISSING}
    return [reading(item) for item in value] if isinstance(value, list) else value


def results(messages):
    """Say everything that the tools said: an answer is known from it or not at all."""
    return " ".join(str(result.result) for message in messages for result in message.tool_call_results) or "OK."


def played(row, name, calls, answer):
    turns = len(row.get("turns", ()))
    lines = [*(tk.ToolCall(call["name"], reading(call["arguments"])) for call in calls), *[answer] * (turns + 1)]
    model = tk.ScriptedModel(lines)
    case = tk.load_cases(f"runs/{name}")[row["id"]]
    recipe = tk.Recipe("scripted", arm="native")
    found = tk.evaluate(recipe, [case], run="agent", models={"scripted": model}, progress=False)
    assert len(model.requests) == len(lines)
    return found.rows.iloc[0]


@pytest.mark.parametrize(("name", "row"), ALL)
def test_a_solution_comes_out_right(name, row):
    reference = row.get("reference", {})
    calls = reference.get("calls", row["expect"].get("calls", []))
    found = played(row, name, calls, reference.get("answer", results))
    assert found["right"], found["detail"]
    assert found["outcome"] == ("right_call" if "calls" in row["expect"] else "right_abstention")
    refused = [step for step in json.loads(found["trajectory"]) if "error" in step]
    assert not refused or "recover" in row["tags"]


@pytest.mark.parametrize(("name", "row"), ALL)
def test_doing_nothing_is_wrong_where_something_is_expected(name, row):
    found = played(row, name, [], "OK.")
    assert found["right"] == ("no_call" in row["expect"] and "answer" not in row["expect"])
    assert found["outcome"] in ("wrong_abstention", "right_abstention")


@pytest.mark.parametrize(("name", "row"), ALL)
def test_tags_say_what_the_case_is(name, row):
    tags, expect = set(row["tags"]), row["expect"]
    assert len(tags & KINDS) == 1
    assert ("abstain" in tags) == ("no_call" in expect)
    assert ("turns" in tags) == ("turns" in row)
    assert ("state" in tags) == ("state" in expect)
    assert ("answer" in tags) == ("answer" in expect)
    assert tags <= set(make_readme().RUN_MEANS)
    assert len(tags) == len(row["tags"])
    if tags & {"several", "chain"}:
        assert len(expect["calls"]) > 1 or len(row["tools"]) > 1
    assert 2 <= len(row["tools"]) <= 3
    assert all(len(text) <= 260 for text in (row["messages"][0]["content"], *row.get("turns", ())))


def test_enough_of_each_kind():
    assert len({row["id"] for rows in ROWS.values() for row in rows}) == len(tk.load_cases("runs")) >= 64
    rows = [row for rows in ROWS.values() for row in rows]
    long = [row for row in rows if {"several", "chain", "turns"} & set(row["tags"]) and "state" in row["tags"]]
    assert len(long) >= 40
    for name, mine in ROWS.items():
        counts = Counter(tag for row in mine for tag in row["tags"])
        assert len(mine) >= 16, name
        assert counts["demo"] == 4, name
        assert all(counts[tag] >= 1 for tag in (*KINDS, "turns", "recover", "missing", "declined", "answer")), name


@pytest.mark.parametrize("name", DOMAINS)
def test_every_write_is_expected_somewhere(name):
    called = {call["name"] for row in ROWS[name] for call in row["expect"].get("calls", ())}
    changing = {tool.name for tool in tk.worlds.load_world(name).tools if tool.effect != "reads"}
    assert changing <= called
