"""What `extract` reports beside the calls: status, reasons, provenance, coercion, protocols, native calls."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.errors import ConfigError
from toolkit.execution.toolset import Toolset
from toolkit.extraction import extract
from toolkit.messages import ToolCall
from toolkit.tools import Tool

WEATHER = {
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "wind": {"type": "boolean"}},
        "required": ["city"],
    },
}
BEEP = {"name": "beep", "parameters": {"type": "object", "properties": {}}}
TOOLS = [WEATHER, BEEP]
OSLO = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("Hello.", "abstained", None),
        ("", "abstained", None),
        (f"<tool_call>{OSLO}</tool_call>", "called", None),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "Os', "truncated", "truncated"),
        ("<tool_call>", "truncated", "truncated"),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": Oslo or so}}</tool_call>', "broken", "bad_json"),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "Os</tool_call>', "broken", "bad_json"),
        ('<tool_call>{"name": "get_weather", "arguments": [1]}</tool_call>', "broken", "bad_arguments"),
        ('<tool_call>{"name": "get_weather", "arguments": {"days": NaN}}</tool_call>', "broken", "not_finite"),
        ('<tool_call>{"name": null, "arguments": {}}</tool_call>', "broken", "no_name"),
        ("<tool_call></tool_call>", "abstained", "empty"),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "<city>"}}</tool_call>', "abstained", "placeholder"),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": ...}}</tool_call>', "abstained", "placeholder"),
        (f"<think>Maybe <tool_call>{OSLO}</tool_call></think>No.", "abstained", "in_thinking"),
        (f"Maybe <tool_call>{OSLO}</tool_call></think>No.", "abstained", "in_thinking"),
        (f"For example, you could send {OSLO}", "abstained", "hedged"),
        (f"> {OSLO}", "abstained", "quoted"),
        ('{"name": "nobody", "arguments": {"a": 1}}', "abstained", "undeclared"),
        ("You call get_weather(city, days).", "abstained", "signature"),
        ("get_weather(city?: string, days?: integer)", "abstained", "signature"),
        ("- get_weather(city?: string): Tell the weather.", "abstained", "signature"),
        ("- beep(): Beep once.", "abstained", "signature"),
        ('```json\n{"name": "beep", "content": "It beeped."}\n```', "abstained", None),
        ('```json\n{"role": "tool", "name": "beep", "result": 1}\n```', "abstained", None),
        ('Action: Final Answer\nAction Input: "done"', "abstained", "no_tool_wanted"),
        ('The tool:\n```\n{"name": "beep", "description": "Be', "abstained", "schema_echo"),
        ('[{"type": "function", "function": {"name": "beep", "description": "Be', "abstained", "schema_echo"),
        ('```json\n{"name": "get_weather", "arguments": {"city": Oslo or so}}\n```', "broken", "bad_json"),
        ("tool: get_weather\narguments:\n  city: 'Os", "truncated", "truncated"),
        ("tool: get_weather\narguments:\n  city: ", "truncated", "truncated"),
        ("tool: get_weather\narguments:\n  city: Oslo\n  da", "truncated", "truncated"),
        ("tool: get_weather\narguments:\n", "truncated", "truncated"),
        ("✿FUNCTION✿: get_weather\n✿A", "truncated", "truncated"),
        ("Action: get_weather\nAction Input:\n```jso", "truncated", "truncated"),
        ("Action: get_weather\nAction Input:", "truncated", "truncated"),
        ('Action: get_weather\nAction Input: "Os', "truncated", "truncated"),
        ("<｜tool▁call▁begin｜>function<｜too", "truncated", "truncated"),
        ('[get_weather(city="""Os', "truncated", "truncated"),
    ],
    ids=lambda value: str(value)[:40] or "empty",
)
def test_status_and_reason(text: str, status: str, reason: str | None) -> None:
    found = extract(text, TOOLS)
    assert found.status == status
    assert reason is None or reason in {one.reason for one in found.rejected}


@pytest.mark.parametrize(
    ("written", "repair"),
    [
        ('{"name": "get_weather", "arguments": {"city": "Oslo",}}', "trailing_comma"),
        ("{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}", "single_quotes"),
        ('{name: "get_weather", arguments: {city: "Oslo"}}', "unquoted_keys"),
        ("{“name”: “get_weather”, “arguments”: {“city”: “Oslo”}}", "smart_quotes"),
        ('{"name": "get_weather", "arguments": {"city": "Oslo"}', "missing_closers"),
        ('{"name": "get_weather", "arguments": {"city": "Oslo"}}}', "extra_closers"),
        ('{{"name": "get_weather", "arguments": {"city": "Oslo"}}}', "doubled_braces"),
        ('{"name": "get_weather" "arguments": {"city": "Oslo"}}', "missing_comma"),
        ('{"name": "get_weather", /* here */ "arguments": {"city": "Oslo"}}', "comments"),
        ('{"name":\u200b "get_weather", "arguments": {"city": "Oslo"}}', "strip_bom_zw"),
        (OSLO.replace('"', "&quot;"), "html_unescape_call"),
        ('{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}', "string_arguments"),
        ('"{\\"name\\": \\"get_weather\\", \\"arguments\\": {\\"city\\": \\"Oslo\\"}}"', "double_encoded"),
        ('"name": "get_weather", "arguments": {"city": "Oslo"}}', "missing_open_brace"),
        ('{"name": "GetWeather", "arguments": {"city": "Oslo"}}', "name_spelling"),
        ('{"name": "functions.get_weather", "arguments": {"city": "Oslo"}}', "name_prefix"),
        ('{"tool": "get_weather", "city": "Oslo"}', "flat_arguments"),
        ("```json\n" + OSLO + "\n```", "fence_removed"),
        ("get_weather('Oslo')", "positional_arguments"),
    ],
    ids=lambda value: value if value.isidentifier() else "",
)  # fmt: skip
def test_repairs_are_recorded(written: str, repair: str) -> None:
    found = extract(f"<tool_call>\n{written}\n</tool_call>", TOOLS)
    (call,) = found.calls
    assert call.tool_name == "get_weather"
    assert call.arguments == {"city": "Oslo"}
    assert repair in call.repairs
    assert call.confidence in ("repaired", "guessed")


TEMPLATES = [
    "<city>", "<name of the city>", "{city}", "{{ city }}", "[CITY]", "...", "…", "?", "YOUR_CITY", "CITY_HERE",
    "your_city", "your city here", "city goes here", "value_1",
]  # fmt: skip
ODDITIES = [
    "$0", "$CITY", "${CITY}", "___", "xxx", "TODO", "<>", "<3", "{}", "{1}", "[]", "[x]", ".", "..", "-", "value",
    "example", "your place", "MY_CITY", "Some_City", "a string", "Oslo...",
]  # fmt: skip


@pytest.mark.parametrize("city", TEMPLATES)
def test_a_copy_of_a_template_is_no_call(city: str) -> None:
    for template in ({"city": city}, {"city": city, "place": city}):
        for text in (f"TOOL_CALL: get_weather {json.dumps(template)}", f"[get_weather(city={city!r})]"):
            found = extract(text, TOOLS)
            assert (found.status, found.rejected[0].reason) == ("abstained", "placeholder")
    assert extract(f'TOOL_CALL: get_weather {{"city": "{city}", "days": 1}}', TOOLS).status == "called"
    assert extract(f'TOOL_CALL: beep {{"city": "{city}"}}', TOOLS).status == "called"  # it has no such parameter


@pytest.mark.parametrize("city", ODDITIES)
def test_an_odd_value_is_a_value(city: str) -> None:
    for text in (f'TOOL_CALL: get_weather {{"city": "{city}"}}', f"[get_weather(city={city!r})]"):
        assert [call.arguments for call in extract(text, TOOLS).calls] == [{"city": city}]


@pytest.mark.parametrize(
    "text",
    [
        "TOOL_CALL: tool_name {json arguments}",
        "TOOL_CALL: get_weather {json arguments}",
        "TOOL_CALL: get_weather {city}",
        "TOOL_CALL: get_weather {...}",
        '<tool_call>\n{"name": function_name, "arguments": {its arguments}}\n</tool_call>',
        '<tool_call>\n{"name": "get_weather", "arguments": {its arguments}}\n</tool_call>',
        '<tool_call>\n{"name": "get_weather", "arguments": <arguments>}\n</tool_call>',
        '{"action": "get_weather", "action_input": {"city": "<city>"}}',
        '```json\n{"action": "get_weather", "action_input": {...}}\n```',
        "[get_weather(city=...)]",
        "[get_weather(city=<city>)]",
        '{"name": "get_weather", "arguments": {"city": "string", "days": "integer"}}',
        '{"name": "get_weather", "arguments": {"city": {"type": "string"}}}',
        '{"name": "get_weather", "arguments": {"type": "object", "properties": {"city": {"type": "string"}}}}',
        '{"name": "beep", "arguments": {"type": "object", "properties": {}}}',
    ],
)
def test_a_template_that_is_no_value_at_all_is_no_failed_call_either(text: str) -> None:
    found = extract(text, TOOLS)
    assert (found.status, found.calls) == ("abstained", ())
    assert {one.reason for one in found.rejected} <= {"placeholder", "schema_echo"}


def test_an_object_that_is_half_a_template_is_a_failed_call() -> None:
    assert (
        extract('<tool_call>{"name": "get_weather", "arguments": {"city": "x", days}}</tool_call>').status == "broken"
    )


def test_a_strict_reading_is_exact() -> None:
    text = f"I look.\n<tool_call>{OSLO}</tool_call>\nDone."
    found = extract(text, TOOLS)
    (call,) = found.calls
    assert (call.syntax, call.repairs, call.confidence) == ("hermes", (), "exact")
    assert text[slice(*call.span)] == f"<tool_call>{OSLO}</tool_call>"
    assert found.text == "I look.\n\nDone."


def test_coercion_is_recorded_and_misfits_are_noted() -> None:
    written = '{"name": "get_weather", "arguments": {"city": 7, "days": "3", "wind": "maybe"}}'
    (call,) = extract(f"<tool_call>{written}</tool_call>", TOOLS).calls
    assert call.arguments == {"city": "7", "days": 3, "wind": "maybe"}
    assert "coerced" in call.repairs
    assert call.notes == ("/wind: 'maybe' is no boolean",)


def test_an_undeclared_name_in_a_wrapper_is_a_call_with_closest_names() -> None:
    (call,) = extract('<tool_call>{"name": "get_wether", "arguments": {}}</tool_call>', TOOLS).calls
    assert call.unknown_tool
    assert call.closest == ("get_weather",)


def test_without_tools_any_marked_name_will_do() -> None:
    (call,) = extract(f"<tool_call>{OSLO}</tool_call>").calls
    assert not call.unknown_tool


def test_one_wish_in_two_formats_is_one_call() -> None:
    found = extract(f"```json\n{OSLO}\n```\n<tool_call>{OSLO}</tool_call>", TOOLS)
    assert len(found.calls) == 1
    assert found.rejected[0].reason == "duplicate"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[beep()]\n\nSo the answer is:\n[beep()]", 1),
        ('```json\n{"name": "beep", "arguments": {}}\n```\n[beep()]', 1),
        ("[beep(), beep()]", 2),
        ("beep()\nbeep()", 2),
    ],
    ids=["told_again", "two_formats", "list", "lines"],
)
def test_a_call_that_is_only_told_again_is_one(text: str, calls: int) -> None:
    assert len(extract(text, TOOLS).calls) == calls


def test_repeats_in_one_format_are_kept_and_flagged() -> None:
    found = extract(f"<tool_call>{OSLO}</tool_call>" * 2, TOOLS)
    assert [call.notes for call in found.calls] == [(), ("duplicate",)]


@pytest.mark.parametrize(("finish_reason", "calls"), [("stop", 1), (None, 1), ("length", 0)])
def test_the_length_limit_makes_an_unclosed_call_cut(finish_reason: str | None, calls: int) -> None:
    found = extract(f"<tool_call>{OSLO}", TOOLS, finish_reason=finish_reason)
    assert len(found.calls) == calls
    assert found.status == ("called" if calls else "truncated")


@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call>{OSLO}</tool_call><tool_call>{{"name": "be',
        f'[TOOL_CALLS] [{OSLO}, {{"name": "be',
        f'[{OSLO}, {{"name": "be',
        f'```json\n[{OSLO}, {{"name": "be',
        "get_weather(city='Oslo')\nbeep(x='",
    ],
    ids=["hermes", "mistral_array", "json_list", "md_json", "pythonic"],
)
def test_a_cut_call_leaves_the_one_before_it(text: str) -> None:
    found = extract(text, TOOLS)
    assert [call.tool_name for call in found.calls] == ["get_weather"]
    assert [one.reason for one in found.rejected] == ["truncated"]


@pytest.mark.parametrize(
    ("protocol", "calls"),
    [
        ("auto", 1),
        ("hermes", 1),
        ("airgap", 0),
        ("tool_call_line", 0),
        (SimpleNamespace(syntax="hermes", fallbacks=()), 1),
        (SimpleNamespace(syntax="airgap", fallbacks=("hermes",)), 1),
        (SimpleNamespace(syntax="airgap", fallbacks=()), 0),
    ],
    ids=str,
)
def test_a_protocol_reads_only_its_syntax_and_fallbacks(protocol: Any, calls: int) -> None:
    assert len(extract(f"<tool_call>{OSLO}</tool_call>", TOOLS, protocol).calls) == calls


def test_an_unknown_protocol_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'hemres'. Did you mean 'hermes'.*airgap") as raised:
        extract("", TOOLS, "hemres")
    assert len(str(raised.value)) < 250


HALF = "\\ud83d"  # as a model escapes half an emoji


@pytest.mark.parametrize(
    "text",
    [
        f'{{"name": "beep", "arguments": {{"note": "x{HALF}"}}}}',
        f'<tool_call>{{"name": "beep", "arguments": {{"{HALF}": ["x{HALF}y"],}}}}</tool_call>',
        f"[beep(note='x{HALF}')]",
        "[beep(note='x\ud83d')]",
        "text \ud83d and no call",
    ],
    ids=["strict", "mended", "python", "raw", "prose"],
)
def test_half_a_surrogate_pair_breaks_nothing(text: str) -> None:
    found = extract(text, [{"name": "beep"}])
    json.dumps(found.to_dict(), ensure_ascii=False).encode()
    found._repr_html_().encode()
    if HALF in text:
        assert "\ufffd" in str(found.calls[0].arguments)
        assert "lone_surrogate" in found.repairs


def test_half_a_surrogate_pair_in_a_native_call_is_replaced() -> None:
    native = [{"function": {"name": "beep", "arguments": {"note": ["\ud83d"]}}}]
    (call,) = extract("", [{"name": "beep"}], native_calls=native).calls
    assert call.arguments == {"note": ["\ufffd"]}
    assert call.repairs == ("lone_surrogate",)


def test_a_whole_surrogate_pair_is_one_character() -> None:
    (call,) = extract(f'{{"name": "beep", "arguments": {{"note": "{HALF}\\ude00",}}}}', [{"name": "beep"}]).calls
    assert call.arguments == {"note": "\U0001f600"}
    assert call.repairs == ("trailing_comma",)


def test_native_calls_come_first_and_alone() -> None:
    native = [
        ToolCall("beep", {}, "a1"),
        {"id": "a2", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}},
    ]
    found = extract(f"<tool_call>{OSLO}</tool_call>", TOOLS, native_calls=native)
    assert [(call.tool_name, call.arguments, call.id, call.syntax) for call in found.calls] == [
        ("beep", {}, "a1", "native"),
        ("get_weather", {"city": "Oslo"}, "a2", "native"),
    ]
    assert found.rejected[0].reason == "beside_native"


@pytest.mark.parametrize(
    "text",
    [
        'TOOL_CALL: get_weather("Oslo") {result: {sky: "grey"}}',
        f'<tool_call>{OSLO}\n{{"sky": "grey"}}</tool_call>',
        f'```json\n{OSLO}\n{{"sky": "grey"}}\n```',
    ],
    ids=["line", "hermes", "md_json"],
)
def test_data_behind_a_call_is_not_its_fault(text: str) -> None:
    assert [call.arguments for call in extract(text, TOOLS).calls] == [{"city": "Oslo"}]


def test_a_block_of_lines_keeps_its_indents() -> None:
    text = "tool: beep\narguments:\n  code: |\n    def f():\n        return 1\n  tags:\n    - a b\n    - 2\n"
    assert extract(text, TOOLS).calls[0].arguments == {"code": "def f():\n    return 1", "tags": ["a b", 2]}


@pytest.mark.parametrize("thought", ["<think>", "[THINK]", "◁think▷", "<|begin_of_thought|>", "<|open|>think<|sep|>"])
def test_a_call_behind_a_thought_is_one_and_one_in_it_is_none(thought: str) -> None:
    end = thought.replace("<think", "</think").replace("[T", "[/T").replace("◁", "◁/").replace("begin", "end")
    end = end.replace("open", "close")
    found = extract(f"Well. {thought}Perhaps:\n{OSLO}\n{end}{OSLO}", TOOLS)
    assert [call.arguments for call in found.calls] == [{"city": "Oslo"}]
    assert [one.reason for one in found.rejected] == ["in_thinking"]
    assert (found.text, found.thinking) == ("Well.", f"Perhaps:\n{OSLO}")


def test_calls_in_thought_if_only() -> None:
    text = f"<think>So: <tool_call>{OSLO}</tool_call></think>"
    assert extract(text, TOOLS).status == "abstained"
    assert extract(text, TOOLS, calls_in_thought="if_only").status == "called"
    assert extract(text + "No.", TOOLS, calls_in_thought="if_only").status == "abstained"


def test_thoughts_and_text_are_split() -> None:
    found = extract("<think>hm</think>Hello <b>you</b>.<|im_end|>", TOOLS)
    assert (found.thinking, found.text) == ("hm", "Hello <b>you</b>.")


@pytest.mark.parametrize(
    "tools",
    [TOOLS, [Tool("get_weather", "", WEATHER["parameters"])], Toolset([Tool("get_weather", "", WEATHER["parameters"])]),
     [{"type": "function", "function": WEATHER}]],
    ids=["dicts", "tools", "toolset", "openai"],
)  # fmt: skip
def test_tools_in_any_form(tools: Any) -> None:
    assert extract(OSLO, tools).status == "called"


def test_none_is_an_empty_reply() -> None:
    assert extract(None, TOOLS).status == "abstained"


WORDS = {"city": 'Bodø, "north" {side}', "days": 3, "wind": True}


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{json.dumps({'name': 'get_weather', 'arguments': WORDS})}</tool_call>",
        f"```json\n{json.dumps({'name': 'get_weather', 'arguments': WORDS}, indent=2)}\n```",
        f"[get_weather({', '.join(f'{key}={value!r}' for key, value in WORDS.items())})]",
        f"Action: get_weather\nAction Input: {json.dumps(WORDS)}\nObservation: sun",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        f"{json.dumps(WORDS)}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        '<tool_call>\n<function=get_weather>\n<parameter=city>\nBodø, "north" {side}\n</parameter>\n'
        "<parameter=days>\n3\n</parameter>\n<parameter=wind>\ntrue\n</parameter>\n</function>\n</tool_call>",
        f"TOOL_CALL: get_weather {json.dumps(WORDS)}",
    ],
    ids=["hermes", "md_json", "pythonic", "react", "deepseek_v3", "qwen3_coder", "line"],
)
def test_no_cut_changes_a_value(text: str) -> None:
    assert extract(text, TOOLS).calls[0].arguments == WORDS
    for end in range(len(text)):
        for call in extract(text[:end], TOOLS).calls:
            assert call.tool_name == "get_weather", text[:end]
            assert call.arguments.items() <= WORDS.items(), text[:end]


def test_a_call_at_the_end_of_an_open_thought_says_so() -> None:
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    [found] = extract(f"<think>I ask.\n{call}", TOOLS).calls
    assert (found.repairs, found.confidence) == (("unclosed_thinking",), "repaired")
    assert extract(f"<think>I ask.</think>{call}", TOOLS).calls[0].confidence == "exact"
