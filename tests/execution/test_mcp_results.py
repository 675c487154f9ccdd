"""Whatever an MCP tool says reaches the model: text, structured content, both, of an error or beside its schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from toolkit.errors import ToolInvocationError
from toolkit.execution.invoker import ToolInvoker
from toolkit.execution.toolset import Toolset
from toolkit.messages import ToolCall

pytest.importorskip("mcp")
INPUT = {"type": "object", "properties": {"case": {"type": "string"}}}
COUNTS = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
TOOLS = [
    {"name": "free", "description": "d", "inputSchema": INPUT},
    {"name": "counts", "description": "d", "inputSchema": INPUT, "outputSchema": COUNTS},
    # schemas that strict clients drop, and the whole server with them
    {"name": "bare", "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}},
    {"name": "either", "inputSchema": {"type": "object", "anyOf": [INPUT, {"type": "object"}]}},
]


def text(*said):
    return [{"type": "text", "text": one} for one in said]


# name -> result, what the model gets, whether it is an error; each is asked of a tool with and without output schema
CASES = {
    "error with details (hermes-agent#101330)": (
        {"isError": True, "content": text("build failed"), "structuredContent": {"line": 121}},
        ["build failed", '{"line": 121}'],
        True,
    ),
    "error with details alone (langchain-mcp-adapters#619, anthropic-sdk-python#1840)": (
        {"isError": True, "content": [], "structuredContent": {"code": "RATE_LIMITED", "retry_after": 30}},
        ['"code": "RATE_LIMITED"', '"retry_after": 30'],
        True,
    ),
    "error beside its schema (tailscale-mcp#101, repomix#833)": (
        {"isError": True, "content": text("admin only"), "structuredContent": {"error": {"code": 403}}},
        ["admin only", "403"],
        True,
    ),
    "error without structure, with schema (mcp-context-forge#4136)": (
        {"isError": True, "content": text("no such dataset")},
        ["no such dataset"],
        True,
    ),
    "summary beside data (dapr-agents#287)": (
        {"content": text("2 tides found."), "structuredContent": {"tides": [{"at": "18:31"}]}},
        ["2 tides found.", '{"tides": [{"at": "18:31"}]}'],
        False,
    ),
    "several texts beside data (langchain-mcp-adapters#283)": (
        {"content": text("first", "second"), "structuredContent": {"a": 1}},
        ["first", "second", '{"a": 1}'],
        False,
    ),
    "text and structure that break the schema (hermes-agent#101330)": (
        {"content": text("Three boats."), "structuredContent": {"count": "three"}},
        ["Three boats.", '{"count": "three"}'],
        False,
    ),
    "schema and no structure (nexus#236)": ({"content": text("plain words")}, ["plain words"], False),
    "structure alone": ({"content": [], "structuredContent": {"count": 3}}, ['{"count": 3}'], False),
    "the same twice": (
        {"content": text('{\n "count": 3\n}'), "structuredContent": {"count": 3}},
        ['{"count": 3}'],
        False,
    ),
    "a wrapped text": ({"content": text("4"), "structuredContent": {"result": "4"}}, ["4"], False),
    "a wrapped list": ({"content": text("1", "2"), "structuredContent": {"result": [1, 2]}}, ["1\n2"], False),
    "a wrapped empty list": ({"content": [], "structuredContent": {"result": []}}, ["[]"], False),
    "nothing": ({"content": []}, [""], False),
}


@pytest.fixture(scope="module")
def tools():
    results = json.dumps({name: result for name, (result, _, _) in CASES.items()})
    server = Path(__file__).with_name("scripted_mcp_server.py")
    with Toolset.from_mcp([sys.executable, str(server), json.dumps(TOOLS), results], timeout_s=30) as found:
        yield found


@pytest.mark.parametrize("tool", ["free", "counts"])
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_and_nothing_said_twice(case, tool, tools):
    _, parts, is_error = CASES[case]
    said = ToolInvoker(tools, raise_on_failure=False).invoke(ToolCall(tool, {"case": case}))
    assert said.error is is_error
    assert all(said.result.count(part) == 1 for part in parts if part), said.result
    if not is_error:
        assert said.result == "\n".join(parts)


def test_an_error_is_raised_to_who_calls_the_tool_as_a_function(tools):
    with pytest.raises(ToolInvocationError, match=r"reported an error: build failed\n\{\"line\": 121\}"):
        tools["free"](case="error with details (hermes-agent#101330)")


def test_a_schema_without_properties_or_with_alternatives_drops_no_tool(tools):
    """See mcp-server-taskwarrior#11, swift-sdk#79, claude-code#88049."""
    assert tools.names == ["free", "counts", "bare", "either"]
    assert tools["bare"].parameters["type"] == "object"
    assert tools["either"](case="structure alone") == {"count": 3}
