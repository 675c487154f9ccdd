"""The rescue matrix counts what saved calls and what invented them, over thousands of replies in seconds."""

from __future__ import annotations

import time

from toolkit.extraction import explain, rescue_matrix

TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
REPLIES = [
    {"model": "small", "text": 'TOOL_CALL: f {"a": 1,}', "expected": [{"name": "f"}]},
    {"model": "small", "text": "TOOL_CALL: f {'a': 1}", "expected": []},
    {"model": "large", "text": 'TOOL_CALL: f {"a": 1}', "expected": [{"name": "f"}]},
    {"model": "large", "text": "Hello.", "expected": []},
]


def test_rows() -> None:
    frame = explain(REPLIES, TOOLS)
    repairs = frame[frame.kind == "repair"].set_index("code")
    assert repairs.loc["trailing_comma", ["model", "calls", "invented"]].tolist() == ["small", 1, 0]
    assert repairs.loc["single_quotes", "invented"] == 1
    assert frame[(frame.kind == "status") & (frame.model == "large")].set_index("code").replies.to_dict() == {
        "called": 1,
        "abstained": 1,
    }


def test_matrix() -> None:
    matrix = rescue_matrix(explain(REPLIES, TOOLS), "syntax")
    assert matrix.loc["tool_call_line"].to_dict() == {"large": 1, "small": 2}


def test_without_expectations_invented_is_unknown() -> None:
    assert explain(["TOOL_CALL: f {}"], TOOLS).invented.isna().all()


def test_ten_thousand_replies_take_seconds() -> None:
    start = time.process_time()
    frame = explain([{"model": "m", "text": f"Prose. {n}\n" + 'TOOL_CALL: f {"a": 1}'} for n in range(10_000)], TOOLS)
    assert frame[frame.code == "tool_call_line"].calls.item() == 10_000
    assert time.process_time() - start < 60
