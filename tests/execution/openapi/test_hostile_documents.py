"""Documents that would take for ever, or that hold the wrong thing in a place."""

from __future__ import annotations

import time
from typing import Any

import pytest

from toolkit.errors import ConfigError
from toolkit.execution.openapi.operations import operations
from toolkit.execution.openapi.spec import load_spec
from toolkit.execution.toolset import Toolset
from toolkit.tools import Tool, as_tools


def document(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": paths, **more}


def _described(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a document with one operation that takes S0."""
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    return document({"/x": {"post": {"operationId": "x", "requestBody": body}}}, components={"schemas": schemas})


def _bomb(depth: int, inner: Any) -> dict[str, Any]:
    """Return schemas of which each holds the next eight times."""
    schemas = {f"S{n}": inner([{"$ref": f"#/components/schemas/S{n + 1}"}] * 8, n) for n in range(depth)}
    return {**schemas, f"S{depth}": {"type": "object", "properties": {"a": {"type": "string"}}}}


@pytest.mark.parametrize(
    "inner",
    [
        lambda refs, n: {"allOf": refs},
        lambda refs, n: {"allOf": refs, "properties": {f"p{n}": {"type": "string"}}},
        lambda refs, n: {"oneOf": refs},
        lambda refs, n: {"properties": {f"q{i}": ref for i, ref in enumerate(refs)}},
        lambda refs, n: {"allOf": [*refs, {"$ref": "#/components/schemas/S0"}]},
    ],
    ids=["allOf", "allOf_beside_properties", "oneOf", "properties", "allOf_in_a_circle"],
)
def test_references_that_multiply_are_read_once(inner: Any) -> None:
    described = _described(_bomb(15, inner))
    start = time.process_time()
    (operation,) = operations(load_spec(described))
    assert time.process_time() - start < 2
    assert len(str(operation.parameters)) < 20_000


def test_a_long_chain_of_schemas_is_no_recursion_error() -> None:
    chain = {f"S{n}": {"properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}}} for n in range(1500)}
    (operation,) = operations(load_spec(_described({**chain, "S1500": {"type": "string"}})))
    assert len(operation.parameters["$defs"]) == 1500


def test_schema_names_in_another_script_stay_apart() -> None:
    names = [chr(0x4E00 + n) for n in range(900)]
    properties = {f"p{n}": {"$ref": f"#/components/schemas/{name}"} for n, name in enumerate(names)}
    schemas = {"S0": {"properties": properties}, **{name: {"const": name} for name in names}}
    (operation,) = operations(load_spec(_described(schemas)))
    defined = operation.parameters["$defs"]
    assert sorted(item["const"] for item in defined.values()) == names
    assert operation.parameters["properties"]["p1"] == {"$ref": "#/$defs/Schema_2"}


@pytest.mark.parametrize("junk", [5, True, -1.5, "x", {"a": 1}], ids=repr)
@pytest.mark.parametrize("key", ["parameters", "servers", "security"])
@pytest.mark.parametrize("place", ["operation", "path", "document"])
def test_what_is_no_list_is_named(place: str, key: str, junk: Any) -> None:
    owners: dict[str, dict[str, Any]] = {"operation": {"operationId": "get-x"}, "path": {}, "document": {}}
    owners[place][key] = junk
    described = document({"/x": {"get": owners["operation"], **owners["path"]}}, **owners["document"])
    if (place, key) in (("document", "parameters"), ("path", "security")):  # OpenAPI has none there
        assert operations(load_spec(described))
        return
    with pytest.raises(ConfigError, match=rf"Operation 'get-x' cannot be read: '{key}' must be a list, not "):
        operations(load_spec(described))


def _seconds(count: int, name: str) -> float:
    """Return the time of the first tool that a document of many operations gives, and of reading and showing them."""
    paths = {f"/{n}": {"get": {"operationId": name.format(n)}} for n in range(count)}
    start = time.process_time()
    tools = Toolset(operation_tools(document(paths)))
    for _ in range(5):
        as_tools(tools)
        assert tools.names[7] in tools
    return time.process_time() - start


@pytest.mark.parametrize("name", ["op{}", "same", "x" * 70], ids=["own_names", "one_name", "one_long_name"])
def test_many_operations_take_time_in_proportion(name: str) -> None:
    _seconds(10, name)  # imports
    assert _seconds(8_000, name) < 12 * _seconds(2_000, name)


def operation_tools(described: dict[str, Any]) -> list[Tool]:
    return [Tool(item.name, item.description, item.parameters, print) for item in operations(load_spec(described))]
