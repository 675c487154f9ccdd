"""Run the calls of a turn through the tool wrappers: one result for each call.

A tool's exception travels outwards through the wrappers, so that they can catch it. What no wrapper caught becomes
an error result, unless the agent's policy says raise; an exception of a wrapper's own ends the run.
Not here: making arguments fit (`toolkit.agents.fitting`), timeouts and the text of results (`toolkit.execution`).
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from toolkit.agents.layers import layered
from toolkit.agents.modes import BLOCKING, Mode, here, invoked
from toolkit.agents.plan import Hook
from toolkit.agents.requests import Command, Pause, ToolAnswer, ToolCallRequest
from toolkit.agents.run import Run
from toolkit.agents.state import StateField, as_message, items_of
from toolkit.agents.wording import say
from toolkit.errors import ToolArgumentsError, ToolError, ToolInvocationError, UpdateError
from toolkit.execution.state import State
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult
from toolkit.tools import Tool


class _Writes(State):
    """Hold a copy of the run's state for one tool with the request of its call, and note what the tool writes."""

    def __init__(self, fields: dict[str, StateField], data: dict[str, Any], request: ToolCallRequest) -> None:
        super().__init__({name: {"type": object} for name in fields}, data)
        self.request = request
        self.written: dict[str, Any] = {}

    def set(self, key: str, value: Any, handler_override: Any = None) -> None:
        self.written[key] = handler_override(self.get(key), value) if handler_override else value
        super().set(key, self.written[key])


class CallRunner:
    """Run the calls of one run, each through the wrappers."""

    def __init__(self, run: Run, mode: Mode) -> None:
        self.run = run
        self.setup = run.setup
        self.tools = run.setup.plan.by_name
        self.hooks = run.chains.wrap_tool_call
        self.mode = mode

    async def answer(self, call: ToolCall) -> ToolAnswer:
        """Run one call and return its result message, or the Command that holds it."""
        trace = self.run.trace
        number, start = len(trace.events), perf_counter()
        trace.record("tool_call", call=call, number=number)  # on disk too, before anything can go wrong in it
        if self.hooks:
            outcome = await self._wrapped(call)
        else:
            try:
                outcome = await self._answer(call, call, self.tools.get(call.tool_name), None)
            except ToolError as error:
                cause = cause_of(error)
                if isinstance(cause, Pause) or (self.setup.raises and not isinstance(error, ToolArgumentsError)):
                    raise cause from error
                outcome = error_message(call, str(error))
        seconds = perf_counter() - start
        if isinstance(outcome, Command):  # what it changes is on disk too, before it is merged
            update = {key: value for key, value in outcome.update.items() if key not in ("messages", "jump_to")}
            result = _answers(outcome, call)[0]
            trace.record("tool_result", result=result, number=number, seconds=seconds, update=update)
        else:
            trace.record("tool_result", result=outcome.parts[0], number=number, seconds=seconds)
        return outcome

    async def _wrapped(self, call: ToolCall) -> ToolAnswer:
        failures: list[BaseException] = []

        async def base(request: ToolCallRequest) -> ToolAnswer:
            try:
                return await self._answer(call, request.tool_call, request.tool, request.state)
            except ToolArgumentsError as error:
                return error_message(call, str(error))
            except ToolError as error:
                failures.append(cause_of(error))
            raise failures[-1]

        blocking = self.mode is BLOCKING
        handler = layered(self.hooks, here(base) if blocking else base, _check_of(call), self.mode)
        try:
            answer = handler(self.run.tool_request(call))
            answer = answer if blocking else await answer
        except Exception as error:
            return self._uncaught(call, error, failures)
        return answer  # type: ignore[no-any-return] # as checked

    async def _answer(self, call: ToolCall, asked: ToolCall, tool: Tool | None, state: Any) -> ToolAnswer:
        """Run a call, once more with arguments made to fit where they do not.

        Args:
            call: the model's call, which is answered.
            asked: the call as the wrappers pass it on.
            tool: the tool that they pass on.
            state: the state that they pass on; None for the run's own.

        Raises:
            ToolError: the tool failed, or the arguments cannot be made to fit.
        """
        if tool is None or self.run.offered is not self.tools:  # not all of them are offered
            refusal = self._refusal(asked, tool)
            if refusal is not None or tool is None:
                return error_message(asked, refusal or "")
        invoker = self.setup.invoker(tool)
        named = asked if asked.tool_name == tool.name else ToolCall(tool.name, asked.arguments, asked.id)
        shared = self._shared(state, named, tool) if invoker.shares_state else None
        if self.run.trace.has_file and tool.effect != "reads":
            self.run.trace.record("started", id=call.id)
        try:
            if self.mode is BLOCKING:  # a coroutine fewer
                result = invoker.invoke(named, state=shared)
            else:
                result = await invoker.ainvoke(named, state=shared)
        except ToolArgumentsError:
            result = await invoked(invoker, invoker.fitted(named), self.mode, shared)
        return self._result(call, tool, result, shared)

    def _refusal(self, call: ToolCall, tool: Tool | None) -> str | None:
        offered = self.run.offered
        if tool is None:
            # a tool that is offered without being registered runs only where a wrapper supplies it
            known = [name for name in self.tools if offered is None or name in offered]
            return say("unknown_tool", name=call.tool_name, known=known)
        supplied = self.tools.get(call.tool_name) is not tool
        if supplied or offered is None or call.tool_name in offered or self.run.settings.hidden_tools == "allow":
            return None
        return say("hidden_tool", name=call.tool_name, known=list(offered))

    def _shared(self, state: Any, call: ToolCall, tool: Tool) -> _Writes:
        data = dict(state if state is not None else self.run.state.view())
        fields = self.setup.plan.fields
        request = ToolCallRequest(tool_call=call, tool=tool, state=data, runtime=self.run.runtime)
        return _Writes(fields, {k: v for k, v in data.items() if k == "messages" or k in fields}, request)

    def _result(self, call: ToolCall, tool: Tool, result: ToolCallResult, shared: _Writes | None) -> ToolAnswer:
        if isinstance(result.result, Command):
            found = len(_answers(result.result, call))
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

    def _uncaught(self, call: ToolCall, error: Exception, failures: list[BaseException]) -> ToolAnswer:
        """Turn the tool's own exception into a result; let a wrapper's go on (Source: langchain#33153)."""
        fatal = self.setup.raises or error is self.run.runtime.fatal
        if fatal or not any(error is failure for failure in failures):
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
    if type(outcome) is not ChatMessage:
        outcome = as_message(outcome)
    if isinstance(outcome, Command):
        found = len(_answers(outcome, call))
    elif isinstance(outcome, ChatMessage) and outcome.role is ChatRole.TOOL:
        results = outcome.tool_call_results
        found = 1 if len(results) == 1 and results[0].origin.id == call.id else 0
        if found and not results[0].origin.tool_name:
            outcome = _named(outcome, call)
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
    messages = [_named(message, call) for message in items_of(command.update["messages"], "a Command")]
    return Command({**command.update, "messages": messages})


def _named(message: Any, call: ToolCall) -> Any:
    """Return a message whose result has the tool's name, which LangChain's need not have."""
    if not isinstance(message, ChatMessage) or all(result.origin.tool_name for result in message.tool_call_results):
        return message
    parts = tuple(
        ToolCallResult(part.result, _plain(call), part.error)
        if isinstance(part, ToolCallResult) and part.origin.id == call.id
        else part
        for part in message.parts
    )
    return ChatMessage(message.role, parts, message.name, message.meta)


def _answers(command: Command, call: ToolCall) -> list[ToolCallResult]:
    """Return what in a Command answers a call."""
    messages = [m for m in items_of(command.update.get("messages", ()), "a Command") if isinstance(m, ChatMessage)]
    return [result for m in messages for result in m.tool_call_results if result.origin.id == call.id]
