"""Are our own cases unambiguous, checkable, balanced, and true to their tools?"""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections import Counter
from pathlib import Path

import jsonschema_rs
import pytest

from toolkit.evaluation.cases import load_cases
from toolkit.evaluation.matching import differences, is_matcher
from toolkit.tools import as_tools
from toolkit.worlds.marketplace import Marketplace

FOLDER = Path(__file__).parents[2] / "data" / "cases"
DOMAINS = ("home", "lab", "marketplace", "travel")
ROWS = {
    name: [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()] for name in DOMAINS
}
TOOLS = {
    name: {tool["name"]: tool for tool in json.loads((FOLDER / f"{name}.tools.json").read_text("utf-8"))}
    for name in DOMAINS
}
ALL = [pytest.param(name, row, id=row["id"]) for name in DOMAINS for row in ROWS[name]]
REASONS = {"small_talk", "out_of_scope", "about_tools", "missing", "answered", "declined"}
MISSING = object()


def make_readme():
    spec = importlib.util.spec_from_file_location("make_readme", FOLDER / "make_readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def readings(value):
    """Yield every concrete value that an expected value lets through; a few stand for `$contains` and `$any`."""
    if is_matcher(value):
        kind = next(key for key in value if key.startswith("$"))
        if kind == "$any_of":
            yield from itertools.chain.from_iterable(map(readings, value[kind]))
        elif kind == "$optional":
            yield from (MISSING, *readings(value[kind]))
        elif kind == "$any":
            yield MISSING  # nothing to check
        else:
            yield {"$contains": value[kind], "$approx": value[kind], "$regex": "-71.5"}[kind]
    elif isinstance(value, dict):
        for chosen in itertools.product(*(list(readings(item)) for item in value.values())):
            yield {key: item for key, item in zip(value, chosen, strict=True) if item is not MISSING}
    elif isinstance(value, list):
        yield from (list(chosen) for chosen in itertools.product(*(list(readings(item)) for item in value)))
    else:
        yield value


@pytest.mark.parametrize("name", DOMAINS)
def test_every_file_loads_with_its_tools(name):
    cases = load_cases(name)
    assert len(cases) == len(ROWS[name]) >= 45
    assert all(2 <= len(case.tools) <= 5 for case in cases)


def test_ids_are_unique_and_name_their_domain():
    ids = [row["id"] for rows in ROWS.values() for row in rows]
    assert len(set(ids)) == len(ids) == len(load_cases("all")) >= 140
    assert all(len({row["id"].split("-")[0] for row in rows}) == 1 for rows in ROWS.values())


@pytest.mark.parametrize(("name", "row"), ALL)
def test_expected_calls_fit_the_schemas_behind_every_matcher(name, row):
    for call in row["expect"].get("calls", ()):
        schema = TOOLS[name][call["name"]]["parameters"]
        validator = jsonschema_rs.validator_for(schema)
        assert set(call["arguments"]) <= set(schema["properties"])
        for arguments in readings(call["arguments"]):
            assert validator.is_valid(arguments), (call["name"], arguments)
            assert differences(call["arguments"], arguments, schema) == []


@pytest.mark.parametrize(("name", "row"), ALL)
def test_tags_say_what_the_case_is(name, row):
    tags, calls = set(row["tags"]), row["expect"].get("calls", [])
    kind = "abstain" if not calls else "parallel" if len(calls) > 1 else "choice" if len(row["tools"]) > 2 else "plain"
    assert tags & {"abstain", "parallel", "choice", "plain"} == {kind}
    assert len(tags & REASONS) == (0 if calls else 1)
    assert ("context" in tags) == (len(row["messages"]) > 1)
    assert tags <= set(make_readme().MEANS)
    assert len(tags) == len(row["tags"])


@pytest.mark.parametrize(("name", "row"), ALL)
def test_conversations_end_with_the_user_and_call_known_tools(name, row):
    assert row["messages"][-1]["role"] == "user"
    assert len(row["messages"][-1]["content"]) <= 160
    for message in row["messages"]:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            schema = TOOLS[name][function["name"]]["parameters"]
            assert function["name"] in row["tools"]
            assert jsonschema_rs.is_valid(schema, function["arguments"])


@pytest.mark.parametrize(("name", "row"), ALL)
def test_tagged_as_nested_exactly_where_arguments_are(name, row):
    values = [v for call in row["expect"].get("calls", ()) for v in call["arguments"].values()]
    deep = any(json.dumps(value).count("{") - json.dumps(value).count('{"$') > 0 for value in values)
    assert ("nested" in row["tags"]) == deep


@pytest.mark.parametrize("name", DOMAINS)
def test_no_call_is_right_in_three_of_ten(name):
    rows = ROWS[name]
    assert 0.3 <= sum("no_call" in row["expect"] for row in rows) / len(rows) <= 0.4


def test_every_tag_is_in_every_domain():
    for rows in ROWS.values():
        counts = Counter(tag for row in rows for tag in row["tags"])
        assert set(counts) == set(make_readme().MEANS)


def test_every_tool_is_right_somewhere():
    for name, rows in ROWS.items():
        called = {call["name"] for row in rows for call in row["expect"].get("calls", ())}
        assert called == set(TOOLS[name])


def test_the_demo_is_small_easy_and_balanced():
    demo = {name: [row for row in rows if "demo" in row["tags"]] for name, rows in ROWS.items()}
    assert {len(rows) for rows in demo.values()} == {6}
    assert {sum("no_call" in row["expect"] for row in rows) for rows in demo.values()} == {2}
    for row in itertools.chain.from_iterable(demo.values()):
        assert len(row["messages"]) == 1
        assert not {"parallel", "nested"} & set(row["tags"])


def test_position_does_not_give_the_tool_away():
    first = [
        row["tools"].index(row["expect"]["calls"][0]["name"]) == 0
        for rows in ROWS.values()
        for row in rows
        if "calls" in row["expect"]
    ]
    assert 0.2 < sum(first) / len(first) < 0.6


def test_marketplace_tools_are_those_of_the_code():
    shop = Marketplace()
    tools = as_tools([*shop.actions(), shop.place_order, shop.get_order])
    assert [tool.tool_spec for tool in tools] == list(TOOLS["marketplace"].values())


def test_marketplace_cases_name_products_and_designers_of_the_catalogue():
    shop = Marketplace()
    for row in ROWS["marketplace"]:
        for call in row["expect"].get("calls", ()):
            arguments = next(readings(call["arguments"]))
            if call["name"] != "get_order":
                assert getattr(shop, call["name"])(**arguments)


def test_readme_counts_are_current():
    assert (FOLDER / "README.md").read_text("utf-8") == make_readme().compose(), "run data/cases/make_readme.py"
