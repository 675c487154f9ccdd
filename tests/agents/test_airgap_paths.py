"""AirgapChat by every path: streaming and async callers, and the original's rules in compat mode."""

import asyncio

import pytest

import toolkit as tk
from toolkit.agents.airgap.chat import VisibleText
from toolkit.asking import stream_reader
from toolkit.models.base import Chunk

CALL = 'TOOL_CALL: echo {"text": "hi"}'


class EchoTool:
    name = "echo"
    description = "Echo back the provided text."

    def invoke(self, args):
        return args["text"]


class Nameless:
    description = "Has no name."

    def invoke(self, args):
        raise AssertionError("It cannot be called by name.")


def chat(lines, tools=None, **settings):
    return tk.AirgapChat(tk.ScriptedModel(lines), **settings).bind_tools([EchoTool()] if tools is None else tools)


# ------------------------------------------------------------------ C-W10: one path
def streamed(bound):
    return list(bound.stream("go"))


def streamed_async(bound):
    async def gather():
        return [chunk async for chunk in bound.astream("go")]

    return asyncio.run(gather())


def facts(reply):
    return reply.text, reply.stop_reason, reply.results, reply.replies, reply.extractions, reply.prompts, reply.messages


@pytest.mark.parametrize("stream", [streamed, streamed_async])
def test_streaming_goes_the_same_path(stream):
    lines = ["Let me see.\n" + CALL, "It says\nhi."]
    chunks = stream(chat(lines))
    assert "".join(chunk.text for chunk in chunks) == "Let me see.\nIt says\nhi."
    assert [chunk.result.result for chunk in chunks if chunk.result] == ["hi"]
    assert facts(chunks[-1].reply) == facts(chat(lines).invoke("go"))


def test_async_goes_the_same_path():
    async def slow_echo(text: str) -> str:
        """Echo."""
        await asyncio.sleep(0)
        return text

    lines = ['TOOL_CALL: slow_echo {"text": "hi"}', "done"]
    reply = asyncio.run(chat(lines, [slow_echo]).ainvoke("go"))
    assert facts(reply) == facts(chat(lines, [slow_echo]).invoke("go"))
    assert reply.results[0].result == "hi"


@pytest.mark.parametrize(
    ("text", "early", "late"),
    [
        pytest.param("Hello there.\nBye.", "Hello ", "there.\nBye.", id="words"),
        pytest.param("TOOL_CALL: echo {}", "", "", id="call"),
        pytest.param("So it is:\nTOOL_CALL: echo {}", "So it ", "is:\n", id="call-after-words"),
        pytest.param('{"name": "echo", "arguments": {}}', "", "", id="json"),
        pytest.param("<think>draft</think>Hi", "", "Hi", id="thought"),
        pytest.param("Tool time", "", "Tool time", id="like-the-marker"),
    ],
)
def test_what_may_be_a_call_is_held_back(text, early, late):
    recipe, tools = tk.Recipe("scripted", protocol="airgap"), [tk.Tool("echo", "", {"type": "object"})]
    shown = VisibleText(lambda: stream_reader(recipe, tools))
    pieces = [shown.take(Chunk(char)) for char in text]
    assert "".join([*pieces, shown.take(Chunk(reply=tk.Reply(text)))]).strip() == (early + late).strip()
    assert (early + late).startswith("".join(pieces))
    if early:
        assert any(pieces)


def test_thoughts_are_not_streamed_without_tools():
    chunks = list(tk.AirgapChat(tk.ScriptedModel(["<think>Hm.</think>" + CALL])).stream("go"))
    assert "".join(chunk.text for chunk in chunks) == chunks[-1].reply.text == CALL


# ------------------------------------------------------------------ compat mode: the original's rules
def compat(lines=(CALL, "end"), tools=None):
    return chat(list(lines), tools, mode="compat")


async def gather(chunks):
    return [chunk async for chunk in chunks]


PATHS = {
    "ainvoke": lambda bound, **kwargs: asyncio.run(bound.ainvoke("go", **kwargs)),
    "stream": lambda bound, **kwargs: list(bound.stream("go", **kwargs))[-1].reply,
    "astream": lambda bound, **kwargs: asyncio.run(gather(bound.astream("go", **kwargs)))[-1].reply,
}


def asked(bound):
    return getattr(bound, "chat", bound).model.requests[-1]


def test_a_nameless_tool_is_passed_over():
    assert compat(tools=[Nameless(), EchoTool()]).invoke("go").raw_texts == (CALL, "end")
    alone = compat(tools=[Nameless()]).invoke("go")
    assert (alone.text, len(alone.replies)) == (CALL, 1)


def test_tools_are_shared_with_the_list_that_was_bound():
    tools = []
    bound = compat(tools=tools)
    tools.append(EchoTool())
    assert bound.invoke("go").text == "end"
    assert bound.bind_tools(None) is bound
    assert repr(bound) == "AirgapChat('scripted', mode='compat', no tools)"


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_way_round_the_prompt_keeps_every_option(path):
    bound = compat([CALL])
    kwargs = {"top_p": 0.5, "seed": 7, "max_tokens": 9, "stop": ["END"], "tool_choice": "auto"}
    assert path(bound, **kwargs).text == CALL
    request = asked(bound)
    options = tk.Options.of(request["options"])
    assert [m.text for m in request["messages"]] == ["go"]
    assert (options.top_p, options.seed, options.num_predict, options.stop) == (0.5, 7, 9, ("END",))
    assert (request["tools"], request["tool_choice"]) == (None, "auto")


def test_tools_of_a_request_reach_the_model_round_the_prompt_only():
    spec = {"type": "function", "function": {"name": "now", "description": "Tell the time."}}
    bound = compat([CALL, "end", CALL])
    bound.invoke("go", tools=[spec], seed=7)
    assert (asked(bound)["tools"], tk.Options.of(asked(bound)["options"]).seed) == (None, 0)
    list(bound.stream("go", tools=[spec]))
    assert len(asked(bound)["tools"]) == 1


@pytest.mark.parametrize(
    "kwargs", [{"logit_bias": {}}, {"tool_choice": {"type": "function"}}], ids=["unknown", "choice-as-a-dict"]
)
def test_what_no_model_takes_is_dropped_with_a_warning(kwargs):
    bound = compat(["a", "b"])
    with pytest.warns(UserWarning, match=f"AirgapChat drops {next(iter(kwargs))}="):
        list(bound.stream("go", **kwargs))
    bound.invoke("go", **kwargs)  # the original drops it too, without a word


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_binding_takes_every_path(path):
    bound = compat([CALL]).bind(top_p=0.5, tools=[1])
    assert path(bound, seed=7).text == CALL
    options = tk.Options.of(asked(bound)["options"])
    assert (options.top_p, options.seed, asked(bound)["tools"]) == (0.5, 7, None)


def test_a_binding_binds_as_the_original_does():
    bound = compat().bind(top_p=0.5)
    again = bound.bind(seed=7)
    assert again.kwargs == {"top_p": 0.5, "seed": 7}
    assert bound.kwargs == {"top_p": 0.5}
    assert again.invoke("go").text == "end"
    tools = [EchoTool()]
    assert bound.bind_tools(tools) is bound.chat
    assert bound.chat.tools is tools
