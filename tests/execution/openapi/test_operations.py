"""Every operation of a document becomes a function with a name, a text and a schema."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import ConfigError
from toolkit.execution.openapi.operations import Operation, normalise, operations
from toolkit.execution.openapi.spec import load_spec


def document(paths: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "T", "version": "1"}, "paths": paths, **more}


def one(operation: dict[str, Any], path: str = "/a", method: str = "post", **more: Any) -> Operation:
    return operations(load_spec(document({path: {method: operation}}, **more)))[0]


def body(schema: Any, kind: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"operationId": "a", "requestBody": {"content": {kind: {"schema": schema}}, **more}}


def query(schema: Any, **more: Any) -> dict[str, Any]:
    return {"operationId": "a", "parameters": [{"name": "q", "in": "query", "schema": schema, **more}]}


# ---------------------------------------------------------------- names and texts


def test_missing_operation_id_is_made_of_path_and_method() -> None:  # B-W12
    found = operations(load_spec(document({"/pets/{id}": {"get": {}, "delete": {}}})))
    assert [item.name for item in found] == ["pets_id__get", "pets_id__delete"]


def test_names_are_unique_and_short() -> None:
    paths = {f"/{n}": {"get": {"operationId": "x" * 80}} for n in range(3)}
    names = [item.name for item in operations(load_spec(document(paths)))]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9_]{1,64}", name) for name in names)


@settings(deadline=None)  # the first example pays for imports
@given(st.text(max_size=100))
def test_any_name_can_be_normalised(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_]{1,64}", normalise(name))


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ({"summary": "s", "description": "d"}, "d"),
        ({"summary": "s"}, "s"),
        ({}, "POST /a"),
        ({"description": " "}, "POST /a"),
    ],
    ids=["description", "summary", "none", "blank"],
)
def test_description(operation: dict[str, Any], text: str) -> None:
    assert one(operation).description == text


def test_description_is_cut() -> None:
    assert len(one({"description": "x" * 5000}).description) == 1024


def test_order_is_the_documents() -> None:
    paths = {"/b": {"post": {"operationId": "1"}, "get": {"operationId": "2"}}, "/a": {"get": {"operationId": "3"}}}
    assert [item.id for item in operations(load_spec(document(paths)))] == ["1", "2", "3"]


def test_parameterless_operations_are_offered() -> None:  # B-W14
    assert one({"operationId": "health"}).parameters == {"type": "object", "properties": {}}


# ---------------------------------------------------------------- parameters


def test_parameters_of_the_path_item_are_offered() -> None:  # B-W12
    paths = {
        "/t/{tenant}": {
            "parameters": [
                {"name": "tenant", "in": "path", "required": True, "schema": {"type": "string"}},
                {"name": "page", "in": "query", "schema": {"type": "string"}},
            ],
            "get": {"parameters": [{"name": "page", "in": "query", "schema": {"type": "integer"}}]},
        }
    }
    found = operations(load_spec(document(paths)))[0].parameters
    assert found["properties"] == {"tenant": {"type": "string"}, "page": {"type": "integer"}}
    assert found["required"] == ["tenant"]


def test_undeclared_placeholder_is_a_parameter() -> None:
    assert one({}, path="/a/{id}").parameters["required"] == ["id"]


@pytest.mark.parametrize("name", ["Authorization", "authorization", "Accept", "Content-Type", "Host", "Cookie"])
def test_headers_that_steer_the_request_are_not_offered(name: str) -> None:
    assert one({"parameters": [{"name": name, "in": "header", "schema": {}}]}).parameters["properties"] == {}


def test_parameter_text_wins_over_its_schemas() -> None:
    assert one(query({"type": "string", "description": "s"}, description="p")).parameters["properties"]["q"] == {
        "type": "string",
        "description": "p",
    }


def test_referenced_parameter_and_path_item() -> None:
    components = {
        "parameters": {
            "Q": {"name": "q", "in": "query", "required": True, "schema": {"$ref": "#/components/schemas/S"}}
        },
        "schemas": {"S": {"type": "string", "enum": ["a"]}},
        "pathItems": {"P": {"get": {"operationId": "x", "parameters": [{"$ref": "#/components/parameters/Q"}]}}},
    }
    spec = document({"/a": {"$ref": "#/components/pathItems/P"}}, components=components)
    assert operations(load_spec(spec))[0].parameters == {
        "type": "object",
        "properties": {"q": {"type": "string", "enum": ["a"]}},
        "required": ["q"],
    }


def test_one_name_in_three_places() -> None:
    operation = {
        **body({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}),
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
            {"name": "id", "in": "query", "schema": {"type": "boolean"}},
        ],
    }
    found = one(operation, path="/a/{id}")
    assert list(found.parameters["properties"]) == ["id", "query_id", "body_id"]
    assert found.parameters["required"] == ["id", "body_id"]
    assert [(item.argument, item.name, item.place) for item in found.arguments] == [
        ("id", "id", "path"),
        ("query_id", "id", "query"),
        ("body_id", "id", "body"),
    ]


# ---------------------------------------------------------------- schemas


KEPT = {
    "type": "integer",
    "default": 10,
    "enum": [10, 20],
    "format": "int32",
    "minimum": 1,
    "maximum": 50,
    "multipleOf": 10,
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (KEPT, KEPT),
        ({"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 5}, None),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}], "default": "x"}, None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ({"type": ["string", "null"]}, None),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 3}, None),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, None),
        ({"type": "string", "pattern": "(?<bad"}, {"type": "string"}),
        ({"type": "file"}, {}),
        (
            {"type": "string", "required": True, "minLength": "3", "xml": {}, "x-y": 1, "example": "e"},
            {"type": "string"},
        ),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array"}),
        ({"allOf": [{"type": "string"}], "description": "d"}, {"type": "string", "description": "d"}),
        (True, True),
    ],
    ids=range(13),
)
def test_schema_3_1(schema: Any, expected: Any) -> None:
    assert one(query(schema)).parameters["properties"]["q"] == (schema if expected is None else expected)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 0}),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, {"type": "integer", "maximum": 9}),
        (
            {"oneOf": [{"type": "string"}], "nullable": True, "description": "d"},
            {"description": "d", "anyOf": [{"oneOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
    ],
    ids=["nullable", "nullable_enum", "exclusive", "not_exclusive", "nullable_one_of"],
)
def test_schema_3_0(schema: Any, expected: Any) -> None:
    found = operations(load_spec(document({"/a": {"get": query(schema)}}, "3.0.3")))[0]
    assert found.parameters["properties"]["q"] == expected


def test_recursive_schema_goes_to_definitions() -> None:
    tree = {
        "type": "object",
        "properties": {
            "v": {"type": "integer"},
            "kids": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        },
    }
    found = one(
        body({"type": "object", "properties": {"tree": {"$ref": "#/components/schemas/Tree"}}}),
        components={"schemas": {"Tree": tree}},
    )
    validator = jsonschema_rs.Draft202012Validator(found.parameters)
    assert validator.is_valid({"tree": {"v": 1, "kids": [{"v": 2, "kids": []}]}})
    assert not validator.is_valid({"tree": {"kids": [{"kids": [{"v": "x"}]}]}})
    assert list(found.parameters["$defs"]) == ["Tree"]


def test_recursive_body() -> None:
    tree = {"type": "object", "properties": {"kid": {"$ref": "#/components/schemas/Tree"}}}
    found = one(body({"$ref": "#/components/schemas/Tree"}), components={"schemas": {"Tree": tree}})
    assert jsonschema_rs.Draft202012Validator(found.parameters).is_valid({"kid": {"kid": {}}})


def test_references_that_would_explode_are_kept() -> None:
    schemas = {
        f"S{n}": {"type": "object", "properties": {k: {"$ref": f"#/components/schemas/S{n + 1}"} for k in "abcd"}}
        for n in range(12)
    }
    schemas["S12"] = {"type": "integer"}
    found = one(query({"$ref": "#/components/schemas/S0"}), components={"schemas": schemas})
    assert len(found.parameters["$defs"]) == 13
    jsonschema_rs.Draft202012Validator(found.parameters)


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_description_beside_a_reference(version: str) -> None:
    schema = {"$ref": "#/components/schemas/S", "description": "mine"}
    spec = document(
        {"/a": {"get": query(schema)}},
        version,
        components={"schemas": {"S": {"type": "string", "description": "theirs"}}},
    )
    assert operations(load_spec(spec))[0].parameters["properties"]["q"] == {"type": "string", "description": "mine"}


def test_a_bad_schema_names_its_operation_and_the_way_out() -> None:
    spec = document({"/a": {"get": query({"$ref": "#/nope"})}, "/b": {"get": {"operationId": "b"}}})
    with pytest.raises(ConfigError, match=r"Operation 'a'.*#/nope.*allowed_operations"):
        operations(load_spec(spec))
    assert [item.name for item in operations(load_spec(spec), ["b"])] == ["b"]


# ---------------------------------------------------------------- bodies


PET = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}


@pytest.mark.parametrize(
    "kind",
    ["application/json", "application/vnd.api+json", "*/*", "application/x-www-form-urlencoded", "multipart/form-data"],
)
def test_object_body_is_spread(kind: str) -> None:
    found = one(body(PET, kind))
    assert found.parameters == PET | {"properties": PET["properties"]}
    assert found.body is not None
    assert not found.body.whole


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"oneOf": [PET, {"type": "string"}]},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "string"},
        {},
    ],
    ids=["array", "one_of", "map", "string", "any"],
)
def test_any_other_body_is_one_argument(schema: Any) -> None:
    found = one(body(schema, required=True))
    assert found.parameters == {"type": "object", "properties": {"body": schema}, "required": ["body"]}


def test_all_of_body_is_joined() -> None:
    schema = {
        "allOf": [
            {"$ref": "#/components/schemas/Pet"},
            {"type": "object", "properties": {"tag": {"type": "string"}}, "required": ["tag"]},
        ]
    }
    found = one(body(schema), components={"schemas": {"Pet": PET}})
    assert set(found.parameters["properties"]) == {"name", "age", "tag"}
    assert set(found.parameters["required"]) == {"name", "tag"}


def test_read_only_properties_are_left_out() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "string", "readOnly": True}, "name": {"type": "string"}},
    }
    assert one(body(schema)).parameters == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }


def test_json_is_preferred() -> None:
    operation = {
        "requestBody": {"content": {"text/plain": {}, "application/xml": {}, "application/json": {"schema": PET}}}
    }
    found = one(operation)
    assert found.body is not None
    assert found.body.media_type == "application/json"


# ---------------------------------------------------------------- the allow-list


PETS = document({"/pets": {"post": {"operationId": "create-pet.v1"}, "get": {"operationId": "list"}}})


@pytest.mark.parametrize("name", ["create-pet.v1", "create_pet_v1", "POST /pets"])
def test_allowed_by_any_spelling(name: str) -> None:  # B-W16
    assert [item.id for item in operations(load_spec(PETS), [name])] == ["create-pet.v1"]


def test_unknown_allowed_name_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'list'\? It has: create-pet.v1, list"):
        operations(load_spec(PETS), ["lst"])


def test_a_normalised_name_does_not_let_in_a_stranger() -> None:
    spec = document({"/a": {"get": {"operationId": "a.b"}}, "/b": {"get": {"operationId": "a_b"}}})
    assert [item.path for item in operations(load_spec(spec), ["a_b"])] == ["/b"]
    assert [item.path for item in operations(load_spec(spec), ["a.b"])] == ["/a"]
