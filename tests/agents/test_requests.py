"""Requests: fields, override, and that nothing can be changed in place."""

from __future__ import annotations

import pytest

import toolkit as tk
from toolkit.errors import UpdateError


@pytest.fixture
def request_():
    return tk.ModelRequest(model=tk.ScriptedModel([]), messages=["hi"], tools=[1], model_settings={"seed": 1})


def test_override_leaves_the_receiver_alone(request_):
    new = request_.override(tool_choice="any", messages=["a", "b"])
    assert (new.tool_choice, len(new.messages)) == ("any", 2)
    assert (request_.tool_choice, len(request_.messages)) == (None, 1)
    assert new.model is request_.model


@pytest.mark.parametrize(
    "edit",
    [
        lambda r: r.messages.append("x"),
        lambda r: r.tools.clear(),
        lambda r: r.model_settings.update(seed=2),
        lambda r: setattr(r, "tool_choice", "any"),
        lambda r: setattr(r, "brand_new", 1),
        lambda r: delattr(r, "model"),
    ],
    ids=["append", "clear", "settings", "assign", "new name", "delete"],
)
def test_nothing_can_be_changed_in_place(request_, edit):
    """Source: langchain docs#2618."""
    with pytest.raises(AttributeError):
        edit(request_)


def test_assignment_says_what_to_do(request_):
    with pytest.raises(AttributeError, match=r"Pass on request.override\(tool_choice=…\) instead"):
        request_.tool_choice = "any"


def test_system_prompt_is_another_word(request_):
    new = request_.override(system_prompt="Be brief.")
    assert new.system_message == tk.ChatMessage.from_system("Be brief.")
    assert new.override(system_prompt=None).system_message is None
    with pytest.raises(ValueError, match="not both"):
        new.override(system_prompt="a", system_message=tk.ChatMessage.from_system("b"))
    with pytest.raises(ValueError, match="not both"):
        tk.ModelRequest(model=1, messages=[], system_prompt="a", system_message=tk.ChatMessage.from_system("b"))


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "function": {"name": "add"}},
        {"type": "function", "name": "add"},
        {"type": "tool", "name": "add"},
    ],
    ids=["chat", "responses", "messages"],
)
def test_a_tool_choice_in_a_servers_form_is_its_tools_name(choice):
    model = tk.ScriptedModel(["done"])
    tk.Agent(model, [add], middleware=[choosing(choice)]).run("go")
    assert model.requests[0]["tool_choice"] == "add"


@pytest.mark.parametrize(
    "choice", [{"type": "function"}, {"function": {"name": 5}}, {"name": ""}, 7, ["add"]], ids=repr
)
def test_a_tool_choice_that_names_no_tool_is_refused(choice):
    with pytest.raises(UpdateError, match=r"tool_choice=.* names no tool\. Give a tool's name"):
        tk.Agent(tk.ScriptedModel(["done"]), [add], middleware=[choosing(choice)]).run("go")


def choosing(choice):
    return tk.wrap_model_call(lambda request, handler: handler(request.override(tool_choice=choice)))


def add(x: int, y: int) -> int:
    """Add."""
    return x + y


def test_an_unknown_field_is_named(request_):
    with pytest.raises(TypeError, match="no field 'bogus'"):
        request_.override(bogus=1)


@pytest.mark.parametrize("given", [tk.ToolCall("add", {"x": 1}, "c"), {"name": "add", "args": {"x": 1}, "id": "c"}])
def test_a_call_reads_as_object_and_as_dict(given):
    one = tk.ToolCallRequest(tool_call=given).tool_call
    assert (one.name, one.arguments, one.id) == (one["name"], one["args"], one["id"]) == ("add", {"x": 1}, "c")
    assert dict(**one) == {"name": "add", "args": {"x": 1}, "id": "c"}
    assert list(one) == ["name", "args", "id"]
    assert one.get("args") == one.args
    assert one.get("type", "none") == "none"
    with pytest.raises(KeyError):
        one["type"]


def test_what_is_no_call_is_refused():
    with pytest.raises(TypeError, match="no tool call"):
        tk.ToolCallRequest(tool_call="add")


def test_reprs_are_short(request_):
    assert repr(request_) == "ModelRequest(1 messages, tools=[?], tool_choice=None)"
    assert repr(tk.ToolCallRequest(tool_call=tk.ToolCall("add"))) == "ToolCallRequest(add, registered=False)"


class LangChainSystem:
    """What LangChain's SystemMessage looks like."""

    type = "system"

    def __init__(self, content):
        self.content = content


@pytest.mark.parametrize(
    "system", ["new prompt", tk.SystemMessage(content="new prompt"), LangChainSystem("new prompt")],
    ids=["text", "ours", "LangChain's"],
)  # fmt: skip
def test_every_form_of_a_system_message_is_taken(system):
    request = tk.ModelRequest(model=None, messages="hi").override(system_message=system)
    assert request.system_prompt == "new prompt"
    assert tk.ModelRequest(model=None, messages="hi", system_message=system).system_prompt == "new prompt"
    model = tk.ScriptedModel(["ok"])
    tk.Agent(model, tools=[], system_prompt=system).run("hi")
    assert model.requests[0]["messages"][0].text == "new prompt"


def test_a_call_given_as_a_dict_is_copied_to_its_depths():
    given = {"name": "pay", "args": {"to": ["Ada"]}, "id": "c1"}
    request = tk.ToolCallRequest(tool_call=given)
    request.tool_call.arguments["to"].append("Eve")
    assert given["args"] == {"to": ["Ada"]}
