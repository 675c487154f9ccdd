"""Run the tool calls of a conversation: ToolInvoker.

Arguments are checked against the schema before anything runs, results keep the order of the calls, and a failure is
either a typed exception or a message the model can act on, as `raise_on_failure` says.

But: a thread cannot be ended from outside. A sync tool that overruns its time is given up, not stopped.
Not here: reading calls out of a reply (`toolkit.extraction`), deciding what happens next (`toolkit.agents`).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from toolkit.errors import ConfigError, ToolError
from toolkit.execution.approval import Ask, leave
from toolkit.execution.conversion import capped, result_text, to_text, write_to_state
from toolkit.execution.modes import BLOCKING, YIELDING, Mode, at_once, attempt_here
from toolkit.execution.ready import ReadyTool, make_ready, tool_of
from toolkit.execution.state import State
from toolkit.execution.turns import Callback, ResultChunk, Step, calls_of, failed, in_order, output, value_of
from toolkit.messages import ToolCall, ToolCallResult
from toolkit.tools import as_tools
from toolkit.tools.import_paths import dotted_path, resolve, settings_in, tool_from_dict, tool_to_dict
from toolkit.tools.shown import safe_str

_TYPE = "toolkit.execution.invoker.ToolInvoker"
_QUICK = (str, int)  # their text never fails
_HOOKS = ("streaming_callback", "ask")
_SETTINGS = (
    "raise_on_failure",
    "convert_result_to_json_string",
    "enable_streaming_callback_passthrough",
    "max_workers",
    "timeout_s",
    "max_result_chars",
)


class ToolInvoker:
    """Run tool calls and return their results as messages.

    >>> from toolkit import ChatMessage, Tool, ToolCall
    >>> weather = Tool.from_function(lambda: "sun", name="weather", description="Tell the weather.")
    >>> out = ToolInvoker([weather]).run(messages=[ChatMessage.from_assistant(tool_calls=[ToolCall("weather")])])
    >>> out["tool_messages"][0].tool_call_result.result
    'sun'

    Args:
        tools: anything `as_tools` reads.
        raise_on_failure: raise a typed exception; False makes every failure a result with `error=True`.
        convert_result_to_json_string: write text results as JSON strings too.
        streaming_callback: called with a ResultChunk per finished call, in call order, and a closing one.
        enable_streaming_callback_passthrough: also hand the callback to tools with a `streaming_callback` parameter.
        max_workers: how many calls of one turn run at once; 1 runs them one by one, stopping at the first failure
            where failures raise.
        timeout_s: seconds per call for tools without a limit of their own; None waits, since a limit costs a thread
            per call. On time the caller is freed and the late result dropped. Under `run_async` and `ainvoke` a
            coroutine that blocks the loop is noticed only when it lets go: use `run`, or a sync tool.
        max_result_chars: longest result text; the rest is cut, with a mark. None keeps all.
        ask: asked before a tool marked `dangerous` runs; what it gets and may answer is told in
            `toolkit.execution.approval`. Without it, dangerous tools run.

    Raises:
        ConfigError: no tools, two of one name, something that is no tool, or a tool without a function.
    """

    passed_on: tuple[type, ...] = ()  # results of these types are no text for the model

    def __init__(
        self,
        tools: Iterable[Any],
        raise_on_failure: bool = True,
        convert_result_to_json_string: bool = False,
        *,
        streaming_callback: Callback | None = None,
        enable_streaming_callback_passthrough: bool = False,
        max_workers: int = 4,
        timeout_s: float | None = None,
        max_result_chars: int | None = 20_000,
        ask: Ask | None = None,
    ) -> None:
        self.tools = as_tools(tools)
        if not self.tools:
            raise ConfigError("ToolInvoker needs at least one tool; got none.")
        if max_workers < 1:
            raise ConfigError(f"max_workers must be 1 or more, not {max_workers!r}.")
        self.ready: dict[str, ReadyTool] = {tool.name: make_ready(tool) for tool in self.tools}
        self.raise_on_failure = raise_on_failure
        self.convert_result_to_json_string = convert_result_to_json_string
        self.streaming_callback = streaming_callback
        self.enable_streaming_callback_passthrough = enable_streaming_callback_passthrough
        self.max_workers = max_workers
        self.timeout_s = timeout_s
        self.max_result_chars = max_result_chars
        self.ask = ask
        self._warm = False

    def invoke(self, call: ToolCall, *, state: State | None = None) -> ToolCallResult:
        """Run one call on this thread; the cheap way for an agent loop.

        Raises:
            ToolError: the call failed and `raise_on_failure` is set. Otherwise a failure is the result.
        """
        if self.ask is not None:
            return at_once(self._one(call, state, BLOCKING))
        try:  # nothing waits here, so an agent's turn need not pay for a coroutine
            ready, arguments = self._checked(call)
            keywords, timeout_s = self._keywords(ready, arguments, state, call)
            value, error = attempt_here(ready.function, keywords, timeout_s)
            if error is not None:
                value = value_of(ready, (value, error), timeout_s)
            return self._finished(ready, call, value, state)
        except ToolError as error:
            return self._failed(call, error)

    async def ainvoke(self, call: ToolCall, *, state: State | None = None) -> ToolCallResult:
        """Run one call without blocking the event loop: coroutine tools on it, others on a thread.

        Raises:
            ToolError: the call failed and `raise_on_failure` is set.
        """
        return await self._one(call, state, YIELDING)

    async def _one(self, call: ToolCall, state: State | None, mode: Mode) -> ToolCallResult:
        try:
            ready, arguments = self._checked(call)
            if self.ask is not None:
                arguments, answer = await leave(self.ask, ready, call, arguments, mode)
                if answer is not None:
                    return ToolCallResult(answer, call)
            value = await self._call(ready, arguments, state, call, mode)
            return self._finished(ready, call, value, state)
        except ToolError as error:
            return self._failed(call, error)

    def _checked(self, call: ToolCall) -> tuple[ReadyTool, dict[str, Any]]:
        if not self._warm:
            self.warm_up()
        ready = tool_of(self.ready, call)
        return ready, ready.checked(call.arguments)

    def _finished(self, ready: ReadyTool, call: ToolCall, value: Any, state: State | None) -> ToolCallResult:
        if state is not None:
            write_to_state(ready.tool, value, state)
        return ToolCallResult(self._text(ready, value), call)

    def _failed(self, call: ToolCall, error: ToolError) -> ToolCallResult:
        if self.raise_on_failure:
            raise error
        return failed(call, error, self.max_result_chars)

    def run(
        self,
        messages: Iterable[Any],
        state: State | None = None,
        streaming_callback: Callback | None = None,
        *,
        tools: Iterable[Any] | None = None,
        enable_streaming_callback_passthrough: bool | None = None,
    ) -> dict[str, Any]:
        """Run every call in the messages and return the results in the order of the calls.

        Works inside a running event loop, such as a notebook's, for coroutine tools too.

        Args:
            messages: a conversation; messages without calls are skipped.
            state: what tools share; then the output holds it too.
            streaming_callback: overrides the one given at construction.
            tools: used in place of the invoker's own.
            enable_streaming_callback_passthrough: overrides the setting given at construction.

        Returns:
            {"tool_messages": [...]}, and "state" where one was given.

        Raises:
            ToolError: a call failed and `raise_on_failure` is set; other calls that had started have finished.
        """
        invoker = self._for_run(tools, streaming_callback, enable_streaming_callback_passthrough)
        return at_once(invoker._all(calls_of(messages), state, BLOCKING))

    async def run_async(
        self,
        messages: Iterable[Any],
        state: State | None = None,
        streaming_callback: Callback | None = None,
        *,
        tools: Iterable[Any] | None = None,
        enable_streaming_callback_passthrough: bool | None = None,
    ) -> dict[str, Any]:
        """Do as `run` does, on the running event loop; sync tools run on threads, callbacks may be async."""
        invoker = self._for_run(tools, streaming_callback, enable_streaming_callback_passthrough)
        return await invoker._all(calls_of(messages), state, YIELDING)

    async def _all(self, calls: list[ToolCall], state: State | None, mode: Mode) -> dict[str, Any]:
        if len(calls) == 1 and self.streaming_callback is None:
            return output([await self._one(calls[0], state, mode)], state)
        steps = [Step(index, call) for index, call in enumerate(calls)]
        order = in_order(steps, self.ready, state)
        one_by_one = self.max_workers == 1
        if one_by_one:
            order = [[step] for batch in order for step in batch]
        else:
            await self._prepare(steps, mode)

        async def finish(step: Step) -> None:
            self._finish(step, state)
            await self._tell(step.chunk, mode)

        for batch in order:
            if one_by_one:
                await self._prepare(batch, mode)
            works = [functools.partial(self._work, step, state, mode) for step in batch]
            await mode.each(works, self.max_workers, finish)
            error = next((step.error for step in batch if step.error is not None), None)
            if error is not None and self.raise_on_failure:
                raise error
        if any(step.chunk for step in steps):
            await self._tell(ResultChunk(finish_reason="tool_call_results"), mode)
        return output([step.result for step in steps if step.result is not None], state)

    def find(self, call: ToolCall) -> ReadyTool:
        """Return the tool of a call.

        Raises:
            ToolNotFoundException: it was not offered; the message names near and known tools.
        """
        return tool_of(self.ready, call)

    def warm_up(self) -> None:
        """Call `warm_up` of every tool that has one; the first run does it, and only once."""
        if not self._warm:
            self._warm = True
            for tool in self.tools:
                if hasattr(tool, "warm_up"):
                    tool.warm_up()

    def to_dict(self) -> dict[str, Any]:
        """Return the invoker as plain JSON data: `{"type": …, "init_parameters": {…}}`.

        Raises:
            ConfigError: a tool, callback or hook without an import path, such as a lambda.
        """
        settings: dict[str, Any] = {name: getattr(self, name) for name in _SETTINGS}
        for name in _HOOKS:
            hook = getattr(self, name)
            settings[name] = dotted_path(hook) if hook is not None else None
        return {"type": _TYPE, "init_parameters": {"tools": [tool_to_dict(tool) for tool in self.tools], **settings}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolInvoker:
        """Build an invoker from what `to_dict` gave; the data stay as they are.

        This imports the modules that the data names, which runs them. Read only files you trust.

        Raises:
            ConfigError: data of something else, or a path that names no function.
        """
        given = settings_in(data, _TYPE)
        given["tools"] = [tool_from_dict(tool) for tool in given["tools"]]
        for name in _HOOKS:
            given[name] = resolve(given[name]) if given.get(name) is not None else None
        return cls(**given)

    def _for_run(self, tools: Iterable[Any] | None, callback: Callback | None, passthrough: bool | None) -> ToolInvoker:
        """Return this invoker, or a copy with what the run overrides."""
        self.warm_up()
        if tools is None and callback is None and passthrough is None:
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if tools is not None:
            other.tools = as_tools(tools)
            other.ready = {tool.name: make_ready(tool) for tool in other.tools}
        other.streaming_callback = callback or self.streaming_callback
        if passthrough is not None:
            other.enable_streaming_callback_passthrough = passthrough
        return other

    def _keywords(
        self, ready: ReadyTool, arguments: dict[str, Any], state: State | None, call: ToolCall
    ) -> tuple[dict[str, Any], float | None]:
        """Return what the function is called with, and the seconds it may take."""
        keywords = arguments if ready.simple else ready.keywords(arguments, state, call)
        if self.enable_streaming_callback_passthrough and ready.takes_callback:
            keywords = {"streaming_callback": self.streaming_callback, **keywords}
        return keywords, self.timeout_s if ready.tool.timeout_s is None else ready.tool.timeout_s

    async def _call(
        self, ready: ReadyTool, arguments: dict[str, Any], state: State | None, call: ToolCall, mode: Mode
    ) -> Any:
        keywords, timeout_s = self._keywords(ready, arguments, state, call)
        return value_of(ready, await mode.attempt(ready.function, keywords, timeout_s), timeout_s, mode)

    def _text(self, ready: ReadyTool, value: Any) -> Any:
        """Return what the model reads of a value, cut to the size limit."""
        kind, quote = type(value), self.convert_result_to_json_string
        if kind not in _QUICK or quote or ready.tool.outputs_to_string is not None:
            if isinstance(value, self.passed_on):
                return value
            value = result_text(ready.tool, value, quote=quote)
        elif kind is int:
            value = to_text(value)
        limit = self.max_result_chars
        return capped(value, limit) if limit is not None and isinstance(value, str) and len(value) > limit else value

    async def _prepare(self, steps: list[Step], mode: Mode) -> None:
        """Check the calls in order, then ask for leave where a tool is dangerous; raise in raising mode."""
        for step in steps:
            try:
                step.ready, step.arguments = self._checked(step.call)
            except ToolError as error:
                self._refuse(step, error)
        for step in steps:
            if self.ask is not None and step.ready is not None and step.arguments is not None:
                try:
                    step.arguments, step.text = await leave(self.ask, step.ready, step.call, step.arguments, mode)
                except ToolError as error:
                    self._refuse(step, error)

    def _refuse(self, step: Step, error: ToolError) -> None:
        if self.raise_on_failure:
            raise error
        step.error = error

    async def _work(self, step: Step, state: State | None, mode: Mode) -> Step:
        """Run one step, unless it was answered or refused; a failure is noted in it."""
        if step.ready is None or step.arguments is None or step.text is not None or step.error is not None:
            return step
        try:
            step.value = await self._call(step.ready, step.arguments, state, step.call, mode)
            step.returned = True
            step.text = self._text(step.ready, step.value)
        except (ToolError, KeyboardInterrupt) as error:  # KeyboardInterrupt in a task would end the loop
            step.error = error
        return step

    def _finish(self, step: Step, state: State | None) -> None:
        """Write what a call gave to the state, though it may have no text, and keep its result."""
        if step.returned and step.ready is not None and state is not None:
            try:
                write_to_state(step.ready.tool, step.value, state)
            except ToolError as error:
                step.error = error
        if step.error is None:
            step.result = ToolCallResult(step.text, step.call)
        elif isinstance(step.error, ToolError):
            step.result = failed(step.call, step.error, self.max_result_chars)
        else:
            raise step.error  # KeyboardInterrupt

    async def _tell(self, chunk: ResultChunk | None, mode: Mode) -> None:
        """Hand a chunk to the listener; its failure is raised in raising mode, else only warned of."""
        if chunk is None or self.streaming_callback is None:
            return
        try:
            await mode.settle(self.streaming_callback(chunk))
        except Exception as error:
            if self.raise_on_failure:
                raise
            warnings.warn(f"streaming_callback failed with {type(error).__name__}: {safe_str(error)}", stacklevel=4)

    def __repr__(self) -> str:
        return f"ToolInvoker({', '.join(self.ready)})"[:100]
