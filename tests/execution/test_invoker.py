"""ToolInvoker: what is checked, what is run, what comes back, and in which order."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import sys
from pathlib import Path
from typing import Annotated, Literal

import pydantic
import pytest

import toolkit as tk
from toolkit.errors import did_you_mean

EMPTY = {"type": "object", "properties": {}}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(pydantic.BaseModel):
    sku: str
    count: int = pydantic.Field(gt=0)


@tk.tool
def weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
    """Tell the weather."""
    return f"{city}, {days} days, {unit}"


@tk.tool
def bad() -> str:
    """Fail."""
    raise ValueError("boom")


@tk.tool
def leave() -> str:
    """End the program."""
    sys.exit("bye")


@tk.tool
async def later(seconds: float = 0.0) -> dict:
    """Wait."""
    await asyncio.sleep(seconds)
    return {"waited": True}


def named(name: str, function=lambda: "done", **options) -> tk.Tool:
    return tk.Tool(name, "d", EMPTY, function, **options)


def asked(*calls: tk.ToolCall) -> list[tk.ChatMessage]:
    return [tk.ChatMessage.from_assistant(tool_calls=calls)]


def results(out: dict) -> list[tuple]:
    return [(r.result, r.error) for m in out["tool_messages"] for r in m.tool_call_results]


def quiet(*tools, **options) -> tk.ToolInvoker:
    return tk.ToolInvoker(tools, raise_on_failure=False, **options)


def test_the_documented_example_runs():
    def dummy_weather_function(city: str):
        return f"The weather in {city} is 20 degrees."

    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = tk.Tool(
        name="weather_tool",
        description="A tool to get the weather",
        function=dummy_weather_function,
        parameters=parameters,
    )
    tool_call = tk.ToolCall(tool_name="weather_tool", arguments={"city": "Berlin"})
    message = tk.ChatMessage.from_assistant(tool_calls=[tool_call])
    invoker = tk.ToolInvoker(tools=[tool])
    result = invoker.run(messages=[message])
    (reply,) = result["tool_messages"]
    assert reply.role == "tool"
    assert reply.tool_call_result == tk.ToolCallResult("The weather in Berlin is 20 degrees.", tool_call)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"city": 5}, ["city: expected string, got 5"]),
        ({}, ["city: expected string, got none"]),
        ({"city": "Oslo", "unit": "K"}, ['unit: expected one of "C", "F", got "K"']),
        ({"city": "Oslo", "citty": 1}, ["citty: expected 'city', got an unknown name"]),
        ({"town": "Oslo"}, ["city: expected string, got none", "town: expected one of 'city', 'days', 'unit'"]),
        ({"city": None}, ["city: expected string, got null"]),
        ({"city": "Oslo", "days": "x" * 500}, ["days: expected integer", "…"]),
        ([1, 2], ["expected a JSON object, got [1, 2]"]),
        ("{city: Oslo}", ['expected a JSON object, got "{city: Oslo}"']),
        ({"city": object()}, ["expected JSON values"]),
    ],
    ids=["type", "missing", "enum", "near-name", "far-name", "null", "long", "list", "broken-json", "no-json"],
)
def test_arguments_that_do_not_fit_are_refused_field_by_field(arguments, words):
    result = quiet(weather).invoke(tk.ToolCall("weather", arguments))
    assert result.error
    assert result.result.startswith("Arguments of 'weather'")
    assert result.result.endswith("Nothing was run.")
    for word in words:
        assert word in result.result
    with pytest.raises(tk.ToolArgumentsError):
        tk.ToolInvoker([weather]).invoke(tk.ToolCall("weather", arguments))


def test_a_nested_fault_names_its_path():
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"required": ["b"], "type": "object"}}}}
    tool = tk.Tool("t", "d", schema, lambda a: a)
    text = quiet(tool).invoke(tk.ToolCall("t", {"a": [{"b": 1}, {}, 3]})).result
    assert "a[1].b: expected a value, got none" in text
    assert "a[2]: expected object, got 3" in text


@pytest.mark.parametrize("given", ["", "  ", None, "null", {}, "{}"], ids=repr)
def test_empty_arguments_mean_none_were_given(given):  # haystack#9408, haystack#8876
    assert quiet(named("t")).invoke(tk.ToolCall("t", given)).result == "done"


def test_unknown_tools_are_answered_with_near_and_known_names():
    result = quiet(weather, bad).invoke(tk.ToolCall("wether"))
    assert (result.error, result.result) == (
        True,
        "No tool is called 'wether'. Did you mean 'weather'? Known: weather, bad.",
    )
    with pytest.raises(tk.ToolNotFoundException):
        tk.ToolInvoker([weather]).invoke(tk.ToolCall("wether"))
    assert quiet(weather).invoke(tk.ToolCall(None)).error


def test_of_many_tools_the_near_one_and_the_first_are_named():
    names = [f"lookup_{number}_in_register" for number in range(20_000)]
    said = did_you_mean("lokup_19999_in_register", names)
    assert said.startswith("Did you mean 'lookup_19999_in_register'? Known: lookup_0_in_register, lookup_1_in_register")
    assert said.endswith(" and 19,970 more.")
    assert len(said) < 1_000


def test_a_failure_tells_class_and_message_and_keeps_the_traceback_apart():  # haystack#9050
    result = quiet(bad).invoke(tk.ToolCall("bad"))
    assert result.result == "Tool 'bad' failed with ValueError: boom"
    assert 'raise ValueError("boom")' in result.traceback
    assert "traceback" not in result.to_dict()
    with pytest.raises(tk.ToolInvocationError) as caught:
        tk.ToolInvoker([bad]).invoke(tk.ToolCall("bad"))
    assert isinstance(caught.value.__cause__, ValueError)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


def raising(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        StopIteration(),
        asyncio.CancelledError(),
        GeneratorExit(),
        RecursionError(),
        Mute(),
        tk.ToolTimeoutError("own"),
        TimeoutError(),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("many", [1, 3])
def test_in_message_mode_nothing_escapes(error, many):
    invoker = quiet(named("t", raising(error), timeout_s=5), named("u", raising(error)))
    calls = [tk.ToolCall(name) for name in "tu" for _ in range(many)]
    assert [flag for _, flag in results(invoker.run(asked(*calls)))] == [True] * len(calls)
    out = asyncio.run(invoker.run_async(asked(*calls)))
    assert [flag for _, flag in results(out)] == [True] * len(calls)


@pytest.mark.parametrize("many", [1, 2])
def test_keyboard_interrupt_is_passed_on(many):
    with pytest.raises(KeyboardInterrupt):
        quiet(named("t", raising(KeyboardInterrupt()))).run(asked(*[tk.ToolCall("t")] * many))


def test_results_keep_the_order_of_the_calls_failures_too():
    calls = [tk.ToolCall("weather", {"city": "A"}), tk.ToolCall("nope"), tk.ToolCall("bad"), tk.ToolCall("weather", {})]
    out = quiet(weather, bad).run([tk.ChatMessage.from_user("x"), *asked(*calls[:2]), *asked(*calls[2:])])
    assert [m.tool_call_result.origin for m in out["tool_messages"]] == calls
    assert [flag for _, flag in results(out)] == [False, True, True, True]


def test_raising_one_by_one_stops_at_the_first_failure():
    ran = []
    tools = [named("note", lambda: ran.append(1)), bad]
    with pytest.raises(tk.ToolInvocationError):
        tk.ToolInvoker(tools, max_workers=1).run(asked(tk.ToolCall("note"), tk.ToolCall("bad"), tk.ToolCall("note")))
    assert ran == [1]


def test_raising_at_once_lets_the_others_finish_and_raises_the_first():
    ran = []
    tools = [named("note", lambda: ran.append(1)), bad, leave]
    calls = [tk.ToolCall("note"), tk.ToolCall("bad"), tk.ToolCall("leave"), tk.ToolCall("note")]
    with pytest.raises(tk.ToolInvocationError, match="'bad'"):
        tk.ToolInvoker(tools).run(asked(*calls))
    assert ran == [1, 1]


def test_raising_at_once_runs_nothing_where_a_call_cannot_be_run():
    ran = []
    tools = [named("note", lambda: ran.append(1)), weather]
    with pytest.raises(tk.ToolNotFoundException):
        tk.ToolInvoker(tools).run(asked(tk.ToolCall("note"), tk.ToolCall("nope")))
    with pytest.raises(tk.ToolArgumentsError):
        tk.ToolInvoker(tools).run(asked(tk.ToolCall("note"), tk.ToolCall("weather")))
    assert ran == []


@pytest.mark.parametrize(
    ("limit", "want"),
    [(None, "x" * 30_000), (10, "x" * 10 + "… [cut: 10 of 30,000 characters shown]")],
    ids=["all", "cut"],
)
def test_long_results_are_cut_visibly(limit, want):
    tool = named("long", lambda: "x" * 30_000)
    assert quiet(tool, max_result_chars=limit).invoke(tk.ToolCall("long")).result == want


def test_objects_are_made_where_the_signature_names_them():
    def order(
        line: Line, when: dt.date, colours: list[Colour], where: Path = Path(), note: Annotated[str, "say"] = ""
    ) -> str:
        assert isinstance(line, Line)
        assert isinstance(when, dt.date)
        return f"{line.sku} {when.year} {[c.name for c in colours]} {where.name} {note}"

    invoker = quiet(tk.Tool.from_function(order))
    given = {"line": {"sku": "a", "count": 2}, "when": "2026-01-02", "colours": ["red"], "where": "x/y"}
    assert invoker.invoke(tk.ToolCall("order", given)).result == "a 2026 ['RED'] y "
    wrong = invoker.invoke(tk.ToolCall("order", {**given, "when": "soon"}))
    assert wrong.error
    assert "when: expected" in wrong.result
    assert given["when"] == "2026-01-02"


def test_defaults_written_as_fields_reach_the_function():
    def add(a: int, b: int = pydantic.Field(default=4, ge=0)) -> int:
        return a + b

    assert quiet(tk.Tool.from_function(add)).invoke(tk.ToolCall("add", {"a": 1})).result == "5"


def test_whole_floats_become_ints_only_where_the_signature_says_int():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    def typed(n: int):
        return repr(n)

    def untyped(n):
        return repr(n)

    call = tk.ToolCall("t", {"n": 3.0})
    assert quiet(tk.Tool("t", "d", schema, typed)).invoke(call).result == "3"
    assert quiet(tk.Tool("t", "d", schema, untyped)).invoke(call).result == "3.0"


def test_dangerous_tools_wait_for_leave():
    asked_for, ran = [], []
    tool = named("drop", lambda: ran.append(1) or "dropped", effect="dangerous")
    invoker = quiet(tool, weather, ask=lambda call: asked_for.append(call.tool_name))
    assert "did not allow this call of 'drop'" in invoker.invoke(tk.ToolCall("drop")).result
    out = invoker.run(asked(tk.ToolCall("drop"), tk.ToolCall("weather", {"city": "A"})))
    assert [flag for _, flag in results(out)] == [True, False]
    assert (asked_for, ran) == (["drop", "drop"], [])
    assert quiet(tool, ask=lambda call: True).invoke(tk.ToolCall("drop")).result == "dropped"
    assert quiet(tool).invoke(tk.ToolCall("drop")).result == "dropped"
    with pytest.raises(tk.ToolNotApprovedError):
        tk.ToolInvoker([tool], ask=lambda call: False).run(asked(tk.ToolCall("drop"), tk.ToolCall("drop")))


def test_nobody_is_asked_about_a_call_that_does_not_fit():
    tool = tk.Tool("drop", "d", {"type": "object", "required": ["x"]}, lambda x: x, effect="dangerous")
    assert "do not fit" in quiet(tool, ask=pytest.fail).invoke(tk.ToolCall("drop")).result


async def _yes(call):
    return True


async def _no(call):
    return False


@pytest.mark.parametrize(
    ("hook", "error"), [(_yes, False), (_no, True), (raising(OSError()), True)], ids=["yes", "no", "fails"]
)
def test_the_approval_hook_may_be_async_and_refuses_where_it_fails(hook, error):
    invoker = quiet(named("drop", effect="dangerous"), ask=hook)
    calls = asked(tk.ToolCall("drop"), tk.ToolCall("drop"))
    assert invoker.invoke(tk.ToolCall("drop")).error is error
    assert [flag for _, flag in results(invoker.run(calls))] == [error, error]
    assert [flag for _, flag in results(asyncio.run(invoker.run_async(calls)))] == [error, error]


def test_tools_of_a_run_replace_those_of_the_invoker():
    out = quiet(weather).run(asked(tk.ToolCall("weather", {"city": "A"}), tk.ToolCall("t")), tools=[named("t")])
    assert [flag for _, flag in results(out)] == [True, False]


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([], "at least one tool"),
        ([named("a"), tk.Toolset([named("a")])], "unique"),
        (["x"], "is no tool"),
        ([tk.Tool("a", "d", EMPTY)], "no function"),
        (named("a"), "brackets"),
    ],
    ids=["none", "twice", "text", "shown-only", "bare"],
)
def test_an_invoker_that_cannot_work_is_refused(tools, words):
    with pytest.raises(tk.ConfigError, match=words):
        tk.ToolInvoker(tools)


def test_calls_from_an_extraction_are_calls():
    from toolkit.extraction.types import ExtractedCall

    call = ExtractedCall("weather", {"city": "A"}, syntax="hermes")
    assert quiet(weather).invoke(call).to_dict()["origin"] == {
        "tool_name": "weather",
        "arguments": {"city": "A"},
        "id": None,
    }


def test_arguments_of_a_call_are_never_changed():
    given = {"city": "A", "days": 2.0}
    quiet(weather).invoke(tk.ToolCall("weather", given))
    assert given == {"city": "A", "days": 2.0}


class Picky(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def look(cls, value):
        raise KeyError(value)


def test_hooks_that_end_the_program_do_not():
    def take(picky: Picky) -> str:
        return picky.name

    tools = [
        tk.Tool.from_function(take),
        named("handled", outputs_to_string={"handler": lambda value: sys.exit(1)}),
        named("kept", lambda: {"a": 1}, outputs_to_state={"a": {"handler": lambda old, new: sys.exit(1)}}),
        named("held", effect="dangerous"),
    ]
    invoker = quiet(*tools, ask=lambda call: sys.exit(1))
    calls = [tk.ToolCall("take", {"picky": {"name": "x"}}), *map(tk.ToolCall, ("handled", "kept", "held"))]
    state = tk.State({"a": {"type": str}})
    assert [invoker.invoke(call, state=state).error for call in calls] == [True] * 4
    assert [flag for _, flag in results(invoker.run(asked(*calls), state))] == [True] * 4
