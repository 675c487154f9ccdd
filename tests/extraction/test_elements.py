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
