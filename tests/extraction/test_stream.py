"""A stream hands out text and calls early, never takes a call back, and ends as the whole does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.hostile.extraction import in_a_stream
from toolkit.extraction import StreamExtractor, extract
from toolkit.extraction.syntaxes import load

CORPORA = [Path(__file__).parents[1] / "corpora" / name for name in ("extraction_dev.jsonl", "second_look.jsonl")]
CASES = [json.loads(line) for path in CORPORA for line in path.read_text(encoding="utf-8").splitlines()]
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]


@pytest.mark.parametrize("size", [1, 3, 11, 200])
def test_every_reply_of_the_corpus(size: int) -> None:
    for case in CASES[:: 1 if size > 3 else 5]:
        text = case["text"]
        if len(text) > 3_000 and size < 200:
            continue
        stream = StreamExtractor(case["tools"])
        early = []
        for start in range(0, len(text), size):
            early += [event.call for event in stream.feed(text[start : start + size]) if event.kind == "call"]
        whole = stream.close()
        assert whole == extract(text, case["tools"]), case["id"]
        pairs = [(call.tool_name, call.arguments) for call in whole.calls]
        assert [(call.tool_name, call.arguments) for call in early if call] == pairs[: len(early)], case["id"]


@pytest.mark.parametrize(
    ("text", "certain_at"),
    [
        ('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call> and more', "</tool_call>"),
        ('TOOL_CALL: f {"a": 1}\nand more', "\na"),
        ('{"name": "f", "arguments": {"a": 1}}\nand more', "\na"),
        ("<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\nmore", "</function>"),
        ("[f(a=1)]\nand more", "\na"),
    ],
    ids=["hermes", "line", "bare_json", "qwen3_coder", "pythonic"],
)
def test_a_call_is_handed_out_as_soon_as_it_is_certain(text: str, certain_at: str) -> None:
    stream = StreamExtractor(TOOLS)
    fed = ""
    for char in text:
        fed += char
        stream.feed(char)
        if stream.complete:
            break
    assert stream.complete
    assert len(fed) <= text.index(certain_at) + len(certain_at)
    assert extract(fed, TOOLS).calls[0].arguments == {"a": 1}


def test_text_flows_and_adds_up() -> None:
    text = (
        "Hello there, this is a longer answer (with signs < and {braces}).\nIt has two lines, and then some more words."
    )
    stream = StreamExtractor(TOOLS)
    pieces = [event.text for char in text for event in stream.feed(char) if event.kind == "text"]
    assert len("".join(pieces)) > 20
    whole = stream.close()
    rest = [event.text for event in stream.rest if event.kind == "text"]
    assert "".join(pieces + rest).strip() == whole.text == text


def test_markers_never_show() -> None:
    text = 'I look.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\nDone.'
    stream = StreamExtractor(TOOLS)
    shown = "".join(event.text for char in text for event in stream.feed(char) if event.kind == "text")
    stream.close()
    shown += "".join(event.text for event in stream.rest if event.kind == "text")
    assert "tool_call" not in shown
    assert shown.split() == ["I", "look.", "Done."]


def test_an_early_stop_gives_the_call() -> None:
    stream = StreamExtractor(TOOLS)
    for chunk in ('<tool_call>{"name": "f", ', '"arguments": {"a": 1}}</tool_call>', "ramble", "ramble"):
        stream.feed(chunk)
        if stream.complete:
            break
    assert stream.text.endswith("</tool_call>")
    assert stream.close().calls[0].arguments == {"a": 1}


def test_a_long_argument_in_small_chunks_stays_linear() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"b": "' + "x" * 200_000 + '"}}</tool_call>'
    stream = StreamExtractor(TOOLS)
    for start in range(0, len(text), 16):
        stream.feed(text[start : start + 16])
    assert len(stream.close().calls[0].arguments["b"]) == 200_000


DSML = (
    '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>'
    "</｜DSML｜invoke></｜DSML｜function_calls>"
)


@pytest.mark.parametrize(
    "text",
    [
        f"[/THINK] Observation: 1\n{DSML}",
        f"<think>x</think> Observation: 1\n{DSML}",
        f"{DSML}  Observation: 1\n{DSML}",
        "<function name=><param name=a></param></function>&quot;<|tool_call_begin|>f<|n|>",
        '<tool>"name":""//f" "arguments":{"":1}}✿\n',
        '<｜DSML｜invoke name=f><｜DSML｜parameter=e></｜DSML｜parameter></｜DSML｜invoke>\'f[ARGS]{"":1}a',
        'f[ARGS]{}"\x00f[ARGS]{"":1}x',
    ],
    ids=len,
)
def test_nothing_is_handed_out_that_the_whole_does_not_hold(text: str) -> None:
    for size in (1, 2, 7):
        stream = StreamExtractor(TOOLS)
        early = [e.call for at in range(0, len(text), size) for e in stream.feed(text[at : at + size]) if e.call]
        whole = extract(text, TOOLS)
        assert stream.close() == whole
        assert [(c.tool_name, c.arguments) for c in early] == [(c.tool_name, c.arguments) for c in whole.calls][
            : len(early)
        ]


ENDS = [
    "</s>",
    "<|im_end|>",
    "</s><x",
    "<|im_end|>\n<x y",
    "<|end|> x",
    "</tool_call><x",
    "\n\n<x",
    "✿",
    "</s>✿RE",
    "<",
    "</function><",
]


@pytest.mark.sampled
@pytest.mark.parametrize("one", load(), ids=lambda one: one.name)
@pytest.mark.parametrize("known", [True, False], ids=["declared", "undeclared"])
def test_a_call_cut_before_its_closer_is_held_until_the_end_tells(one, known) -> None:
    text = one.example if known else re.sub(r"(?<![\w.])f(?![\w.])", "zz", one.example)
    cuts = {at for at in (text.rfind(sign) + after for sign in "<[}>)" for after in (0, 1)) if at > len(text) // 2}
    for cut in cuts:
        for end in ENDS:
            in_a_stream(text[:cut] + end, TOOLS, [1])
