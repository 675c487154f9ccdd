"""AirgapChatOpenAI: a true ChatOpenAI whose documented example runs, on one path however it is called."""

import asyncio
import json
import os
import subprocess
import sys
import warnings

import pytest

import toolkit as tk

pytest.importorskip("langchain_openai")

import openai
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI

from toolkit.integrations.langchain import AirgapChatOpenAI
from toolkit.testing import FakeLlamaServer

CALL = 'TOOL_CALL: echo {"text": "hello"}'


class EchoTool:
    name = "echo"
    description = "Echo back the provided text."

    def invoke(self, args):
        return args["text"]


@langchain_tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


@pytest.fixture
def server():
    with FakeLlamaServer() as server:
        server.keeps_connections = False
        yield server


def says(server, *texts):
    for text in texts:
        server.says(text, prompt_tokens=10, completion_tokens=5, total_tokens=15)


def make(server, **settings):
    return AirgapChatOpenAI(model="m", temperature=0, base_url=f"{server.host}/v1", api_key="none", **settings)


def by_invoke(llm, messages):
    return llm.invoke(messages)


def by_ainvoke(llm, messages):
    return asyncio.run(llm.ainvoke(messages))


def by_stream(llm, messages):
    total = None
    for chunk in llm.stream(messages):
        total = chunk if total is None else total + chunk
    return total


def by_astream(llm, messages):
    async def gather():
        return [chunk async for chunk in llm.astream(messages)]

    first, *rest = asyncio.run(gather())
    for chunk in rest:
        first = first + chunk
    return first


def by_generate(llm, messages):
    return llm._generate(messages).generations[0].message


@pytest.mark.parametrize("way", [by_invoke, by_ainvoke, by_stream, by_astream, by_generate])
def test_every_way_runs_the_tools(server, way):
    says(server, f"Let me see.\n{CALL}", "It says hello.")
    message = way(make(server).bind_tools([EchoTool()]), [SystemMessage("Be brief."), HumanMessage("Use echo.")])
    assert message.text.replace("Let me see.", "").strip() == "It says hello."
    assert not message.tool_calls
    record = message.response_metadata["airgap"]
    assert [call["tool_name"] for call in record["calls"]] == ["echo"]
    assert [result["result"] for result in record["results"]] == ["hello"]
    assert record["raw_texts"] == [f"Let me see.\n{CALL}", "It says hello."]
    second = json.dumps(server.requests[1]["messages"])
    assert all(part in second for part in ("Be brief.", "Use echo.", "tool_result"))
    assert all("tools" not in asked for asked in server.requests)


def test_it_is_a_chat_open_ai(server):
    llm = make(server)
    bound = llm.bind_tools([multiply])
    assert isinstance(bound, AirgapChatOpenAI)
    assert isinstance(bound, ChatOpenAI | BaseChatModel)
    assert bound is not llm
    says(server, "TOOL_CALL: multiply {}", "no tools here")
    assert llm.invoke("hi").text == "TOOL_CALL: multiply {}"


def test_langchain_tools_and_messages(server):
    says(server, 'TOOL_CALL: multiply {"a": "6", "b": 7}', "42")
    history = [
        HumanMessage("first"),
        AIMessage("", tool_calls=[{"name": "multiply", "args": {"a": 1, "b": 1}, "id": "x"}]),
        ToolMessage("1", tool_call_id="x"),
        AIMessage("It is 1."),
        HumanMessage("And 6 times 7?"),
    ]
    message = make(server).bind_tools([multiply]).invoke(history)
    assert message.response_metadata["airgap"]["results"][0]["result"] == 42
    sent = server.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "multiply(a: integer, b: integer)" in sent[0]["content"]
    assert 'TOOL_CALL: multiply {"a": 1, "b": 1}' in sent[2]["content"]


def test_options_pass_or_are_told(server):
    says(server, "a", "b")
    llm = make(server)
    with pytest.warns(UserWarning, match="drops logit_bias"):
        bound = llm.bind(temperature=0.5, logit_bias={"1": 1})
    bound.invoke("hi", stop=["END"])
    assert server.requests[0]["temperature"] == 0.5
    assert server.requests[0]["stop"] == ["END"]
    assert "logit_bias" not in server.requests[0]
    assert llm.bind() is llm


def test_usage_is_the_sum_of_all_requests(server):
    says(server, CALL, "done")
    message = make(server).bind_tools([EchoTool()]).invoke("go")
    assert message.usage_metadata["input_tokens"] == 20
    assert message.usage_metadata["output_tokens"] == 10


def test_it_stands_in_a_chain(server):
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate

    says(server, CALL, "done")
    chain = ChatPromptTemplate.from_messages([("human", "{q}")]) | make(server).bind_tools([EchoTool()])
    assert (chain | StrOutputParser()).invoke({"q": "go {x}"}) == "done"


def test_callbacks_hear_the_shown_words(server):
    from langchain_core.callbacks import BaseCallbackHandler

    class Listener(BaseCallbackHandler):
        words = ""

        def on_llm_new_token(self, token, **kwargs):
            self.words += token

    says(server, CALL, "All done.")
    listener = Listener()
    list(make(server).bind_tools([EchoTool()]).stream("go", config={"callbacks": [listener]}))
    assert listener.words == "All done."


def test_missing_langchain_says_what_to_install():
    code = (
        "import sys; sys.modules['langchain_openai'] = None\n"
        "from toolkit.errors import UserError\n"
        "try:\n    import toolkit.integrations.langchain\n"
        "except UserError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install" in done.stdout
    assert "'langchain-openai>=1'" in done.stdout


EXAMPLE = """
from langchain_core.messages import HumanMessage
from toolkit.integrations.langchain import AirgapChatOpenAI

class EchoTool:
    name = "echo"
    description = "Echo back the provided text."
    def invoke(self, args):
        return args["text"]

llm = AirgapChatOpenAI(model="gpt-4o-mini", temperature=0).bind_tools([EchoTool()])

# Ask the model; if it emits "TOOL_CALL: echo {...}", the tool will run and a final answer is requested.
result = llm._generate([HumanMessage(content="Use the echo tool with text='hello' and then answer.")])
print(result.generations[0].message.content)
"""


def test_the_documented_example_runs_as_printed(server, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.host}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    says(server, CALL, "The tool said hello.")
    exec(compile(EXAMPLE, "example", "exec"), {})
    assert capsys.readouterr().out == "The tool said hello.\n"


@pytest.mark.slow
@pytest.mark.embedded
def test_the_documented_example_runs_against_the_embedded_model(monkeypatch, capsys):
    with tk.load_model("embedded/smollm2-135m", num_ctx=1024) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.address)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setitem(os.environ, "NO_PROXY", "127.0.0.1")
        exec(compile(EXAMPLE, "example", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_a_configured_copy_keeps_its_tools(server):
    from langchain_core.runnables import ConfigurableField

    says(server, CALL, "done")
    llm = make(server).bind_tools([EchoTool()]).configurable_fields(temperature=ConfigurableField(id="t"))
    reply = llm.invoke("go", config={"configurable": {"t": 0.5}})
    assert reply.response_metadata["airgap"]["results"][0]["result"] == "hello"
    assert server.requests[0]["temperature"] == 0.5


def test_a_copy_with_other_fields_obeys_them(server):
    says(server, *(CALL.replace("hello", str(n)) for n in range(9)))
    reply = make(server).bind_tools([EchoTool()]).model_copy(update={"max_rounds": 1}).invoke("go")
    assert len(server.requests) == 2
    assert reply.response_metadata["airgap"]["stop_reason"] == "rounds"


@pytest.mark.parametrize("kind", ["image_url", "input_audio"])
def test_blocks_that_are_no_text_are_dropped_with_one_warning(server, kind):
    says(server, "a", "b")
    llm, question = (
        make(server),
        [HumanMessage(["What is ", {"type": "text", "text": "this?"}, {"type": kind, kind: {}}])],
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # as outside of tests: once for each place
        llm.invoke(question)
        llm.invoke(question)
    assert [kind in str(warning.message) for warning in caught] == [True]
    assert server.requests[0]["messages"][-1]["content"] == "What is this?"


def test_structured_output_is_refused_clearly(server):
    with pytest.raises(tk.UserError, match="no structured output"):
        make(server).with_structured_output({"title": "x", "type": "object"}, method="json_mode")


def test_what_the_server_fails_at_later_holds_the_run_so_far(server):
    says(server, CALL)
    with pytest.raises(openai.InternalServerError) as caught:
        make(server, max_retries=0).bind_tools([EchoTool()]).invoke("go")
    assert [call.tool_name for call in caught.value.trace.tool_calls] == ["echo"]
