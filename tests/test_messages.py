"""Messages hold what they were given, and every wire form reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit as tk
from toolkit.errors import ConfigError
from toolkit.messages import as_messages, to_openai

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(
    tk.ToolCall, st.text(min_size=1), st.dictionaries(st.text(), json_values, max_size=3), st.none() | st.text()
)


@given(st.none() | st.text(), st.lists(calls, max_size=3))
def test_an_assistant_message_survives_its_dict(text, tool_calls):
    message = tk.ChatMessage.from_assistant(text, tool_calls=tool_calls)
    assert tk.ChatMessage.from_dict(message.to_dict()) == message


@given(st.text(min_size=1), st.lists(calls, max_size=3))
def test_an_assistant_message_survives_the_openai_form(text, tool_calls):
    message = tk.ChatMessage.from_assistant(text, tool_calls=tool_calls)
    [wire] = to_openai(message)
    back = tk.ChatMessage.from_dict(wire)
    assert back.text == text
    assert [(c.tool_name, c.arguments) for c in back.tool_calls] == [(c.tool_name, c.arguments) for c in tool_calls]


@pytest.mark.parametrize(
    ("build", "role", "text"),
    [
        (lambda: tk.ChatMessage.from_system("be kind"), "system", "be kind"),
        (lambda: tk.ChatMessage.from_user("hi"), "user", "hi"),
        (lambda: tk.ChatMessage.from_assistant(), "assistant", None),
    ],
    ids=["system", "user", "empty assistant"],
)
def test_role_and_text(build, role, text):
    message = build()
    assert message.role == role
    assert message.is_from(role)
    assert message.text == text


def test_a_tool_message_holds_result_and_origin():
    call = tk.ToolCall("add", {"a": 1}, "c1")
    message = tk.ChatMessage.from_tool("3", call, error=True)
    assert message.tool_call_result == tk.ToolCallResult("3", call, True)
    assert to_openai(message) == [{"role": "tool", "content": "3", "tool_call_id": "c1", "name": "add"}]


def test_arguments_may_come_as_text_or_object():
    wire = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"x": 1}'}}]}
    same = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}
    assert tk.ChatMessage.from_dict(wire) == tk.ChatMessage.from_dict(same)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "3 is no message"),
        ([{"role": "robot", "content": "x"}], "Role 'robot' is unknown"),
        ({"text": "x"}, "is no message"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}, "are no JSON"),
    ],
    ids=["number", "unknown role", "no role", "bad arguments"],
)
def test_what_is_no_message_is_refused(value, message):
    with pytest.raises(ConfigError, match=message):
        as_messages(value)


def test_repr_stays_on_one_short_line():
    assert len(repr(tk.ChatMessage.from_user("x" * 500))) <= 100


class Foreign:
    """What LangChain's messages look like."""

    def __init__(self, kind, content, **more):
        self.type, self.content = kind, content
        self.__dict__.update(more)


def test_langchain_messages_and_words_are_read():
    read = as_messages(
        [
            Foreign("system", "Be brief."),
            Foreign("human", [{"type": "text", "text": "Hi"}]),
            Foreign("ai", "", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}]),
            Foreign("tool", "3", tool_call_id="c1", name="add"),
        ]
    )
    assert [m.role for m in read] == ["system", "user", "assistant", "tool"]
    assert read[2].tool_calls == [tk.ToolCall("add", {"a": 1}, "c1")]
    assert read[3].tool_call_result.origin.id == "c1"
    assert tk.SystemMessage(content="Be brief.") == read[0]
    assert tk.HumanMessage(content="Hi") == read[1]


def test_a_dict_may_use_langchains_words():
    call = {"name": "add", "args": {"x": 1}, "id": "c1"}
    [message] = tk.messages.as_messages(
        [{"role": "assistant", "content": ["one ", {"text": "two"}], "tool_calls": [call]}]
    )
    assert message.text == "one two"
    assert message.tool_calls == [tk.ToolCall("add", {"x": 1}, "c1")]
