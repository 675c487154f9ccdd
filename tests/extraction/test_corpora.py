"""Every reply of the corpora is read as expected: same names, same arguments with the same JSON types, in order."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from toolkit.extraction import extract

CORPORA = Path(__file__).parents[1] / "corpora"
DISPUTED = dict(re.findall(r"^`?(dev-[\w-]+)`?: (.+)$", (CORPORA / "DISPUTED.md").read_text(encoding="utf-8"), re.M))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def cases(name: str) -> list[Any]:
    lines = (CORPORA / name).read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [
        pytest.param(
            case,
            id=case["id"],
            marks=[pytest.mark.xfail(reason=DISPUTED[case["id"]])] if case["id"] in DISPUTED else [],
        )
        for case in found
    ]


def check(case: dict[str, Any]) -> None:
    extraction = extract(case["text"], case["tools"])
    got = [{"name": call.tool_name, "arguments": call.arguments} for call in extraction.calls]
    assert same(got, case["expected"]), (extraction, got, [one.reason for one in extraction.rejected])
    assert (extraction.status == "called") == bool(case["expected"])
    for call in extraction.calls:
        start, end = call.span
        assert 0 <= start < end <= len(case["text"])


@pytest.mark.parametrize("case", cases("extraction_dev.jsonl"))
def test_development_corpus(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", cases("siblings.jsonl"))
def test_siblings(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", cases("second_look.jsonl"))
def test_second_look(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", cases("third_look.jsonl"))
def test_third_look(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", cases("fourth_look.jsonl"))
def test_fourth_look(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("name", ["extraction_dev", "siblings", "second_look", "third_look", "fourth_look"])
def test_what_is_left_for_the_user_holds_no_call(name: str) -> None:
    for case in (param.values[0] for param in cases(f"{name}.jsonl")):
        found = extract(case["text"], case["tools"])
        if found.calls and "final_after_call" not in case["id"]:  # an answer may show what looks like a call
            assert not extract(found.text, case["tools"]).calls, case["id"]


def test_few_expectations_are_disputed() -> None:
    assert len(DISPUTED) <= 4
