"""What a streamed run shows is what it says: no text of calls, no data that middleware hides.

Sources: langchain#35011 and #37616 (hidden data in the stream).
"""

from __future__ import annotations

import asyncio

import pytest

import toolkit as tk
from toolkit.agents.builtin import PIIFoundError, PIIRedaction
from toolkit.models.base import Chunk

PROTOCOLS = tk.list_protocols()


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Slowly(tk.ScriptedModel):
    """Write each reply in pieces of so many characters."""

    def __init__(self, lines, size):
        super().__init__(lines)
        self.size = size

    def _pieces(self, reply):
        for start in range(0, len(reply.text), self.size):
            yield Chunk(reply.text[start : start + self.size])
        yield Chunk(reply=reply)

    def stream(self, messages, **request):
        yield from self._pieces(self.chat(messages, **request))

    async def astream(self, messages, **request):
        for piece in self._pieces(self.chat(messages, **request)):
            yield piece


async def _events(agent, question):
    return [event async for event in agent.astream(question)]


def shown(agent, way="sync"):
    events = list(agent.stream("go")) if way == "sync" else asyncio.run(_events(agent, "go"))
    said = [event.data["text"] for event in events if event.kind == "token"]
    return "".join(said), events[-1].data["trace"]


def written(protocol, text):
    """Return a call as the protocol has it written, taken from its own rendering of a past turn."""
    tools = [tk.Tool.from_function(pay)]
    past = tk.ChatMessage.from_assistant(text, tool_calls=[tk.ToolCall("pay", {"amount": 7}, "c1")])
    rendered = tk.load_protocol(protocol).render(tools, [tk.ChatMessage.from_user("go"), past])
    return next(m.text for m in reversed(rendered) if m.is_from("assistant"))


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_text_of_a_call_is_shown(protocol, size, way):
    line = written(protocol, "I pay.")
    model = Slowly([line, "It is paid."], size)
    agent = tk.Agent(model, [pay], arm="prompted", protocol=protocol)
    said, trace = shown(agent, way)
    assert [result.result for result in trace.tool_results] == ["paid 7"]
    words = [turn.text.strip() for turn in trace.messages if turn.is_from("assistant") and turn.text]
    assert "".join(said.split()) == "".join("".join(words).split())


def test_the_constrained_arm_shows_the_answer_and_not_its_json():
    protocol = tk.load_protocol("hermes")
    past = [tk.ChatMessage.from_user("go"), tk.ChatMessage.from_assistant("Fine.")]
    answer = protocol.render([tk.Tool.from_function(pay)], past, arm="constrained")[-1].text
    said, trace = shown(tk.Agent(Slowly([answer], 3), [pay], arm="constrained"))
    assert said == trace.text == "Fine."


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("strategy", ["redact", "mask", "hash", "block"])
def test_what_is_hidden_is_not_streamed(strategy, size, way):
    hide = PIIRedaction("email", strategy, apply_to_output=True)
    agent = tk.Agent(Slowly(["Write to ann@boats.example today."], size), middleware=[hide])
    if strategy == "block":
        seen = []
        with pytest.raises(PIIFoundError):
            seen.extend(event for event in agent.stream("go") if event.kind == "token")
        assert seen == []
        return
    said, trace = shown(agent, way)
    assert said == trace.text
    assert "ann@boats.example" not in said


def test_words_beside_a_call_are_shown_once_they_are_hidden():
    lines = ['I ask ann@boats.example.<tool_call>{"name": "pay", "arguments": {"amount": 7}}</tool_call>', "Done."]
    hide = PIIRedaction("email", apply_to_output=True)
    said, trace = shown(tk.Agent(Slowly(lines, 4), [pay], arm="prompted", middleware=[hide]))
    assert said == "I ask [REDACTED_EMAIL].Done."
    assert trace.text == "Done."


def test_input_alone_needs_no_holding_back():
    agent = tk.Agent(Slowly(["one two three"], 1), middleware=[PIIRedaction("email")])
    assert len([event for event in agent.stream("go") if event.kind == "token"]) > 1
