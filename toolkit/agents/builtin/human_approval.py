"""Ask a person before a tool runs: HumanApproval.

In a terminal and in a notebook the question is asked with `input`, which Jupyter shows as a text box below the cell
and which holds the run until it is answered; `ApprovalBox` is the same with buttons, for `await agent.arun(…)`.
Calls of one turn may run at once, their questions do not: one at a time, in the order of the calls, or an answer
would go to the wrong call.
Not here: rules without a person; a wrapper that refuses by rule is five lines.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from toolkit.agents.layers import no_stop
from toolkit.agents.middleware import AgentMiddleware
from toolkit.agents.places import current
from toolkit.agents.wording import say
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage, ToolCall

Kind = Literal["approve", "edit", "reject", "respond"]
_KEYBOARD = threading.Lock()  # there is one, however many agents ask


@dataclass(frozen=True)
class Decision:
    """Hold what a person decided.

    Attributes:
        kind: "approve" runs the call, "edit" runs it with `arguments`, "reject" answers it with an error that holds
            `text`, "respond" answers it with `text` as if the tool had said so.
        arguments: for "edit".
        text: for "reject" and "respond".
    """

    kind: Kind
    arguments: dict[str, Any] | None = None
    text: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("approve", "edit", "reject", "respond"):
            raise ConfigError(f"Decision {self.kind!r} is unknown. Use approve, edit, reject or respond.")


class HumanApproval(AgentMiddleware):
    """Ask a person before some tools run.

    >>> import toolkit as tk
    >>> def pay(amount: int) -> str:
    ...     '''Pay.'''
    ...     return f"paid {amount}"
    >>> model = tk.ScriptedModel([tk.ToolCall("pay", {"amount": 900}), "I may not."])
    >>> gate = HumanApproval(ask=lambda call: "reject: too much")
    >>> tk.Agent(model, tools=[pay], middleware=[gate]).run("pay 900").tool_results[0].result
    'The user does not allow this call: too much'

    Args:
        tools: names of the tools to ask for; "dangerous" asks for those so marked, None for all.
        ask: function of the call that gives a `Decision`, a bool, or text such as "yes", "no", "reject: why",
            "edit {json}", "respond: text"; may be async under `arun`. By default the question is put with `input`.
    """

    def __init__(
        self, tools: Iterable[Any] | Literal["dangerous"] | None = None, ask: Callable[[ToolCall], Any] | None = None
    ) -> None:
        self.by_mark = tools == "dangerous"
        self.only = None if tools is None else {getattr(tool, "name", tool) for tool in tools}
        self.ask: Callable[[ToolCall], Any] = ask or ask_by_input
        self._lock = _KEYBOARD if ask is None else threading.Lock()
        # an asyncio lock belongs to one event loop, while an agent may be run in several
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Ask, then run, change or answer the call."""
        place = current()
        if not self._asks(request):
            place.passes()
            return handler(request)
        place.wait()
        with self._lock:
            answer = self.ask(request.tool_call)
        place.passes()
        if inspect.isawaitable(answer):
            getattr(answer, "close", lambda: None)()
            raise ConfigError("HumanApproval's ask is async; use `await agent.arun(…)`.")
        changed, message = self._settle(request, answer)
        return handler(changed) if message is None else message

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Ask, then run, change or answer the call."""
        place = current()
        if not self._asks(request):
            place.passes()
            return await handler(request)
        await place.wait_async()
        async with self._rooms.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            answer = await self._answer(request.tool_call)
        place.passes()
        changed, message = self._settle(request, answer)
        return await handler(changed) if message is None else message

    async def _answer(self, call: ToolCall) -> Any:
        """Ask on the event loop where `ask` is a coroutine function, else on a thread; await what is awaitable."""
        if inspect.iscoroutinefunction(self.ask) or inspect.iscoroutinefunction(getattr(self.ask, "__call__", None)):  # noqa: B004
            return await self.ask(call)
        answer = await asyncio.to_thread(self._ask_locked, call)
        return await answer if inspect.isawaitable(answer) else answer

    def _ask_locked(self, call: ToolCall) -> Any:
        with self._lock:
            return no_stop(self.ask)(call)

    def _asks(self, request: Any) -> bool:
        if request.tool is None:
            return False
        if self.by_mark:
            return bool(request.tool.effect == "dangerous")
        return self.only is None or request.tool_call.name in self.only

    def _settle(self, request: Any, answer: Any) -> tuple[Any, ChatMessage | None]:
        decision = read_decision(answer)
        call = request.tool_call
        if decision.kind == "approve":
            return request, None
        if decision.kind == "edit":
            return request.override(tool_call={**call, "args": decision.arguments or {}}), None
        if decision.kind == "respond":
            return request, ChatMessage.from_tool(decision.text, call)
        return request, ChatMessage.from_tool(say("rejected", reason=decision.text), call, error=True)


def read_decision(answer: Any) -> Decision:
    """Read what a person said; anything but a clear yes refuses.

    >>> read_decision("y").kind, read_decision("").kind, read_decision('edit {"n": 1}').arguments
    ('approve', 'reject', {'n': 1})
    """
    if isinstance(answer, Decision):
        return answer
    if isinstance(answer, bool) or answer is None:
        return Decision("approve" if answer else "reject")
    if isinstance(answer, Mapping):
        return Decision("edit", dict(answer))
    text = str(answer).strip()
    head, _, rest = text.partition(":")
    if text.casefold() in ("y", "yes", "approve", "ok"):
        return Decision("approve")
    if text.casefold().startswith("edit"):
        return _edited(text[4:].lstrip(": "))
    if head.casefold() == "respond":
        return Decision("respond", text=rest.strip())
    return Decision("reject", text=rest.strip() if head.casefold() in ("reject", "no", "n") else text)


def _edited(text: str) -> Decision:
    try:
        arguments = json.loads(text)
    except ValueError as error:
        return Decision("reject", text=f"the new arguments are no JSON ({error})")
    return Decision("edit", arguments) if isinstance(arguments, dict) else Decision("reject", text="no object")


def ask_by_input(call: ToolCall) -> str | Decision:
    """Put the question with `input`; works in terminals and notebooks. Where nobody can be asked, refuse."""
    shown = json.dumps(call.arguments, ensure_ascii=False, default=str)
    try:
        return input(f"Run {call.tool_name}({shown})? [y / no: reason / edit {{json}} / respond: text] ")
    except (EOFError, OSError, RuntimeError, ValueError) as error:  # input is closed, lost, or the front end has none
        return Decision("reject", text=f"nobody could be asked, since there is no input here ({type(error).__name__})")


class ApprovalBox:
    """Ask with buttons in a notebook: `HumanApproval(ask=ApprovalBox())`, then `await agent.arun(…)`.

    The box appears below the cell when the first question comes; `decide` answers it from code.
    """

    def __init__(self, *, show: bool = True) -> None:
        self.show = show
        self.widget: Any = None
        self._waiting: asyncio.Future[Decision] | None = None
        self._room: asyncio.Lock | None = None

    async def __call__(self, call: ToolCall) -> Decision:
        """Show the call and wait for a button; one question at a time."""
        self._room = self._room or asyncio.Lock()
        async with self._room:
            self._waiting = asyncio.get_running_loop().create_future()
            self._draw(call)
            try:
                return await self._waiting
            finally:
                self._waiting = None
                self.widget.layout.display = "none"

    def decide(self, decision: Any) -> None:
        """Answer the open question."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(read_decision(decision))

    def _draw(self, call: ToolCall) -> None:
        import ipywidgets as widgets

        shown = json.dumps(call.arguments, ensure_ascii=False, indent=1, default=str)
        title = widgets.Label(f"Run {call.tool_name}?")
        box = widgets.Textarea(shown, layout={"width": "95%", "height": "6em"})
        buttons = [
            widgets.Button(description=word, button_style=style)
            for word, style in (("Run", "success"), ("Run as edited", "info"), ("Refuse", "danger"))
        ]
        answers = (lambda: "yes", lambda: f"edit {box.value}", lambda: "no")
        for button, answer in zip(buttons, answers, strict=True):
            button.on_click(lambda _, answer=answer: self.decide(answer()))
        self.widget = widgets.VBox([title, box, widgets.HBox(buttons)])
        if self.show:
            from IPython.display import display

            display(self.widget)  # type: ignore[no-untyped-call]
