"""Run the calls of a turn through the tool wrappers: sync and async, one result for each call.

A tool's exception travels outwards through the wrappers, so that they can catch it. What no wrapper caught becomes
an error result, unless the agent's policy says raise; an exception of a wrapper's own ends the run.
Not here: checking arguments, timeouts, text of results (`toolkit.execution`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from toolkit.agents.layers import alayered, layered
from toolkit.agents.plan import Hook
from toolkit.agents.requests import Command, ToolAnswer, ToolCallRequest
from toolkit.agents.state import StateField
from toolkit.agents.wording import say
from toolkit.errors import ToolArgumentsError, ToolError, ToolInvocationError, UpdateError
from toolkit.execution.invoker import ToolInvoker
from toolkit.execution.state import State
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult
from toolkit.tools import Tool


class OneTool(ToolInvoker):
    """Run one tool; a Command that it returns is passed on as it is."""

    passed_on = (Command,)

    def __init__(self, tool: Tool, timeout_s: float | None) -> None:
        super().__init__([tool], timeout_s=timeout_s)
        self.shares_state = self.ready[tool.name].shares_state

    def fitted(self, call: ToolCall) -> ToolCall:
        """Return the call with arguments that fit: coerced without loss, unknown names left out.

        Raises:
            ToolArgumentsError: they cannot be made to fit.
        """
        ready = self.find(call)
        try:
            ready.checked(call.arguments)
        except ToolArgumentsError:
            fitted = fit(ready.tool, call.arguments)
            ready.checked(fitted)
            return ToolCall(call.tool_name, fitted, call.id)
        return call


def fit(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Coerce arguments to a tool's schema without loss, and leave out names that it does not have.

    >>> add = Tool("add", "", {"type": "object", "properties": {"x": {"type": "integer"}}})
    >>> fit(add, {"x": "1", "zzz": 9})
    {'x': 1}
    """
    from toolkit.execution.arguments import as_object
    from toolkit.extraction.coerce import Coercion

    given = as_object(arguments, tool.name)
    if "properties" in tool.parameters and not tool.parameters.get("additionalProperties"):
        given = {name: value for name, value in given.items() if name in tool.properties}
    fitted = Coercion(tool.parameters).arguments(given)
    # a number where text is wanted is a mistake the model should hear of
    return {n: given[n] if isinstance(v, str) and not isinstance(given[n], str) else v for n, v in fitted.items()}


class _Writes(State):
    """Hold a copy of the run's state for one tool, and note what the tool writes."""

    def __init__(self, fields: dict[str, StateField], data: dict[str, Any]) -> None:
        super().__init__({name: {"type": object} for name in fields}, data)
        self.written: dict[str, Any] = {}

    def set(self, key: str, value: Any, handler_override: Any = None) -> None:
        self.written[key] = handler_override(self.get(key), value) if handler_override else value
        super().set(key, self.written[key])


@dataclass
class ToolStage:
    """Hold what running calls needs; one for each agent.

    Attributes:
        tools: the registered tools by name.
        fields: the state's fields, for tools that read or write it.
        raises: whether a tool's exception ends the run.
        timeout_s: seconds for tools without a limit of their own.
        most: how many calls of a turn run at once.
    """

    tools: dict[str, Tool]
    fields: dict[str, StateField]
    raises: bool = False
    timeout_s: float | None = None
    most: int = 4
    _ready: dict[int, OneTool] = field(default_factory=dict)

    def invoker(self, tool: Tool) -> OneTool:
        """Return the invoker of one tool, made on first use."""
        found = self._ready.get(id(tool))
        if found is None:
            found = OneTool(tool, self.timeout_s)
            self._ready[id(tool)] = found
        return found


class CallRunner:
    """Run one turn's calls; knows which tools were offered and what wraps the calls."""

    def __init__(self, stage: ToolStage, hooks: tuple[Hook, ...], run: Any) -> None:
        self.stage = stage
        self.hooks = hooks
        self.run = run

    # ------------------------------------------------------------------ sync
    def call(self, call: ToolCall) -> ToolAnswer:
        """Run one call and return its result message, or the Command that holds it."""
        number = self.run.tool_started(call)
        start = time.perf_counter()
        outcome = self._direct(call) if not self.hooks else self._wrapped(call)
        self.run.tool_finished(call, outcome, number, time.perf_counter() - start)
        return outcome

    def _direct(self, call: ToolCall) -> ToolAnswer:
        tool = self.stage.tools.get(call.tool_name)
        if tool is None or self.run.offered is not self.stage.tools:  # else all that are registered are offered
            refusal = self._refusal(call, tool)
            if refusal is not None or tool is None:
                return error_message(call, refusal or "")
        try:
            return self._result(call, tool, self._invoke(call, tool, None))
        except ToolError as error:
            return self._failed(call, error)

    def _invoke(self, call: ToolCall, tool: Tool, state: Any) -> tuple[ToolCallResult, _Writes | None]:
        invoker = self.stage.invoker(tool)
        shared = self._shared(state) if invoker.shares_state else None
        if call.tool_name != tool.name:
            call = ToolCall(tool.name, call.arguments, call.id)
        try:
            return invoker.invoke(call, state=shared), shared
        except ToolArgumentsError:
            return invoker.invoke(invoker.fitted(call), state=shared), shared

    def _wrapped(self, call: ToolCall) -> ToolAnswer:
        failures: list[BaseException] = []

        def base(request: ToolCallRequest) -> ToolAnswer:
            refusal = self._refusal(request.tool_call, request.tool)
            if refusal is not None or request.tool is None:
                return error_message(request.tool_call, refusal or "")
            try:
                return self._result(call, request.tool, self._invoke(request.tool_call, request.tool, request.state))
            except ToolArgumentsError as error:
                return error_message(call, str(error))
            except ToolError as error:
                failures.append(cause_of(error))
            raise failures[-1]

        handler: Callable[[ToolCallRequest], ToolAnswer] = layered(self.hooks, base, _check_of(call))
        try:
            return handler(self.run.tool_request(call))
        except Exception as error:
            return self._uncaught(call, error, failures)

    # ------------------------------------------------------------------ async
    async def acall(self, call: ToolCall) -> ToolAnswer:
        """Run one call without blocking the event loop."""
        number = self.run.tool_started(call)
        start = time.perf_counter()
        outcome = await (self._adirect(call) if not self.hooks else self._awrapped(call))
        self.run.tool_finished(call, outcome, number, time.perf_counter() - start)
        return outcome

    async def _adirect(self, call: ToolCall) -> ToolAnswer:
        tool = self.stage.tools.get(call.tool_name)
        if tool is None or self.run.offered is not self.stage.tools:  # else all that are registered are offered
            refusal = self._refusal(call, tool)
            if refusal is not None or tool is None:
                return error_message(call, refusal or "")
        try:
            return self._result(call, tool, await self._ainvoke(call, tool, None))
        except ToolError as error:
            return self._failed(call, error)

    async def _ainvoke(self, call: ToolCall, tool: Tool, state: Any) -> tuple[ToolCallResult, _Writes | None]:
        invoker = self.stage.invoker(tool)
        shared = self._shared(state) if invoker.shares_state else None
        if call.tool_name != tool.name:
            call = ToolCall(tool.name, call.arguments, call.id)
        try:
            return await invoker.ainvoke(call, state=shared), shared
        except ToolArgumentsError:
            return await invoker.ainvoke(invoker.fitted(call), state=shared), shared

    async def _awrapped(self, call: ToolCall) -> ToolAnswer:
        failures: list[BaseException] = []

        async def base(request: ToolCallRequest) -> ToolAnswer:
            refusal = self._refusal(request.tool_call, request.tool)
            if refusal is not None or request.tool is None:
                return error_message(request.tool_call, refusal or "")
            try:
                given = await self._ainvoke(request.tool_call, request.tool, request.state)
                return self._result(call, request.tool, given)
            except ToolArgumentsError as error:
                return error_message(call, str(error))
            except ToolError as error:
                failures.append(cause_of(error))
            raise failures[-1]

        handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]] = alayered(self.hooks, base, _check_of(call))
        try:
            return await handler(self.run.tool_request(call))
        except Exception as error:
            return self._uncaught(call, error, failures)

    # ------------------------------------------------------------------ both
    def _refusal(self, call: ToolCall, tool: Tool | None) -> str | None:
        offered = self.run.offered
        if tool is None:
            # a tool that is offered without being registered runs only where a wrapper supplies it
            known = [name for name in self.stage.tools if offered is None or name in offered]
            return say("unknown_tool", name=call.tool_name, known=known)
        registered = self.stage.tools.get(call.tool_name) is tool
        if registered and offered is not None and call.tool_name not in offered and not self.run.hidden_allowed:
            return say("hidden_tool", name=call.tool_name, known=list(offered))
        return None

    def _shared(self, state: Any) -> _Writes:
        data = dict(state if state is not None else self.run.state.view())
        return _Writes(self.stage.fields, {k: v for k, v in data.items() if k == "messages" or k in self.stage.fields})

    def _result(self, call: ToolCall, tool: Tool, given: tuple[ToolCallResult, _Writes | None]) -> ToolAnswer:
        result, shared = given
        if isinstance(result.result, Command):
            found = _answers(result.result, call)
            if found != 1:
                problem = f"Tool {tool.name!r} returned a Command with {found} results for call {call.id!r}, not one."
                raise ToolInvocationError(problem)
            return _with_name(result.result, call)
        meta = {"id": self.run.state.fresh_id()}
        if tool.name != call.tool_name:
            meta["ran"] = tool.name
        if result.origin is not call or type(call) is not ToolCall or result.traceback is not None:
            result = ToolCallResult(result.result, _plain(call), result.error)
        message = ChatMessage(ChatRole.TOOL, (result,), None, meta)
        if shared is not None and shared.written:
            return Command({**shared.written, "messages": [message]})
        return message

    def _failed(self, call: ToolCall, error: ToolError) -> ToolAnswer:
        if self.stage.raises and not isinstance(error, ToolArgumentsError):
            raise cause_of(error) from error
        return error_message(call, str(error))

    def _uncaught(self, call: ToolCall, error: Exception, failures: list[BaseException]) -> ToolAnswer:
        """Turn the tool's own exception into a result; let a wrapper's go on (Source: langchain#33153)."""
        if self.stage.raises or not any(error is failure for failure in failures):
            raise error
        kind = type(error).__name__
        text = str(error) if isinstance(error, ToolError) else f"Tool {call.tool_name!r} failed: {kind}: {error}"
        return error_message(call, text)


def error_message(call: ToolCall, text: str) -> ChatMessage:
    """Return an error result for a call."""
    return ChatMessage.from_tool(text, _plain(call), error=True)


def cause_of(error: ToolError) -> BaseException:
    """Return what the tool itself raised, or the error where the tool raised nothing.

    But: a StopIteration stays inside the error, since no coroutine can pass one on.
    """
    cause = error.__cause__ if type(error) is ToolInvocationError else None
    return error if cause is None or isinstance(cause, StopIteration) else cause


def _plain(call: ToolCall) -> ToolCall:
    return call if type(call) is ToolCall else ToolCall(call.tool_name, call.arguments, call.id)


def _check_of(call: ToolCall) -> Callable[[Any, Hook], ToolAnswer]:
    return lambda given, hook: checked(given, call, hook.label)


def checked(outcome: Any, call: ToolCall, who: str) -> ToolAnswer:
    """Return what a wrapper gave if it answers the call exactly once.

    Raises:
        UpdateError: another type, another id, or no result or several.
    """
    if isinstance(outcome, Command):
        found = _answers(outcome, call)
    elif isinstance(outcome, ChatMessage) and outcome.role is ChatRole.TOOL:
        ids = [result.origin.id for result in outcome.tool_call_results]
        found = 1 if ids == [call.id] else 0
    else:
        raise UpdateError(f"{who} returned {outcome!r}. Return ChatMessage.from_tool(…), or a Command that holds one.")
    if found != 1:
        raise UpdateError(
            f"{who} must answer call {call.id!r} of {call.tool_name!r} exactly once; {outcome!r} answers it "
            f"{found} times. Use origin=request.tool_call."
        )
    answer: ToolAnswer = outcome
    return answer


def _with_name(command: Command, call: ToolCall) -> Command:
    """Return the Command with the tool's name on its result, where the tool left it out."""
    from toolkit.agents.state import items_of

    def named(part: Any) -> Any:
        nameless = isinstance(part, ToolCallResult) and part.origin.id == call.id and not part.origin.tool_name
        return ToolCallResult(part.result, _plain(call), part.error) if nameless else part

    def answer(message: Any) -> Any:
        if not isinstance(message, ChatMessage):
            return message
        parts = tuple(map(named, message.parts))
        same = all(new is old for new, old in zip(parts, message.parts, strict=True))
        return message if same else ChatMessage(message.role, parts, message.name, message.meta)

    messages = [answer(message) for message in items_of(command.update["messages"], "a Command")]
    return Command({**command.update, "messages": messages})


def _answers(command: Command, call: ToolCall) -> int:
    from toolkit.agents.state import items_of

    messages = [m for m in items_of(command.update.get("messages", ()), "a Command") if isinstance(m, ChatMessage)]
    return sum(result.origin.id == call.id for m in messages for result in m.tool_call_results)
