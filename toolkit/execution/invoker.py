"""Run the tool calls of a conversation: ToolInvoker.

Arguments are checked against the schema before anything runs, results keep the order of the calls, and a failure is
either a typed exception or a message the model can act on, as `raise_on_failure` says.

But: a thread cannot be ended from outside. A sync tool that overruns its time is given up, not stopped.
Not here: reading calls out of a reply (`toolkit.extraction`), deciding what happens next (`toolkit.agents`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from toolkit.errors import ConfigError, ToolError
from toolkit.execution.approval import Ask, aleave, leave
from toolkit.execution.chunks import Callback, ResultChunk, atell, tell
from toolkit.execution.conversion import capped, to_text
from toolkit.execution.functions import arun_function, run_function
from toolkit.execution.outputs import result_text, write_to_state
from toolkit.execution.ready import ReadyTool, make_ready, tool_of
from toolkit.execution.state import State
from toolkit.execution.threads import in_order
from toolkit.execution.tool_dicts import tool_from_dict, tool_to_dict
from toolkit.execution.turns import Outcome, Turn, calls_of, failed, output
from toolkit.messages import ToolCall, ToolCallResult
from toolkit.tools import as_tools
from toolkit.tools.import_paths import dotted_path, resolve

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
        timeout_s: seconds per call for tools without a limit of their own. The default None waits, since a limit costs
            a thread per call; OpenAPI and MCP tools have finite limits of their own. On time the caller is freed and
            the late result dropped, except by a coroutine that blocks the loop under `run_async` or `ainvoke`: it runs
            on the caller's loop, so the limit is only noticed, as an error, when it lets go. Use `run`, or a sync tool.
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
        if not self._warm:
            self.warm_up()
        try:
            ready = tool_of(self.ready, call)
            arguments = ready.checked(call.arguments)
            if self.ask is not None and ready.tool.effect == "dangerous":
                arguments, answer = leave(self.ask, ready, call, arguments)
                if answer is not None:
                    return ToolCallResult(answer, call)
            value = self._call(ready, arguments, state)
            if state is not None and ready.tool.outputs_to_state:
                write_to_state(ready.tool, value, state)
            text = self._text(ready, value)
        except ToolError as error:
            if self.raise_on_failure:
                raise
            return failed(call, error, self.max_result_chars)
        return ToolCallResult(text, call)

    async def ainvoke(self, call: ToolCall, *, state: State | None = None) -> ToolCallResult:
        """Run one call without blocking the event loop: coroutine tools on it, others on a thread.

        Raises:
            ToolError: the call failed and `raise_on_failure` is set.
        """
        if not self._warm:
            self.warm_up()
        try:
            ready = tool_of(self.ready, call)
            arguments = ready.checked(call.arguments)
            if self.ask is not None and ready.tool.effect == "dangerous":
                arguments, answer = await aleave(self.ask, ready, call, arguments)
                if answer is not None:
                    return ToolCallResult(answer, call)
            value = await self._acall(ready, arguments, state)
            if state is not None and ready.tool.outputs_to_state:
                write_to_state(ready.tool, value, state)
            text = self._text(ready, value)
        except ToolError as error:
            if self.raise_on_failure:
                raise
            return failed(call, error, self.max_result_chars)
        return ToolCallResult(text, call)

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
            tools: used in place of the invoker's own; their `warm_up` is the caller's business.
            enable_streaming_callback_passthrough: overrides the setting given at construction.

        Returns:
            {"tool_messages": [...]}, and "state" where one was given.

        Raises:
            ToolError: a call failed and `raise_on_failure` is set; other calls that had started have finished.
        """
        calls = calls_of(messages)
        invoker = self._for_run(tools, streaming_callback, enable_streaming_callback_passthrough)
        if len(calls) == 1 and invoker.streaming_callback is None:
            return output([invoker.invoke(calls[0], state=state)], state)
        turn = invoker._turn(calls, state)
        order = turn.batches()
        if not turn.one_by_one:
            invoker._prepare(turn, range(len(calls)))
        for batch in order:
            if turn.one_by_one:
                invoker._prepare(turn, batch)
            invoker._drive(turn, batch)
            turn.raise_first(batch)
        invoker._tell(turn.closing())
        return output(turn.results, state)

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
        calls = calls_of(messages)
        invoker = self._for_run(tools, streaming_callback, enable_streaming_callback_passthrough)
        turn = invoker._turn(calls, state)
        order = turn.batches()
        if not turn.one_by_one:
            await invoker._aprepare(turn, range(len(calls)))
        for batch in order:
            if turn.one_by_one:
                await invoker._aprepare(turn, batch)
            await invoker._adrive(turn, batch)
            turn.raise_first(batch)
        await invoker._atell(turn.closing())
        return output(turn.results, state)

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
        if data.get("type") != _TYPE:
            raise ConfigError(f"type {data.get('type')!r} is no ToolInvoker; expected {_TYPE!r}.")
        given = dict(data["init_parameters"])
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

    def _turn(self, calls: list[ToolCall], state: State | None) -> Turn:
        return Turn(
            self.ready,
            calls,
            state,
            raises=self.raise_on_failure,
            ask=self.ask,
            one_by_one=self.max_workers == 1,
            max_result_chars=self.max_result_chars,
        )

    def _call(self, ready: ReadyTool, arguments: dict[str, Any], state: State | None) -> Any:
        """Run the function on this thread, or beside it where there is a time limit."""
        keywords = arguments if ready.simple else ready.keywords(arguments, state)
        if self.enable_streaming_callback_passthrough:
            keywords = self._with_callback(ready, keywords)
        timeout = self.timeout_s if ready.tool.timeout_s is None else ready.tool.timeout_s
        return run_function(ready, keywords, timeout)

    async def _acall(self, ready: ReadyTool, arguments: dict[str, Any], state: State | None) -> Any:
        """Run the function on the running loop, or on a thread where it is sync."""
        keywords = arguments if ready.simple else ready.keywords(arguments, state)
        if self.enable_streaming_callback_passthrough:
            keywords = self._with_callback(ready, keywords)
        timeout = self.timeout_s if ready.tool.timeout_s is None else ready.tool.timeout_s
        return await arun_function(ready, keywords, timeout)

    def _with_callback(self, ready: ReadyTool, keywords: dict[str, Any]) -> dict[str, Any]:
        wanted = ready.accepted is not None and "streaming_callback" in ready.accepted
        if wanted and self.streaming_callback is not None and "streaming_callback" not in keywords:
            return {**keywords, "streaming_callback": self.streaming_callback}
        return keywords

    def _text(self, ready: ReadyTool, value: Any) -> Any:
        """Return what the model reads of a value, cut to the size limit."""
        quote = self.convert_result_to_json_string
        if type(value) in _QUICK and ready.tool.outputs_to_string is None and not quote:
            text = value if type(value) is str else to_text(value)
        elif isinstance(value, self.passed_on):
            return value
        else:
            text = result_text(ready.tool, value, quote=quote)
        limit = self.max_result_chars
        return capped(text, limit) if isinstance(text, str) and limit is not None and len(text) > limit else text

    def _prepare(self, turn: Turn, indexes: Iterable[int]) -> None:
        """Check the calls in order, and ask for leave where a tool is dangerous."""
        for index, question in turn.check(list(indexes)):
            step = turn.steps[index]
            try:
                step.arguments, step.answer = leave(*question)
            except ToolError as error:
                turn.refuse(index, error)

    async def _aprepare(self, turn: Turn, indexes: Iterable[int]) -> None:
        for index, question in turn.check(list(indexes)):
            step = turn.steps[index]
            try:
                step.arguments, step.answer = await aleave(*question)
            except ToolError as error:
                turn.refuse(index, error)

    def _drive(self, turn: Turn, batch: list[int]) -> None:
        """Run a batch, on threads where it has several calls, and tell of each result in call order."""
        jobs = [functools.partial(self._outcome, turn, index) for index in batch]
        outcomes = (job() for job in jobs) if len(jobs) == 1 else in_order(jobs, self.max_workers)
        for index, outcome in zip(batch, outcomes, strict=True):
            self._tell(turn.finish(index, outcome))

    async def _adrive(self, turn: Turn, batch: list[int]) -> None:
        room = asyncio.Semaphore(self.max_workers)
        tasks = [asyncio.ensure_future(self._aoutcome(turn, index, room)) for index in batch]
        try:
            for index, task in zip(batch, tasks, strict=True):
                await self._atell(turn.finish(index, await task))
        finally:
            for task in tasks:
                task.cancel()

    def _outcome(self, turn: Turn, index: int) -> Outcome:
        """Run one step and never raise."""
        step = turn.steps[index]
        if step.ready is None or step.arguments is None or step.is_settled:
            return Outcome(text=step.answer, error=step.error)
        try:
            value = self._call(step.ready, step.arguments, turn.state)
        except BaseException as error:  # crosses threads as a value
            return Outcome(error=error)
        return self._converted(step.ready, value)

    async def _aoutcome(self, turn: Turn, index: int, room: asyncio.Semaphore) -> Outcome:
        step = turn.steps[index]
        if step.ready is None or step.arguments is None or step.is_settled:
            return Outcome(text=step.answer, error=step.error)
        async with room:
            try:
                value = await self._acall(step.ready, step.arguments, turn.state)
            except (ToolError, KeyboardInterrupt) as error:  # KeyboardInterrupt in a task would end the loop
                return Outcome(error=error)
        return self._converted(step.ready, value)

    def _converted(self, ready: ReadyTool, value: Any) -> Outcome:
        """Return a value with its text; one without text was still returned, and may be written to the state."""
        try:
            return Outcome(value, self._text(ready, value))
        except ToolError as error:
            return Outcome(value, error=error, returned=True)

    def _tell(self, chunk: ResultChunk | None) -> None:
        if chunk is not None and self.streaming_callback is not None:
            tell(self.streaming_callback, chunk, strict=self.raise_on_failure)

    async def _atell(self, chunk: ResultChunk | None) -> None:
        if chunk is not None and self.streaming_callback is not None:
            await atell(self.streaming_callback, chunk, strict=self.raise_on_failure)

    def __repr__(self) -> str:
        return f"ToolInvoker({', '.join(self.ready)})"[:100]
