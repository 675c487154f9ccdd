"""What tools share, in which order they run for it, and where their results go."""

from __future__ import annotations

import asyncio
import collections.abc
import threading
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit as tk
from toolkit.execution.turns import Access, batches

EMPTY = {"type": "object", "properties": {}}


def upper(value):
    return str(value).upper()


def give(value):
    return lambda: value


def shop(**data) -> tk.State:
    return tk.State({"docs": {"type": list}, "repo": {"type": str}, "last": {"type": dict}}, {"repo": "R", **data})


def run(tools, *names, state=None, mode="sync", **options):
    invoker = tk.ToolInvoker(tools, **{"raise_on_failure": False, **options})
    calls = [tk.ToolCall(name, {}, str(i)) for i, name in enumerate(names)]
    messages = [tk.ChatMessage.from_assistant(tool_calls=calls)]
    if mode == "async":
        return asyncio.run(invoker.run_async(messages, state))
    return invoker.run(messages, state)


def texts(out):
    return [message.tool_call_result.result for message in out["tool_messages"]]


def test_lists_grow_and_other_values_are_replaced():
    state = shop()
    state.set("docs", ["a"])
    state.set("docs", "b")
    state.set("repo", "S")
    assert (state.data, state.has("last"), state.get("last", 1)) == (
        {"repo": "S", "docs": ["a", "b"], "messages": []},
        False,
        1,
    )


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (lambda: shop().set("zzz", 1), "no key 'zzz'"),
        (lambda: shop(zzz=1), "no key 'zzz'"),
        (lambda: tk.State({"a": {}}), "no type"),
        (lambda: tk.State({"a": {"type": str, "handler": "x"}}), "must be a function"),
    ],
    ids=["set", "data", "type", "handler"],
)
def test_what_a_state_refuses(job, words):
    with pytest.raises(tk.ConfigError, match=words):
        job()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_reader_runs_after_the_writer_whatever_the_model_said(mode):  # haystack#11690
    reader = tk.Tool("reader", "d", EMPTY, lambda repo=None: repo, inputs_from_state={"repo": "repo"})
    writer = tk.Tool("writer", "d", EMPTY, give({"repo": "NEW"}), outputs_to_state={"repo": {"source": "repo"}})
    out = run([reader, writer], "reader", "writer", state=shop(), mode=mode)
    assert texts(out) == ["NEW", '{"repo": "NEW"}']
    assert out["state"].get("repo") == "NEW"


@pytest.mark.parametrize("workers", [1, 4])
def test_calls_in_a_circle_run_in_call_order_and_see_each_other(workers):
    tool = tk.Tool(
        "t", "d", EMPTY, lambda docs: {"docs": [len(docs)]},
        inputs_from_state={"docs": "docs"}, outputs_to_state={"docs": {"source": "docs"}},
    )  # fmt: skip
    out = run([tool], "t", "t", "t", state=shop(docs=["d"]), max_workers=workers)
    assert out["state"].get("docs") == ["d", 1, 2, 3]


def test_the_model_wins_over_the_state_and_names_alone_inject_nothing():
    mapped = tk.Tool("mapped", "d", EMPTY, lambda name: name, inputs_from_state={"repo": "name"})
    same = tk.Tool("same", "d", EMPTY, lambda repo="default": repo)
    invoker = tk.ToolInvoker([mapped, same])
    assert invoker.invoke(tk.ToolCall("mapped", {"name": "LLM"}), state=shop()).result == "LLM"
    assert invoker.invoke(tk.ToolCall("mapped"), state=shop()).result == "R"
    assert invoker.invoke(tk.ToolCall("same"), state=shop()).result == "default"


def test_a_required_value_that_the_state_lacks_is_named():
    schema = {"type": "object", "properties": {"d": {"type": "array"}}, "required": ["d"]}
    tool = tk.Tool("t", "d", schema, lambda d: d, inputs_from_state={"docs": "d"})
    (text,) = texts(run([tool], "t", state=shop()))
    assert "d: expected a value (the state has no 'docs' yet)" in text
    assert texts(run([tool], "t", state=shop(docs=["x"]))) == ['["x"]']


def test_a_parameter_typed_state_is_given_the_live_one_and_hidden_from_the_model():
    def note(text: str, state: tk.State) -> str:
        """Note."""
        state.set("docs", text)
        return str(len(state.get("docs")))

    tool = tk.Tool.from_function(note)
    assert list(tool.properties) == ["text"]
    invoker = tk.ToolInvoker([tool])
    calls = [tk.ToolCall("note", {"text": "a"}), tk.ToolCall("note", {"text": "b"})]
    state = shop()
    assert texts(invoker.run([tk.ChatMessage.from_assistant(tool_calls=calls)], state)) == ["1", "2"]
    assert state.get("docs") == ["a", "b"]
    assert invoker.invoke(calls[0]).error is True if not invoker.raise_on_failure else True


@pytest.mark.parametrize(
    ("value", "config", "want"),
    [
        ({"docs": ["d"], "x": 1}, {"docs": {"source": "docs"}}, {"docs": ["d"]}),
        ({"x": 1}, {"last": {}}, {"last": {"x": 1}}),
        ({"x": 1}, {"docs": {"source": "nope"}}, {}),
        ("text", {"docs": {"source": "docs"}}, {}),
        ({"repo": ""}, {"repo": {"source": "repo"}}, {"repo": ""}),
        ({"x": 2}, {"docs": {"source": "x", "handler": lambda old, new: [new, new]}}, {"docs": [2, 2]}),
    ],
    ids=["source", "whole", "absent", "no-dict", "falsy", "handler"],
)
def test_outputs_to_state(value, config, want):
    state = shop()
    run([tk.Tool("t", "d", EMPTY, give(value), outputs_to_state=config)], "t", state=state)
    assert state.data == {"repo": "R", "messages": [], **want}


@pytest.mark.parametrize(
    "config", [{"zzz": {}}, {"repo": {"source": "x", "handler": lambda old: old}}], ids=["key", "handler"]
)
def test_a_result_that_cannot_be_written_is_a_merge_error(config):
    tool = tk.Tool("t", "d", EMPTY, give({"x": 1}), outputs_to_state=config)
    (text,) = texts(run([tool], "t", state=shop()))
    assert text.startswith("Tool 't' ran, but its result could not be written to the state")
    assert "0x" not in text
    for many in (1, 2):
        with pytest.raises(tk.ToolOutputMergeError):
            run([tool], *["t"] * many, state=shop(), raise_on_failure=True)


@pytest.mark.parametrize(
    ("value", "config", "want"),
    [
        ({"a": "keep", "b": 1}, {"source": "a"}, "keep"),
        ({"a": {"n": 1}}, {"source": "a"}, '{"n": 1}'),
        ({"a": "x"}, {"source": "zz"}, "null"),
        ("plain", {"source": "zz"}, "plain"),
        ({"a": "keep"}, {"source": "a", "handler": upper}, "KEEP"),
        (3, {"handler": lambda value: {"n": value}}, '{"n": 3}'),
        (["a", 1], {"raw_result": True}, ["a", 1]),
        (
            {"a": "x", "b": [1]},
            {"A": {"source": "a", "handler": upper}, "B": {"source": "b"}},
            '{"A": "X", "B": "[1]"}',
        ),
    ],
    ids=["source", "dict", "absent", "no-dict", "handler", "handler-object", "raw", "several"],
)
def test_outputs_to_string(value, config, want):
    assert texts(run([tk.Tool("t", "d", EMPTY, give(value), outputs_to_string=config)], "t")) == [want]


def test_a_handler_that_fails_is_a_conversion_error_and_the_state_is_written_all_the_same():
    tool = tk.Tool(
        "t", "d", EMPTY, give({"repo": "NEW"}),
        outputs_to_string={"handler": lambda value: 1 / 0}, outputs_to_state={"repo": {"source": "repo"}},
    )  # fmt: skip
    for names in (["t"], ["t", "t"]):
        state = shop()
        out = texts(run([tool], *names, state=state))
        assert out == [
            "Tool 't' ran, but its result could not be turned into text: ZeroDivisionError: division by zero."
        ] * len(names)
        assert state.get("repo") == "NEW"
        with pytest.raises(tk.StringConversionError):
            run([tool], *names, raise_on_failure=True)


accesses = st.builds(Access, *[st.frozensets(st.sampled_from("abc"), max_size=2)] * 2, st.booleans())


@given(st.lists(accesses, max_size=7))
def test_every_call_is_in_one_batch_and_batches_hold_no_dependency(calls):
    found = batches(calls)
    assert sorted(i for batch in found for i in batch) == list(range(len(calls)))
    for batch in found:
        assert not any(calls[i].waits_for(calls[j]) for i in batch for j in batch if i != j)


@given(
    st.lists(st.builds(Access, st.frozensets(st.sampled_from("ab")), st.frozensets(st.sampled_from("cd"))), max_size=6)
)
def test_without_circles_readers_come_after_writers(calls):
    assert len(batches(calls)) <= 1


# ------------------------------------------------------------------ what goes in and out is a copy
VALUES = {
    "list": (lambda: ["a"], lambda value: value.append("b")),
    "dict": (lambda: {"a": 1}, lambda value: value.update(b=2)),
    "set": (lambda: {"a"}, lambda value: value.add("b")),
    "list in dict": (lambda: {"a": ["x"]}, lambda value: value["a"].append("y")),
    "dict in tuple": (lambda: ({"a": 1},), lambda value: value[0].clear()),
}
ROADS = {
    "get": lambda state, given: state.get("x"),
    "data": lambda state, given: state.data["x"],
    "the caller's own": lambda state, given: given,
}


@pytest.mark.parametrize("way", ["data", "set"])
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("kind", VALUES)
def test_only_set_changes_a_value(kind, road, way):
    """After haystack#12668 (`data` by reference) and haystack#9195 (editing what `get` gave)."""
    make, edit = VALUES[kind]
    given = make()
    state = tk.State({"x": {"type": object}}, {"x": given} if way == "data" else None)
    if way == "set":
        state.set("x", given)
    edit(ROADS[road](state, given))
    assert state.get("x") == make()


def test_a_handler_that_edits_in_place_leaves_the_callers_list():
    given = ["a"]
    state = tk.State({"x": {"type": list, "handler": lambda old, new: old.extend(new) or old}}, {"x": given})
    state.set("x", ["b"])
    assert (given, state.get("x")) == (["a"], ["a", "b"])


def test_what_cannot_be_copied_stays_the_same_object():
    """After haystack#11831: a lock or client in the state, or a list that holds itself, is no reason to fail."""
    lock, knot = threading.Lock(), []
    knot.append(knot)
    state = tk.State({"client": {"type": object}, "knot": {"type": list}}, {"client": {"lock": lock}, "knot": knot})
    assert state.get("client")["lock"] is lock
    assert state.get("knot") is not None


def test_hooks_of_an_agent_cannot_edit_what_stands_deep_in_its_state():
    class Edits(tk.AgentMiddleware):
        def before_model(self, state, runtime):
            state["plan"]["steps"].append("mine")

    from toolkit.agents.state import StateField

    agent = tk.Agent(tk.ScriptedModel(["ok"]), middleware=[Edits()], state_schema={"plan": StateField()})
    assert agent.run("go", plan={"steps": ["a"]}).state == {"plan": {"steps": ["a"]}}


@pytest.mark.parametrize("kind", ["not_a_type", "str", "list[str]", 3, None, ["str"], {"type": "string"}, print])
def test_a_type_that_is_none_is_refused(kind):
    with pytest.raises(tk.ConfigError, match="type of state key 'a' is .*, which is no type"):
        tk.State({"a": {"type": kind}})


@pytest.mark.parametrize(
    "kind",
    [str, list[str], list, dict[str, int], int | None, typing.Any, typing.Literal["a"],
     typing.Annotated[int, "n"], collections.abc.Callable[..., int], tk.Tool, type(None),
     typing.TypedDict("T", {"a": int}), typing.NewType("N", str), typing.TypeVar("V")],
)  # fmt: skip
def test_every_kind_of_type_is_taken(kind):
    assert tk.State({"a": {"type": kind}}, {"a": None}).get("a") is None
