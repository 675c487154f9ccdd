"""Every outcome has a case that leads to it; abstaining and failing to call are never merged."""

import json

import pytest

import toolkit as tk
from toolkit.evaluation import scoring
from toolkit.evaluation.cases import Case
from toolkit.evaluation.scoring import score
from toolkit.extraction import extract
from toolkit.models.base import Fault, Reply

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
    "required": ["city"],
}
WEATHER = tk.Tool("weather", "Tell the weather.", SCHEMA)
STOP = tk.Tool("stop", "Stop.", {"type": "object", "properties": {}})
ASK = (tk.ChatMessage.from_user("Rain in Oslo?"),)
ONE = Case("one", ASK, (WEATHER, STOP), ({"name": "weather", "arguments": {"city": "Oslo"}},))
TWO = Case("two", ASK, (WEATHER, STOP), (*ONE.calls, {"name": "stop", "arguments": {}}))
NONE = Case("none", ASK, (WEATHER, STOP))
OSLO = '{"name": "weather", "arguments": {"city": "Oslo"}}'
STOPS = '{"name": "stop", "arguments": {}}'


@pytest.mark.parametrize(
    ("case", "text", "outcome", "detail"),
    [
        (ONE, OSLO, "right_call", ""),
        (ONE, OSLO.replace("Oslo", "Rome"), "wrong_call", "city: expected 'Oslo', got 'Rome'"),
        (ONE, STOPS, "wrong_call", "wrong tool: expected weather, got stop"),
        (ONE, f"{OSLO}\n{STOPS}", "wrong_call", "extra call of stop"),
        (TWO, f"{STOPS}\n{OSLO}", "right_call", ""),
        (TWO, OSLO, "wrong_call", "missing call of stop"),
        (ONE, "It will rain.", "wrong_abstention", "expected weather"),
        (NONE, "It will rain.", "right_abstention", ""),
        (NONE, OSLO, "wrong_call", "expected no call, got weather"),
        (NONE, '<tool_call>{"name": "weather", "arguments": {"city": ', "broken_call", None),
        (ONE, '<tool_call>{"name": "weather", "arguments": {"city": ', "broken_call", None),
        (ONE, "  \n", "degenerate", "the reply is empty"),
    ],
    ids=[
        "right", "wrong value", "wrong tool", "extra", "two in another order", "one of two", "silent", "rightly silent",
        "should be silent", "cut, none expected", "cut", "empty",
    ],
)  # fmt: skip
def test_outcomes(case, text, outcome, detail):
    verdict = score(case, Reply(text), extract(text, tools=case.tools))
    assert verdict.outcome == outcome
    assert detail is None or verdict.detail == detail
    assert verdict.right == outcome.startswith("right")


@pytest.mark.parametrize(
    ("fault", "text", "outcome"),
    [
        (Fault("overflow", "9000 tokens in a window of 4096"), "", "overflow"),
        (Fault("server", "500"), "", "server_fault"),
        (Fault("timeout", "60 s"), "", "server_fault"),
        (Fault("schema_not_honoured", "no JSON"), "hello", "server_fault"),
        (Fault("parse", "error parsing tool call"), OSLO, "right_call"),
        (Fault("parse", "error parsing tool call"), "", "broken_call"),
    ],
    ids=["overflow", "server", "timeout", "schema", "rescued from the error", "nothing to rescue"],
)
def test_faults_are_outcomes_of_their_own(fault, text, outcome):
    assert score(ONE, Reply(text, fault=fault), extract(text, tools=ONE.tools)).outcome == outcome


@pytest.mark.parametrize(
    ("reply", "degenerate"),
    [
        (Reply("la " * 50, finish_reason="length"), True),
        (Reply("\n" * 50 + "x" + "\n" * 50, finish_reason="length"), True),
        (Reply("la " * 50, finish_reason="stop"), False),
        (Reply("A long story that was cut in the mid", finish_reason="length"), False),
        (Reply("", tool_calls=(tk.ToolCall("stop"),)), False),
    ],
    ids=["loop", "blank lines", "loop that ended", "cut prose", "native call only"],
)
def test_degenerate(reply, degenerate):
    assert bool(scoring.degenerate(reply)) is degenerate


def test_native_calls_are_scored_like_read_ones():
    call = tk.ToolCall("weather", {"city": "oslo", "days": 1})
    reply = Reply("", tool_calls=(call,))
    extraction = extract("", tools=ONE.tools, native_calls=reply.tool_calls)
    assert score(ONE, reply, extraction).outcome == "right_call"


def test_calls_are_matched_as_well_as_can_be_whatever_their_order():
    """What could stand for either of two is not used up by the first that comes along."""
    wide = {"name": "weather", "arguments": {"city": {"$any_of": ["Hull", "Goole"]}}}
    case = Case("either", ASK, (WEATHER,), (wide, {"name": "weather", "arguments": {"city": "Hull"}}))
    calls = [OSLO.replace("Oslo", city) for city in ("Hull", "Goole")]
    for text in ("\n".join(calls), "\n".join(reversed(calls))):
        assert score(case, Reply(text), extract(text, tools=case.tools)).outcome == "right_call"
    text = "\n".join([calls[1], calls[1]])
    found = score(case, Reply(text), extract(text, tools=case.tools))
    assert (found.outcome, found.detail) == ("wrong_call", "city: expected 'Hull', got 'Goole'")


NOT_HONOURED = Fault("schema_not_honoured", "The reply breaks the schema")
BREAKS = [  # schema of the argument x, a value of its shape that breaks it, the keyword
    ({"type": "number", "maximum": 500}, 1000, "maximum"),
    ({"type": "number", "minimum": 1}, 0, "minimum"),
    ({"type": "integer", "exclusiveMinimum": 3}, 3, "exclusiveMinimum"),
    ({"type": "number", "multipleOf": 5}, 7, "multipleOf"),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a", "a"], "uniqueItems"),
    ({"type": "array", "contains": {"const": 1}}, [2], "contains"),
    ({"type": "array", "items": {"type": "number", "maximum": 2}}, [1, 3], "maximum"),
    ({"type": "array", "maxItems": 1}, [1, 2], "maxItems"),
    ({"type": "string", "pattern": "^[A-Z]{3}$"}, "eur", "pattern"),
    ({"type": "string", "maxLength": 2}, "abc", "maxLength"),
    ({"anyOf": [{"type": "integer", "maximum": 5}, {"type": "null"}]}, 9, "maximum"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 5, "oneOf"),
    ({"not": {"const": "root"}}, "root", "not"),
    ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "maxProperties"),
    ({"type": "object", "propertyNames": {"pattern": "^x"}}, {"a": 1}, "propertyNames"),
    ({"type": "object", "dependentRequired": {"a": ["b"]}}, {"a": 1}, "dependentRequired"),
    ({"if": {"type": "integer"}, "then": {"maximum": 3}}, 9, "then"),
]


def held(schema, value, expected):
    """Score a call f(x=value) that decoding was to hold to a schema."""
    tool = tk.Tool("f", "Do.", {"type": "object", "properties": {"x": schema}, "required": ["x"]})
    case = Case("c", ASK, (tool,), ({"name": "f", "arguments": {"x": expected}},))
    text = json.dumps({"name": "f", "arguments": {} if value is None else {"x": value}})
    return score(case, Reply(text, fault=NOT_HONOURED), extract(text, tools=case.tools))


@pytest.mark.parametrize(("schema", "value", "word"), BREAKS, ids=[f"{row[2]}-{at}" for at, row in enumerate(BREAKS)])
@pytest.mark.parametrize("expected", ["another value", {"$any": True}], ids=["another", "any"])
def test_a_bound_that_no_grammar_says_is_the_models_to_keep(schema, value, word, expected):
    """sglang#40083, vllm#12201, llama.cpp#7789: keywords that are dropped in silence when a grammar is made.

    Such replies were left out of every rate, so that a wrong amount improved a recipe.
    """
    verdict = held(schema, value, expected)
    assert verdict.outcome == "wrong_call"
    assert f"decoding did not hold {word}: " in verdict.detail


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "five"),
        ({"enum": ["a", "b"]}, "c"),
        ({"type": "string"}, None),
        ({"type": "object", "properties": {}, "additionalProperties": False}, {"a": 1}),
        ({"anyOf": [{"type": "integer", "maximum": 5}, {"type": "null"}]}, "x"),
    ],
    ids=["type", "enum", "required", "extra key", "no branch"],
)
def test_a_reply_of_another_shape_is_from_a_server_that_forgot_the_schema(schema, value):
    """ollama#15260, ollama#8063."""
    assert held(schema, value, "a").outcome == "server_fault"


def test_a_call_that_should_not_be_is_wrong_whatever_it_breaks():
    tool = tk.Tool("pay", "Pay.", {"type": "object", "properties": {"amount": {"type": "number", "maximum": 5}}})
    text = '{"name": "pay", "arguments": {"amount": 9}}'
    verdict = score(Case("n", ASK, (tool,)), Reply(text, fault=NOT_HONOURED), extract(text, tools=[tool]))
    assert verdict.outcome == "wrong_call"
    assert verdict.detail == (
        "expected no call, got pay; decoding did not hold maximum: 9 is greater than the maximum of 5"
    )
