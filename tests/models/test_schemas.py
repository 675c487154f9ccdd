from __future__ import annotations

import json

import pytest

from toolkit.errors import ConfigError
from toolkit.models import Fault, Reply
from toolkit.models.backend import with_schema_checked
from toolkit.models.schemas import inlined, request_schema, schema_problem

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_sound_schemas_pass_as_they_are():
    assert request_schema(None) is None
    assert request_schema(CITY) == CITY


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("json", "must be a JSON Schema"),
        ({"type": "nonsense"}, "no valid JSON Schema"),
        ({"properties": ["a"]}, "no valid JSON Schema"),
        ({"type": "string", "pattern": "(a"}, "regex"),
        ({"$ref": "#/$defs/gone"}, "does not exist"),
        ({"$ref": "http://127.0.0.1:1/x"}, "not inside the schema"),
        ({"anyOf": [{"properties": {"a": {"minLength": 5, "maxLength": 2}}}]}, "minLength 5 is above maxLength 2"),
        ({"type": "array", "minItems": 3, "maxItems": 1}, "minItems 3 is above maxItems 1"),
    ],
    ids=["text", "type", "properties", "pattern", "dead reference", "remote reference", "lengths", "items"],
)
def test_broken_schemas_are_named(schema, message):
    with pytest.raises(ConfigError, match=message):
        request_schema(schema)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"city": "Oslo"}', ""),
        (' {"city": "Oslo", "more": 1}\n', ""),
        ("Oslo", "is no JSON"),
        ("", "is no JSON"),
        ('{"city": 3}', "at ['city']"),
        ("{}", "at the top level"),
        ('{"city": "Os', "is no JSON"),
        ('{"city": "\\ud83d"}', ""),
        ('{"city": 3, "\\ud83d": "\ud83d"}', "at ['city']"),
    ],
)
def test_problem(text, problem):
    found = schema_problem(text, CITY)
    assert (problem in found) if problem else found == ""


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply("Oslo"), "schema_not_honoured"),
        (Reply('{"city": "Oslo"}'), None),
        (Reply('{"city', finish_reason="length"), None),
        (Reply("", finish_reason="error", fault=Fault("server", "x")), "server"),
        (Reply("", finish_reason="tool_calls"), None),
    ],
    ids=["broken", "honoured", "cut off", "failed", "called"],
)
def test_only_finished_text_is_judged(reply, kind):
    fault = with_schema_checked(reply, CITY).fault
    assert (fault.kind if fault else None) == kind
    assert with_schema_checked(reply, None) is reply


def test_references_are_put_in_their_place():  # mellea#911
    schema = {
        "$defs": {"Room": {"type": "string", "enum": ["small", "big"]}, "Guest": {"type": "object", "properties": {
            "room": {"$ref": "#/$defs/Room"}, "friends": {"type": "array", "items": {"$ref": "#/$defs/Guest"}}}}},
        "type": "object",
        "properties": {
            "guest": {"allOf": [{"$ref": "#/$defs/Guest"}], "description": "Who comes."},
            "room": {"$ref": "#/$defs/Room", "description": "Which."},
            "away": {"$ref": "https://example.org/x"},
        },
    }  # fmt: skip
    found = inlined(schema)["properties"]
    assert found["room"] == {"type": "string", "enum": ["small", "big"], "description": "Which."}
    assert found["guest"]["description"] == "Who comes."
    assert found["guest"]["properties"]["room"]["enum"] == ["small", "big"]
    assert found["guest"]["properties"]["friends"]["items"] == {"type": "object"}
    assert found["away"] == {"$ref": "https://example.org/x"}


def test_definitions_that_grow_without_bound_are_left():
    many = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 9} for n in range(30)}
    schema = {"$defs": {**many, "D30": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/D0"}}}
    assert len(json.dumps(inlined(schema))) < 10_000_000
