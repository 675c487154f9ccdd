"""A sweep keeps what it has, asks only for what is missing, and never ends because one case failed."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.errors import ConfigError, ModelError, ReplayMissError, WeightsError
from toolkit.evaluation.cases import Case
from toolkit.models.base import Fault, Reply

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = tk.Tool("weather", "Tell the weather.", SCHEMA)
CITIES = ["Oslo", "Rome", "Bern", "Lima"]
CASES = [
    Case(city, (tk.ChatMessage.from_user(f"Rain in {city}?"),), (WEATHER,),
         ({"name": "weather", "arguments": {"city": city}},), ("plain",), "test")
    for city in CITIES
]  # fmt: skip
CASES.append(Case("thanks", (tk.ChatMessage.from_user("Thanks!"),), (WEATHER,), (), ("abstain",), "test"))
RECIPE = tk.Recipe("scripted", protocol="hermes")


def call(city):
    return f'<tool_call>{{"name": "weather", "arguments": {{"city": "{city}"}}}}</tool_call>'


LINES = [call("Oslo"), call("Paris"), "It rains.", call("Lima"), "You are welcome."]


def run(model, recipes=RECIPE, **more):
    return tk.evaluate(recipes, CASES, models={"scripted": model}, progress=False, **more)


def test_rows_and_table_say_what_happened():
    result = run(tk.ScriptedModel(LINES))
    assert list(result.rows["outcome"]) == [
        "right_call", "wrong_call", "wrong_abstention", "right_call", "right_abstention",
    ]  # fmt: skip
    [line] = result.table().to_dict("records")
    assert (line["right"], line["judged"]) == (3, 5)
    assert line["low"] < 0.6 < line["high"]
    assert (line["calls_right"], line["calls_judged"]) == (2, 4)
    assert (line["abstentions_right"], line["false_calls"], line["abstentions_judged"]) == (1, 0, 1)
    assert "3/5 = 60 %" in result.to_text()
    assert result.rows["digest"].str.len().gt(8).all()
    assert list(result.failures()["case"]) == ["Rome", "Bern"]
    assert set(result.table(by="domain")["domain"]) == {"test"}


def test_faults_never_end_a_sweep_and_never_count_in_silence():
    lines = [ModelError("gone"), Reply("", fault=Fault("overflow", "too long")), RuntimeError("odd"), call("Lima"), ""]
    [line] = run(tk.ScriptedModel(lines)).table().to_dict("records")
    assert (line["right"], line["judged"]) == (1, 1)
    assert line["left_out"] == "2 server_fault, 1 overflow, 1 degenerate"
    result = run(tk.ScriptedModel([ModelError("gone")] * 5))
    assert "Left out of hermes prompted: 5 × server_fault, ModelError: gone" in str(result)
    assert result.answer().startswith("No reply was judged")


def test_a_second_run_answers_from_the_store(tmp_path):
    first = tk.ScriptedModel(LINES)
    run(first, store=tmp_path / "s.sqlite")
    second = tk.ScriptedModel(LINES)
    result = run(second, store=tmp_path / "s.sqlite")
    assert second.requests == []
    assert result.rows["from_store"].all()
    assert list(result.rows["right"]) == [True, False, False, True, True]


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    class Interrupt(tk.ScriptedModel):
        def stream(self, messages, **more):
            if len(self.requests) == 3:
                raise KeyboardInterrupt
            return super().stream(messages, **more)

    with pytest.raises(KeyboardInterrupt):
        run(Interrupt(LINES), store=tmp_path / "s.sqlite")
    assert len(tk.Store(tmp_path / "s.sqlite")) == 3


def test_replay_needs_no_model_and_a_miss_is_an_error(tmp_path):
    with tk.Store(tmp_path / "s.sqlite") as store:
        run(tk.ScriptedModel(LINES), store=store)
        replayed = tk.evaluate(RECIPE, CASES, store=store, mode="replay", progress=False)
        assert replayed.table()["right"].tolist() == [3]
        with pytest.raises(ReplayMissError):
            tk.evaluate(RECIPE.replace(protocol="airgap"), CASES, store=store, mode="replay", progress=False)


def test_repeats_are_stored_apart_and_warm_ones_have_their_own_seed(tmp_path):
    model = tk.ScriptedModel(LINES, cycle=True)
    warm = RECIPE.replace(options={"temperature": 0.7})
    result = run(model, warm, repeats=2, store=tmp_path / "s.sqlite")
    assert len(result.rows) == 10
    assert {request["options"].seed for request in model.requests} == {0, 1}
    assert len(tk.Store(tmp_path / "s.sqlite")) == 10


def test_cold_repeats_are_warned_of():
    with pytest.warns(UserWarning, match="temperature 0"):
        run(tk.ScriptedModel(LINES, cycle=True), repeats=2)


def test_any_executor_will_do(tmp_path):
    """Blocks go to the workers as plain data; the scripted model stands in through the store."""
    path = tmp_path / "s.sqlite"
    alone = run(tk.ScriptedModel(LINES), store=path)
    with ThreadPoolExecutor(2) as pool:
        spread = tk.evaluate(RECIPE, CASES, store=path, mode="replay", executor=pool, progress=False)
    assert list(spread.rows["outcome"]) == list(alone.rows["outcome"])


def test_the_native_arm_offers_tools_and_reads_native_calls():
    model = tk.ScriptedModel([tk.ToolCall("weather", {"city": city}) for city in CITIES] + ["Bye."])
    result = run(model, tk.Recipe("scripted", arm="native"))
    assert result.rows["right"].all()
    assert model.requests[0]["tools"] == [WEATHER]
    assert set(result.rows["syntax"][:4]) == {"native"}


def test_the_constrained_arm_sends_a_schema_and_shows_it_too():
    answers = [f'{{"name": "weather", "arguments": {{"city": "{city}"}}}}' for city in CITIES] + ['{"answer": "Bye."}']
    model = tk.ScriptedModel(answers)
    result = run(model, RECIPE.replace(arm="constrained"))
    assert result.rows["right"].all()
    assert model.requests[0]["schema"]["anyOf"]
    assert "weather" in model.requests[0]["messages"][0].text


def test_comparisons_are_paired():
    good = tk.ScriptedModel([*map(call, CITIES), "Bye."], name="good")
    bad = tk.ScriptedModel(["No."] * 5, name="bad")
    recipes = [RECIPE.replace(model="good", name="a"), RECIPE.replace(model="bad", name="b")]
    result = tk.evaluate(recipes, CASES, models={"good": good, "bad": bad}, progress=False)
    comparison = result.compare("a", "b")
    assert (comparison.n, comparison.only_a, comparison.only_b, comparison.both) == (5, 4, 0, 1)
    assert comparison.difference == pytest.approx(0.8)
    assert comparison.p == pytest.approx(0.125)
    assert result.comparisons()["p_holm"].tolist() == [pytest.approx(0.125)]
    assert result.best().name == "a"
    assert "but the data do not separate it from b: +80 points [+2, +96], n = 5" in result.answer()
    with pytest.raises(ConfigError, match="No recipe 'c'"):
        result.compare("a", "c")


def test_a_tie_is_not_said_to_lead():
    models = {name: tk.ScriptedModel(["No."] * 5, name=name) for name in ("m", "n")}
    recipes = [RECIPE.replace(model="m", name="a"), RECIPE.replace(model="n", name="b")]
    result = tk.evaluate(recipes, CASES, models=models, progress=False)
    assert result.answer() == (
        "No recipe leads: a, 1/5 = 20 % [4, 62] of the judged replies right (95 % Wilson interval), is level with b. "
        "'a' minus 'b': +0 points [-43, +43], n = 5, only first right 0, only second 0, p = 1."
    )
    assert [(pair.a, pair.b) for pair in result.best_against_rest()] == [("a", "b")]


def judged(right, repeats=1):
    """Return a result of recipes that were right on so many of ten cases each."""
    rows = [
        {"recipe": name, "case": str(case), "repeat": repeat, "right": case < count, "expects_call": True,
         "outcome": "right_call" if case < count else "wrong_call"}
        for name, count in right.items() for case in range(10) for repeat in range(repeats)
    ]  # fmt: skip
    return tk.Result(rows)


@pytest.mark.parametrize(
    ("right", "repeats", "said"),
    [
        ({"a": 10, "b": 9}, 1, "do not separate it from b: +10 points"),
        ({"a": 10, "b": 4}, 1, "data separate it from b: +60 points"),
        ({"a": 10, "b": 4, "c": 4, "d": 4}, 1, "0.188 after Holm's correction over 6 comparisons"),
        ({"a": 10, "b": 4, "c": 4, "d": 4}, 1, "do not separate it from b"),
        ({"a": 10, "b": 1, "c": 1, "d": 1}, 1, "data separate it from b"),
        ({"a": 10, "b": 9}, 8, "do not separate it from b: +10 points [-21, +40], n = 10"),
        ({"a": 10, "b": 0}, 3, "a leads: 30/30 (10 cases) = 100 % [72, 100]"),
    ],
)
def test_a_recipe_is_said_to_be_better_only_where_the_exact_test_says_so(right, repeats, said):
    """lm-evaluation-harness#4017: tables without a correction for many comparisons get read as rankings."""
    assert said in judged(right, repeats).answer()


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10), min_size=1), st.integers(1, 4))
def test_no_answer_says_more_than_the_corrected_test(right, repeats):
    result = judged(right, repeats)
    pairs = result.comparisons()
    surely = len(pairs) and (pairs["p_holm"] < 0.05).any()
    if "the data separate it" in result.answer():
        assert surely
    if len(pairs):
        assert (pairs["low"] < pairs["high"]).all()
        assert set(pairs["n"]) == {10}
    assert set(result.table()["cases"]) == {10}


def test_failures_say_what_was_asked_for():
    result = run(tk.ScriptedModel(LINES))
    assert result.failures()[["tags", "expects_call"]].to_numpy().tolist() == [["plain", True]] * 2


def test_one_recipe_has_no_rest():
    model = tk.ScriptedModel(["No."] * 5)
    assert run(model, RECIPE).best_against_rest() == []


def test_results_survive_their_folder(tmp_path):
    result = run(tk.ScriptedModel(LINES))
    result.save(tmp_path / "run")
    loaded = tk.Result.load(tmp_path / "run")
    pd.testing.assert_frame_equal(loaded.table(), result.table())
    assert loaded.recipes[0].hash == RECIPE.hash
    assert (tmp_path / "run" / "table.csv").is_file()
    assert (tmp_path / "run" / "table.parquet").is_file()


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="Choose another run folder"):
        run(tk.ScriptedModel(LINES)).save(tmp_path / "file" / "run")


def test_a_model_that_is_not_there_stops_the_run_before_the_first_case():
    with pytest.raises(WeightsError, match="no-such-model"):
        tk.evaluate(tk.Recipe("embedded/no-such-model"), CASES, progress=False)


def test_the_plot_draws_every_recipe():
    figure = run(tk.ScriptedModel(LINES)).plot()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["hermes prompted"]
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_html_escapes_what_models_write():
    result = run(tk.ScriptedModel(["<script>alert(1)</script>"] * 5))
    assert "<script>" not in tk.evaluation.readable(result.failures()).to_html()
    assert "<script>" not in result._repr_html_()


def test_a_lone_surrogate_from_a_model_does_not_cost_the_run(tmp_path):
    reply = '<tool_call>{"name": "weather", "arguments": {"city": "\\ud83d"}}</tool_call> \ud83d'
    result = run(tk.ScriptedModel([reply] * 5), store=tmp_path / "s.sqlite")
    result.save(tmp_path / "run")
    assert len(tk.Result.load(tmp_path / "run").rows) == 5
    result._repr_html_().encode()


def test_a_store_that_keeps_nothing_any_more_stops_the_run(tmp_path):
    store = tk.Store(tmp_path / "s.sqlite")
    store._connection.execute("PRAGMA max_page_count=1")
    with pytest.raises(tk.StoreError):
        run(tk.ScriptedModel([line + "x" * 100_000 for line in LINES]), store=store)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"mode": "replya"}, "Did you mean 'replay'"),
        ({"repeats": 0}, "repeats must be a whole number from 1 on, not 0"),
        ({"mode": "replay"}, "needs store"),
    ],
    ids=["mode", "repeats", "no store"],
)
def test_wrong_arguments_are_named(more, message):
    with pytest.raises(ConfigError, match=message):
        run(tk.ScriptedModel(LINES), **more)
    with pytest.raises(ConfigError, match="no case"):
        tk.evaluate(RECIPE, [], models={"scripted": tk.ScriptedModel([])})


def test_every_recipe_of_a_run_is_saved_under_a_name_of_its_own(tmp_path):
    protocol = tk.load_protocol("hermes")
    edited = dataclasses.replace(protocol, files={**protocol.files, "system.jinja": "Tools: {{ tools | length }}"})
    recipes = [
        RECIPE.replace(name="a b"),
        RECIPE.replace(name="a/b", system="x"),
        RECIPE.replace(name="A_B", system="y").using(edited),
        RECIPE.replace(name="z" * 300, system="z"),
    ]
    model = tk.ScriptedModel(LINES, cycle=True)
    run(model, recipes).save(tmp_path / "run")
    loaded = tk.Result.load(tmp_path / "run").recipes
    assert [recipe.name for recipe in loaded] == [recipe.name for recipe in recipes]
    assert [recipe.hash for recipe in loaded] == [recipe.hash for recipe in recipes]


def test_names_given_twice_stay_apart_even_where_a_number_is_taken():
    named = [RECIPE.replace(name=name, system=str(at)) for at, name in enumerate(["a", "a", "a #2"])]
    assert len({recipe.name for recipe in tk.load_recipes(named)}) == 3


def test_headers_of_a_readable_table_are_escaped():
    frame = pd.DataFrame({"<script>a</script>": [1]}, index=pd.Index(["<script>b</script>"], name="<script>c</script>"))
    assert "<script>" not in tk.evaluation.readable(frame).to_html()


def test_the_bar_names_the_recipe_and_tells_the_time_by_what_was_asked(tmp_path, monkeypatch, capsys):
    """promptfoo#1114, distilabel#260: replies from a store made the time left swing."""
    from tqdm.std import tqdm

    seen = []
    monkeypatch.setattr(tqdm, "update", lambda bar, n=1: (setattr(bar, "n", bar.n + n), seen.append(
        (bar.desc, bar.n, bar.initial, bar.smoothing))))  # fmt: skip
    first = tk.ScriptedModel(LINES)
    tk.evaluate(RECIPE, CASES[:3], models={"scripted": first}, store=tmp_path / "s.sqlite", progress=False)
    tk.evaluate(RECIPE, CASES, models={"scripted": tk.ScriptedModel(LINES)}, store=tmp_path / "s.sqlite")
    assert seen == [("hermes prompted: ", at, min(at, 3), 0) for at in range(1, 6)]
