"""What went wrong in other evaluation tools, by their public reports, and is right here."""

import math

import pytest

import toolkit as tk
from toolkit.evaluation.cases import Case
from toolkit.models.base import Fault, Reply

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
WEATHER = tk.Tool("weather", "Tell the weather.", SCHEMA)
RECIPE = tk.Recipe("scripted", options={"temperature": 0.5})


def case(name, **arguments):
    calls = ({"name": "weather", "arguments": arguments},) if arguments else ()
    return Case(name, (tk.ChatMessage.from_user(f"Rain in {arguments.get('city', name)}?"),), (WEATHER,), calls)


def call(**arguments):
    return tk.ToolCall("weather", arguments)


def run(model, cases, **more):
    return tk.evaluate(RECIPE.replace(arm="native"), cases, models={"scripted": model}, progress=False, **more)


OSLO, ROME, BERN = (case(city, city=city) for city in ("Oslo", "Rome", "Bern"))


def test_more_cases_and_more_repeats_ask_only_for_what_is_missing(tmp_path):
    """inspect_ai#2959, inspect_ai#5296: a log was taken for whole after the limit or the epochs were raised."""
    model = tk.ScriptedModel([call(city="Oslo")], cycle=True)
    for cases, repeats, asked in (([OSLO], 1, 1), ([OSLO, ROME], 1, 2), ([OSLO, ROME], 2, 4), ([OSLO, ROME], 2, 4)):
        result = run(model, cases, repeats=repeats, store=tmp_path / "s.sqlite")
        assert len(model.requests) == asked
        assert len(result.rows) == len(cases) * repeats
        assert result.table()["cases"].tolist() == [len(cases)]


def test_two_cases_that_ask_the_same_are_both_judged(tmp_path):
    """promptfoo-action#669: the second of two cases with one prompt was left out, since its reply was cached."""
    other = Case("other", OSLO.messages, OSLO.tools, ({"name": "weather", "arguments": {"city": "Rome"}},))
    result = run(tk.ScriptedModel([call(city="Oslo")]), [OSLO, other], store=tmp_path / "s.sqlite")
    assert result.rows["outcome"].tolist() == ["right_call", "wrong_call"]


def test_a_reply_from_the_store_keeps_the_time_it_took(tmp_path):
    """promptfoo#980: the latency of a cached reply was that of the cache."""
    slow = Reply("", tool_calls=(call(city="Oslo"),), seconds=4.5, prompt_tokens=7)
    for _ in range(2):
        row = run(tk.ScriptedModel([slow]), [OSLO], store=tmp_path / "s.sqlite").rows.iloc[0]
        assert (row["seconds"], row["prompt_tokens"]) == (4.5, 7)


@pytest.mark.parametrize(
    ("arguments", "right"),
    [({"city": "Oslo"}, True), ({"city": "Rome"}, False), ({"city": "Oslo", "days": 999}, False), ({"days": 1}, False)],
)
def test_every_argument_is_compared_whatever_its_type(arguments, right):
    """AU-Harness#31: values of scalar arguments were never compared."""
    assert run(tk.ScriptedModel([call(**arguments)]), [OSLO]).rows["right"].tolist() == [right]


def test_what_was_not_measured_is_no_zero_and_no_success():
    """ragas#3028, LightRAG#4040, deepeval#3234: failed rows became 0, or 1, or took the mean of all with them."""
    fault = Reply("", fault=Fault("server", "down"))
    result = run(tk.ScriptedModel([fault] * 3), [OSLO, ROME, BERN])
    [line] = result.table().to_dict("records")
    assert math.isnan(line["rate"])
    assert line["left_out"] == "3 server_fault"
    assert result.answer().startswith("No reply was judged")
    some = run(tk.ScriptedModel([fault, call(city="Rome"), call(city="Rome")]), [OSLO, ROME, BERN])
    assert "1/2 = 50 %" in some.to_text()
    assert "1 server_fault" in some.to_text()


def test_one_case_has_an_interval_and_no_certainty():
    """openai/evals#1834: the interval of a single sample was NaN; lm-evaluation-harness#4070: or had no width."""
    [line] = run(tk.ScriptedModel([call(city="Oslo")]), [OSLO]).table().to_dict("records")
    assert (line["low"], line["high"]) == (pytest.approx(0.2065, abs=1e-4), 1.0)


def test_recipes_judged_on_other_cases_are_compared_on_those_they_share():
    """promptfoo#6343: errors moved the denominator of one side only."""
    fault = Reply("", fault=Fault("server", "down"))
    models = {"a": tk.ScriptedModel([fault, call(city="Rome")]), "b": tk.ScriptedModel([call(city="Oslo")] * 2)}
    recipes = [RECIPE.replace(arm="native", model=name, name=name) for name in models]
    pair = tk.evaluate(recipes, [OSLO, ROME], models=models, progress=False).compare("a", "b")
    assert (pair.n, pair.only_a, pair.only_b) == (1, 1, 0)


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ('{"action": "find", "action_input": {"q": "x"}}', 1),
        ('{"name": "find", "arguments": {"q": "x"}}', 1),
        ('{"name": "find", "parameters": {"q": "x"}}', 1),
        ('{"tool": "find", "input": {"q": "x"}}', 0),
        ('{"tool_name": "find", "tool_input": {"q": "x"}}', 0),
        ('{"tool": "find", "arguments": {"q": "x"}}', 0),
        ('{"function": "find", "args": {"q": "x"}}', 0),
        ('{"action": "find", "input": {"q": "x"}}', 0),
        ('```json\n{"tool": "find", "input": {"q": "x"}}\n```', 0),
        ('[{"tool": "find", "input": {"q": "x"}}]', 0),
        ('<tool_call>{"tool": "find", "input": {"q": "x"}}</tool_call>', 0),
    ],
)
def test_only_the_configured_pairs_of_keys_are_an_action(text, actions):
    def find(q: str) -> str:
        """Find."""
        return q

    agent = tk.TwoModeAgent(tk.ScriptedModel([text, "Done."]), [find])
    assert len(agent.respond("Find x.").actions) == actions
