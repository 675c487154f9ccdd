"""What of a tool reaches the model, on each road, held to what a server's prompts really hold."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

import toolkit as tk
from toolkit.asking import ask, request
from toolkit.errors import ConfigError
from toolkit.models import load_model, lost_keywords, tools_seen
from toolkit.models.seen import plain_parameters, tools_as_kept
from toolkit.prompting.bounds import with_bounds_told
from toolkit.testing import FakeModel, FakeOllama
from toolkit.testing.prompts import tool_as_kept
from toolkit.tools import Tool

ROADS = ("native", "go", "builtin")
# keyword -> a value that nothing else in a prompt holds, and a type that it is said of
KEYWORDS = {
    "default": ("zq1", "string"), "minimum": (8001, "integer"), "maximum": (8002, "integer"),
    "exclusiveMinimum": (8003, "integer"), "exclusiveMaximum": (8004, "integer"), "multipleOf": (8005, "integer"),
    "minLength": (8006, "string"), "maxLength": (8007, "string"), "pattern": ("^zq2$", "string"),
    "format": ("zq3", "string"), "minItems": (8008, "array"), "maxItems": (8009, "array"),
    "examples": (["zq4"], "string"), "contentEncoding": ("zq5", "string"),
    "minProperties": (8010, "object"), "patternProperties": ({"^zq6": {}}, "object"),
    "additionalProperties": ({"type": "string", "description": "zq7"}, "object"),
    "description": ("zq8", "string"), "enum": (["zq9"], "string"), "const": ("zq10", "string"),
    "oneOf": ([{"type": "string", "description": "zq11"}, {"type": "integer"}], ""),
    "anyOf": ([{"type": "string", "description": "zq12"}, {"type": "integer"}], ""),
    "allOf": ([{"type": "string", "description": "zq13"}], ""),
    "items": ({"type": "string", "pattern": "^zq14$"}, "array"),
    "properties": ({"inner": {"type": "string", "description": "zq15"}}, "object"),
}  # fmt: skip


@dataclass
class Place:
    """Where."""

    city: str
    floor: Annotated[int, Field(ge=0)] = 1


class Unit(enum.Enum):
    """Which unit."""

    C = "celsius"
    F = "fahrenheit"


def weather(place: Place, unit: Unit = Unit.C, days: Annotated[int, Field(ge=1, le=7)] = 3, how: Literal["x"] = "x"):
    """Tell the weather."""


def tool_of(**schema):
    return Tool("f", "", {"type": "object", "properties": {"p": schema}})


@pytest.fixture(params=ROADS)
def model(request):
    with (
        FakeOllama([FakeModel("m", road=request.param)]) as server,
        load_model("ollama/m", host=server.host) as model,
    ):
        yield model


def sentinel(value):
    return re.search(r"zq\d+|80\d\d", json.dumps(value))[0]


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_is_called_lost_where_the_prompt_does_not_hold_it(model, keyword):
    """ollama#17142, ollama#13472, theia#18001: keywords of a parameter are dropped without a word."""
    value, kind = KEYWORDS[keyword]
    tool = tool_of(**({"type": kind} if kind else {}), **{keyword: value})
    shown = sentinel(value) in model.tools_seen([tool])
    assert shown == (not any(place.endswith(keyword) for place in lost_keywords([tool.tool_spec])))


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_the_option_tells_every_lost_keyword_in_the_description(model, keyword):
    value, kind = KEYWORDS[keyword]
    told = with_bounds_told(tool_of(**({"type": kind} if kind else {}), **{keyword: value}))
    assert sentinel(value) in model.tools_seen([told])


VALUES = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 1}, {"const": 3}, {"enum": ["a"]}, {}]),
    lambda inner: st.one_of(
        st.builds(lambda one: {"type": "array", "items": one, "minItems": 1}, inner),
        st.builds(lambda many: {"type": "object", "properties": many}, st.dictionaries(st.sampled_from("abc"), inner)),
        st.builds(lambda many: {"anyOf": many, "title": "T"}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda many: {"oneOf": many}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_what_is_kept_is_what_the_server_keeps(schema):
    """The fake server's types are held to the recorded prompts."""
    spec = tool_of(**schema).tool_spec
    sent = {"type": "function", "function": {**spec, "parameters": plain_parameters(spec["parameters"])}}
    (mine,) = tools_as_kept([spec])
    assert mine["parameters"] == tool_as_kept(sent)["function"]["parameters"]


def test_a_dataclass_and_an_enum_arrive_with_types_and_choices(model):  # mellea#911, ollama#13472
    text = model.tools_seen([tk.tool(weather)])
    for word in ("city", "string", "floor", "integer", "celsius", "fahrenheit"):
        assert word in text
    assert lost_keywords([tk.tool(weather).tool_spec]) == [
        "weather.place.floor.default", "weather.place.floor.minimum", "weather.unit.default", "weather.days.default",
        "weather.days.maximum", "weather.days.minimum", "weather.how.default",
    ]  # fmt: skip


@pytest.mark.parametrize("parameters", [{}, {"type": "object"}, {"properties": {}}])
def test_a_tool_without_parameters_is_sent_whole(model, parameters):  # ollama-vscode#67
    assert "f" in model.tools_seen([Tool("f", "Do it.", parameters)])


def test_tools_seen_is_just_what_tools_add(model):
    text = tools_seen(model, [tk.tool(weather)])
    assert text in model.apply_template("Hi", [tk.tool(weather)])
    assert "Hi" not in text.split()


def asked_of(model, **more):
    recipe = tk.Recipe("ollama/m", arm="native", **more)
    return ask(recipe, "Hi", [tk.tool(weather)], model)


def test_an_answer_knows_what_the_model_saw():
    with FakeOllama([FakeModel("m")]) as server, load_model("ollama/m", host=server.host) as model:
        server.follows(lambda body: "Hello.")
        for transport in ("chat", "raw"):
            asked = asked_of(model, transport=transport)
            assert asked.seen == model.apply_template("Hi", [tk.tool(weather)])
            assert asked.tools_seen == tools_as_kept([tk.tool(weather).tool_spec])
            assert "weather.days.minimum" in asked.lost
            assert "Never reaches the model" in asked._repr_html_()
            assert any("weather.days.minimum" in note for note in asked.reply.raw["notes"])


def test_bounds_are_told_in_the_native_arm_alone_and_the_tool_stays_the_callers():
    tool = tk.tool(weather)
    plain = tk.Recipe("ollama/m", arm="native")
    telling = plain.replace(tell_bounds=True)
    assert plain.hash != telling.hash
    (sent,) = request(telling, "Hi", [tool]).tools
    assert sent.properties["days"]["description"] == "(3 if left out; at most 7; at least 1)"
    assert sent.properties["unit"]["description"] == "Which unit. (celsius if left out)"
    assert request(telling, "Hi", [tool]).offered[0] is not sent
    assert request(plain, "Hi", [tool]).tools[0].parameters == tool.parameters
    prompted = telling.replace(arm="prompted")
    silent = prompted.replace(tell_bounds=False)
    assert request(prompted, "Hi", [tool]).messages == request(silent, "Hi", [tool]).messages
    with pytest.raises(ConfigError, match="tell_bounds"):
        tk.Recipe("ollama/m", tell_bounds="yes")


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_telling_twice_changes_no_schema(schema):
    told = with_bounds_told(tool_of(**schema))
    assert set(told.properties["p"]) >= set(plain_parameters(tool_of(**schema).parameters)["properties"]["p"])
    assert lost_keywords([told.tool_spec]) == lost_keywords([tool_of(**schema).tool_spec])
