"""How the two-mode agent reads a reply: the published keys word for word, calls in sentences, other spellings."""

import json
import time
from dataclasses import replace

import pytest

import toolkit as tk
from toolkit.agents.two_mode.actions import Action, as_actions
from toolkit.agents.two_mode.reading import read_actions, reading_protocol


def find(word: str, most: int = 3) -> list[str]:
    """Find things by a word."""
    return [f"{word} {number}" for number in range(1, most + 1)]


FREE = as_actions([Action("free"), Action("list"), find])
PLAIN = '{"action": "free", "action_input": {"q": "x"}}'


def read(text, several=False, protocol=None, **reply):
    recipe = tk.Recipe("any").using(protocol or reading_protocol())
    return read_actions(tk.Reply(text, **reply), FREE, several, recipe)


@pytest.mark.parametrize(
    ("written", "given"),
    [
        pytest.param('"42"', "42", id="digits"),
        pytest.param('"3.50"', "3.50", id="decimal"),
        pytest.param('"true"', "true", id="true"),
        pytest.param('"[1]"', "[1]", id="list-as-text"),
        pytest.param('"null"', "null", id="null-as-text"),
        pytest.param('"None"', "None", id="none-as-text"),
        pytest.param('"\\"x\\""', '"x"', id="quoted"),
        pytest.param('"  x "', "  x ", id="padded"),
        pytest.param('"{b} c"', "{b} c", id="brace-first"),
        pytest.param('"{\\"a\\": 1"', '{"a": 1', id="object-as-text-cut"),
        pytest.param('"{\\"a\\": 1}"', {"a": 1}, id="object-as-text"),
        pytest.param('""', {}, id="empty"),
        pytest.param("null", {}, id="null"),
        pytest.param('{"action_input": "x"}', {"action_input": "x"}, id="published-key-inside"),
        pytest.param('{"action_input": 3, "q": "x"}', {"action_input": 3, "q": "x"}, id="published-key-and-more"),
        pytest.param('{"action": "list", "action_input": "42"}', {"action": "list", "action_input": "42"}, id="a-call"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "Okay {}", "({})", "[{}]", "<tool_call>{}</tool_call>"])
def test_a_free_input_is_taken_word_for_word(written, given, around):
    text = around.replace("{}", f'{{"action": "free", "action_input": {written}}}')
    assert [(one.name, one.input) for one in read(text).actions] == [("free", given)]


@pytest.mark.parametrize("written", ["42", "true", "[1, 2]", '[{"a": 1}]', '"{\\"q\\": NaN}"', '"{\\"q\\": 1e999}"'])
def test_a_free_input_is_an_object_or_a_text(written):
    assert read(f'{{"action": "free", "action_input": {written}}}').reason == "bad_arguments"


@pytest.mark.parametrize("written", ['"{\\"word\\": NaN}"', '{"word": "red", "most": "many"}', "[1]", "7"])
def test_an_input_that_does_not_fit_a_tool(written):
    assert read(f'{{"action": "find", "action_input": {written}}}').reason == "bad_arguments"


@pytest.mark.parametrize(
    "rival",
    ['"name": "find"', '"tool": "free"', '"function": "find"', '"tool_name": "free"', '"name": "Bob"']
    + [f'"{key}": {value}' for key in ("input", "args", "arguments", "parameters") for value in ('{"z": 1}', "[1]")],
)
@pytest.mark.parametrize("given", ['{"q": "x"}', '"all"', '"42"'])
def test_the_published_keys_count_alone(rival, given):
    for inner in (
        f'{rival}, "action": "list", "action_input": {given}',
        f'"action": "list", "action_input": {given}, {rival}',
    ):
        assert [(one.name, one.input) for one in read(f"{{{inner}}}").actions] == [("list", json.loads(given))]


@pytest.mark.parametrize(
    ("text", "name", "given"),
    [
        pytest.param('{"action": "find", "name": "free", "action_input": {"word": "red", "most": "2"}}', "find",
                     {"word": "red", "most": 2}, id="tool-beside-a-name"),
        pytest.param('{"action": "find", "name": "free", "action_input": "42"}', "find", {"word": "42"}, id="its-text"),
        pytest.param('{"action": "find", "action_input": "42"}', "find", {"word": "42"}, id="digits-for-the-one-text"),
        pytest.param('{"action": "list", "name": "free", "action_input": {"q": 1}', "list", {"q": 1}, id="one-closer"),
        pytest.param('{"action": "list", "name": "free", "action_input": {"q": 1,},}', "list", {"q": 1}, id="comma"),
        pytest.param('{{{{"action": "list", "action_input": "true"}', "list", "true", id="many-braces"),
        pytest.param('Action: free\nAction Input: {"q": "x"}', "free", {"q": "x"}, id="react"),
        pytest.param("Action: free\nAction Input: 42\nObservation: 1", "free", "42", id="react-digits"),
        pytest.param("Action: free\nAction Input: red dress", "free", "red dress", id="react-text"),
    ],
)  # fmt: skip
def test_what_else_counts_as_written(text, name, given):
    assert [(one.name, one.input) for one in read(text).actions] == [(name, given)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param('{"action": "fly", "name": "free", "action_input": {}}', "unknown_action", id="rival-name"),
        pytest.param('{"action": "Free Search", "action_input": {}}', "unknown_action", id="blank-in-name"),
        pytest.param('{"action": "none", "name": "free", "action_input": {}}', "none_needed", id="none"),
        pytest.param('{"action": "Final Answer", "tool": "free", "action_input": "x"}', "none_needed", id="answer"),
        pytest.param('{"action": null, "name": "free", "action_input": {}}', "not_a_call", id="null-name"),
        pytest.param('{"action": "", "name": "free", "action_input": {}}', "not_a_call", id="empty-name"),
        pytest.param('{"action": {"name": "free"}, "action_input": {"q": 1}}', "not_a_call", id="object-name"),
        pytest.param('{"name": "Orla Smith"}', "not_a_call", id="data"),
        pytest.param('{"action": "list", "name": "free", "action_input": {"q": 1', "truncated", id="two-closers"),
        pytest.param('{"action": "free", "action_input": "a", "action_input": "b"}', "parse_error", id="key-twice"),
        pytest.param("Action: free", "bad_arguments", id="react-without-input"),
        pytest.param("Action: free\nAction Input: [1]", "bad_arguments", id="react-list"),
    ],
)
def test_why_there_is_no_action(text, reason):
    wanted = read(text)
    assert (wanted.actions, wanted.reason) == ((), reason)


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "free", "input": {"q": "x"}}',
        '{"tool_name": "free", "parameters": {"q": "x"}}',
        '{"function": "free", "args": {"q": "x"}}',
        '{"action": "free", "input": {"q": "x"}}',
        '{"name": "free", "action_input": {"q": "x"}}',
        '{"tool": {"tool": "free", "input": {"q": "x"}}}',
        '{"find": {"word": "red"}}',
        '{"tool": "find"}',
        '{"action": "list", "args": {"q": "x"}}',
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "Okay {}", "Here: {}", "[{}]", "<tool_call>{}</tool_call>"]
)
def test_keys_that_are_not_stated_make_no_call(text, around):
    assert [read(around.replace("{}", text)).actions, read(text).reason] == [(), "not_a_call"]


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ('{"name": "free", "arguments": {"q": "x"}}', {"q": "x"}),
        ('{"name": "free", "parameters": {"q": "x"}, "input": 3}', {"q": "x"}),
        ('{"type": "function", "function": {"name": "free", "arguments": "{\\"q\\": \\"x\\"}"}}', {"q": "x"}),
        ('<tool_call>{"name": "free", "arguments": "42"}</tool_call>', "42"),
    ],
    ids=["arguments", "parameters", "function", "text"],
)
def test_the_aliases_that_count_by_default(text, given):
    assert [(one.name, one.input) for one in read(text).actions] == [("free", given)]
    assert read(text, protocol=replace(reading_protocol(), aliases=())).reason == "not_a_call"


def test_aliases_and_keys_are_settings():
    other = replace(reading_protocol(), aliases=(("tool", "input"),))
    assert read('{"tool": "free", "input": "42"}', protocol=other).actions[0].input == "42"
    assert read('{"name": "free", "arguments": {}}', protocol=other).reason == "not_a_call"
    own = replace(reading_protocol(), keys=("do", "with"), aliases=())
    assert read('Okay {"do": "free", "with": "42"}', protocol=own).actions[0].input == "42"
    assert read(PLAIN, protocol=own).reason == "not_a_call"


def test_a_reply_is_read_once(monkeypatch):
    texts = []
    monkeypatch.setattr("toolkit.asking.extract", lambda text, **how: texts.append(text) or tk.extract(text, **how))
    replies = [
        f"Okay {PLAIN}",
        '{"action": "list", "name": "free", "action_input": "42"}',
        "Action: free\nAction Input: 7",
    ]
    assert [len(read(text).actions) for text in replies] == [1, 1, 1]
    assert texts == replies


WORDS = ["Here you go {}", "Okay {}", "json {}", "The action is {}", "Searching… {}", "Hier ist es {}", "I run {} now",
         "Use this: ({}).", "$\\frac{1}{2}$ {}"]  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
def test_a_call_behind_words_on_its_line_counts(words):
    assert [one.input for one in read(words.replace("{}", PLAIN)).actions] == [{"q": "x"}]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("I use `{}` now", id="inline-code"),
        pytest.param("You could say {}", id="hedged"),
        pytest.param("Do not run {}", id="do-not"),
        pytest.param("For example:\nHere {}", id="led-in"),
        pytest.param("For example:\n({})", id="led-in-brackets"),
        pytest.param("> {}", id="quotation"),
        pytest.param("free({})", id="argument"),
        pytest.param("<think>Okay {}</think> Hello", id="thought"),
    ],
)
@pytest.mark.parametrize("given", ['{"q": "x"}', '"42"'], ids=["object", "digits"])
def test_a_call_that_is_only_shown_does_not_count(text, given):
    assert read(text.replace("{}", f'{{"action": "free", "action_input": {given}}}')).actions == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"action": "free", "action_input": {"q": "x"}, "why": "so"}',
        '{"name": "free", "arguments": {"q": "x"}}',
        '{"action": "find", "action_input": {"most": 2}}',
        '{"action": "free", "action_input": {"q": "x"}',
    ],
    ids=["more-keys", "other-keys", "does-not-fit", "cut"],
)
def test_words_before_it_need_the_published_form(text):
    assert read(f"Okay {text}").actions == ()


def test_several_calls_in_a_sentence():
    text = f"First {PLAIN} and then {PLAIN.replace('x', 'y')}"
    assert [one.input for one in read(text).actions] == [{"q": "x"}]
    assert read(text).detail == "1 more asked for and not run."
    assert [one.input for one in read(text, several=True).actions] == [{"q": "x"}, {"q": "y"}]


@pytest.mark.parametrize("order", [1, -1])
def test_texts_in_a_list_keep_their_places(order):
    items = ['{"action": "free", "action_input": "42"}', PLAIN, '{"action": "list", "action_input": "true"}']
    wanted = read(f"[{', '.join([*items, items[0].replace(chr(34) + '42' + chr(34), '42')][::order])}]", several=True)
    assert [one.input for one in wanted.actions] == ["42", {"q": "x"}, "true"][::order]


def test_what_was_mended_is_told():
    cases = {
        '{"action": "free", "action_input": "all"}': (),
        "{'action': 'free', 'action_input': '42'}": ("single_quotes",),
        '{"action": "list", "name": "free", "action_input": "x",}': ("trailing_comma",),
        '{"action": "free", "action_input": "{\\"a\\": 1,}"}': ("trailing_comma", "string_arguments"),
    }
    assert {text: read(text).actions[0].repairs for text in cases} == cases


@pytest.mark.parametrize("sep", ["\n", " and then ", ", "], ids=["lines", "sentence", "list"])
def test_many_objects_are_read_in_linear_time(sep):
    text = sep.join(f'{{"action": "free", "action_input": "{number}"}}' for number in range(2000))
    start = time.perf_counter()
    assert read(f"[{text}]" if sep == ", " else text).actions[0].input == "0"
    assert time.perf_counter() - start < 10


def test_a_reply_that_the_server_cut_is_truncated():
    assert read('{"action": "free", "action_input": "42"', finish_reason="length").reason == "truncated"
