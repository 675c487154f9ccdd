"""Buttons in a notebook, driven without a kernel."""

from __future__ import annotations

import asyncio

import pytest

import toolkit as tk

pytest.importorskip("ipywidgets")


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def agent():
    model = tk.ScriptedModel([tk.ToolCall("pay", {"amount": 9}), "done"])
    return tk.Agent(model, [pay], middleware=[tk.middleware.HumanApproval(ask=tk.lab.ask_in_notebook)])


def press(monkeypatch, run, button, arguments=None, words=""):
    """Await a run; press a button as soon as a box is shown. Return what the run gives and the box."""
    boxes = []
    monkeypatch.setattr("IPython.display.display", boxes.append)

    async def scene():
        waiting = asyncio.ensure_future(run())
        while not boxes:
            await asyncio.sleep(0.001)
        _, edited, said, buttons = boxes[0].children
        assert "9" in edited.value
        edited.value, said.value = arguments or edited.value, words
        [one] = [child for child in buttons.children if child.description == button]
        one.click()
        one.click()  # a second click changes nothing
        return await waiting

    return asyncio.run(scene()), boxes[0]


@pytest.mark.parametrize(
    ("button", "settings", "result", "error"),
    [
        ("Run", {}, "paid 9", False),
        ("Run as edited", {"arguments": '{"amount": 3}'}, "paid 3", False),
        ("Run as edited", {"arguments": "{"}, "are no JSON", True),
        ("Refuse", {}, "does not allow this call", True),
        ("Refuse", {"words": "too much"}, "does not allow this call: too much", True),
        ("Answer", {"words": "paid already"}, "paid already", False),
    ],
)
def test_a_button_decides(monkeypatch, button, settings, result, error):
    trace, box = press(monkeypatch, lambda: agent().arun("go"), button, **settings)
    assert result in trace.tool_results[0].result
    assert trace.tool_results[0].error is error
    assert box.layout.display == "none"


def test_an_invoker_takes_it_too(monkeypatch):
    risky = tk.Tool.from_function(pay, effect="dangerous")
    invoker = tk.ToolInvoker([risky], ask=tk.lab.ask_in_notebook)
    asked = [tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("pay", {"amount": 9})])]
    out, _ = press(monkeypatch, lambda: invoker.run_async(asked), "Run as edited", arguments='{"amount": 3}')
    assert out["tool_messages"][0].tool_call_result.result == "paid 3"


def test_a_run_that_is_not_awaited_says_so_and_does_not_hang():
    with pytest.raises(tk.UserError, match="await agent.arun"):
        agent().run("go")
