"""What must hold for any text: no exception, one answer, no invented call, round trips, prose changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from toolkit.extraction import StreamExtractor, extract
from toolkit.messages import ToolCall

TOOLS = [
    {"name": "find_book", "parameters": {"type": "object", "properties": {"title": {"type": "string"}}}},
    {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    {"name": "store", "parameters": {"type": "object", "properties": {}}},
]
PIECES = st.sampled_from(
    [
        "<tool_call>", "</tool_call>", '{"name": "ping", "arguments": {}}', '{"name": "find_book", ', "[TOOL_CALLS]",
        "[ARGS]", "TOOL_CALL: ping", "\n", "```json\n", "```", "<think>", "</think>", "[find_book(title='x')]",
        "ping()", "{", "}", "[", "]", '"', "'", "\\", "<function=ping>", "<parameter=a>", "</parameter>",
        "</function>", "<|channel|>analysis", "<|message|>", "<|call|>", "Action: ping\n", "Action Input: {}",
        "Observation: ", "Final Answer: ", "✿FUNCTION✿: ping", "✿ARGS✿: {}", "<arg_key>a</arg_key>",
        "<arg_value>1</arg_value>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "call:ping{", '<|"|>', "&quot;",
        "tool: ping\narguments:\n  a: 1\n", "Hello there, ", "for example ", "> ", "...", "NaN", "\u200b",
        "functools", "<invoke name=", "<|tool_call>", "<<function>>", ">>>ping\n", "<ping>", "</ping>", "null", ",",
        ":", "=", "(", ")",
    ]
)  # fmt: skip
SOUP = st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=24).map("".join)
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=4)


@QUICK
@given(SOUP)
@example("<think>" * 5)
@example("{" * 200)
def test_never_raises_and_gives_the_same_twice(text: str) -> None:
    first = extract(text, TOOLS)
    assert first == extract(text, TOOLS)
    assert first.source == text
    assert (first.status == "called") == bool(first.calls)
    first.to_dict()
    first._repr_html_()


@QUICK
@given(SOUP)
def test_bare_names_are_never_invented(text: str) -> None:
    for call in extract(text, TOOLS).calls:
        assert call.unknown_tool or call.tool_name in {"find_book", "ping", "store"}
        start, end = call.span
        assert 0 <= start <= end <= len(text)


@QUICK
@given(SOUP)
def test_no_tools_means_only_marked_unknown_calls(text: str) -> None:
    assert all(call.unknown_tool for call in extract(text, []).calls)


@QUICK
@given(SOUP)
def test_what_is_left_holds_no_further_explicit_call(text: str) -> None:
    found = extract(text, TOOLS)
    # behind a ReAct action nothing is read, since the model was to stop there
    ends = {"react", "action_json", "smolagents_action", "command_r"}
    if found.calls and not found.rejected and not found.thinking and found.calls[-1].syntax not in ends:
        marked = '<tool_call>{"name": "store", "arguments": {}}</tool_call>\n'  # beside it, a bare call is none
        again = extract(marked + found.text, TOOLS)
        assert [call.tool_name for call in again.calls] == ["store"]


RENDERINGS = {
    "hermes": "<tool_call>\n{object}\n</tool_call>",
    "tool_call_line": "TOOL_CALL: store {arguments}",
    "md_json": "```json\n{object}\n```",
    "bare_json": "{object}",
    "json_list": "[{object}]",
    "mistral_array": "[TOOL_CALLS] [{object}]",
    "mistral_args": "[TOOL_CALLS]store[ARGS]{arguments}",
    "action_json": '```json\n{{"action": "store", "action_input": {arguments}}}\n```',
    "functionary_v31": "<function=store>{arguments}</function>",
    "kimi_k2": "<|tool_call_begin|>functions.store:0<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
    "deepseek_v31": "<｜tool▁call▁begin｜>store<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>",
    "harmony": "<|channel|>commentary to=functions.store <|constrain|>json<|message|>{arguments}<|call|>",
    "react": "Thought: I store it.\nAction: store\nAction Input: {arguments}",
    "qwen_agent": "✿FUNCTION✿: store\n✿ARGS✿: {arguments}",
    "openai_json": '{{"tool_calls": [{{"function": {{"name": "store", "arguments": {string}}}}}]}}',
}


def rendered(syntax: str, arguments: dict[str, Any]) -> str:
    written = json.dumps(arguments, ensure_ascii=False)
    return RENDERINGS[syntax].format(
        object=json.dumps({"name": "store", "arguments": arguments}, ensure_ascii=False),
        arguments=written,
        string=json.dumps(written),
    )


@pytest.mark.parametrize("syntax", RENDERINGS)
@settings(max_examples=25, deadline=None)
@given(arguments=ARGUMENTS)
@example({"_": "$0"})
@example({"a": "...", "b": "<b>"})
@example({"properties": {}})
@example({"a": {"description": ""}})
def test_round_trip(syntax: str, arguments: dict[str, Any]) -> None:
    found = extract(rendered(syntax, arguments), TOOLS)
    assert [call.arguments for call in found.calls] == [arguments]


@pytest.mark.parametrize("syntax", [name for name in RENDERINGS if name != "react"])
@pytest.mark.parametrize(
    "before", ["", "Okay, I will do that.\n\n", "1 < 2 and {this} is [fine].\n"], ids=["none", "prose", "signs"]
)
@pytest.mark.parametrize("after", ["", "\n\nI report back when it is done."], ids=["none", "prose"])
def test_prose_around_changes_nothing(syntax: str, before: str, after: str) -> None:
    arguments = {"text": "a } b ] </tool_call> ``` c", "n": [1, {"x": None}]}
    found = extract(before + rendered(syntax, arguments) + after, TOOLS)
    assert [call.arguments for call in found.calls] == [arguments]


@pytest.mark.parametrize("syntax", RENDERINGS)
@pytest.mark.parametrize(
    "wrap",
    [
        "<tool_response>\n{}\n</tool_response>\nDone.",
        "[TOOL_RESULTS]{}[/TOOL_RESULTS]",
        "User: {}",
        "<|im_start|>user\n{}<|im_end|>",
    ],
    ids=["tool_response", "tool_results", "user_line", "user_turn"],
)
def test_results_and_other_turns_hold_no_calls(syntax: str, wrap: str) -> None:
    call = rendered(syntax, {"n": 1})
    found = extract(wrap.replace("{}", call), TOOLS)
    assert not found.calls


@QUICK
@given(SOUP, st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_chunking_does_not_matter(text: str, sizes: list[int]) -> None:
    stream = StreamExtractor(TOOLS)
    position = turn = 0
    early = []
    while position < len(text):
        step = sizes[turn % len(sizes)]
        early += [event for event in stream.feed(text[position : position + step]) if event.kind == "call"]
        position, turn = position + step, turn + 1
    whole = stream.close()
    assert whole == extract(text, TOOLS)
    if "</think>" not in text:  # it takes back what stands before it
        given_early = [(event.call.tool_name, event.call.arguments) for event in early if event.call]
        assert given_early == [(call.tool_name, call.arguments) for call in whole.calls][: len(given_early)]


NAMED = ["city", "description", "type", "properties", "n", "ref"]
SCHEMAS = st.sampled_from(
    [{"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": ["string", "null"]},
     {"type": "object"}, {"type": "string", "$ref": "#/x"}, {"enum": ["a"]}, {}, True]
)  # fmt: skip
SAID = st.one_of(VALUES, st.sampled_from(["<city>", "YOUR_CITY", "string", "...", "object", "7", "<string>"]))


@QUICK
@given(st.dictionaries(st.sampled_from(NAMED), SCHEMAS), st.dictionaries(st.sampled_from(NAMED), SAID))
def test_a_servers_call_is_taken_at_a_glance_only_where_settling_changes_nothing(
    properties: dict[str, Any], arguments: dict[str, Any]
) -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": properties}}]
    quick = extract("", tools, native_calls=[ToolCall("f", arguments, "c1")])
    settled = extract("", tools, native_calls=[{"id": "c1", "name": "f", "arguments": arguments}])
    assert quick == settled
    assert [call.written for call in quick.calls] == [call.written for call in settled.calls]
