"""How a tool is wired is checked when it is made, and survives being written down."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import toolkit as tk
from toolkit.tools.import_paths import dotted_path, resolve, resolve_function, tool_from_dict, tool_to_dict

EMPTY = {"type": "object", "properties": {}}


def plain(a: int = 1) -> int:
    """Give it back."""
    return a


@tk.tool
def decorated(city: str) -> str:
    """Tell the weather."""
    return city


def shout(value):
    return str(value).upper()


def keep(old, new):
    return new


def yes(call):
    return True


def make(**options):
    return tk.Tool("t", "d", {"type": "object", "properties": {"a": {"type": "string"}}}, lambda b=0: b, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs_from_state": {"repo": "zzz"}}, "maps 'repo' to 'zzz', which is no parameter. Use one of: a, b"),
        ({"inputs_from_state": {"repo": 1}}, "no parameter"),
        ({"outputs_to_state": {"k": "x"}}, "must be a dict"),
        ({"outputs_to_state": {"k": {"source": 1}}}, "must be text"),
        ({"outputs_to_state": {"k": {"handler": "x"}}}, "must be a function"),
        ({"outputs_to_state": {"k": {"raw_result": True}}}, "unknown keys"),
        ({"outputs_to_string": {"source": "a", "zzz": 1}}, r"unknown keys \['zzz'\]"),
        ({"outputs_to_string": {"raw_result": "yes"}}, "true or false"),
        ({"outputs_to_string": {"A": {}}}, "needs a 'source'"),
        ({"outputs_to_string": {"A": "x"}}, "must be a dict"),
        ({"outputs_to_string": {"A": {"source": "a", "raw_result": True}}}, "unknown keys"),
        ({"timeout_s": 0}, "above 0"),
        ({"effect": "harmless"}, "must be one of"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_work_is_refused_at_construction(options, words):
    with pytest.raises(tk.ConfigError, match=words):
        make(**options)


def test_a_mapping_to_a_function_without_parameters_is_refused():  # haystack#12811
    for parameters in ({"type": "object"}, {"type": "object", "properties": {}}):
        with pytest.raises(tk.ConfigError, match="is no parameter. Use one of: none, since it takes none"):
            tk.Tool("t", "d", parameters, lambda: 1, inputs_from_state={"town": "city"})
    tk.Tool("t", "d", {"type": "object"}, inputs_from_state={"town": "city"})  # what it takes, nobody can tell


@pytest.mark.parametrize(
    "options",
    [
        {"inputs_from_state": {"repo": "a"}},
        {"inputs_from_state": {"repo": "b"}},
        {"outputs_to_state": {"k": {}}},
        {"outputs_to_string": {"A": {"source": "a", "handler": shout}}},
    ],
    ids=["repo to a", "repo to b", "whole result", "handler"],
)
def test_what_can_work_is_taken(options):
    assert make(**options)


def test_a_schema_may_not_lead_out_of_itself():
    for reference in ("http://127.0.0.1:9/schema.json", "#/$defs/nothing"):
        with pytest.raises(tk.ConfigError, match="no valid JSON Schema"):
            tk.Tool("t", "d", {"type": "object", "properties": {"a": {"$ref": reference}}})


def wired() -> tk.Tool:
    return tk.Tool(
        "plain", "d", {"type": "object", "properties": {"a": {"type": "integer"}, "handler": {"default": "x"}}}, plain,
        inputs_from_state={"n": "a"}, outputs_to_state={"k": {"source": "s", "handler": keep}},
        outputs_to_string={"A": {"source": "s", "handler": shout}}, timeout_s=2.0, effect="dangerous",
    )  # fmt: skip


def test_a_tool_survives_json():
    for tool in (wired(), replace(wired(), return_direct=True)):
        data = json.loads(json.dumps(tool_to_dict(tool)))
        before = json.dumps(data)
        assert tool_from_dict(data) == tool
        assert json.dumps(data) == before
    assert set(tool_to_dict(tk.Tool("p", "d", EMPTY, plain))) == {"name", "description", "parameters", "function"}


def test_invokers_survive_json():
    tools = tk.Toolset([wired(), decorated])
    invoker = tk.ToolInvoker(tools, raise_on_failure=False, max_workers=2, timeout_s=3.0, ask=yes)
    data = json.loads(json.dumps(invoker.to_dict()))
    before = json.dumps(data)
    back = tk.ToolInvoker.from_dict(data)
    assert back.to_dict() == invoker.to_dict()
    assert (back.ask, back.tools) == (yes, list(tools))
    assert json.dumps(data) == before
    with pytest.raises(tk.ConfigError, match="is no ToolInvoker"):
        tk.ToolInvoker.from_dict({**data, "type": "os.system"})


class Box:
    def method(self):
        return 1


@pytest.mark.parametrize("function", [lambda: 1, Box().method, Box()], ids=["lambda", "method", "object"])
def test_what_no_import_finds_is_an_error_at_to_dict(function):
    with pytest.raises(tk.ConfigError):
        tk.ToolInvoker([tk.Tool("t", "d", EMPTY, function)]).to_dict()


def test_a_local_function_is_an_error_at_to_dict():
    def local():
        return 1

    with pytest.raises(tk.ConfigError, match="import path"):
        tk.ToolInvoker([tk.Tool("t", "d", EMPTY, local)]).to_dict()


@pytest.mark.parametrize(
    "path", ["json.nothing", "nothing.at_all", "json", "sys.path", "", None, "json.dumps.x"], ids=repr
)
def test_paths_that_name_no_function_are_refused(path):
    with pytest.raises(tk.ConfigError, match="names no function"):
        resolve(path)


def test_a_decorated_function_is_found_under_its_tool():
    path = dotted_path(decorated.function)
    assert resolve_function(path) is decorated.function
