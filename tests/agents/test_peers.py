"""What was reported of peers' agents, tried on ours; the ids of the cases name the report.

Other files hold the rest: `test_pairs` (calls and results), `test_resuming` (pausing, crashes), `test_answers` (answers
in a shape, empty ones), `test_tokens` (streams).
"""

from __future__ import annotations

import asyncio

import pytest

import toolkit as tk
from toolkit.agents.builtin import HumanApproval, ModelRetry, PIIRedaction, Summarization, ToolCallLimit, ToolRetry
from toolkit.agents.middleware import AgentMiddleware
from toolkit.agents.runtime import Runtime
from toolkit.agents.state import StateField

M = tk.ChatMessage


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


def turn(*calls):
    return M.from_assistant(
        tool_calls=[tk.ToolCall(name, arguments, f"c{n}") for n, (name, arguments) in enumerate(calls)]
    )


def both_ways(make, question="go"):
    yield make().run(question)
    yield asyncio.run(make().arun(question))


# ------------------------------------------------------------------ langchain#38893: what is not in retry_on is raised
WANTED = [TimeoutError, (TimeoutError,), "TimeoutError", ["TimeoutError", OSError], lambda e: isinstance(e, OSError)]


@pytest.mark.parametrize("on_failure", ["continue", "error", str])
@pytest.mark.parametrize("retry_on", WANTED)
@pytest.mark.parametrize("kind", [KeyError, ValueError, ZeroDivisionError])
@pytest.mark.parametrize("who", ["model", "tool"])
def test_a_mistake_in_the_program_is_never_an_answer(who, kind, retry_on, on_failure):
    """Source: langchain#38893."""

    def broken() -> str:
        """Fail."""
        raise kind("typo")

    retry = (ModelRetry if who == "model" else ToolRetry)(retry_on=retry_on, on_failure=on_failure, initial_delay=0)
    lines = [kind("typo")] if who == "model" else [tk.ToolCall("broken"), "never"]

    def agent():
        return tk.Agent(tk.ScriptedModel(list(lines)), [broken], middleware=[retry])

    with pytest.raises(kind, match="typo"):
        agent().run("go")
    with pytest.raises(kind, match="typo"):
        asyncio.run(agent().arun("go"))


def test_a_failure_that_was_foreseen_is_still_an_answer():
    def broken() -> str:
        """Fail."""
        raise ConnectionError("down")

    retry = ToolRetry(1, retry_on="OSError", initial_delay=0)
    model = tk.ScriptedModel([tk.ToolCall("broken"), "done"])
    assert tk.Agent(model, [broken], middleware=[retry]).run("go").tool_results[0].error


# ------------------------------------------------------------------ summaries
@pytest.mark.parametrize("system", [1, 2])
@pytest.mark.parametrize("keep", [("messages", 1), ("messages", 2), ("tokens", 8)])
def test_a_system_message_of_the_history_is_never_summarized_away(system, keep):
    """Source: browser-use/agent-sdk#3."""
    rules = [M.from_system(f"Rule {n}.") for n in range(system)]
    talk = [m for n in range(4) for m in (M.from_user(f"question {n}"), M.from_assistant(f"answer {n}"))]
    writer, model = tk.ScriptedModel(["They talked."], cycle=True), tk.ScriptedModel(["ok"], cycle=True)
    agent = tk.Agent(model, middleware=[Summarization(writer, trigger=("messages", 6), keep=keep)])
    trace = agent.run([*rules, *talk, M.from_user("last")])
    agent.run([*trace.messages, *talk, M.from_user("and now?")])
    for request in model.requests:
        said = [m.text for m in request["messages"] if m.is_from("system")]
        assert said == [rule.text for rule in rules]
    assert not any("Rule" in m.text for request in writer.requests for m in request["messages"])


# ------------------------------------------------------------------ approval
def test_a_refusal_leaves_the_other_calls_alone():
    """Source: langchainjs#11391."""
    gate = HumanApproval(["pay"], ask="no: not today")
    for trace in both_ways(
        lambda: tk.Agent(
            tk.ScriptedModel([turn(("pay", {"amount": 1}), ("look", {"n": 2})), "done"]), [pay, look], middleware=[gate]
        )
    ):
        assert [(r.result, r.error) for r in trace.tool_results] == [
            ("The user does not allow this call: not today", True), ("saw 2", False),
        ]  # fmt: skip


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_an_edited_call_stands_in_the_history_also_when_it_fails(ends):
    """Source: langchain#32988."""
    limit = 100 if ends == "well" else 10

    def pay(amount: int) -> str:
        """Pay."""
        if amount > limit:
            raise ValueError("too much")
        return f"paid {amount}"

    for trace in both_ways(
        lambda: tk.Agent(
            tk.ScriptedModel([turn(("pay", {"amount": 900}), ("look", {"n": 1})), "done"]),
            [pay, look],
            middleware=[HumanApproval(["pay"], ask=lambda call: {"amount": 50})],
        )
    ):
        assert [call.arguments for call in trace.tool_calls] == [{"amount": 50}, {"n": 1}]
        assert [result.origin.arguments for result in trace.tool_results] == [{"amount": 50}, {"n": 1}]
        assert trace.tool_results[0].error is (ends == "badly")
        assert [event.data["call"].arguments for event in trace.of_kind("edit")] == [{"amount": 50}]


# ------------------------------------------------------------------ hidden data
def test_data_in_the_arguments_of_a_turn_without_words_is_hidden():
    """Source: langchain#37658, langchain#37659."""
    seen = []

    def mail(to: str) -> str:
        """Write."""
        seen.append(to)
        return "sent"

    model = tk.ScriptedModel([tk.ToolCall("mail", {"to": "ann@boats.example"}), "done"])
    hide = PIIRedaction("email", apply_to_output=True)
    trace = tk.Agent(model, [mail], middleware=[hide]).run("go")
    assert seen == ["[REDACTED_EMAIL]"] == [call.arguments["to"] for call in trace.tool_calls]


# ------------------------------------------------------------------ limits
def test_the_limit_answers_every_call_of_the_turn_that_it_ends():
    """Source: langchain#34159, langchain#39258."""
    limit = ToolCallLimit(run_limit=1, exit_behavior="end")
    model = tk.ScriptedModel([turn(("look", {"n": 1}), ("look", {"n": 2}), ("look", {"n": 3}))])
    trace = tk.Agent(model, [look], middleware=[limit]).run("go")
    assert [result.error for result in trace.tool_results] == [True] * 3
    assert list(trace.state["thread_tool_calls"].values()) == [0]


@pytest.mark.parametrize("order", [("finish", "look"), ("look", "finish")])
def test_a_direct_tool_counts_wherever_it_stands(order):
    """Source: haystack#11392. Both tools are direct here: results are the answer only if all are."""

    def finish(n: int) -> str:
        """Finish."""
        return f"end {n}"

    tools = [tk.Tool.from_function(finish, return_direct=True), tk.Tool.from_function(look, return_direct=True)]
    model = tk.ScriptedModel([turn(*((name, {"n": 1}) for name in order))])
    assert tk.Agent(model, tools).run("go").stop_reason == "return_direct"


# ------------------------------------------------------------------ tools that answer with a Command
def spend(amount: int, request: tk.ToolCallRequest) -> tk.Command:
    """Spend."""
    done = M.from_tool(f"spent {amount}", request.tool_call)
    return tk.Command({"messages": [done], "spent": request.state["spent"] + amount})


async def spend_later(amount: int, request: tk.ToolCallRequest, runtime: Runtime, state: tk.State) -> tk.Command:
    """Spend."""
    assert runtime is request.runtime
    assert state.get("spent") == request.state["spent"]
    return tk.Command({"messages": [{"role": "tool", "content": "later", "tool_call_id": request.tool_call_id}],
                       "spent": runtime.context + amount})  # fmt: skip


@pytest.mark.parametrize("tool", [spend, spend_later])
@pytest.mark.parametrize("arm", ["native", "prompted"])
def test_a_tool_knows_its_call_the_state_and_the_run(tool, arm):
    """LangChain's InjectedToolCallId, InjectedState and ToolRuntime; source: langchain#33472."""
    asked = {"native": tk.ToolCall(tool.__name__, {"amount": 2})}
    asked["prompted"] = f'<tool_call>{{"name": "{tool.__name__}", "arguments": {{"amount": 2}}}}</tool_call>'
    for context in (1, 1):
        agent = tk.Agent(
            tk.ScriptedModel([asked[arm], "done"]), [tool], arm=arm, state_schema={"spent": StateField(default=1)}
        )
        assert list(agent.tools[0].properties) == ["amount"]
        trace = agent.run("go", context=context)
        assert trace.state["spent"] == 3
        assert [r.origin.tool_name for r in trace.tool_results] == [tool.__name__]


def test_a_tool_that_asks_for_its_request_says_so_outside_an_agent():
    with pytest.raises(tk.ToolInvocationError, match="only an Agent"):
        tk.ToolInvoker([spend]).invoke(tk.ToolCall("spend", {"amount": 1}))


# ------------------------------------------------------------------ names of LangChain
GENERIC = [tk.AgentMiddleware, tk.ModelRequest, tk.ModelResponse, tk.ExtendedModelResponse, tk.ToolCallRequest,
           tk.Command, Runtime]  # fmt: skip


@pytest.mark.parametrize("kind", GENERIC)
@pytest.mark.parametrize("parameters", [int, (int, str)])
def test_what_is_generic_in_langchain_can_be_subscripted(kind, parameters):
    assert kind[parameters].__origin__ is kind


def test_a_subscripted_middleware_is_a_middleware():
    class Mine(AgentMiddleware[dict, None]):
        def before_model(self, state: dict, runtime: Runtime[None]) -> tk.Command[str] | None:
            return {"messages": [M.from_user("more")]}

    assert tk.Agent(tk.ScriptedModel(["done"]), middleware=[Mine()]).run("go").messages[1].text == "more"


CALL = tk.ToolCall("f")
MESSAGES = [
    *(M.from_tool(result, CALL) for result in ("6", {"n": 6}, None)),
    M.from_assistant(tool_calls=[CALL]), M.from_user("6"), M.from_system("6"),
]  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_has_text_that_can_be_added_to(message):
    assert isinstance("seen: " + message.content, str)
    assert message.content or message.tool_calls


BAD = [
    lambda: tk.Agent(tk.ScriptedModel([]), tool_choice="nobody"),
    lambda: tk.Agent(tk.ScriptedModel([]), middleware=[3]),
    lambda: tk.Agent(tk.ScriptedModel([]), max_model_calls="many"),
    lambda: tk.Agent(tk.ScriptedModel([]), response_format=3),
    lambda: tk.Tool("", "", {}),
    lambda: tk.ToolInvoker([]),
    lambda: ModelRetry(-1),
    lambda: M.from_dict({"role": "nobody"}),
    lambda: tk.Recipe(model="m", arm="other"),
    lambda: tk.load_protocol("no such"),
    lambda: tk.Command and tk.hook_config(can_jump_to=["nowhere"]),
]


@pytest.mark.parametrize("bad", range(len(BAD)))
@pytest.mark.parametrize("kind", [ValueError, TypeError, tk.ConfigError, tk.UserError])
def test_a_bad_argument_is_what_users_of_the_source_libraries_catch(bad, kind):
    with pytest.raises(kind):
        BAD[bad]()


def test_a_middleware_sees_every_model_call():
    """Source: microsoft/agent-framework#4767."""
    seen = []

    class Count(tk.AgentMiddleware):
        def wrap_model_call(self, request, handler):
            seen.append(len(request.messages))
            return handler(request)

    model = tk.ScriptedModel([tk.ToolCall("look", {"n": 1}), tk.ToolCall("look", {"n": 2}), "done"])
    tk.Agent(model, [look], middleware=[Count()]).run("go")
    assert seen == [1, 3, 5]


def test_one_agent_answers_several_calls_at_once_each_for_itself():
    """Source: smolagents#1781: an agent that is another's tool, called twice in a turn."""

    class Echo(tk.ScriptedModel):
        def chat(self, messages, *ignored, **also_ignored):
            return tk.Reply(f"answer to {messages[-1].text}")

    inner = tk.Agent(Echo([]))

    def research(question: str) -> str:
        """Find something out."""
        return inner.run(question).text

    model = tk.ScriptedModel([turn(*(("research", {"question": f"q{n}"}) for n in range(6))), "done"])
    trace = tk.Agent(model, [research]).run("go")
    assert [result.result for result in trace.tool_results] == [f"answer to q{n}" for n in range(6)]
