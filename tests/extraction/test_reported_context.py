"""What public reports show of calls that are only told, and of text about the marks of calls."""

from __future__ import annotations

import re
from typing import Any

import pytest

from toolkit.extraction import StreamExtractor, extract
from toolkit.extraction.syntaxes import load

TIDE = {
    "name": "get_tide",
    "parameters": {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
}
SEARCH = {
    "name": "web_search",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query", "limit"],
    },
}
TOOLS = [TIDE, SEARCH]


def check(reply: str, text: str | None = None, thinking: str | None = None, calls: int = 0) -> None:
    """Check what is read of a reply, whole and in a stream of single characters."""
    found = extract(reply, TOOLS)
    assert len(found.calls) == calls, found.calls
    assert calls or found.status == "abstained", found.rejected
    assert text is None or found.text == text
    assert thinking is None or found.thinking == thinking
    stream = StreamExtractor(TOOLS)
    events: list[Any] = [event for char in reply for event in stream.feed(char)]
    early = [event.call for event in events if event.kind == "call"]
    assert stream.close() == found
    assert early == list(found.calls[: len(early)])
    said = "".join(event.text for event in (*events, *stream.rest) if event.kind == "text")
    assert said.strip() == found.text


TO = '<|channel|>commentary to=functions.get_tide <|constrain|>json<|message|>{"port": "Hull"}'
FINAL = "<|start|>assistant<|channel|>final<|message|>Hello"
INVOKE = '<atem:invoke name="get_tide"><atem:parameter name="port">Hull</atem:parameter></atem:invoke>'
ATEM = f"<atem:function_calls>{INVOKE}</atem:function_calls>"
TOLD = {
    "and ended as a thought": f"<|channel|>analysis<|message|>I could say {TO}<|end|>{FINAL}",
    "and thought on": f"<|channel|>analysis<|message|>I could say: {TO}<|call|> but not yet.<|end|>{FINAL}",
    "with its start": f"<|channel|>analysis<|message|>Like <|start|>assistant{TO}<|call|>, or so.<|end|>{FINAL}",
    "in the middle of a sentence": f"<|channel|>analysis<|message|>Then I would write {TO}",
    "behind a bare channel": f"analysis<|message|>I could say {TO}<|end|>{FINAL}",
    "with dots, omlx#2143": f"<|channel|>analysis<|message|>So {TO.replace('Hull', '...')}<|call|> is it.{FINAL}",
    "to itself, Rapid-MLX#1791": f" to=self<|message|>I could write {ATEM} here.<|eom|>{FINAL}",
    "to itself as JSON, smg#2270": f'<|start|>assistant to=self<|message|>{{"port": "Hull"}}<|eom|>{FINAL}',
    "to itself with a header": f" to=self<|message|>Not <|start|>assistant to=get_tide<|message|>{ATEM}<|eom|>{FINAL}",
}


@pytest.mark.parametrize("reply", TOLD.values(), ids=TOLD)
def test_a_call_told_in_a_thought_never_runs(reply: str) -> None:
    check(reply, text="Hello" if FINAL in reply else "")
    assert "get_tide" in extract(reply, TOOLS).thinking or "port" in extract(reply, TOOLS).thinking


MADE = {
    "after a whole thought": f"<|channel|>analysis<|message|>I look.<|end|><|start|>assistant{TO}<|call|>",
    "without the thought's end": f"<|channel|>analysis<|message|>I look.{TO}<|call|>",
    "without any end": f"<|channel|>analysis<|message|>I look.{TO}",
    "on the channel of thoughts, vllm#28139": TO.replace("commentary", "analysis") + "<|call|>",
    "behind a bare channel": f"analysis<|message|>I look.<|end|><|start|>assistant{TO}<|call|>",
    "in tags, smg#2270": f" to=self<|message|>I look.<|eom|><|start|>assistant to=get_tide<|message|>{ATEM}<|eom|>",
    "in tags at once": f" to=get_tide<|message|>{ATEM}<|eom|>",
}


@pytest.mark.parametrize("reply", MADE.values(), ids=MADE)
def test_a_call_behind_a_thought_runs(reply: str) -> None:
    check(reply, text="", calls=1)
    assert extract(reply, TOOLS).calls[0].arguments == {"port": "Hull"}


def test_an_answer_to_the_user_is_text() -> None:
    """Source: smg#2270."""
    check(
        " to=self<|message|>Easy.<|eom|><|start|>assistant to=user<|message|>It is sunny.<|eot|>",
        "It is sunny.",
        "Easy.",
    )


def marks() -> list[str]:
    """Return the marks of all syntaxes, as their examples open and close, that a text may name."""
    found: list[str] = [
        "</think>",
        "</tool_call>",
        "<|eot_id|>",
        "<|tool_calls_section_end|>",
        "</invoke>",
        "<arg_key>",
    ]
    for one in load():
        for pattern in (re.compile(one.opener), one.closer):
            written = pattern.search(one.example) if pattern else None
            if written is not None and re.fullmatch(r"[<\[✿◁][^\s{(]{3,40}[>\]✿▷]", written[0]):
                found.append(written[0])
    return sorted(set(found))


MARKS = marks()
SAID = [
    "Close every call with `{0}`, please.", "`{0}` and `{0}` are optional.", "Use ``{0}`` here.\nAnd then go on.",
    "- `{0}`: ends it\n- **x**: y", "It is called `{0}`", 'It writes "{0}" at the end.', "The token {0} closes it.",
    "A turn ends with {0}. That is all.", "The tags {0} and {0} are optional.",
]  # fmt: skip


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_that_is_only_named_stays_in_the_text(mark: str, said: str) -> None:
    """Source: orca#19690, QwenPaw#4066, continue#11070."""
    text = said.format(mark)
    check(text, text=text, thinking="")


def test_marks_are_many() -> None:
    assert len(MARKS) > 40


CALL = '<tool_call>{"name": "get_tide", "arguments": {"port": "Hull"}}</tool_call>'


def test_a_mark_named_in_a_thought_does_not_end_it() -> None:
    """Source: llama.cpp#28679, gLLM#286."""
    for thought in (
        "I close with `</think>` then.", "A `<think>` opens, `</think>` closes.", "Use text.split('</think>') there.",
    ):  # fmt: skip
        check(f"<think>{thought}</think>Hello", text="Hello", thinking=thought)
        check(f"<think>{thought}</think>{CALL}", text="", thinking=thought, calls=1)
        check(f"<think>Hm.</think>{thought}", text=thought, thinking="Hm.")


def test_marks_that_were_leaked_still_go() -> None:
    check("Hello.<|im_end|>", text="Hello.")
    check("Hello <|eot_id|>", text="Hello")
    check("I am done </s>\n", text="I am done")
    for end in ("\n</think>\n\n", " </think> "):  # what a stream has shown by then cannot be taken back
        found = extract(f"I look first.{end}Hello", TOOLS)
        assert (found.text, found.thinking) == ("Hello", "I look first.")
    check(f"Close it with `</tool_call>`.\n{CALL}", text="Close it with `</tool_call>`.", calls=1)
    check(f"`{CALL}`", calls=1)


LINE = 'web_search(query="test", limit=1)'
OBJECT = '{"name": "web_search", "arguments": {"query": "test", "limit": 1}}'
NAMED = 'web_search{"query": "test", "limit": 1}'
TAGGED = f"<tool_call>{OBJECT}</tool_call>"
EXPLAINED = [
    "You can also call it like:\n{0}\nin your own code.", "The docs show this line:\n\n    {0}\n\nIt returns hits.",
    "The request looks like:\n{0}\nThat is the whole request.", "> {0}\n\nThat is what you wrote.",
    "The README says:\n\n\t{0}\n\nI have not run it.", "A typical use:\n{0}\nreturns a list of hits.",
]  # fmt: skip
EXPLAINED_BARE = [
    "In Python you would write:\n{0}\nand read the list it returns.", "It is equivalent to:\n{0}",
    "You could write it this way:\n{0}", "The old code was\n    {0}\nwhich failed.",
    "Users call this as\n{0}\nby hand.",
    "From a notebook, type:\n\n{0}\n\nand wait.",
]  # fmt: skip
MEANT = [
    "{0}", "I will search:\n{0}", "Here is the call:\n\n{0}", "I'll call it like this:\n{0}\nand then answer.",
    "Here is the function call:\n    {0}", "Calling the tool:\n\n    {0}\n", "Let me look that up.\n\n{0}\n",
]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [said.format(call) for said in EXPLAINED for call in (LINE, OBJECT, NAMED)]
    + [said.format(LINE) for said in EXPLAINED_BARE],
)
def test_an_explanation_is_no_call(text: str) -> None:
    """Source: GLM-Free-API#35."""
    check(text, text=text.strip())


@pytest.mark.parametrize("text", [said.format(call) for said in MEANT for call in (LINE, OBJECT, NAMED)])
def test_a_call_that_a_model_announces_is_one(text: str) -> None:
    check(text, calls=1)


@pytest.mark.parametrize(
    "call",
    [
        TAGGED, f"[TOOL_CALLS][{OBJECT}]", f"<function_call>{OBJECT}</function_call>", f"[{LINE}]",
        f"TOOL_CALL: {NAMED}",
        "<function=web_search><parameter=query>test</parameter><parameter=limit>1</parameter></function>",
        f"**Bot**: {TAGGED}", f"<tool_call>\n> {OBJECT}\n> </tool_call>", f"```json\n> {OBJECT}\n> ```",
    ],
)  # fmt: skip
def test_a_call_in_a_block_quote_is_told(call: str) -> None:
    text = f"Yesterday's transcript had:\n\n> {call}\n\nShall I do that again?"
    check(text, text=text)


def test_a_call_in_a_code_span_runs_unless_the_sentence_speaks_about_it() -> None:
    for said in ("For example, `{0}` calls it.", "You would write `{0}` to search."):
        check(said.format(TAGGED), text=said.format(TAGGED))
    check(f"I do it now: `{TAGGED}`", calls=1)
