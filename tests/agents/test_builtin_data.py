"""Each ready middleware has LangChain's name too, and can be made of what a TOML file holds."""

from __future__ import annotations

import inspect
import tomllib

import pytest

import toolkit as tk
from toolkit.agents import builtin
from toolkit.errors import ConfigError

SAID = ["Mail ann@e.org, then greet Bob.", "Pay now."]
TRIES = []


def pay(amount: int) -> str:
    """Pay."""
    TRIES.append(amount)
    if TRIES == [9]:
        raise OSError("no line")
    return f"paid {amount}"


def look() -> str:
    """Look."""
    return "seen " * 20


def call(name="pay", cid="c1", **arguments):
    return tk.ToolCall(name, arguments or ({"amount": 9} if name == "pay" else {}), cid)


def results(trace, model):
    return [result.result for result in trace.tool_results]


def sent(trace, model):
    return [message.text for message in model.requests[0]["messages"]]


def offered(trace, model):
    return [tool.name for tool in model.requests[0]["tools"]]


def text(trace, model):
    return trace.text


def first(trace, model):
    return trace.messages[0].text


BROKEN, GOOD = '<tool_call>{"name": "look", "argu', '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
# entry of [[middleware]], lines of the model, what to look at, what is to be there
ROWS = {
    "ContextEditing": (
        'arguments = {trigger = 10, keep = 0, persist = true, exclude_tools = ["pay"], placeholder = "-"}',
        [call("look"), "done"], results, ["-"],
    ),
    "FewShot": (
        'arguments = {k = 1, examples = [[{role = "user", content = "Hm?"}, {role = "assistant", content = "Paid."}]]}',
        ["done"], sent, ["Hm?", "Paid.", *SAID],
    ),
    "FormatRepair": ("arguments = {times = 2}", [BROKEN, BROKEN, GOOD, "done"], results, [look()]),
    "HumanApproval": (
        'arguments = {tools = ["pay"], ask = "no: not now"}',
        [call(), "done"], results, ["The user does not allow this call: not now"],
    ),
    "ModelCallLimit": (
        "arguments = {run_limit = 1}", [call(), "never"], text, "Stopped: all 1 model calls are used up.",
    ),
    "ModelFallback": ('arguments = ["test/broken", "test/spare"]', [RuntimeError("down")], text, "spare"),
    "ModelRetry": (
        'arguments = {max_retries = 1, initial_delay = 0, retry_on = ["RuntimeError"]}',
        [RuntimeError("busy"), "up"], text, "up",
    ),
    "PIIRedaction": (
        'arguments = {kind = "person", strategy = "mask", detector = "Bob", apply_to_output = true}',
        ["done"], first, "Mail ann@e.org, then greet ****.",
    ),
    "Planning": ('arguments = {system_prompt = "Plan."}', ["done"], sent, ["Plan.", *SAID]),
    "Summarization": (
        'arguments = {model = "test/writer", trigger = ["tokens", 5], keep = ["messages", 1]}',
        ["done"], first, "Summary of the conversation so far:\nwriter",
    ),
    "ToolCallLimit": (
        'arguments = {tool_name = "pay", run_limit = 1, exit_behavior = "end"}',
        [call(amount=1), call(amount=2), "never"], text, 'Tool "pay" may not be called again; its 1 call is used up.',
    ),
    "ToolEmulation": ('arguments = {model = "test/player", tools = ["pay"]}', [call(), "done"], results, ["player"]),
    "ToolErrors": (
        'arguments = {on_error = {OSError = "No line."}, tools = ["pay"]}', [call(), "done"], results, ["No line."],
    ),
    "ToolRetry": (
        'arguments = {max_retries = 1, initial_delay = 0, tools = ["pay"], retry_on = "OSError", on_failure = "error"}',
        [call(), "done"], results, ["paid 9"],
    ),
    "ToolSelection": (
        'arguments = {model = "test/look", max_tools = 1, always_include = []}', ["done"], offered, ["look"],
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def named_models(monkeypatch):
    """Models of a name `test/…` say their name, or fail."""

    def load(name):
        word = name.partition("/")[2]
        return tk.ScriptedModel([RuntimeError("down") if word == "broken" else word])

    monkeypatch.setattr("toolkit.models.registry.load_model", load)
    TRIES.clear()


def middlewares():
    return {name: kind for name in builtin.__all__ if isinstance(kind := getattr(builtin, name), type)}


@pytest.mark.parametrize("name", [n for n, kind in middlewares().items() if issubclass(kind, tk.AgentMiddleware)])
def test_a_toml_file_can_name_it(name):
    entry, lines, look_at, wanted = ROWS[middlewares()[name].__name__]
    data = tomllib.loads(f'[[middleware]]\nname = "{name}"\n{entry}')
    [made] = [builtin.build(**item) for item in data["middleware"]]
    model = tk.ScriptedModel(lines)
    arm = "prompted" if name == "FormatRepair" else "native"
    trace = tk.Agent(model, [pay, look], arm=arm, middleware=[made]).run(SAID)
    assert look_at(trace, model) == wanted


def test_a_class_of_ones_own_can_be_named():
    made = builtin.build("toolkit.agents.builtin.limits:ModelCallLimit", {"run_limit": 2})
    assert isinstance(made, tk.middleware.ModelCallLimit)


@pytest.mark.parametrize(
    ("name", "arguments", "what"),
    [
        ("ToolRety", {}, "Did you mean 'ToolRetry'"),
        ("names_table", {}, "'names_table' is no middleware"),
        ("PIIFoundError", {}, "'PIIFoundError' is no middleware"),
        ("no.such.module:X", {}, "cannot be imported"),
        ("toolkit.agents.builtin:nothing", {}, "is no middleware"),
        ("FormatRepair", {"often": 2}, "'often'.* Known: times"),
        ("ModelRetry", {"max_retries": "two"}, "Middleware 'ModelRetry': max_retries must be a whole number"),
        ("ToolRetry", {"max_retrys": 2}, "Did you mean 'max_retries'"),
        ("Summarization", {"trigger": ["words", 2]}, "Size .* is unknown"),
        ("Summarization", {"trigger": 5}, "Size 5 is unknown"),
    ],
    ids=str,
)
def test_what_makes_no_middleware_is_told(name, arguments, what):
    with pytest.raises(ConfigError, match=what):
        builtin.build(name, arguments)


@pytest.mark.parametrize("name", ["ModelFallback", "Summarization", "ToolSelection", "ToolEmulation"])
def test_naming_a_model_contacts_nothing(name, monkeypatch):
    monkeypatch.undo()
    made = builtin.build(name, ["ollama/x"])
    assert (made.models[0] if name == "ModelFallback" else made.model).name == "ollama/x"


# ------------------------------------------------------------------ names
LANGCHAIN = [
    *("ContextEditingMiddleware", "HumanInTheLoopMiddleware", "LLMToolEmulator", "LLMToolSelectorMiddleware"),
    *("ModelCallLimitMiddleware", "ModelFallbackMiddleware", "ModelRetryMiddleware", "PIIDetectionError"),
    *("PIIMiddleware", "SummarizationMiddleware", "TodoListMiddleware", "ToolCallLimitMiddleware"),
    *("ToolErrorMiddleware", "ToolRetryMiddleware"),
]


@pytest.mark.parametrize("name", LANGCHAIN)
def test_langchains_names_are_ours(name):
    kind = getattr(tk.middleware, name)
    assert kind is getattr(tk.middleware, kind.__name__)
    assert kind.__name__ != name
    in_table = f"| `{kind.__name__}` | `{name}` | " in tk.middleware.names_table()
    assert in_table is issubclass(kind, tk.AgentMiddleware)  # an exception has no place among middleware


@pytest.mark.parametrize(
    ("word", "near"), [("ToolRety", "ToolRetry"), ("PIIMidleware", "PIIMiddleware"), ("toolcalllimit", "ToolCallLimit")]
)
def test_a_misspelt_name_names_the_nearest_and_the_list(word, near):
    with pytest.raises(AttributeError, match=f"has no '{word}'. Did you mean '{near}'.* Known: .*ContextEditing"):
        getattr(tk.middleware, word)
    assert not hasattr(tk.middleware, "__wrapped__")


def test_the_table_has_a_line_for_each_class():
    lines = tk.middleware.names_table().splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == sorted(
        {kind.__name__ for kind in middlewares().values() if issubclass(kind, tk.AgentMiddleware)}
    )
    assert all(line.endswith(". |") for line in lines)


def numbers():
    """Yield each number that a ready middleware takes: (class, parameter)."""
    for name in dir(builtin):
        kind = getattr(builtin, name)
        if isinstance(kind, type) and issubclass(kind, tk.AgentMiddleware) and name == kind.__name__:
            for parameter in inspect.signature(kind).parameters.values():
                if str(parameter.annotation) in ("int", "int | None"):
                    yield pytest.param(kind, parameter.name, id=f"{name}.{parameter.name}")


@pytest.mark.parametrize("value", ["one", "1", -1, 1.5, True, [1], float("nan")], ids=repr)
@pytest.mark.parametrize(("kind", "parameter"), list(numbers()))
def test_a_number_that_is_none_is_refused_when_the_middleware_is_made(kind, parameter, value):
    more = {"examples": []} if kind is builtin.FewShot else {}
    with pytest.raises(ConfigError, match=parameter):
        builtin.build(kind.__name__, {**more, parameter: value})


# ------------------------------------------------------------------ by name, and for tools by name
@pytest.mark.parametrize(
    "entry",
    [
        "ToolRetry",
        "ToolRetryMiddleware",
        {"name": "ToolRetry"},
        {"name": "ToolRetry", "arguments": {"max_retries": 3}},
        {"name": "toolkit.agents.builtin:ToolRetry", "arguments": [3]},
        builtin.ToolRetry(),
    ],
    ids=str,
)
def test_an_agent_takes_middleware_as_a_recipe_does(entry):
    [made] = tk.Agent(tk.ScriptedModel(["ok"]), [pay], middleware=[entry]).setup.plan.middleware
    assert isinstance(made, builtin.ToolRetry)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("ToolRety", "'ToolRety' is no middleware. Did you mean 'ToolRetry'"),
        ({"name": "ToolRetry", "arguments": {"max_retry": 3}}, "Did you mean 'max_retries'"),
        ({"nam": "ToolRetry"}, "names no middleware"),
        (builtin.ToolRetry, "Make an instance"),
        (3, "3 is no middleware"),
    ],
    ids=str,
)
def test_what_names_no_middleware_is_refused(entry, words):
    with pytest.raises(tk.ConfigError, match=words):
        tk.Agent(tk.ScriptedModel(["ok"]), [pay], middleware=[entry])


@pytest.mark.parametrize("name", ["pya", "send_mail"])
def test_a_limit_for_a_tool_that_is_not_there_is_refused_with_the_tools(name):
    limit = builtin.ToolCallLimit(tool_name=name, run_limit=1)
    with pytest.raises(tk.ConfigError, match=rf"ToolCallLimit\[{name}\] is for tool '{name}', .* Known: pay, look"):
        tk.Agent(tk.ScriptedModel(["ok"]), [pay, look], middleware=[limit])
    entry = {"name": "ToolCallLimit", "arguments": {"tool_name": name, "run_limit": 1}}
    with pytest.raises(tk.ConfigError, match="Known: pay, look"):
        tk.Agent(tk.ScriptedModel(["ok"]), [pay, look], recipe=tk.Recipe(model="ollama/x", middleware=[entry]))


@pytest.mark.parametrize(
    "made",
    [
        builtin.HumanApproval(["pya"]),
        builtin.HumanApproval({"pya": True, "look": False}),
        builtin.ToolRetry(tools=["pya"]),
        builtin.ContextEditing(exclude_tools=["pya"]),
    ],
    ids=lambda made: made.name,
)
def test_a_misspelt_tool_is_refused_where_it_would_be_passed_over(made):
    """An approval for `pya` would let every `pay` run."""
    with pytest.raises(tk.ConfigError, match="is for tool 'pya'.* Did you mean 'pay'"):
        tk.Agent(tk.ScriptedModel(["ok"]), [pay, look], middleware=[made])
    tk.Agent(tk.ScriptedModel(["ok"]), [look], middleware=[made])  # for another agent, say


def test_tools_that_need_not_exist_need_not_exist():
    tk.Agent(
        tk.ScriptedModel(["ok"]),
        [pay],
        middleware=[builtin.ToolEmulation(tools=["pya"]), builtin.HumanApproval("dangerous")],
    )
