"""Hostile text costs linear work: four times the length must not cost much more than four times as long."""

from __future__ import annotations

import json
import time

import pytest

from toolkit.extraction import extract
from toolkit.tools import Tool

TOOLS = [Tool("add", "Add.", {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}})]
CAP_S = 30  # generous: a quadratic reader needs minutes
HOSTILE = {
    "open_braces": ("{", 200_000),
    "nested": ('[{"a":', 30_000),
    "unclosed_tags": ("<tool_call>", 100_000),
    "unclosed_calls": ('<tool_call>{"name": ', 8_000),
    "mixed_brackets": ("{[{", 20_000),
    "escaped_quotes": ('\\"', 100_000),
    "lines": ("TOOL_CALL: f {", 15_000),
    "objects": ('{"name":"f"', 20_000),
    "fences": ("```\n", 30_000),
    "thoughts": ("<think>", 50_000),
    "python": ("add(", 30_000),
    "python_strings": ("[add(a='", 20_000),
    "functions": ("<function=add>", 15_000),
    "parameters": ('<invoke name="add"><parameter name="a">', 5_000),
    "channels": ("<|channel|>", 20_000),
    "actions": ("Action: add\n", 15_000),
    "entities": ("{&quot;name&quot;: ", 10_000),
    "markers": ("[TOOL_CALLS]", 30_000),
    "arguments": ("add[ARGS]{", 10_000),
    "yaml": ("tool: add\narguments:\n", 8_000),
    "comments": ("{/*", 30_000),
    "newlines": ("\n", 300_000),
    "triple_quotes": ('["""', 30_000),
    "thoughts_in_lines": ("Thought: \n", 20_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_ends(name: str) -> None:
    piece, count = HOSTILE[name]
    start = time.process_time()
    extract(piece * count, TOOLS)
    assert time.process_time() - start < CAP_S


@pytest.mark.parametrize("name", ["open_braces", "unclosed_tags", "thoughts", "markers", "comments"])
def test_cost_grows_with_the_length(name: str) -> None:
    piece, count = HOSTILE[name]

    def cost(times: int) -> float:
        start = time.process_time()
        extract(piece * times, TOOLS)
        return time.process_time() - start

    small, large = min(cost(count // 4) for _ in range(3)), cost(count)
    assert large < 16 * small + 0.5


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "' + '"//' * 60_000,
        '<tool_call>{"name": "' + '"/*' * 60_000,
        '<tool_call>{"name": "' + "\"'" * 60_000,
        "Thought: \n" * 20_000 + "<tool_call>\nAction: x",
        "<tool_call>" + "<parameter=a>" * 20_000,
        "<function=add>\n<parameter=a>\n" + "</parameter> x" * 30_000,
        "[add(a=" + "(" * 60_000,
        "[add(a=x" + ", y" * 30_000,
        "<think>" + "</think>" * 30_000,
        "[add(" + "a=1, " * 20_000,
        '{"name": "add", "arguments": ' + '{"a": ' * 20_000,
        "User says\n" * 20_000,
        "- " * 100_000 + "add()",
    ],
    ids=lambda text: text[:12] + str(len(text)),
)
def test_hostile_mixtures_end(text: str) -> None:
    start = time.process_time()
    extract(text, TOOLS)
    assert time.process_time() - start < CAP_S


def test_ten_megabytes_of_prose() -> None:
    text = 'Prose with {braces}, [brackets] and "quotes" (here and there).\n' * 160_000
    start = time.process_time()
    assert extract(text, TOOLS).status == "abstained"
    assert time.process_time() - start < CAP_S


def test_one_long_argument() -> None:
    value = 'line with "quotes" and \\ and } and </tool_call>\n' * 5_000
    import json

    text = "<tool_call>" + json.dumps({"name": "add", "arguments": {"a": value}}) + "</tool_call>"
    assert extract(text, TOOLS).calls[0].arguments == {"a": value}


def test_deep_values_are_refused_or_shallow_enough_for_others() -> None:
    for depth in (50, 150, 500, 5_000):
        text = '<tool_call>{"name": "add", "arguments": {"a": ' + "[" * depth + "]" * depth + "}}</tool_call>"
        found = extract(text, TOOLS)
        assert json.dumps(found.to_dict())
        assert bool(found.calls) != bool(found.rejected)
