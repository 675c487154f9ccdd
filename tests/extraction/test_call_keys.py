"""The keys that a protocol states, and the arguments word for word."""

from types import SimpleNamespace

import pytest

from toolkit.extraction import extract
from toolkit.prompting.protocols import load_protocol

TOOLS = [
    {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    {"name": "g", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}},
]
KEYS = ("action", "action_input")


def stated(**more):
    return SimpleNamespace(syntax="auto", fallbacks=(), keys=KEYS, **more)


def calls(text, protocol="auto"):
    return [(one.tool_name, one.arguments) for one in extract(text, TOOLS, protocol).calls]


@pytest.mark.parametrize("rival", ['"name": "g"', '"tool": "g"', '"arguments": {"word": "x"}', '"name": null'])
@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "[{}]", "<tool_call>{}</tool_call>", "Action: {}"])
def test_stated_keys_mean_what_they_say(rival, around):
    for inner in (f'{rival}, "action": "f", "action_input": "7"', f'"action": "f", "action_input": "7", {rival}'):
        text = around.replace("{}", f"{{{inner}}}")
        assert calls(text, stated()) == [("f", {"a": 7})]


def test_the_keys_of_a_protocol_folder_count():
    text = '{"action": "f", "name": "g", "action_input": {"a": 7}}'
    assert calls(text, load_protocol("action_json")) == [("f", {"a": 7})]
    assert calls(text) == [("g", {"a": 7})]  # the usual name counts more


def test_other_spellings_count_beside_keys_without_aliases():
    for text in ('{"name": "f", "arguments": {"a": 7}}', '{"tool": "f", "input": {"a": 7}}', '{"f": {"a": 7}}'):
        assert calls(text, stated()) == calls(text) == [("f", {"a": 7})]


def test_no_other_spellings_count_beside_aliases():
    only = stated(aliases=(("tool", "input"),))
    assert calls('{"tool": "f", "input": {"a": 7}}', only) == [("f", {"a": 7})]
    assert calls('{"action": "f"}', only) == [("f", {})]
    assert calls('{"action": "f", "a": 7}', only) == [("f", {"a": 7})]
    for text in ('{"name": "f", "arguments": {"a": 7}}', '{"tool": "f", "args": {"a": 7}}', '{"f": {"a": 7}}'):
        assert calls(text, only) == calls(f"<tool_call>{text}</tool_call>", only) == []


@pytest.mark.parametrize("name", ["null", '""', "7", '{"name": "f"}'])
def test_a_stated_key_without_a_name_is_no_call(name):
    found = extract(f'{{"action": {name}, "name": "f", "action_input": {{}}}}', TOOLS, stated())
    assert (found.calls, found.status, found.rejected[0].reason) == ((), "broken", "no_name")


def test_the_stated_form_alone_may_stand_in_a_sentence():
    text = 'Okay {"action": "f", "action_input": {"a": 7}}'
    found = extract(text, TOOLS, stated(aliases=()))
    assert [(one.tool_name, one.notes) for one in found.calls] == [("f", ())]
    assert calls(text, stated()) == calls(text) == []
    assert calls(f"For example:\n{text}", stated(aliases=())) == []
    clearer = f'{text}\n{{"action": "g", "action_input": "x"}}'
    assert calls(clearer, stated(aliases=())) == [("g", {"word": "x"})]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('{"name": "f", "arguments": {"a": "7"}}', {"a": "7"}),
        ('{"name": "f", "arguments": "{\\"a\\": 7}"}', '{"a": 7}'),
        ('{"action": "g", "action_input": " 42 "}', " 42 "),
        ('{"name": "f", "arguments": [{"a": 7}]}', [{"a": 7}]),
        ('{"name": "f", "arguments": null}', {}),
        ('{"name": "f"}', None),
        ('TOOL_CALL: f {"a": "7"}', {"a": "7"}),
        ("[f(7)]", None),
        ("<function=f><parameter=a>7</parameter></function>", None),
    ],
    ids=["object", "object-as-text", "text", "list", "null", "none", "line", "python", "tags"],
)
def test_arguments_word_for_word(text, written):
    (call,) = extract(text, TOOLS).calls
    assert call.written == written


def test_the_servers_arguments_word_for_word():
    (call,) = extract("", TOOLS, native_calls=[{"name": "f", "arguments": {"a": "7"}}]).calls
    assert (call.arguments, call.written) == ({"a": 7}, {"a": "7"})


@pytest.mark.parametrize("written", ["42", "true", "[1]", "1.50"])
def test_a_text_for_the_one_text_stays_a_text(written):
    assert calls(f'{{"action": "g", "action_input": "{written}"}}') == [("g", {"word": written})]


def test_a_text_is_more_if_it_is_an_object():
    assert calls('{"action": "g", "action_input": "{\\"word\\": \\"x\\"}"}') == [("g", {"word": "x"})]
    assert calls("Action: f\nAction Input: 7") == [("f", {"a": 7})]
    assert calls("Action: g\nAction Input: 7") == [("g", {"word": "7"})]
    assert extract('{"action": "g", "action_input": "{\\"word\\": NaN}"}', TOOLS).rejected[0].reason == "bad_arguments"
