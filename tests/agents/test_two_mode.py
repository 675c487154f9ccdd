"""TwoModeAgent: the published rule, its repairs, and the marketplace end to end."""

import asyncio
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit as tk
from toolkit import resources
from toolkit.agents.originals.two_mode import NO_CONTEXT, cut_json
from toolkit.agents.two_mode.actions import Action, as_actions, reply_schema
from toolkit.agents.two_mode.prompts import shown_turns
from toolkit.agents.two_mode.reading import read_actions
from toolkit.agents.two_mode.turn import TwoModeTurn
from toolkit.prompting.disarming import disarming
from toolkit.worlds.marketplace import Marketplace

FIND = '{"action": "find", "action_input": {"word": "red"}}'


def find(word: str, most: int = 3) -> list[str]:
    """Find things by a word."""
    return [f"{word} {number}" for number in range(1, most + 1)]


def broken() -> str:
    """Always fails."""
    raise RuntimeError("out of order")


def everything() -> list[str]:
    """List all."""
    return ["all"]


def agent(lines, actions=(find,), **settings):
    return tk.TwoModeAgent(tk.ScriptedModel(lines), list(actions), **settings)


def prompts(made):
    return [r["prompt"] if "prompt" in r else r["messages"][0].text for r in made.model.requests]


# ------------------------------------------------------------------ the published rule
def faithful(lines, dispatch, **settings):
    calls = []
    said = iter(lines)

    def llm(prompt, stop, max_tokens):
        calls.append({"prompt": prompt, "stop": stop, "max_tokens": max_tokens})
        return {"choices": [{"text": next(said)}]}

    made = tk.TwoModeAgent(
        llm,
        tool_prompt="T[{0}][{1}] {{}}",
        chat_prompt="C[{0}][{1}][{2}]",
        mode="faithful",
        dispatch=dispatch,
        **settings,
    )
    return made, calls


def test_faithful_turn_with_an_action():
    made, calls = faithful([f"Sure! {FIND}", "Here it is.", "hello", "Hi."], lambda value: {"got": value})
    turn = made.respond("red things")
    context = "{'got': {'action': 'find', 'action_input': {'word': 'red'}}}"
    assert (turn.text, turn.tool, turn.reason) == ("Here it is.", True, None)
    assert calls[0] == {"prompt": "T[][User: red things] {}", "stop": ["User:"], "max_tokens": 800}
    assert calls[1] == {"prompt": f"C[][User: red things][{context}]", "stop": ["User:"], "max_tokens": 800}
    first = [f"User: {context}\n\nUser: red things", "Assistant: Here it is."]
    assert made.history == first
    made.respond("thanks {0}")
    joined = "\n".join(first)
    assert calls[2]["prompt"] == f"T[{joined}][User: thanks {{0}}] {{}}"
    assert calls[3]["prompt"] == f"C[{joined}][User: thanks {{0}}][{NO_CONTEXT}]"
    assert made.history[2:] == ["User: thanks {0}", "Assistant: Hi."]


def test_faithful_swallows_every_failure():
    made, calls = faithful([FIND, "Sorry?"], lambda value: 1 / 0)
    turn = made.respond("red things")
    assert (turn.tool, turn.reason, turn.text) == (False, "ZeroDivisionError", "Sorry?")
    assert calls[1]["prompt"].endswith(f"[{NO_CONTEXT}]")
    assert made.history[0] == "User: red things"


def test_faithful_does_not_swallow_a_failing_server():
    with pytest.raises(tk.ModelError, match="gone"):
        agent([tk.Reply(fault=tk.Fault("server", "gone"))], mode="faithful").respond("hi")


def test_faithful_uses_completion_with_its_limits():
    made = agent(["no", "Hello."], mode="faithful", tool_prompt="{0}{1}", chat_prompt="{0}{1}{2}")
    made.respond("hi")
    options = [tk.Options.of(request["options"]) for request in made.model.requests]
    assert [(o.stop, o.num_predict) for o in options] == [(("User:",), 800)] * 2


def test_faithful_over_the_actions_and_the_bundled_prompts():
    made = agent(
        ['{"action": "get_designers_list", "action_input": "all"}', "Many."], Marketplace().actions(), mode="faithful"
    )
    turn = made.respond("Which brands?")
    assert len(turn.context) > 10
    assert "{{" not in prompts(made)[0]
    assert prompts(made)[0].endswith("### Assistant: ")


@pytest.mark.parametrize(
    ("reply", "value"),
    [(FIND, json.loads(FIND)), ('{"a": "x\ny"}', {"a": "xy"}), ('[{"a": NaN}]', None), ("{}", {})],
    ids=["plain", "glued-words", "nan", "empty"],
)
def test_the_published_cut(reply, value):
    assert cut_json(reply) == value or value is None


# ------------------------------------------------------------------ the default
def test_a_turn_with_an_action():
    made = agent([FIND, " Three red things. \nUser: and blue?"])
    turn = made.respond("red things {{ about }} {%")
    assert turn.text == "Three red things."
    assert turn.tool
    assert turn.context == ["red 1", "red 2", "red 3"]
    assert [(a.name, a.input, a.error) for a in turn.actions] == [("find", {"word": "red"}, None)]
    tool_prompt, chat_prompt = prompts(made)
    assert "User: red things {{ about }} {%\nAssistant:" in tool_prompt
    assert "find: Find things by a word." in tool_prompt
    assert chat_prompt.index("red things {{ about }}") < chat_prompt.index('1. "red 1"')


def test_history_keeps_text_and_context_apart():
    made = agent([FIND, "Three.", '{"action": "none"}', "You are welcome."])
    made.respond("red things")
    turn = made.respond("thanks")
    assert turn.reason == "none_needed"
    tool_prompt = prompts(made)[2]
    assert f'User: red things\nAssistant: {FIND}\n1. "red 1"' in tool_prompt
    assert "Said to the user: Three." in tool_prompt
    assert [t.message for t in made.turns] == ["red things", "thanks"]
    made.reset()
    assert made.turns == []


def past(message, answer, context=None):
    trace = tk.Trace()
    trace.finish([tk.ChatMessage.from_assistant(answer)], "done")
    return TwoModeTurn(message, trace, context=context)


@pytest.mark.parametrize(
    ("contexts", "budget", "kept"),
    [
        ("all", 10_000, [True, False, True]),
        ("last", 10_000, [False, False, True]),
        ("none", 10_000, [False, False, False]),
        ("all", 45, [False, False, True]),
        ("all", 1, [True]),
    ],
    ids=["all", "last", "none", "over-budget", "far-over-budget"],
)
def test_which_contexts_are_shown(contexts, budget, kept):
    turns = [past("a", "b", ["x" * 60]), past("c", "d"), past("e", "f", ["y"])]
    assert [turn.context is not None for turn in shown_turns(turns, contexts, budget)] == kept


REASONS = [
    pytest.param("Good evening!", "no_json", id="no-json"),
    pytest.param("", "no_json", id="empty"),
    pytest.param('{"answer": 42}', "not_a_call", id="not-a-call"),
    pytest.param('{"action": "none"}', "none_needed", id="none"),
    pytest.param('{"action": "fond", "action_input": {}}', "unknown_action", id="unknown"),
    pytest.param('{"action": "find", "action_input": {"most": 2}}', "bad_arguments", id="missing-argument"),
    pytest.param('{"action": "find"}', "bad_arguments", id="missing-input"),
    pytest.param('{"action": "find", "action_input": {"word": "re', "truncated", id="truncated"),
    pytest.param('{"action": "broken", "action_input": {}}', "tool_failed", id="tool-failed"),
    pytest.param(tk.Reply(fault=tk.Fault("server", "gone")), "model_failed", id="model-failed"),
]


@pytest.mark.parametrize(("line", "reason"), REASONS)
def test_every_turn_without_data_has_a_reason(line, reason):
    made = agent([line, "Well."], [find, broken])
    turn = made.respond("hm")
    assert (turn.tool, turn.reason, turn.text) == (False, reason, "Well.")
    assert turn.detail
    told = reason in ("unknown_action", "bad_arguments", "truncated", "tool_failed", "model_failed")
    assert ("there is no data, because" in prompts(made)[1]) is told
    assert (turn.context is not None) is told


PIECES = [
    "Okay ",
    "42",
    ', "name": "free"',
    "\nAction: free\nAction Input: ",
    '{"action": "',
    "find",
    '", "action_input": ',
    '{"word": ',
    '"red"',
    "}",
    "{",
    "[",
    "]",
    "```json\n",
    "<think>",
    "User:",
    " ",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_reply_gives_actions_or_a_reason(text):
    wanted = read_actions(tk.Reply(text), as_actions([find, Action("free")]), several=True)
    assert bool(wanted.actions) is (wanted.reason is None)
    assert all(action.name in ("find", "free") for action in wanted.actions)


@given(st.text(), st.text())
def test_any_message_and_any_answer_pass_through_the_templates(message, answer):
    made = agent([answer, answer, answer, answer])
    made.respond(message)
    made.respond(message)
    assert disarming(tuple(made.actions))(message) in prompts(made)[2]


def test_unknown_actions_get_a_hint():
    assert "Did you mean 'find'" in agent(['{"action": "fond", "action_input": {}}', "x"]).respond("hm").detail


@pytest.mark.parametrize(
    ("written", "action", "given"),
    [
        pytest.param('"all"', everything, {}, id="all-for-nothing"),
        pytest.param("null", everything, {}, id="null-for-nothing"),
        pytest.param('"red"', find, {"word": "red"}, id="text-for-the-one-text"),
        pytest.param('"{\\"word\\": \\"red\\"}"', find, {"word": "red"}, id="object-as-text"),
        pytest.param('{"word": "red", "most": "2"}', find, {"word": "red", "most": 2}, id="number-as-text"),
        pytest.param('"all"', Action("free", run=lambda value: value), "all", id="free-text"),
        pytest.param('{"a": [1]}', Action("free", run=lambda value: value), {"a": [1]}, id="free-object"),
    ],
)
def test_what_an_input_means(written, action, given):
    actions = as_actions([action])
    name = next(iter(actions))
    wanted = read_actions(tk.Reply(f'{{"action": "{name}", "action_input": {written}}}'), actions)
    assert [(one.name, one.input) for one in wanted.actions] == [(name, given)]


def test_one_action_unless_several_are_allowed():
    two = f'{FIND}\n{{"action": "find", "action_input": {{"word": "blue"}}}}'
    one = agent([two, "x"]).respond("both")
    assert (one.context, one.detail) == (["red 1", "red 2", "red 3"], "1 more asked for and not run.")
    both = agent([two, "x"], several=True).respond("both")
    assert [data[0] for data in both.context] == ["red 1", "blue 1"]


def test_a_repair_round_tells_the_reason():
    made = agent(['{"action": "fond", "action_input": {}}', FIND, "Here."], repairs=1)
    turn = made.respond("red")
    assert turn.tool
    assert len(prompts(made)) == 3
    assert "There is no action 'fond'" in prompts(made)[1]
    quiet = agent(["Hi!", "Hello."], repairs=3)
    quiet.respond("hi")
    assert len(prompts(quiet)) == 2


def test_the_gate_saves_a_request():
    made = agent(["Hello."], gate=lambda message: "hi" not in message)
    turn = made.respond("hi")
    assert (turn.text, turn.reason, len(prompts(made))) == ("Hello.", "gate", 1)


def test_constrained_decoding_gets_a_schema():
    made = agent(['{"action": "none"}', "ok"], [find, Action("free", run=str)], constrained=True, several=True)
    made.respond("hi")
    schema = made.model.requests[0]["schema"]
    names = [branch["properties"]["action"]["const"] for branch in schema["anyOf"] if "properties" in branch]
    assert names == ["find", "free", "none"]
    assert schema["anyOf"][2]["type"] == "array"
    assert made.model.requests[1]["schema"] is None
    assert reply_schema([])["anyOf"][0]["properties"] == {"action": {"const": "none"}}


def test_a_reply_is_cut_even_if_the_server_did_not():
    said = iter([f"{FIND}\nUser: more\nAssistant: {FIND.replace('red', 'blue')}", "Good.\n### User: x"])
    turn = tk.TwoModeAgent(lambda prompt, stop, max_tokens: next(said), [find], several=True).respond("red")
    assert (turn.context, turn.text) == (["red 1", "red 2", "red 3"], "Good.")


def test_async_is_the_same():
    async def slow(word: str) -> str:
        """Find slowly."""
        await asyncio.sleep(0)
        return word

    lines = [FIND.replace("find", "slow"), "done"]
    turn = asyncio.run(agent(lines, [slow]).arespond("red"))
    assert turn == agent(lines, [slow]).respond("red")
    assert turn.context == "red"


def test_dispatch_takes_every_action():
    made = agent([FIND, "x"], dispatch=lambda name, value: {name: value})
    assert made.respond("red").context == {"find": {"word": "red"}}


def test_two_models_share_one_history():
    chat_model = tk.ScriptedModel(["Three."])
    made = agent([FIND], chat_model=chat_model)
    assert made.respond("red").text == "Three."
    assert len(chat_model.requests) == len(made.model.requests) == 1


def test_the_prompt_of_tool_mode_is_sent_raw():
    made = agent([FIND, "x"])
    made.respond("red")
    assert ["prompt" in request for request in made.model.requests] == [True, False]


def test_long_contexts_are_cut_at_whole_items():
    made = agent(['{"action": "find", "action_input": {"word": "red", "most": 400}}', "x"], max_context_chars=200)
    assert len(made.respond("red").context) == 400
    assert "more are left out" in prompts(made)[1]
    assert len(prompts(made)[1]) < 1000


def test_own_templates_run_in_a_sandbox(tmp_path):
    path = tmp_path / "tool.jinja"
    path.write_text("{{ user }} {{ actions | length }}")
    made = agent(["x", "y"], tool_prompt=path, chat_prompt="{{ context is none }}|{{ user }}")
    made.respond("{braces}")
    assert prompts(made) == ["{braces} 1", "True|{braces}"]
    with pytest.raises(tk.ConfigError, match="failed"):
        agent(["x"], tool_prompt="{{ user.__class__.__mro__ }}").respond("hi")
    with pytest.raises(tk.ConfigError, match="nothing_like_it"):
        agent(["x"], tool_prompt="{{ nothing_like_it }}").respond("hi")


def test_a_failing_chat_mode_is_an_error_with_the_turn_so_far():
    made = agent([FIND, tk.Reply(fault=tk.Fault("server", "gone"))])
    with pytest.raises(tk.ModelError, match="server: gone") as caught:
        made.respond("red")
    assert caught.value.turn.context == ["red 1", "red 2", "red 3"]
    assert made.turns == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "faithfull"},
        {"context_in_history": "some"},
        {"options": {"temprature": 1}},
        {"actions": [find, find]},
        {"actions": [Action("none")]},
        {"actions": "find"},
        {"examples": [{"user": "x", "action": "fly"}]},
        {"examples": [{"user": "x", "actoin": "find"}]},
        {"examples": [{"user": "x", "action": "find", "input": {}}]},
        {"examples": [{"user": "x", "action": "find", "action_input": 3}]},
        {"examples": [{"user": 3, "action": "find"}]},
        {"examples": ["find"]},
        {"tool_prompt": "{% if %}"},
        {"model": 3},
    ],
    ids=lambda value: "-".join(map(str, value)),
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(tk.ConfigError):
        tk.TwoModeAgent(**{"model": tk.ScriptedModel([]), "actions": [find], **wrong})


def test_views_are_short_and_escaped():
    made = agent([FIND, "<script>alert(1)</script>"])
    turn = made.respond("<b>red</b>")
    assert "<script>" not in turn._repr_html_()
    assert "<b>red" not in turn._repr_html_()
    assert len(repr(turn)) <= 100
    assert json.dumps(turn.to_dict())
    assert repr(made) == "TwoModeAgent(find; 1 turns)"


# ------------------------------------------------------------------ the marketplace of the article
def reads_the_history(wanted):
    """Stand in for a capable model: find the second product in the prompt's history, as a reader would."""

    def line(messages):
        rows = re.findall(r'^2\. (\{"id".*\})$', messages[0].text, re.MULTILINE)
        number = json.loads(rows[-1])["id"]
        return json.dumps({"action": wanted, "action_input": {"product_id": number}})

    return line


def test_something_similar_to_the_second_dress():
    shop = Marketplace()
    search = {"action": "recommend_clothes", "action_input": {"category": "Dresses", "season": "Winter"}}
    lines = [json.dumps(search), "Here are five.", reads_the_history("get_similar_products"), "These are like it."]
    made = agent(lines, shop.actions(), about="You work in a fashion shop.")
    shown = made.respond("Show me warm dresses for the winter.").context
    turn = made.respond("I prefer the second dress you showed me. What else is like it?")
    assert turn.actions[0].input == {"product_id": shown[1]["id"]}
    assert turn.context == shop.get_similar_products(shown[1]["id"])
    assert shown[1]["id"] not in [row["id"] for row in turn.context]
    assert turn.text == "These are like it."


@pytest.mark.parametrize(
    ("action", "given", "check"),
    [
        ("recommend_clothes", {"category": "Coats", "max_price": 300}, lambda c: all(r["price"] <= 300 for r in c)),
        ("get_product_details", {"product_id": 107919}, lambda c: c["id"] == 107919),
        ("get_similar_products", {"product_id": 107919}, lambda c: len(c) == 5),
        ("get_designers_list", "all", lambda c: len(c) > 10),
        ("get_designer_information", "Lumbra", lambda c: c["name"] == "Lumbra"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_five_actions(action, given, check):
    line = json.dumps({"action": action, "action_input": given})
    turn = agent([line, "ok"], Marketplace().actions()).respond("x")
    assert check(turn.context), turn


@pytest.mark.parametrize("mode", ["default", "faithful"])
@pytest.mark.parametrize("how", ["respond", "arespond"])
def test_whatever_a_model_raises_holds_the_turn_so_far(how, mode):
    def look(query: str) -> list:
        """Look for goods."""
        return ["red 1"]

    wanted = '{"action": "look", "action_input": {"query": "red"}}'
    agent = tk.TwoModeAgent(tk.ScriptedModel([wanted, ConnectionError("reset")]), [look], mode=mode)
    with pytest.raises(ConnectionError, match="reset") as caught:
        asyncio.run(agent.arespond("red?")) if how == "arespond" else agent.respond("red?")
    assert caught.value.turn.context == ["red 1"]
    assert [action.name for action in caught.value.turn.actions] == ["look"]
    assert agent.turns == []


def test_a_long_history_is_fitted_in_linear_time():
    turns = [past("q" * 20, "a" * 20, ["x" * 50]) for _ in range(4000)]
    start = time.perf_counter()
    shown = shown_turns(turns, "all", 2000)
    assert time.perf_counter() - start < 2
    assert 1 < len(shown) < 200
    assert sum(turn.tokens for turn in shown) <= 2000
    assert shown[-1].context is not None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"user": "x", "call": 3}', "unknown key 'call'"),
        ('{"user": "x"}', "needs action"),
        ('{"user": "x", "action": "find", "rows": 3}', "rows must be a list"),
        ("{", "is no JSON"),
    ],
)
def test_a_line_of_the_examples_file_that_is_none_is_refused_with_its_line(tmp_path, monkeypatch, row, message):
    (tmp_path / "examples.jsonl").write_text(f'{{"user": "Hi", "action": "none"}}\n{row}\n')
    path = resources.path
    monkeypatch.setattr(
        resources, "path", lambda name: tmp_path / "examples.jsonl" if "examples" in name else path(name)
    )
    with pytest.raises(tk.ConfigError, match=f"(?s){message}") as told:
        tk.TwoModeAgent(tk.ScriptedModel([]), [find])
    assert "examples.jsonl' line 2" in str(told.value)
