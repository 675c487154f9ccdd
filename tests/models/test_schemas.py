from __future__ import annotations

import pytest

from toolkit.errors import ConfigError
from toolkit.models import Fault, Reply
from toolkit.models.backend import with_schema_checked
from toolkit.models.schemas import request_schema, schema_problem

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
