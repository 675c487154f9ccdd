"""Whatever happens to one request is an outcome of its row, with a traceback, and the sweep goes on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.errors import ConfigError, ModelError
from toolkit.evaluation import sweep
from toolkit.evaluation.cases import case_from_dict
from toolkit.evaluation.matching import matches
from toolkit.models.base import Reply

WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {}}}}
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
RECIPE = tk.Recipe("scripted", protocol="hermes")


def case(number, arguments, how="ask"):
    data = {
        "id": f"c{number}", "messages": [f"Rain in Oslo on day {number}?"], "tools": [WEATHER],
        "expect": {"calls": [{"name": "weather", "arguments": arguments}]},
    }  # fmt: skip
    if how == "agent":
        data["results"] = [{"name": "weather", "arguments": {"city": {"$any": True}}, "result": "rain"}]
    return case_from_dict(data)


def run(lines, how="ask", **more):
    model = tk.ScriptedModel(lines, name="scripted")
    cases = [case(n, {"city": "Oslo"}, how) for n in range(3)]
    return tk.evaluate(RECIPE, cases, models={"scripted": model}, run=how, progress=False, **more)


class OddError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


ERRORS = [
    KeyError("x"), AttributeError("x"), RecursionError("deep"), MemoryError(), AssertionError(), StopIteration(),
    UnicodeEncodeError("ascii", "é", 0, 1, "no"), ZeroDivisionError(), ModelError("gone"), SystemExit(3), OddError(),
    ExceptionGroup("two", [ValueError(1), KeyError(2)]), TypeError("x" * 100_000), BufferError("\ud800"),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("how", ["ask", "agent"])
def test_an_exception_of_a_model_is_one_row(tmp_path, error, how):
    later = [CALL, "It rains."] if how == "agent" else [CALL]
    result = run([*later, error, *later], how, store=tmp_path / "s.sqlite")
    assert list(result.rows["outcome"]) == ["right_call", "server_fault", "right_call"]
    failed = result.rows.iloc[1]
    assert type(error).__name__ in failed["detail"] + failed["traceback"]
    assert "Traceback" in failed["traceback"]
    assert len(failed["traceback"]) <= 10_100
    assert list(result.rows["traceback"])[::2] == ["", ""]
    result.save(tmp_path / "run")
    assert list(tk.Result.load(tmp_path / "run").rows["outcome"]) == list(result.rows["outcome"])


@pytest.mark.parametrize("how", ["ask", "agent"])
def test_an_exception_in_scoring_keeps_what_the_model_said(monkeypatch, how):
    def deep(*_):
        return deep()

    monkeypatch.setattr(sweep, "score" if how == "ask" else "score_run", deep)
    result = run([CALL] * 3 if how == "ask" else [CALL, "It rains."] * 3, how)
    assert list(result.rows["outcome"]) == ["server_fault"] * 3
    assert result.rows["detail"].str.startswith("RecursionError").all()
    assert (result.rows["text"] == (CALL if how == "ask" else "It rains.")).all()


@pytest.mark.parametrize("how", ["ask", "agent"])
def test_ctrl_c_stops_and_keeps_what_is_finished(tmp_path, how):
    later = [CALL, "It rains."] if how == "agent" else [CALL]
    with pytest.raises(KeyboardInterrupt):
        run([*later, KeyboardInterrupt(), *later], how, store=tmp_path / "s.sqlite")
    assert len(tk.Store(tmp_path / "s.sqlite")) == len(later)


DEEP = [
    '{"a":' * 2000,
    '{"a":' * 2000 + "1" + "}" * 2000, "[" * 100_000, '{"name": ' * 600, '{"a":' * 150 + "1" + "}" * 150,
]  # fmt: skip


@pytest.mark.parametrize("text", DEEP, ids=["open", "closed", "lists", "names", "150"])
@pytest.mark.parametrize("arm", ["constrained", "prompted"])
@pytest.mark.parametrize("how", ["ask", "agent"])
def test_a_deep_reply_is_read_or_refused(text, arm, how):
    model = tk.ScriptedModel([text], name="scripted", cycle=True)
    recipe = RECIPE.replace(arm=arm)
    result = tk.evaluate(recipe, [case(0, {}, how)], models={"scripted": model}, run=how, progress=False)
    assert list(result.rows["traceback"]) == [""]
    assert result.rows["outcome"][0] in ("broken_call", "wrong_abstention", "server_fault", "degenerate")


HUGE = 10**400
numbers = st.integers() | st.floats() | st.sampled_from([HUGE, -HUGE, 10**308, True, None, "3", [1], {"a": 1}])


@settings(max_examples=300)
@given(st.integers() | st.floats(allow_nan=False) | st.just(HUGE), numbers, st.floats(min_value=0, allow_nan=False))
def test_about_is_a_verdict_on_any_value(expected, got, within):
    assert matches({"$approx": expected, "within": within}, got) in (True, False)


def test_a_huge_number_is_wrong_and_no_fault():
    call = f'<tool_call>{{"name": "weather", "arguments": {{"city": 1{"0" * 400}}}}}</tool_call>'
    model = tk.ScriptedModel([call], name="scripted")
    result = tk.evaluate(RECIPE, [case(0, {"city": {"$approx": 3.2}})], models={"scripted": model}, progress=False)
    assert list(result.rows["outcome"]) == ["wrong_call"]


@pytest.mark.parametrize("value", ["x", None, True, [1]])
def test_about_needs_numbers(value):
    with pytest.raises(ConfigError, match="needs numbers"):
        case(0, {"city": {"$approx": value}})


def test_a_reply_of_a_faulty_server_stands_beside_good_ones():
    from toolkit.models.base import Fault

    result = run([CALL, Reply("", fault=Fault("server", "down")), CALL])
    assert list(result.rows["outcome"]) == ["right_call", "server_fault", "right_call"]


def test_a_folder_that_holds_another_result_is_told(tmp_path):
    run([CALL] * 3).save(tmp_path)
    run([CALL] * 3).save(tmp_path)  # the same once more is no news
    other = tk.evaluate(
        RECIPE.replace(system="Be kind."), [case(0, {})], models={"scripted": tk.ScriptedModel([CALL])}, progress=False
    )
    with pytest.warns(UserWarning, match="held another result; 3 of its rows are not in this one"):
        other.save(tmp_path)


@pytest.mark.parametrize("start", [{"romms": {}}, {"rooms": {"dungeon": {"light": 1}}}, {"rooms": 5}])
def test_a_start_that_the_world_has_no_place_for_is_refused(start):
    data = {"id": "a", "messages": ["Hi"], "world": "home", "start": start, "expect": {"no_call": True, "state": {}}}
    with pytest.raises(ConfigError, match=r"(start|World).* 'home'"):
        case_from_dict(data)
