"""Ask a person before a tool runs: HumanApproval.

By default the question is put with `input`, which Jupyter shows as a text box below the cell and which holds the run
until it is answered; `ask=tk.lab.ask_in_notebook` shows buttons, for `await agent.arun(…)`.
Calls of one turn may run at once, their questions do not: one at a time, in the order of the calls, or an answer
would go to the wrong call.
Not here: what an `ask` gets and may answer (`toolkit.execution.approval`), rules without a person; a wrapper that
refuses by rule is five lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from toolkit.agents.builtin.wrappers import ToolRun, ToolWrapper
from toolkit.agents.modes import BLOCKING, Mode
from toolkit.agents.places import current
from toolkit.agents.requests import Pause, ToolAnswer, ToolCallRequest
from toolkit.agents.resuming import answer_of
from toolkit.execution.approval import Ask, adecide, ask_by_input, decide
from toolkit.messages import ToolCall
from toolkit.tools import Tool


class HumanApproval(ToolWrapper):
    """Ask a person before some tools run.

    >>> import toolkit as tk
    >>> def pay(amount: int) -> str:
    ...     '''Pay.'''
    ...     return f"paid {amount}"
    >>> model = tk.ScriptedModel([tk.ToolCall("pay", {"amount": 900}), "I may not."])
    >>> gate = HumanApproval(ask=lambda call: "reject: too much")
    >>> tk.Agent(model, tools=[pay], middleware=[gate]).run("pay 900").tool_results[0].result
    'The user does not allow this call: too much'

    With `ask="pause"`, or an `ask` that answers so, the run stops before the call and goes on when somebody has
    decided, in another process too:

    >>> model = tk.ScriptedModel([tk.ToolCall("pay", {"amount": 900}, "c1"), "Paid 50."])
    >>> agent = tk.Agent(model, tools=[pay], middleware=[HumanApproval(ask="pause")])
    >>> trace = agent.run("pay 900")
    >>> trace.stop_reason, trace.pending
    ('paused', [ToolCall(tool_name='pay', arguments={'amount': 900}, id='c1')])
    >>> trace = tk.Trace.from_json(trace.to_json())  # or Trace.load, where run(…, trace_file=…) wrote it
    >>> agent.run(trace, decisions={"c1": {"amount": 50}}).tool_results[0].result
    'paid 50'

    The history shows edited arguments too, or the model would try its own again (Source: langchain#33787).

    Args:
        tools: names of the tools to ask for, as a list or as name -> whether to ask; "dangerous" asks for those so
            marked, None for all.
        ask: function of the call, as `ToolInvoker` takes it (`toolkit.execution.approval`), or an answer that is always
            the same, such as "no: not today" or "pause". By default the question is put with `input`.
    """

    def __init__(
        self,
        tools: Iterable[Tool | str] | Mapping[str, Any] | Literal["dangerous"] | None = None,
        ask: Ask | str | None = None,
    ) -> None:
        self.by_mark = tools == "dangerous"
        super().__init__([name for name, asked in tools.items() if asked] if isinstance(tools, Mapping) else tools)
        if self.by_mark:
            self.tools_named = ()
        self.ask: Ask = ask_by_input if ask is None else ask if callable(ask) else lambda call: ask

    def concerns(self, request: ToolCallRequest) -> bool:
        """Tell whether there is to be a question; a tool that is not there cannot run anyway."""
        if request.tool is None:
            return False
        return request.tool.effect == "dangerous" if self.by_mark else super().concerns(request)

    async def around(self, request: ToolCallRequest, handler: ToolRun, mode: Mode) -> ToolAnswer:
        """Ask, then run, change or answer the call."""
        place, call = current(), request.tool_call
        if not self.concerns(request) or call.id in request.runtime.approved:
            place.passes()
            return await handler(request)
        if mode is BLOCKING:
            place.wait()
            decision = decide(self.ask, call)
        else:
            await place.wait_async()
            decision = await adecide(self.ask, call)
        place.passes()
        if decision.kind == "pause":
            request.runtime.trace.record("paused", self.name, call=ToolCall(call.tool_name, call.arguments, call.id))
            raise Pause(f"Call {call.id!r} of {call.tool_name!r} waits for a decision.")
        if decision.kind == "edit":
            edited = ToolCall(call.tool_name, dict(decision.arguments or {}), call.id)
            request.runtime.edits[call.id] = edited
            request.runtime.trace.record("edit", self.name, call=edited)
            return await handler(request.override(tool_call=edited))
        return answer_of(decision, call) or await handler(request)
