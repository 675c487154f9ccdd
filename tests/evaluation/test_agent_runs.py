"""`evaluate(run="agent")`: each run in a world of its own, kept in the store, the same as by hand."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

import toolkit as tk
from toolkit.errors import ConfigError
from toolkit.evaluation.cases import case_from_dict
from toolkit.worlds import load_world
from toolkit.worlds.home import Home

ROOMS = ("study", "kitchen", "bedroom")


def case(room):
    return {
        "id": room,
        "messages": [{"role": "user", "content": f"Light in the {room}: 5 percent."}],
        "world": "home",
        "tools": ["switch_light", "get_indoor_climate"],
        "turns": [f"How warm is the {room}?"],
        "expect": {
            "calls": [{"name": "switch_light", "arguments": {"room": room, "on": True, "brightness": 5}}],
            "state": {"rooms": {room: {"light": 5}}},
            "answer": {"$contains": "degrees"},
        },
        "tags": ["turns"],
    }


CASES = [case(room) for room in ROOMS]
RECIPE = tk.Recipe("scripted", protocol="hermes")


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def lines(room, brightness=5):
    return [call("switch_light", room=room, on=True, brightness=brightness), "Done.",
            call("get_indoor_climate", room=room), "It has some degrees."]  # fmt: skip


LINES = [*lines("study"), *lines("kitchen", 50), *lines("bedroom")]


def run(model, cases=CASES, recipe=RECIPE, **more):
    return tk.evaluate(recipe, cases, run="agent", models={"scripted": model}, progress=False, **more)


class Same(tk.ScriptedModel):
    """Be the same model to a store, whatever is left of the script."""

    def fingerprint(self):
        return {"backend": "scripted"}


def test_one_row_a_run_with_the_columns_of_a_reply():
    result = run(tk.ScriptedModel(LINES))
    assert list(result.rows["outcome"]) == ["right_call", "wrong_call", "right_call"]
    assert list(result.rows["calls_right"]) == [True, False, True]
    assert list(result.rows["state_right"]) == [True, False, True]
    assert list(result.rows["answer_right"]) == [True, True, True]
    row = result.rows.iloc[1]
    assert row["detail"] == "calls: brightness: expected 5, got 50"
    assert row["text"] == "It has some degrees."
    assert (row["requests"], row["stop_reason"], row["syntax"]) == (4, "done", "hermes")
    assert '"result": "{\\"room\\": \\"kitchen\\", \\"light\\": 50}"' in row["trajectory"]
    assert result.table()["requests"].tolist() == [4]
    assert "2/3 = 67 %" in result.to_text()
    single = tk.evaluate(RECIPE, "home", models={"scripted": tk.ScriptedModel(["x"], cycle=True)}, progress=False)
    assert "requests" not in single.table()
    assert set(single.rows) < set(result.rows)


def test_a_run_by_hand_goes_the_same_way():
    result = run(tk.ScriptedModel(lines("study")), CASES[:1])
    world = load_world("home")
    tools = [tool for tool in world.tools if tool.name in CASES[0]["tools"]]
    model = tk.ScriptedModel(lines("study"))
    agent = tk.Agent(model, tools, protocol="hermes", arm="prompted", options=RECIPE.settings)
    trace = agent.run(CASES[0]["messages"][0]["content"])
    trace = agent.run([*trace.messages, tk.ChatMessage.from_user(CASES[0]["turns"][0])])
    made = [{"name": c.tool_name, "arguments": c.arguments} for c in trace.tool_calls]
    assert str(made).replace("'", '"').replace("True", "true") == result.rows["calls"][0]
    assert world.state["rooms"]["study"]["light"] == 5


def test_a_second_run_asks_nothing_again(tmp_path):
    first = run(Same(LINES), store=tmp_path / "s.sqlite")
    model = Same([])
    again = run(model, store=tmp_path / "s.sqlite")
    assert model.requests == []
    assert again.rows["from_store"].all()
    replayed = tk.evaluate(RECIPE, CASES, run="agent", store=tmp_path / "s.sqlite", mode="replay", progress=False)
    for other in (again, replayed):
        assert list(other.rows["trajectory"]) == list(first.rows["trajectory"])
        assert list(other.rows["outcome"]) == list(first.rows["outcome"])


def test_an_interrupted_run_goes_on_in_the_middle_of_a_case(tmp_path):
    class Interrupt(Same):
        def stream(self, messages, **more):
            if len(self.requests) == 6:
                raise KeyboardInterrupt
            return super().stream(messages, **more)

    with pytest.raises(KeyboardInterrupt):
        run(Interrupt(LINES), store=tmp_path / "s.sqlite")
    rest = Same(LINES[6:])
    result = run(rest, store=tmp_path / "s.sqlite")
    assert len(rest.requests) == 6
    assert list(result.rows["right"]) == [True, False, True]
    assert list(result.rows["from_store"]) == [True, False, False]


def test_repeats_have_seeds_and_replies_of_their_own(tmp_path):
    warm = RECIPE.replace(options={"temperature": 0.7, "seed": 3})
    model = tk.ScriptedModel(lines("study"), cycle=True)
    result = run(model, CASES[:1], warm, repeats=2, store=tmp_path / "s.sqlite")
    assert {request["options"].seed for request in model.requests} == {3, 4}
    assert len(result.rows) == 2
    assert result.rows["recipe_hash"].nunique() == 1
    assert len(tk.Store(tmp_path / "s.sqlite")) == 8


class Pickling(ThreadPoolExecutor):
    """Hand work over as to another machine."""

    def submit(self, function, *args):
        return super().submit(*pickle.loads(pickle.dumps((function, *args))))


def test_any_executor_will_do(tmp_path):
    worlds = {"house": Home}
    cases = tk.load_cases([{**data, "world": "house"} for data in CASES], worlds=worlds)
    alone = run(tk.ScriptedModel(LINES), cases, store=tmp_path / "s.sqlite", worlds=worlds)
    with Pickling(2) as pool:
        spread = tk.evaluate(RECIPE, cases, run="agent", store=tmp_path / "s.sqlite", mode="replay", executor=pool,
                             worlds=worlds, progress=False)  # fmt: skip
    assert list(spread.rows["trajectory"]) == list(alone.rows["trajectory"])
    assert list(spread.rows["outcome"]) == list(alone.rows["outcome"])


class Bank:
    """A world of one's own."""

    def __init__(self, start):
        self.money = {"ada": 10, **(start or {})}

    @property
    def tools(self):
        return [tk.tool(effect="writes")(self.pay), self.balance]

    @property
    def state(self):
        return dict(self.money)

    def pay(self, who: str, amount: int) -> str:
        """Pay someone."""
        self.money[who] -= amount
        return "Paid."

    def balance(self, who: str) -> int:
        """Tell how much someone has."""
        return self.money[who]


PAY = {
    "id": "pay",
    "messages": [{"role": "user", "content": "Pay 3 to Ada."}],
    "world": "bank",
    "expect": {"calls": [{"name": "pay", "arguments": {"who": "ada", "amount": 3}}], "state": {"ada": 7}},
}


def test_worlds_of_ones_own_are_fresh_for_each_run_and_reach_the_workers(tmp_path):
    pay = [call("balance", who="ada"), call("pay", who="ada", amount=3), "Paid."]
    cases = tk.load_cases([PAY, {**PAY, "id": "again"}], worlds={"bank": Bank})
    assert [tool.name for tool in cases["pay"].tools] == ["pay", "balance"]
    assert case_from_dict(cases["pay"].to_dict(), worlds={"bank": Bank}) == cases["pay"]
    store = tmp_path / "s.sqlite"
    result = run(tk.ScriptedModel(pay * 2), cases, worlds={"bank": Bank}, store=store)
    assert list(result.rows["right"]) == [True, True]
    with ThreadPoolExecutor(2) as pool:
        spread = tk.evaluate(RECIPE, cases, run="agent", store=store, mode="replay", executor=pool,
                             worlds={"bank": Bank}, progress=False)  # fmt: skip
    assert list(spread.rows["right"]) == [True, True]
    with pytest.raises(ConfigError, match="no world 'bank'"):
        run(tk.ScriptedModel(pay), cases)


def test_recorded_results_and_functions_stand_for_tools():
    weather = {"name": "weather", "description": "", "parameters": {"type": "object", "properties": {"city": {}}}}
    data = {
        "id": "w",
        "messages": [{"role": "user", "content": "Rain in Oslo?"}],
        "tools": [weather],
        "results": [
            {"name": "weather", "arguments": {"city": "Oslo"}, "result": {"sky": "rain"}},
            {"name": "weather", "arguments": {"city": "Rome"}, "error": "The service is away."},
        ],
        "expect": {"calls": [{"name": "weather", "arguments": {"city": "Oslo"}}], "answer": {"$contains": "rain"}},
    }
    script = [call("weather", city=city) for city in ("Bern", "Rome", "Oslo")]
    row = run(tk.ScriptedModel([*script, "It will rain."]), [data]).rows.iloc[0]
    assert row["right"]
    assert "knows nothing about {'city': 'Bern'}" in row["trajectory"]
    assert "The service is away." in row["trajectory"]
    assert '{\\"sky\\": \\"rain\\"}' in row["trajectory"]

    def weather_now(city: str) -> str:
        """Tell the weather."""
        return f"{city}: rain"

    mine = tk.Tool.from_function(weather_now, name="weather")
    plain = {key: data[key] for key in ("id", "messages", "tools")} | {"expect": {"calls": data["expect"]["calls"]}}
    for given in (data, plain):
        row = run(tk.ScriptedModel([script[2], "It will rain."]), [given], tools=[mine]).rows.iloc[0]
        assert row["right"]
        assert "Oslo: rain" in row["trajectory"]


@pytest.mark.parametrize(
    ("cases", "more", "message"),
    [
        (CASES, {"run": "ask"}, "'study' is a whole run.*run='agent'"),
        ("home", {"run": "agent"}, "nothing runs 'switch_light'.*tools="),
        (CASES, {"run": "agnet"}, "Did you mean 'agent'"),
        ("home", {"run": "ask", "tools": [tk.Tool("x", "", {})]}, "runs no tools"),
    ],
    ids=["run as a request", "request as a run", "unknown", "tools of a request"],
)
def test_a_case_of_the_other_kind_is_refused_before_anything_is_asked(cases, more, message):
    model = tk.ScriptedModel([])
    with pytest.raises(ConfigError, match=message):
        tk.evaluate(RECIPE, cases, models={"scripted": model}, progress=False, **more)
    assert model.requests == []


def test_results_of_runs_survive_their_folder(tmp_path):
    result = run(tk.ScriptedModel([*LINES[:4], RuntimeError("odd"), *LINES[8:]]))
    assert result.table()["left_out"].tolist() == ["1 server_fault"]
    result.save(tmp_path / "run")
    loaded = tk.Result.load(tmp_path / "run")
    assert list(loaded.rows["trajectory"]) == list(result.rows["trajectory"])
    assert loaded.rows["calls_right"].tolist() == [True, None, True]


def test_the_recipe_says_how_the_agent_runs():
    model = tk.ScriptedModel(LINES)
    recipe = RECIPE.replace(system="Be brief.", agent={"max_model_calls": 1})
    [row] = run(model, CASES[:1], recipe).rows.to_dict("records")
    assert model.requests[0]["messages"][0].text.startswith("Be brief.")
    assert (row["requests"], row["stop_reason"], row["outcome"]) == (1, "error", "wrong_call")
    assert row["detail"].startswith("limit: LimitError: All 1 model calls")
    table = run(tk.ScriptedModel(LINES), CASES[:1], recipe).table()
    assert table["stopped"].tolist() == ["1 limit"]
    assert "stopped" in tk.evaluation.display_table(table)


def test_a_recipe_by_hand_takes_the_way_that_was_measured():
    """Real replies of the embedded model, recorded: rows of a sweep against agents made of the same recipes."""
    store = tk.Store(tk.resources.path("data/recordings/04_middleware.jsonl"))
    recipes = tk.load_recipes(tk.resources.path("notebooks/batch/agent_recipes"))
    cases = tk.load_cases("runs", "demo")
    result = tk.evaluate(recipes, cases, run="agent", store=store, mode="replay", progress=False)
    rows = {(row["recipe"], row["case"]): row["calls"] for row in result.rows.to_dict("records")}
    for recipe in recipes:
        for case in cases:
            world = load_world(case.scenario.world, case.scenario.start)
            own = {tool.name: tool for tool in world.tools}
            agent = tk.Agent(store.wrap(recipe.model, mode="replay"), [own[t.name] for t in case.tools], recipe=recipe)
            try:
                trace = agent.run(list(case.messages))
            except tk.AgentError as error:
                trace = error.trace
            made = [{"name": e.data["call"].tool_name, "arguments": e.data["call"].arguments}
                    for e in trace.of_kind("tool_call")]  # fmt: skip
            assert json.loads(rows[recipe.name, case.id] or "[]") == made


@pytest.mark.parametrize(
    "entry",
    [{"name": "ToolCalLimit"}, {"name": "ToolCallLimit", "arguments": {"run_limit": "1"}}],
    ids=["unknown name", "limit as text"],
)
@pytest.mark.parametrize("way", ["ask", "agent"])
def test_middleware_that_cannot_be_made_is_refused_before_anything_is_asked(way, entry):
    model = tk.ScriptedModel(LINES)
    recipe = RECIPE.replace(middleware=[entry], name="capped")
    with pytest.raises(ConfigError, match=r"Recipe 'capped': "):
        tk.evaluate(recipe, CASES if way == "agent" else tk.load_cases("home", "demo"), run=way,
                    models={"scripted": model}, progress=False)  # fmt: skip
    assert model.requests == []
