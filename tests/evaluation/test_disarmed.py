"""What disarming changes of a request can be seen wherever the request is looked at: it may decide the reply."""

import pytest

import toolkit as tk
from toolkit.evaluation.cases import Case

QUESTION = "What does get_tide(port) do?"
SENT = "What does get_tide·(port) do?"


def get_tide(port: str) -> str:
    """Tell the tide."""
    return "<tool_call>high"


def asked(question, arm="prompted", tools=(get_tide,)):
    return tk.ask(tk.Recipe("s", arm=arm), question, tools=list(tools), model=tk.ScriptedModel(["It tells."]))


@pytest.mark.parametrize("arm", ["prompted", "constrained"])
def test_what_was_asked_says_which_texts_were_changed(arm):
    found = asked(QUESTION, arm)
    assert found.disarmed == [(QUESTION, SENT)]
    assert any(SENT in message.text for message in found.prompt)
    assert ", 1 text disarmed" in repr(found)
    assert SENT in found._repr_html_()


@pytest.mark.parametrize(("question", "arm"), [(QUESTION, "native"), ("What is the tide in Hull?", "prompted")])
def test_nothing_is_said_where_nothing_was_changed(question, arm):
    found = asked(question, arm)
    assert found.disarmed == []
    assert "disarmed" not in repr(found)
    assert "no echo" not in found._repr_html_()


def test_descriptions_and_earlier_results_are_told_too():
    tool = {"name": "get_tide", "description": "Write get_tide(port).", "parameters": {"description": "<tool_call>"}}
    history = [
        tk.ChatMessage.from_user("Hi <b>there</b>"),
        tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("get_tide", {}, "1")]),
        tk.ChatMessage.from_tool("<tool_call>high", tk.ToolCall("get_tide", {}, "1")),
    ]
    sent = [after for _, after in asked(history, tools=[tool]).disarmed]
    assert sent == ['"<·tool_call>high"', "Write get_tide·(port).", '{"description": "<·tool_call>"}']


@pytest.mark.parametrize("run", ["ask", "agent"])
def test_the_row_holds_the_texts_as_they_were_sent(run):
    tool = tk.Tool.from_function(get_tide)
    cases = [
        Case("a", (tk.ChatMessage.from_user(QUESTION),), (tool,)),
        Case("b", (tk.ChatMessage.from_user("Hi"),), (tool,)),
    ]
    model = tk.ScriptedModel(["It tells."], cycle=True)
    result = tk.evaluate(tk.Recipe("s"), cases, models={"s": model}, run=run, progress=False)
    assert list(result.rows["disarmed"]) == [SENT, ""]


def test_the_results_of_a_runs_tools_are_among_them():
    tool = tk.Tool.from_function(get_tide)
    case = Case("a", (tk.ChatMessage.from_user("Tide in Hull?"),), (tool,), ({"name": "get_tide", "arguments": {}},))
    lines = ['<tool_call>{"name": "get_tide", "arguments": {"port": "Hull"}}</tool_call>', "High."]
    model = tk.ScriptedModel(lines)
    [row] = tk.evaluate(tk.Recipe("s"), [case], models={"s": model}, run="agent", progress=False).rows.to_dict(
        "records"
    )
    assert "<·tool_call>high" in row["disarmed"]


def test_the_playground_shows_it():
    widgets = pytest.importorskip("ipywidgets")
    case = Case("a", (tk.ChatMessage.from_user(QUESTION),), (tk.Tool.from_function(get_tide),))
    playground = tk.lab.Playground(tk.Recipe("s"), [case], models={"s": tk.ScriptedModel(["It tells."])})
    assert isinstance(playground, widgets.VBox)
    assert f"Changed, so that no echo is a call: {SENT}" in playground.prompt_view.value
