"""What an `ask` may answer, and what a ToolInvoker makes of it, each way that it can be called."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

import toolkit as tk
from toolkit.execution.approval import Decision, ask_by_input


def pay(amount: int) -> dict:
    """Pay."""
    return {"paid": amount}


PAY = tk.Tool.from_function(pay, effect="dangerous", outputs_to_state={"last": {"source": "paid"}})
CALL = tk.ToolCall("pay", {"amount": 9}, "c1")


def every_way(ask, **options):
    """Run one call in each way; return the one result that all gave, and the state of a run."""
    invoker = tk.ToolInvoker([PAY], raise_on_failure=False, ask=ask, **options)
    said, state = [tk.ChatMessage.from_assistant(tool_calls=[CALL, CALL])], tk.State({"last": {"type": int}})
    found = [invoker.invoke(CALL), asyncio.run(invoker.ainvoke(CALL))]
    for out in (invoker.run(said, state), asyncio.run(invoker.run_async(said, state))):
        found += [message.tool_call_result for message in out["tool_messages"]]
    assert len({(result.result, result.error) for result in found}) == 1
    assert all(result.origin is CALL for result in found)
    return found[0], state.get("last")


ANSWERS = [
    (True, '{"paid": 9}', False),
    ("OK", '{"paid": 9}', False),
    ({"amount": 1}, '{"paid": 1}', False),
    ('edit: {"amount": 2}', '{"paid": 2}', False),
    (Decision("edit", {"amount": 3}), '{"paid": 3}', False),
    ("respond: paid already", "paid already", False),
    (Decision("respond"), "", False),
    (None, "The user did not allow this call of 'pay'. Nothing was run.", True),
    ("no: too much", "The user did not allow this call of 'pay': too much. Nothing was run.", True),
    ("edit [1]", "the new arguments are no JSON object", True),
    ({"amount": "much"}, 'amount: expected integer, got "much"', True),
]  # fmt: skip


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize(("answer", "result", "error"), ANSWERS, ids=str)
def test_each_answer_does_what_it_says(answer, result, error, workers):
    found, kept = every_way(lambda call: answer, max_workers=workers)
    assert result in found.result
    assert found.error is error
    assert kept == (json.loads(result)["paid"] if result.startswith("{") else None)  # what was not run writes nothing


def test_an_async_ask_may_answer_anything_too():
    async def ask(call):
        await asyncio.sleep(0)
        return {"amount": call.arguments["amount"] + 1}

    assert every_way(ask)[0].result == '{"paid": 10}'


def test_a_refusal_raises_where_failures_raise():
    with pytest.raises(tk.ToolNotApprovedError, match="too much"):
        tk.ToolInvoker([PAY], ask=lambda call: "no: too much").invoke(CALL)
    with pytest.raises(tk.ToolArgumentsError):
        tk.ToolInvoker([PAY], ask=lambda call: {"sum": 9}).invoke(CALL)


def test_an_ask_that_runs_out_refuses_and_never_hangs():
    found, _ = every_way(lambda call: next(iter([])))
    assert "asking failed with RuntimeError: ask raised StopIteration" in found.result


def test_a_sync_ask_does_not_hold_up_the_loop():
    answered = threading.Event()

    async def scene():
        asked = tk.ToolInvoker([PAY], ask=lambda call: answered.wait(5)).ainvoke(CALL)
        waiting = asyncio.ensure_future(asked)
        await asyncio.sleep(0)
        answered.set()  # by the loop itself, which therefore goes on
        return await waiting

    assert asyncio.run(scene()).result == '{"paid": 9}'


@pytest.mark.parametrize(("typed", "kind"), [("y", "approve"), ("why?", "reject"), (EOFError(), "reject")], ids=repr)
def test_the_keyboard_is_an_ask(monkeypatch, typed, kind):
    def type_in(question):
        assert question.startswith('Run pay({"amount": 9})? [y / no')
        if isinstance(typed, Exception):
            raise typed
        return typed

    monkeypatch.setattr("builtins.input", type_in)
    assert Decision.of(ask_by_input(CALL)).kind == kind
