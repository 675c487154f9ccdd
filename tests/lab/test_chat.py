"""ChatBox, driven without a kernel."""

import pytest

import toolkit as tk

pytest.importorskip("ipywidgets")

from toolkit.lab.chat import ChatBox, conversation_html


def say(chat, text):
    chat.field.value = text
    chat.send.click()


def test_what_is_said_is_shown_and_escaped():
    chat = ChatBox(tk.TwoModeAgent(tk.ScriptedModel(["-", "<b>Hello</b>"])))
    say(chat, "Hi <i>")
    assert "Hi &lt;i&gt;" in chat.log.value
    assert "&lt;b&gt;Hello&lt;/b&gt;" in chat.log.value
    assert "no action (no_json)" in chat.log.value
    assert (chat.field.value, chat.send.disabled) == ("", False)
    assert chat._repr_html_() == chat.log.value == conversation_html(chat.agent.turns)


def test_blanks_say_nothing_and_starting_again_forgets():
    chat = ChatBox(tk.TwoModeAgent(tk.ScriptedModel(["-", "Hello"])))
    say(chat, "   ")
    assert chat.agent.turns == []
    say(chat, "Hi")
    chat.forget.click()
    assert chat.agent.turns == []
    assert "Nothing was said yet" in chat.log.value


def test_a_failure_is_told_and_the_words_stay():
    chat = ChatBox(tk.TwoModeAgent(tk.ScriptedModel([])))
    say(chat, "Hi")
    assert "one more was asked for" in chat.state.value
    assert (chat.field.value, chat.send.disabled) == ("Hi", False)


def test_a_notebook_gets_the_widget():
    chat = ChatBox(tk.TwoModeAgent(tk.ScriptedModel([])))
    assert "application/vnd.jupyter.widget-view+json" in chat._repr_mimebundle_()


def test_no_failure_leaves_it_thinking():
    def broken(prompt, stop, max_tokens):
        raise KeyError("socket")

    chat = ChatBox(tk.TwoModeAgent(broken))
    say(chat, "Hi")
    assert chat.state.value == "KeyError: 'socket'"
    assert not chat.send.disabled
    assert chat.field.value == "Hi"
