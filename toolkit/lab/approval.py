"""Ask with buttons in a notebook whether a call may run: ask_in_notebook.

Not here: what may be answered (`toolkit.execution.approval`).
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
from IPython import display

from toolkit.errors import UserError
from toolkit.execution.approval import Decision
from toolkit.messages import ToolCall


async def ask_in_notebook(call: ToolCall) -> Decision:
    """Show a call below the cell and wait for a button; give it as `ask=`, and await the run.

        await agent.arun("…")            # with HumanApproval(ask=tk.lab.ask_in_notebook)
        await invoker.run_async([…])     # with ToolInvoker(…, ask=tk.lab.ask_in_notebook)

    Raises:
        UserError: the run is not awaited, so the notebook is busy and would never see a button pressed.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UserError(
            "ask_in_notebook needs a run that is awaited: `await agent.arun(…)`, `await invoker.run_async(…)`."
        )
    answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
    box = approval_box(call, lambda decision: None if answer.done() else answer.set_result(decision))
    display.display(box)  # type: ignore[no-untyped-call]
    try:
        return await answer
    finally:
        box.layout.display = "none"


def approval_box(call: ToolCall, decide: Callable[[Decision], None]) -> Any:
    """Return the widget: the arguments to edit, words to say, and a button for each kind of decision."""
    shown = json.dumps(call.arguments, ensure_ascii=False, indent=1, default=str)
    edited = widgets.Textarea(shown, layout={"width": "95%", "height": "6em"})
    words = widgets.Text(placeholder="why not, or what to answer in its place", layout={"width": "95%"})
    answers = {
        "Run": lambda: Decision("approve"),
        "Run as edited": lambda: Decision.of(f"edit {edited.value}"),
        "Refuse": lambda: Decision("reject", text=words.value),
        "Answer": lambda: Decision("respond", text=words.value),
    }
    buttons = [widgets.Button(description=word) for word in answers]
    for button, answer in zip(buttons, answers.values(), strict=True):
        button.on_click(lambda _, answer=answer: decide(answer()))
    return widgets.VBox([widgets.Label(f"Run {call.tool_name}?"), edited, words, widgets.HBox(buttons)])
