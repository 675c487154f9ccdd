"""Everything that takes messages or tools takes the same things."""

from types import SimpleNamespace

import pytest

import toolkit as tk

RECIPE = tk.Recipe(model="scripted", protocol="hermes", arm="prompted")
LINE = '<tool_call>{"name": "double", "arguments": {"a": 4}}</tool_call>'
ASKED = tk.ToolCall("double", {"a": 4}, "c1")


def double(a: int) -> int:
    """Double it."""
    return 2 * a


def foreign(kind, content, **more):
    return SimpleNamespace(type=kind, content=content, **more)


class Invoked:
    name, description, parameters = "double", "Double it.", tk.Tool.from_function(double).parameters

    def invoke(self, args):
        return 2 * args["a"]


WIRE = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "double", "arguments": '{"a": 4}'}}]}
TALKS = {
    "ours": [tk.HumanMessage("double 4"), tk.ChatMessage.from_assistant(tool_calls=[ASKED])],
    "stored": [tk.HumanMessage("double 4").to_dict(), tk.ChatMessage.from_assistant(tool_calls=[ASKED]).to_dict()],
    "wire": [{"role": "user", "content": "double 4"}, WIRE],
    "pair": [("human", "double 4"), WIRE],
    "langchain": [
        foreign("human", "double 4"),
        foreign("ai", "", tool_calls=[{"name": "double", "args": {"a": 4}, "id": "c1"}]),
    ],
    "nested": [["double 4"], ([WIRE],)],
}


def model():
    return tk.ScriptedModel(["Hello."], name="scripted")


def sent(ask):
    """Return the conversation that reached a model."""
    asked = model()
    ask(asked)
    return [message for message in asked.requests[0]["messages"] if not message.is_from("system")]


TAKERS = {
    "ask": lambda talk: sent(lambda m: tk.ask(RECIPE, talk, [double], model=m)),
    "chat": lambda talk: sent(lambda m: m.chat(talk)),
    "agent": lambda talk: sent(lambda m: tk.Agent(m, [double], arm="native").run(talk)),
    "airgap": lambda talk: sent(lambda m: tk.AirgapChat(m).bind_tools([double]).invoke(talk)),
    "render": lambda talk: tk.load_protocol("hermes").render([double], talk)[1:],
    "invoker": lambda talk: tk.ToolInvoker([double]).run(talk)["tool_messages"],
    "caller": lambda talk: tk.OpenAIFunctionCaller({"double": double}).run(talk)["function_replies"],
    "case": lambda talk: list(tk.Case("x", tuple(tk.messages.as_messages(talk)), ()).messages),
}


@pytest.mark.parametrize("form", TALKS)
@pytest.mark.parametrize("taker", TAKERS)
def test_a_conversation_is_the_same_to_everyone_in_every_form(taker, form):
    found = TAKERS[taker](TALKS[form])
    assert found == TAKERS[taker](TALKS["ours"])
    assert found


def test_a_question_may_be_a_pair():
    assert sent(lambda m: tk.ask(RECIPE, [("human", "hi")], model=m)) == [tk.HumanMessage("hi")]
    assert sent(lambda m: tk.Agent(m).run(("human", "hi"))) == [tk.HumanMessage("hi")]


def called(run):
    """Return the results that a run with a model that calls `double` has."""
    return [result.result for result in run(tk.ScriptedModel([LINE, "8."]))]


TOOL_TAKERS = {
    "ask": lambda tools: tk.ask(RECIPE, "go", tools, model=tk.ScriptedModel([LINE])).extraction.calls[0].arguments["a"],
    "agent": lambda tools: called(lambda m: tk.Agent(m, tools, protocol="hermes").run("go").tool_results),
    "airgap": lambda tools: called(lambda m: tk.AirgapChat(m).bind_tools(tools).invoke("go").results),
    "invoker": lambda tools: tk.ToolInvoker(tools).invoke(ASKED).result,
    "toolset": lambda tools: tk.Toolset(tools)["double"].tool_spec,
    "extract": lambda tools: tk.extract(LINE, tools=tools).calls[0].unknown_tool,
    "render": lambda tools: tk.load_protocol("hermes").render(tools, "go"),
    "schema": lambda tools: tk.load_protocol("hermes").response_schema(tools),
}
TOOLS = {
    "tool": [tk.Tool.from_function(double)],
    "function": [double],
    "object": [Invoked()],
    "toolset": tk.Toolset([double]),
    "nested": [[tk.Toolset([double])]],
}


@pytest.mark.parametrize("form", TOOLS)
@pytest.mark.parametrize("taker", TOOL_TAKERS)
def test_tools_are_the_same_to_everyone_in_every_form(taker, form):
    assert TOOL_TAKERS[taker](TOOLS[form]) == TOOL_TAKERS[taker](TOOLS["tool"])


@pytest.mark.parametrize("taker", TOOL_TAKERS)
def test_one_bare_tool_is_refused_by_everyone(taker):
    with pytest.raises(tk.ConfigError, match="Put it in brackets"):
        TOOL_TAKERS[taker](double)


@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_message_is_refused_by_everyone(taker):
    with pytest.raises(tk.ConfigError, match="3 is no message"):
        TAKERS[taker]([3])


def test_a_langchain_tool_serves_an_agent():
    tools = pytest.importorskip("langchain_core.tools")
    assert TOOL_TAKERS["agent"]([tools.tool(double)]) == ["8"]
