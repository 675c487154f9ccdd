"""An answer is there, in the shape that was asked for, or the run says that it is not.

Sources: langchain#36349 and #32951 (prose instead of the shape), langchainjs#10218 (a wrapper loses it),
pydantic-ai#4767 (it stands beside a call that failed), haystack#11665, openhuman#4638, thane-ai-agent#167,
vellum-assistant#25880 and agentscope-java#2750 (empty answers), ollama#17274 (tokens counted, nothing said).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pydantic
import pytest
from typing_extensions import TypedDict

import toolkit as tk
from toolkit.agents.builtin import ToolCallLimit

ARMS = pytest.mark.parametrize("arm", ["native", "prompted", "constrained"])


class Verdict(pydantic.BaseModel):
    result: str


@dataclass
class Question:
    ask: str


class Refusal(TypedDict):
    why: str


SCHEMA = {"title": "Plan", "type": "object", "properties": {"steps": {"type": "integer"}}, "required": ["steps"]}
ANSWERS = {
    "Verdict": ({"result": "valid"}, Verdict(result="valid")),
    "Question": ({"ask": "who?"}, Question("who?")),
    "Refusal": ({"why": "no"}, {"why": "no"}),
    "Plan": ({"steps": 2}, {"steps": 2}),
}


def pay(amount: int) -> str:
    """Pay."""
    if amount < 0:
        raise ValueError("nothing to pay")
    return f"paid {amount}"


def call(name, **arguments):
    return tk.ToolCall(name, arguments)


@pytest.mark.parametrize("shapes", [[Verdict, Question, Refusal, SCHEMA], (Verdict, Question, Refusal, SCHEMA)])
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("tools", [[], [pay]], ids=["alone", "beside tools"])
def test_any_of_several_shapes_will_do(shapes, name, tools):
    arguments, value = ANSWERS[name]
    model = tk.ScriptedModel([tk.ToolCall(name, arguments)])
    trace = tk.Agent(model, tools, response_format=shapes).run("go")
    assert trace.structured_response == value
    assert [tool.name for tool in model.requests[0]["tools"]][-4:] == list(ANSWERS)


def test_a_union_is_several_shapes():
    trace = tk.Agent(tk.ScriptedModel([call("Question", ask="who?")]), response_format=Verdict | Question).run("go")
    assert trace.structured_response == Question("who?")


def test_two_shapes_of_one_name_are_refused():
    with pytest.raises(tk.ConfigError, match="'Plan'"):
        tk.Agent(tk.ScriptedModel([]), response_format=[SCHEMA, dict(SCHEMA)])


WRONG = {
    "prose": "It looks valid to me.",
    "bad arguments": call("Verdict", result=[1]),
    "twice": tk.ChatMessage.from_assistant(tool_calls=[call("Verdict", result="a"), call("Verdict", result="b")]),
    "empty": "",
    "other JSON": '{"verdict": "valid"}',
}


@pytest.mark.parametrize("tools", [[], [pay]], ids=["alone", "beside tools"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_is_asked_for_again_and_never_passed_over(wrong, tools):
    """Source: langchain#36349."""
    model = tk.ScriptedModel([WRONG[wrong], call("Verdict", result="valid")])
    assert tk.Agent(model, tools, response_format=Verdict).run("go").structured_response == Verdict(result="valid")
    again = tk.ScriptedModel([WRONG[wrong]], cycle=True)
    trace = tk.Agent(again, tools, response_format=Verdict, max_reasks=1).run("go")
    assert (trace.structured_response, trace.stop_reason) == (None, "response_format")
    assert len(again.requests) == 2


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_may_raise_at_once(wrong):
    model = tk.ScriptedModel([WRONG[wrong]])
    with pytest.raises(tk.AgentError, match="response_format") as caught:
        tk.Agent(model, [pay], response_format=Verdict, on_bad_answer="raise").run("go")
    assert caught.value.trace.messages


@pytest.mark.parametrize("text", ['{"result": "valid"}', '```json\n{"result": "valid"}\n```', ' {"result": "valid"}\n'])
def test_a_reply_that_is_nothing_but_the_answer_counts(text):
    """Local models write the answer's JSON as text. Source: langchain#32951."""
    trace = tk.Agent(tk.ScriptedModel([text]), [pay], response_format=Verdict).run("go")
    assert (trace.structured_response, trace.stop_reason) == (Verdict(result="valid"), "done")


@pytest.mark.parametrize("gives", ["message", "response"])
def test_a_wrapper_that_hands_on_the_message_alone_loses_no_answer(gives):
    """Source: langchainjs#10218."""

    class Through(tk.AgentMiddleware):
        def wrap_model_call(self, request, handler):
            message = handler(request).result[0]
            return message if gives == "message" else tk.ModelResponse([message])

    model = tk.ScriptedModel([call("Verdict", result="valid")])
    trace = tk.Agent(model, [pay], response_format=Verdict, middleware=[Through()]).run("go")
    assert trace.structured_response == Verdict(result="valid")
    assert trace.pending == []


def test_an_answer_beside_a_call_that_failed_is_not_the_last_word():
    """Source: pydantic-ai#4767."""
    both = [call("pay", amount=-1), call("Verdict", result="paid")]
    model = tk.ScriptedModel([tk.ChatMessage.from_assistant(tool_calls=both), call("Verdict", result="not paid")])
    trace = tk.Agent(model, [pay], response_format=Verdict).run("go")
    assert trace.structured_response == Verdict(result="not paid")


# ------------------------------------------------------------------ no answer at all
EMPTY = {
    "no text": tk.Reply("", completion_tokens=40),
    "blank": tk.Reply(" \n", completion_tokens=2),
    "thoughts alone": tk.Reply("", thinking="The answer is 4.", completion_tokens=9),
}


@ARMS
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("after", ["a result", "the question"])
def test_an_empty_answer_is_none(empty, after, arm):
    first = {
        "native": call("pay", amount=1),
        "prompted": '<tool_call>{"name": "pay", "arguments": {"amount": 1}}</tool_call>',
        "constrained": '{"name": "pay", "arguments": {"amount": 1}}',
    }[arm]
    lines = [first] if after == "a result" else []
    model = tk.ScriptedModel([*lines, EMPTY[empty], "Four."])
    trace = tk.Agent(model, [pay], arm=arm).run("2 + 2?")
    assert (trace.text, trace.stop_reason) == ("Four.", "done")
    assert [event.data["reason"] for event in trace.of_kind("refused")] == ["empty_answer"]
    assert "" not in [(m.text or "x").strip() for m in trace.messages if m.is_from("assistant")]
    again = tk.ScriptedModel([*lines, *[EMPTY[empty]] * 3])
    assert tk.Agent(again, [pay], arm=arm).run("2 + 2?").stop_reason == "empty_answer"


def test_an_empty_answer_is_none_in_async_runs_too():
    model = tk.ScriptedModel(["", "Four."])
    assert asyncio.run(tk.Agent(model, [pay]).arun("2 + 2?")).text == "Four."


def test_a_middleware_may_end_a_run_without_words():
    end = ToolCallLimit(run_limit=0, exit_behavior="end")
    trace = tk.Agent(tk.ScriptedModel([call("pay", amount=1)]), [pay], middleware=[end]).run("go")
    assert trace.stop_reason == "jump"
