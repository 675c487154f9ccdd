"""Which keys beside the declared ones are sent, which are refused, and which are shown: of bodies, and of subtypes."""

from __future__ import annotations

import json
import pickle
from urllib.parse import parse_qsl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.execution.openapi.service import OpenAPIService

NAME = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
TEXT = {"type": "string"}


def document(url, schema, schemas=None, *, media="application/json", parameters=()):
    body = {"required": True, "content": {media: {"schema": schema}}}
    operation = {"operationId": "save", "parameters": list(parameters), "requestBody": body}
    paths = {"/things": {"post": operation, "get": {"operationId": "find", "parameters": list(parameters)}}}
    return {
        "openapi": "3.1.0", "servers": [{"url": url}], "paths": paths, "components": {"schemas": schemas or {}},
    }  # fmt: skip


def call(spec, arguments, name="save"):
    tools = tk.Toolset.from_openapi(spec)
    return tk.ToolInvoker(tools, raise_on_failure=False).invoke(tk.ToolCall(name, arguments))


# ------------------------------------------------------------------ bodies
# (schema, further arguments that belong to it, arguments that do not)
OPEN = {
    "additionalProperties: schema (fastmcp#380)": (
        {**NAME, "additionalProperties": TEXT},
        {"colour": "blue"},
        {"n": 3},
    ),
    "additionalProperties: true": ({**NAME, "additionalProperties": True}, {"colour": "blue", "n": [3]}, {}),
    "additionalProperties: {}": ({**NAME, "additionalProperties": {}}, {"nam": None}, {}),
    "patternProperties": ({**NAME, "patternProperties": {"^x-": TEXT}}, {"x-berth": "7"}, {"berth": "7"}),
    "both": (
        {**NAME, "patternProperties": {"^x-": TEXT}, "additionalProperties": {"type": "integer"}},
        {"x-berth": "7", "n": 3},
        {"y": "text"},
    ),
    "in one part of allOf": (
        {"allOf": [NAME, {"type": "object", "properties": {"k": TEXT}, "additionalProperties": TEXT}]},
        {"k": "v", "colour": "blue"},
        {"n": 3},
    ),
    "by reference": ({"$ref": "#/components/schemas/Open"}, {"colour": "blue"}, {"n": 3}),
}
SCHEMAS = {"Open": {**NAME, "additionalProperties": {"$ref": "#/components/schemas/Text"}}, "Text": TEXT}


@pytest.mark.parametrize("kind", OPEN)
def test_further_keys_go_into_a_body_that_takes_them(kind, echo):
    schema, further, _ = OPEN[kind]
    assert not call(document(echo.url, schema, SCHEMAS), {"name": "tern", **further}).error
    assert echo.last.json == {"name": "tern", **further}


@pytest.mark.parametrize("kind", [kind for kind, (_, _, wrong) in OPEN.items() if wrong])
def test_further_keys_of_another_kind_are_refused(kind, echo):
    schema, _, wrong = OPEN[kind]
    assert call(document(echo.url, schema, SCHEMAS), {"name": "tern", **wrong}).error
    assert not echo.seen


@pytest.mark.parametrize("media", ["application/x-www-form-urlencoded", "multipart/form-data", "application/json"])
def test_further_keys_go_into_bodies_of_every_kind(media, echo):
    spec = document(echo.url, {**NAME, "additionalProperties": TEXT}, media=media)
    assert not call(spec, {"name": "tern", "colour": "blue"}).error
    sent = echo.last.body.decode()
    read = {"json": json.loads, "urlencoded": lambda text: dict(parse_qsl(text))}.get(media.rpartition("-")[2][-10:])
    assert "colour" in sent
    assert "blue" in sent
    assert read is None or read(sent) == {"name": "tern", "colour": "blue"}


def test_the_model_is_shown_that_further_keys_are_taken(echo):
    [tool, _] = tk.Toolset.from_openapi(document(echo.url, OPEN["both"][0]))
    assert tool.parameters["additionalProperties"] == {"type": "integer"}
    assert tool.parameters["patternProperties"] == {"^x-": TEXT}
    schema = tk.load_protocol("hermes").response_schema([tool])
    assert '"additionalProperties": {"type": "integer"}' in json.dumps(schema)


@pytest.mark.parametrize("nested", [False, True])
def test_a_pattern_that_cannot_be_checked_is_passed_over(nested, echo):
    odd = {**NAME, "patternProperties": {"(?P<x": TEXT, "^x-": TEXT}}
    schema = {"type": "object", "properties": {"inner": odd}} if nested else odd
    given = {"name": "tern", "x-berth": "7"}
    assert not call(document(echo.url, schema), {"inner": given} if nested else given).error
    assert echo.last.json == ({"inner": given} if nested else given)


def test_an_argument_of_the_query_stays_out_of_an_open_body(echo):
    query = [{"name": "dry", "in": "query", "schema": {"type": "boolean"}}]
    spec = document(echo.url, {**NAME, "additionalProperties": True}, parameters=query)
    assert not call(spec, {"name": "tern", "dry": True, "more": 1}).error
    assert (echo.last.target, echo.last.json) == ("/things?dry=true", {"name": "tern", "more": 1})


# ------------------------------------------------------------------ misspelt names
PARAMETERS = [
    *({"name": name, "in": "query", "schema": TEXT} for name in ("limit", "page_size", "sortOrder", "include_deleted")),
    {"name": "X-Trace", "in": "header", "schema": TEXT},
]
NAMES = [item["name"] for item in PARAMETERS]


def misspelt(name, place):
    """Return spellings with a letter lost, doubled, swapped with the next, or in another case."""
    swapped = name[:place] + name[place : place + 2][::-1] + name[place + 2 :]
    return [name[:place] + name[place + 1 :], name[:place] + name[place] + name[place:], swapped, name.swapcase()]


@given(st.sampled_from(NAMES), st.integers(0, 20), st.integers(0, 3), st.sampled_from(["find", "save"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_misspelt_optional_argument_is_refused_with_the_nearest_name(echo, name, place, kind, operation):
    """A filter that is left out in silence answers another question (after fastmcp#380 of punkpeye)."""
    wrong = misspelt(name, place % len(name))[kind]
    if wrong in NAMES:
        return
    spec = document(echo.url, NAME, parameters=PARAMETERS)
    before = len(echo.seen)
    said = call(spec, {"name": "tern", wrong: "3"} if operation == "save" else {wrong: "3"}, operation)
    assert said.error
    assert f"{wrong}: expected '{name}', got an unknown name" in said.result
    assert len(echo.seen) == before


@pytest.mark.parametrize("arm", ["native", "prompted", "constrained"])
def test_a_misspelt_argument_is_refused_whoever_asks(arm, echo):
    written = json.dumps({"name": "find", "arguments": {"limt": "3"}})
    line = tk.ToolCall("find", {"limt": "3"}) if arm == "native" else f"<tool_call>{written}</tool_call>"
    line = written if arm == "constrained" else line
    spec = document(echo.url, NAME, parameters=PARAMETERS)
    out = tk.OpenAPITool(tk.ScriptedModel([line]), spec=spec, arm=arm).run([tk.ChatMessage.from_user("go")])
    assert "limt: expected 'limit'" in out["service_response"][0].text
    agent = tk.Agent(tk.ScriptedModel([line, "done"]), tk.Toolset.from_openapi(spec), arm=arm)
    assert "limt: expected 'limit'" in agent.run("go").tool_results[0].result
    assert not echo.seen


# ------------------------------------------------------------------ subtypes
def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def child(*parts, **properties):
    return {"allOf": [*map(ref, parts), {"type": "object", "properties": properties}]}


BOAT = {"type": "object", "required": ["kind"], "properties": {"kind": TEXT, "name": TEXT}}
MAPPING = {"sail": "#/components/schemas/Sail", "motor": "Motor"}  # by reference, and by bare name
CHILDREN = {
    "Sail": child("Boat", mastHeight={"type": "number"}, crew={"type": "integer"}),
    "Motor": child("Boat", power={"type": "integer"}, crew=TEXT, id={"type": "string", "readOnly": True}),
    "Yacht": child("Sail", cabins={"type": "integer"}),
}


def boats(*, mapping=True):
    tag = {"propertyName": "kind", **({"mapping": MAPPING} if mapping else {})}
    return {"Boat": {**BOAT, "discriminator": tag}, **CHILDREN}


ADDED = {"mastHeight", "crew", "power", "cabins"}
# where the parent stands -> schema of the body, and what of the tool's schema describes it
PLACES = {
    "body": (ref("Boat"), lambda p: p, lambda v: v),
    "property (fastmcp#5029)": (
        {"type": "object", "properties": {"boat": ref("Boat")}},
        lambda p: p["properties"]["boat"],
        lambda v: {"boat": v},
    ),
    "items": (
        {"type": "object", "properties": {"boats": {"type": "array", "items": ref("Boat")}}},
        lambda p: p["properties"]["boats"]["items"],
        lambda v: {"boats": [v]},
    ),
    "lone allOf": (
        {"type": "object", "properties": {"boat": {"allOf": [ref("Boat")], "description": "d"}}},
        lambda p: p["properties"]["boat"],
        lambda v: {"boat": v},
    ),
}


@pytest.mark.parametrize("mapping", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_fields_of_subtypes_are_shown_and_sent(place, mapping, echo):
    """After fastmcp#4626 and fastmcp#5029; children are found by `allOf` where nothing maps them."""
    body, part, value = PLACES[place]
    spec = document(echo.url, body, boats(mapping=mapping))
    [tool, _] = tk.Toolset.from_openapi(spec)
    shown = part(tool.parameters)
    assert set(shown["properties"]) == {"kind", "name", *ADDED}
    assert shown["required"] == ["kind"]
    assert ("enum" in shown["properties"]["kind"]) is mapping
    given = value({"kind": "sail", "mastHeight": 12.5, "crew": 4, "cabins": 2})
    assert not call(spec, given).error
    assert echo.last.json == given
    for wrong in ({"mastHeight": 1.0}, {"kind": "sail", "mastHeight": "tall"}, {"kind": "sail", "crew": []}):
        assert call(spec, value(wrong)).error
    assert call(spec, value({"kind": "row"})).error is mapping
    pickle.loads(pickle.dumps(OpenAPIService.load(spec)))


def test_a_subtype_is_not_its_siblings(echo):
    spec = document(echo.url, ref("Yacht"), boats())
    [tool, _] = tk.Toolset.from_openapi(spec)
    assert set(tool.properties) == {"kind", "name", "mastHeight", "crew", "cabins"}
    held = document(echo.url, {"type": "object", "properties": {"yacht": ref("Yacht")}}, boats())
    [tool, _] = tk.Toolset.from_openapi(held)
    assert "power" not in json.dumps(tool.parameters)


def test_a_parent_that_holds_itself_and_many_subtypes_stay_small(echo):
    schemas = boats()
    schemas["Sail"]["allOf"][1]["properties"]["tender"] = ref("Boat")
    [tool, _] = tk.Toolset.from_openapi(
        document(echo.url, {"type": "object", "properties": {"b": ref("Boat")}}, schemas)
    )
    assert len(json.dumps(tool.parameters)) < 3_000
    many = {f"C{n}": child("Boat", **{f"p{n}": TEXT}) for n in range(300)}
    spec = document(echo.url, ref("Boat"), {"Boat": {**BOAT, "discriminator": {"propertyName": "kind"}}, **many})
    [tool, _] = tk.Toolset.from_openapi(spec)
    assert set(tool.properties) == {"kind", "name"}  # more than a model could use
    assert not call(spec, {"kind": "C7", "p7": "x"}).error
    assert echo.last.json == {"kind": "C7", "p7": "x"}


def test_the_tag_of_alternatives_is_required():
    """After fastmcp#4280: pydantic gives the tag a default, and the server still refuses a body without it."""
    dog, cat = ({"type": "object", "properties": {"kind": {"const": kind}, kind: TEXT}} for kind in ("dog", "cat"))
    either = {"oneOf": [dog, cat], "discriminator": {"propertyName": "kind"}}
    spec = document("http://127.0.0.1:9", {"type": "object", "properties": {"pet": either}})
    [tool, _] = tk.Toolset.from_openapi(spec)
    assert tool.properties["pet"]["required"] == ["kind"]
    untold = {"oneOf": [dog, {"type": "object"}], "discriminator": {"propertyName": "kind"}}
    [tool, _] = tk.Toolset.from_openapi(
        document("http://127.0.0.1:9", {"type": "object", "properties": {"pet": untold}})
    )
    assert "required" not in tool.properties["pet"]


@pytest.mark.parametrize(
    "tag", ["kind", 3, {"propertyName": 3}, {"mapping": {"a": "http://x/y"}}, {"propertyName": "no"}]
)
def test_a_discriminator_that_says_nothing_is_passed_over(tag, echo):
    schemas = {"Boat": {**BOAT, "discriminator": tag}, "Odd": {"allOf": "no list"}, "Lost": {"allOf": [ref("Nowhere")]}}
    spec = document(echo.url, ref("Boat"), schemas)
    assert not call(spec, {"kind": "x"}).error
    assert echo.last.json == {"kind": "x"}
