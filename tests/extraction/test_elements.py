"""Calls in elements: every spelling of a name with every spelling of arguments, in every wrapper; repeated keys.

The inputs and the kinds come from public reports, which the ids and docstrings name.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from toolkit.extraction import StreamExtractor, extract
from toolkit.extraction.shapes import ARGUMENT_KEYS

PROPERTIES = {
    "port": {"type": "string"},
    "hours": {"type": "integer"},
    "to": {"type": "array", "items": {"type": "string"}},
}
TOOLS = [
    {"name": "get_tide", "parameters": {"type": "object", "properties": PROPERTIES, "required": ["port"]}},
    {"name": "list_ports", "parameters": {"type": "object", "properties": {}}},
]
GIVEN: dict[str, Any] = {"port": "Hull, East", "hours": 3, "to": ["ann", "bo"]}


def children(arguments: dict[str, Any], form: str) -> str:
    """Return arguments with one element for each value, and one for each item of a list."""
    pairs = [(key, one) for key, value in arguments.items() for one in (value if isinstance(value, list) else [value])]
    return "\n".join(form.format(key=key, value=value) for key, value in pairs)


# how arguments are written: a template in which their JSON stands, or the element of one value
IN_ELEMENTS = {
    "child": "<{key}>{value}</{key}>",
    "child on lines": "<{key}>\n{value}\n</{key}>",
    "child with attribute": '<{key} kind="x">{value}</{key}>',
    "parameter=": "<parameter={key}>\n{value}\n</parameter>",
    "parameter name": '<parameter name="{key}">{value}</parameter>',
    "param name": "<param name='{key}'>{value}</param>",
    "argument key": '<argument key="{key}">{value}</argument>',
    "spelt": "<parameter><name>{key}</name><value>{value}</value></parameter>",
    "arg_key": "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>",
}
WRITTEN = {"json": "{json}", "lines of json": "{lines}", "fence": "```json\n{json}\n```"} | {
    name: children(GIVEN, form) for name, form in IN_ELEMENTS.items()
}
HOLDERS = [
    "",
    *(f"<{key}>|</{key}>" for key in ARGUMENT_KEYS),
    "<parameters>\n|\n</parameters>",
    "<Arguments>|</Arguments>",
]
# how the name is written: | stands where the arguments do
NAMES = [
    "<function=get_tide>|</function>", "<tool_call=get_tide>|</tool_call>", '<invoke name="get_tide">|</invoke>',
    '<function name="get_tide">\n|\n</function>', "<tool name='get_tide'>|</tool>",
    '<tool_call name="get_tide">|</tool_call>', '<toolcall tool="get_tide">|</toolcall>',
    '<function_call name="get_tide" id="1">|</function_call>',
    '<tool_use tool="get_tide">|</tool_use>', '<call function="get_tide">|</call>',
    '<action name="get_tide">|</action>', '<use_tool name="get_tide">|</use_tool>',
    "<get_tide>|</get_tide>", "<function>get_tide</function>|",
    "<tool>get_tide</tool>\n|", "<tool_name>get_tide</tool_name>\n|", "<name>\nget_tide\n</name>|",
    "<function_name>get_tide</function_name>\n|", "<invoke_name>get_tide</invoke_name>|",
    "<action>get_tide</action>\n|", "<tool_call>get_tide</tool_call>\n|",
]  # fmt: skip
WRAPPERS = [
    "|", "<tool_call>|</tool_call>", "<tool_calls>\n<tool_call>\n|\n</tool_call>\n</tool_calls>", "<tools>|</tools>",
    "<function_call>\n|\n</function_call>", "<function_calls>\n|\n</function_calls>", "<toolcall>|</toolcall>",
    "<use_mcp_tool>\n<server_name>tides</server_name>\n|\n</use_mcp_tool>", "<tool_use>|</tool_use>",
    "<TOOLCALL>|</TOOLCALL>", "I look.\n\n```xml\n|\n```", "I look it up.\n|\n",
]  # fmt: skip


def spelt(name: str, written: str, holder: str, wrapper: str) -> str:
    inner = written.replace("{json}", json.dumps(GIVEN)).replace("{lines}", json.dumps(GIVEN, indent=2))
    held = holder.replace("|", inner) if holder else inner
    return wrapper.replace("|", name.replace("|", held))


def pairs(found: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call.tool_name, call.arguments) for call in found.calls]


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("name", NAMES)
def test_every_name_goes_with_all_arguments_in_any_wrapper(name: str, written: str) -> None:
    """madroidmaq/mlx-omni-server#126, crewAIInc/crewAI#200, chenyme/grok2api#557, sipeed/picoclaw#2104, and such."""
    for holder in HOLDERS:
        for wrapper in WRAPPERS:
            if "```" in written and "```" in wrapper:
                continue  # a fence in a fence
            text = spelt(name, written, holder, wrapper)
            found = extract(text, TOOLS)
            assert pairs(found) == [("get_tide", GIVEN)], text
            assert "get_tide" not in found.text, text
            assert "Hull" not in found.text, text


CHUNKS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@CHUNKS
@given(
    st.sampled_from(NAMES), st.sampled_from([*WRITTEN.values()]), st.sampled_from(HOLDERS), st.sampled_from(WRAPPERS),
    st.sampled_from(["", "\nIt is low.", "\n" + NAMES[0].replace("|", '{"port": "Goole"}')]),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
)  # fmt: skip
def test_a_stream_gives_what_the_whole_gives(
    name: str, written: str, holder: str, wrapper: str, after: str, sizes: list[int]
) -> None:
    assume("```" not in written or "```" not in wrapper)
    text = spelt(name, written, holder, wrapper) + after
    stream, early, at, turn = StreamExtractor(TOOLS), [], 0, 0
    while at < len(text):
        early += [event.call for event in stream.feed(text[at : at + sizes[turn % len(sizes)]]) if event.call]
        at, turn = at + sizes[turn % len(sizes)], turn + 1
    whole = stream.close()
    assert whole == extract(text, TOOLS)
    assert [(call.tool_name, call.arguments) for call in early] == pairs(whole)[: len(early)]
    assert pairs(whole)[0] == ("get_tide", GIVEN)


STRINGS = {"type": "array", "items": {"type": "string"}}
SEND = [
    {
        "name": "send",
        "parameters": {
            "type": "object",
            "properties": {
                "to": STRINGS, "text": {"type": "string"}, "rooms": {"type": "array", "items": {"type": "integer"}},
                "seat": {"type": "object", "properties": {"row": {"type": "integer"}}},
            },
            "required": ["to"],
        },
    }
]  # fmt: skip
MINIMAX = "]<]minimax[>["
REPEATED = {
    "cline": ("<send>{}</send>", "<{key}>{value}</{key}>"),
    "invoke": ('<invoke name="send">{}</invoke>', '<parameter name="{key}">{value}</parameter>'),
    "qwen": ("<tool_call><function=send>{}</function></tool_call>", "<parameter={key}>\n{value}\n</parameter>"),
    "glm": ("<tool_call>send{}</tool_call>", "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"),
    "dsml": (
        '<｜DSML｜invoke name="send">{}</｜DSML｜invoke>',
        '<｜DSML｜parameter name="{key}">{value}</｜DSML｜parameter>',
    ),
    "minimax_m3": (
        f'{MINIMAX}<tool_call>{MINIMAX}<invoke name="send">{{}}{MINIMAX}</invoke>{MINIMAX}</tool_call>',
        f"{MINIMAX}<{{key}}>{{value}}{MINIMAX}</{{key}}>",
    ),
    "kimi_k3": (
        '<|open|>call tool="send" index="1"<|sep|>{}<|close|>call<|sep|>',
        '<|open|>argument key="{key}" type="string"<|sep|>{value}<|close|>argument<|sep|>',
    ),
}


@pytest.mark.parametrize("family", REPEATED)
@given(st.lists(st.sampled_from(["ann", "bo", "cy"]), min_size=1, max_size=4), st.lists(st.integers(0, 9), max_size=3))
@settings(max_examples=15, deadline=None)
def test_a_repeated_key_is_a_list_where_the_schema_says_so(family: str, to: list[str], rooms: list[int]) -> None:
    """minpeter/ai-sdk-tool-call-middleware#51."""
    outer, one = REPEATED[family]
    given_ = [("to", name) for name in to] + [("rooms", room) for room in rooms] + [("text", "hi, all")]
    found = extract(outer.replace("{}", "".join(one.format(key=key, value=value) for key, value in given_)), SEND)
    assert pairs(found) == [("send", {"to": to, **({"rooms": rooms} if rooms else {}), "text": "hi, all"})]


@pytest.mark.parametrize("family", ["cline", "invoke", "qwen", "glm"])
def test_elements_in_a_value_are_the_items_or_members_of_it(family: str) -> None:
    """ml-explore/mlx-lm#1416."""
    outer, one = REPEATED[family]
    written = one.format(key="to", value="<item>ann</item>\n<item>bo</item>")
    written += one.format(key="seat", value="<row>7</row>") + one.format(key="text", value="<b>hi</b>")
    [call] = extract(outer.replace("{}", written), SEND).calls
    assert call.arguments == {"to": ["ann", "bo"], "seat": {"row": 7}, "text": "<b>hi</b>"}


def test_a_key_that_is_given_twice_and_is_no_list_is_noted() -> None:
    [call] = extract("<send><to>ann</to><text>a</text><text>b</text></send>", SEND).calls
    assert call.arguments == {"to": ["ann"], "text": "b"}
    assert call.notes == ("a key was given twice; the last one counts",)


BROKEN = {
    "mlx-omni-server#126: a name, and nothing behind it": "<tool_call>get_tide</tool_call>",
    "the same in elements": "<tool_call><tool_name>get_tide</tool_name></tool_call>",
    "a name and other arguments' names": "<tool>get_tide</tool>\n{\"level\": 3}",
    "mistral without arguments": '[TOOL_CALLS]{"name": "get_tide"}',
    "mistral in a list": '[TOOL_CALLS][{"name": "get_tide"}] ',
    "hermes without arguments": '<tool_call>{"name": "get_tide"}</tool_call>',
    "vllm#49248: no closing tag": "<tool_call>get_tide\n<arg_key>port<arg_value>1</arg_value></tool_call>",
    "unslothai/unsloth#5624: neither": "<tool_call>get_tide\n<arg_key>port<arg_value>1",
    "the second key is not closed": (
        "<tool_call>get_tide<arg_key>port</arg_key><arg_value>Hull</arg_value>"
        "<arg_key>hours<arg_value>3</arg_value></tool_call>"
    ),
    "vllm#47190: no opening tag": "<tool_call>get_tideport</arg_key><arg_value>Hull</arg_value></tool_call>",
    "OpenHands#10539: the value in the key": "<function=get_tide>\n<parameter=port=Hull</parameter>\n</function>",
    "vllm#39771: the key's bracket is lost": "<function=get_tide>\n<parameter=port\nHull\n</parameter>\n</function>",
    "two forms of parameters in one call": (
        '<function name="get_tide"><parameter name="port">Hull</parameter><hours>3</hours></function>'
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_call_whose_arguments_are_lost_is_broken_and_does_not_run(text: str) -> None:
    found = extract(text, TOOLS)
    assert (found.calls, found.status) == ((), "broken")


READ: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    "hermes-agent#11994": (
        '[TOOL_CALL]\n{tool => "get_tide", args => {\n  --port "the "old" pier"\n  --hours 3\n}}\n[/TOOL_CALL]',
        [("get_tide", {"port": 'the "old" pier', "hours": 3})],
    ),
    "the same, bare words on one line": (
        "[TOOL_CALL]{tool => 'get_tide', args => {--port Hull East --hours 3}}[/TOOL_CALL]",
        [("get_tide", {"port": "Hull East", "hours": 3})],
    ),
    "the same without its marker": (
        '{tool => "get_tide", args => {port => "Hull"}}', [("get_tide", {"port": "Hull"})],
    ),
    "lucebox#323": (
        'call:get_tide{port: "Hull"}\ncall:list_ports{}', [("get_tide", {"port": "Hull"}), ("list_ports", {})],
    ),
    "the same behind a sentence": ('I check. call:get_tide{port: Hull East}', [("get_tide", {"port": "Hull East"})]),
    "hermes-agent#7449": ('<|tool_call>call:get_tide(port: "Hull")<tool_call|>', [("get_tide", {"port": "Hull"})]),
    "lucebox#671": (
        "<function_call>\n<invoke_name>get_tide</invoke_name>\n<parameters>\n<port>/a/b.go</port>\n</parameters>\n"
        "</function_call>",
        [("get_tide", {"port": "/a/b.go"})],
    ),
    "apmantza/pi-free#231": ("<tool><name>list_ports</name></tool>", [("list_ports", {})]),
    "HolmesGPT#2349": (
        "<function_calls><invoke><tool_name>get_tide</tool_name><parameters><port>Hull</port></parameters></invoke>"
        "<invoke><tool_name>list_ports</tool_name></invoke></function_calls>",
        [("get_tide", {"port": "Hull"}), ("list_ports", {})],
    ),
    "name behind": (
        '<tool_call><parameters>{"port": "Hull"}</parameters>\n<name>get_tide</name></tool_call>',
        [("get_tide", {"port": "Hull"})],
    ),
    "attributes": ('<tool_call name="get_tide" port="Hull" hours="3"/>', [("get_tide", {"port": "Hull", "hours": 3})]),
    "attributes of its own tag": ('<get_tide port="Hull"/>', [("get_tide", {"port": "Hull"})]),
    "lines": ("<tool>get_tide</tool><args>port: Hull\nhours: 3</args>", [("get_tide", {"port": "Hull", "hours": 3})]),
    "plain text": ("<tool>get_tide</tool><tool_input>Hull</tool_input>", [("get_tide", {"port": "Hull"})]),
    "a whole call again": (
        '<tool_call name="get_tide">{"name": "get_tide", "arguments": {"port": "Hull"}}</tool_call>',
        [("get_tide", {"port": "Hull"})],
    ),
    "maclocal-api#80": ("<function=list_ports</function>", [("list_ports", {})]),
    "sglang#27337": (
        "<tool_call>\n<function=get_tide>\n<parameter=port>\nHull\n</parameter_function>\n</tool_call>",
        [("get_tide", {"port": "Hull"})],
    ),
    "claude-code#44826": (
        '<invoke name="get_tide">\n<parameter name="port">Hull</port>\n<parameter name="hours">3</parameter></invoke>',
        [("get_tide", {"port": "Hull", "hours": 3})],
    ),
    "vllm#49248": (
        "<tool_call>get_tide<arg_key>port</arg_key>Hull</arg_value></tool_call>", [("get_tide", {"port": "Hull"})],
    ),
    "ollama#14656": (
        "<tool_call>get_tide<arg_key>port</arg_key><arg_value>Hull<arg_key>hours</arg_key><arg_value>3</tool_call>",
        [("get_tide", {"port": "Hull", "hours": 3})],
    ),
    "vllm-ascend#12398": (
        "I look.<tool_call></think>get_tide<arg_key>port</arg_key><arg_value>Hull</arg_value></tool_call>",
        [("get_tide", {"port": "Hull"})],
    ),
    "the same, with the thought's own tag": (
        "<think>I look.<tool_call></think>get_tide<arg_key>port</arg_key><arg_value>Hull</arg_value></tool_call>",
        [("get_tide", {"port": "Hull"})],
    ),
    "the same behind the name": (
        "<tool_call>get_tide</think><arg_key>port</arg_key><arg_value>Hull</arg_value></tool_call>",
        [("get_tide", {"port": "Hull"})],
    ),
    "opencompany#2093": (
        '<｜｜DSML｜｜tool_calls>\n<｜｜DSML｜｜invoke name="list_ports">\n</｜｜DSML｜｜invoke>\n'
        '<｜｜DSML｜｜invoke name="get_tide">\n'
        '<｜｜DSML｜｜parameter name="port" string="true">3</｜｜DSML｜｜parameter>\n'
        "</｜｜DSML｜｜invoke>\n</｜｜DSML｜｜tool_calls>",
        [("list_ports", {}), ("get_tide", {"port": "3"})],
    ),
    "AgentFlocks/flocks#687": (
        '< | DSML | tool_use>\n< | DSML | invoke name="get_tide">\n< | DSML | parameter name="port" string="true">Hull'
        "</ | DSML | parameter>\n</ | DSML | invoke>\n</ | DSML | tool_use>",
        [("get_tide", {"port": "Hull"})],
    ),
    "sglang#40236": ('<｜DSML｜invoke name="list_ports"/>', [("list_ports", {})]),
    "typeclaw#344": (
        'get_tide:0<|tool_call_argument_begin|>{"port": "Hull"}<|tool_calls_section_end|>\n'
        'get_tide:1<|tool_call_argument_begin|>{"port": "Goole"}<|tool_calls_section_end|>',
        [("get_tide", {"port": "Hull"}), ("get_tide", {"port": "Goole"})],
    ),
    "lablup/mlxcel#783": (
        '<|tool_calls_section_begin|>functions.get_tide:0<|tool_call_argument_begin|>{"port": "Hull"}<|tool_call_end|>'
        "functions.list_ports:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
        [("get_tide", {"port": "Hull"}), ("list_ports", {})],
    ),
    "DeepSeek's first tokens lost": (
        'function<｜tool▁sep｜>get_tide\n```json\n{"port": "Hull"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        [("get_tide", {"port": "Hull"})],
    ),
    "oh-my-pi#8495": (
        '<|open|>toolscall tool="get_tide" index="1"<|sep|><|open|>argument key="port" type="string"<|sep|>Hull'
        '<|close|>argumentargument key="hours" type="number"<|sep|>3<|close|>argumentcall<|sep|>'
        "<|close|>toolsmessage<|sep|>",
        [("get_tide", {"port": "Hull", "hours": 3})],
    ),
    "two calls fused": (
        '<|open|>toolscall tool="list_ports" index="1"<|sep|><|close|>callcall tool="get_tide" index="2"<|sep|>'
        '<|open|>argument key="port" type="string"<|sep|>Hull<|close|>argument<|sep|><|close|>calltools<|sep|>',
        [("list_ports", {}), ("get_tide", {"port": "Hull"})],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "right"), READ.values(), ids=READ)
def test_calls_in_forms_that_reports_show_are_read(text: str, right: list[tuple[str, dict[str, Any]]]) -> None:
    found = extract(text, TOOLS)
    assert pairs(found) == right
    assert not any(sign in found.text for sign in "<>|{}")


WORDS = {
    "a name in a sentence": "<tool>get_tide</tool> is the one that I would use.",
    "a name in back-ticks": "The `<tool_name>get_tide</tool_name>` element names it; `<list_ports/>` lists them.",
    "a declaration": (
        "<tool><name>get_tide</name><description>Reads.</description><parameters><port>string</port></parameters></tool>"
    ),
    "data": "<person><name>Bob</name><action>run</action><port>Hull</port></person>",
    "a log": 'The log says call:get_tide{port: "Hull"} was refused.',
    "html": '<action type="button">Go</action> <call>me</call>',
}  # fmt: skip


@pytest.mark.parametrize("text", WORDS.values(), ids=WORDS)
def test_words_about_a_call_stay_words(text: str) -> None:
    found = extract(text, TOOLS)
    assert (found.calls, found.status, found.text) == ((), "abstained", text)


@pytest.mark.parametrize(
    "text", ["<tool_call><tool_name>get_ti", "<tool><name>get_tide</name><parameters><port>Hu", "<tool_call><tool_na"]
)
def test_a_call_in_elements_that_is_cut_is_truncated(text: str) -> None:
    assert extract(text, TOOLS).status == "truncated"
