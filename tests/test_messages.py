"""Messages hold what they were given, and every wire form reads back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit as tk
from toolkit.errors import ConfigError
from toolkit.messages import ChatRole, ImageContent, ReasoningContent, TextContent, as_messages, from_openai, to_openai

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
        (("hello", "there"), "Role 'hello' is unknown. Use one of: user, .* human, ai, developer"),
        ([("robot", "x")], "Role 'robot' is unknown"),
        ([{"role": [], "content": "x"}], r"Role \[\] is unknown"),
        ({"_role": "human", "_content": []}, "Role 'human' is unknown"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}, "are no JSON"),
    ],
    ids=["number", "unknown role", "no role", "no pair", "unknown pair", "no word", "stored role", "bad arguments"],
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


CALL = tk.ToolCall("add", {"a": 1}, "c1")
TALK = [
    tk.ChatMessage.from_system("Be brief."),
    tk.ChatMessage.from_user("Hi", name="Ada"),
    tk.ChatMessage.from_assistant(tool_calls=[CALL]),
    tk.ChatMessage.from_tool("3", CALL, error=True),
]
LANGCHAIN = [
    Foreign("system", "Be brief.", name=None, id=None),
    Foreign("human", "Hi", name="Ada", id="m2"),
    Foreign("ai", "", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}]),
    Foreign("tool", "3", tool_call_id="c1", name=None, status="error", artifact=3),
]
OPENAI = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "Ada", "id": "m2"},
    {"role": "assistant", "content": None,
     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "3", "status": "error"},
]  # fmt: skip
PAIRS = [("system", "Be brief."), Foreign("human", "Hi", name="Ada"), (LANGCHAIN[2], [OPENAI[3]])]


@pytest.mark.parametrize(
    "form",
    [TALK, tuple(TALK), [m.to_dict() for m in TALK], LANGCHAIN, OPENAI, PAIRS, iter(OPENAI)],
    ids=["ours", "tuple", "to_dict", "langchain", "openai", "pairs and lists", "iterator"],
)
def test_one_conversation_in_any_form(form):
    assert as_messages(form) == TALK


@pytest.mark.parametrize(
    ("form", "same"),
    [
        ("hello", tk.HumanMessage("hello")),
        (("human", "hello"), tk.HumanMessage("hello")),
        (("ai", "hello"), tk.ChatMessage.from_assistant("hello")),
        (("developer", [{"type": "text", "text": "hello"}]), tk.SystemMessage("hello")),
        ({"role": "human", "content": "hello"}, tk.HumanMessage("hello")),
        ({"role": "function", "name": "add", "content": "3"}, tk.ChatMessage.from_tool("3", tk.ToolCall("add"))),
        (Foreign("function", "3", name="add"), tk.ChatMessage.from_tool("3", tk.ToolCall("add"))),
        (Foreign("AIMessageChunk", "hello"), tk.ChatMessage.from_assistant("hello")),
        (Foreign("HumanMessageChunk", "hello"), tk.HumanMessage("hello")),
        (Foreign("chat", "hello", role="assistant"), tk.ChatMessage.from_assistant("hello")),
        (tk.ChatMessage.from_function("3", "add").to_dict(), tk.ChatMessage.from_function("3", "add")),
    ],
    ids=["text", "pair", "ai pair", "pair of blocks", "dict in LangChain's words", "function dict", "function message",
         "ai chunk", "human chunk", "chat message", "stored function"],
)  # fmt: skip
def test_one_message_in_any_form(form, same):
    assert as_messages(form) == as_messages([form]) == [same]


def test_the_id_of_a_message_is_kept():
    assert [m.meta.get("id") for m in as_messages([LANGCHAIN[1], OPENAI[1], ("human", "x")])] == ["m2", "m2", None]


def test_a_result_is_linked_to_the_latest_earlier_call_of_its_id():
    def result(of):
        return tk.ChatMessage.from_dict({"role": "tool", "tool_call_id": of, "content": "3"})

    later = tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("mul", {}, "c1"), tk.ToolCall("nameless")])
    read = as_messages([result("c1"), *TALK, result("c1"), later, result("c1"), result(None), result("c9")])
    names = [m.tool_call_result.origin.tool_name for m in read if m.is_from("tool")]
    assert names == ["", "add", "add", "mul", "", ""]
    assert read[5].tool_call_result.origin == CALL
    assert read[1:5] == TALK


def test_blocks_that_hold_no_text_are_warned_of_and_kept_beside_the_message():
    blocks = [
        "What is ",
        {"type": "text", "text": "this?"},
        {"type": "image_url", "image_url": {}},
        {"type": "thinking"},
    ]
    with pytest.warns(UserWarning, match="'image_url' are dropped: only text reaches the model"):
        [message] = as_messages({"role": "user", "content": blocks})
    assert message.text == "What is this?"
    assert message.meta["content"] is blocks
    [silent] = as_messages(Foreign("ai", [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use"}, "ok"]))
    assert silent.text == "ok"


def test_a_dict_may_use_langchains_words():
    call = {"name": "add", "args": {"x": 1}, "id": "c1"}
    [message] = tk.messages.as_messages(
        [{"role": "assistant", "content": ["one ", {"text": "two"}], "tool_calls": [call]}]
    )
    assert message.text == "one two"
    assert message.tool_calls == [tk.ToolCall("add", {"x": 1}, "c1")]


def test_parts_as_data_and_back():
    parts = (ReasoningContent("Hm."), TextContent("Look."), ImageContent("aGk=", "image/gif"), CALL)
    message = tk.ChatMessage(ChatRole.USER, parts)
    assert tk.ChatMessage.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    assert message.images == [parts[2]]
    assert "aGk" not in repr(message)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_of_other_libraries_is_kept_beside_calls(key):
    wire = {"role": "assistant", "content": "", key: "Hm.", "tool_calls": [{"function": {"name": "f"}, "id": "c"}]}
    assert to_openai(from_openai(wire))[0]["reasoning_content"] == "Hm."
    assert "reasoning_content" not in to_openai(from_openai({**wire, "tool_calls": []}))[0]


def test_an_image_by_its_address_is_refused():
    block = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    with pytest.raises(tk.errors.ConfigError, match="is an address. Give its bytes"):
        as_messages({"role": "user", "content": [block]})
