"""Try again when a model server or a tool fails: ModelRetry, ToolRetry.

Not here: other models (`fallback`), answers in the wrong form (`format_repair`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from toolkit.agents.middleware import AgentMiddleware
from toolkit.agents.wording import say
from toolkit.errors import ConfigError, LimitError
from toolkit.messages import ChatMessage

Errors = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]


@dataclass(frozen=True)
class Backoff:
    """Hold how often and after which waits something is tried again.

    >>> list(Backoff(max_retries=3, initial_delay=1.0, jitter=False).delays())
    [1.0, 2.0, 4.0]

    Attributes:
        max_retries: further tries after the first.
        initial_delay: seconds before the second try.
        backoff_factor: each wait is so many times the one before; 0 keeps it.
        max_delay: longest wait in seconds.
        jitter: vary each wait by up to a quarter, so that many clients do not come back at once.

    Raises:
        ConfigError: a negative number.
    """

    max_retries: int = 2
    initial_delay: float = 1.0
    backoff_factor: float = 2.0
    max_delay: float = 60.0
    jitter: bool = True

    def __post_init__(self) -> None:
        for name in ("max_retries", "initial_delay", "backoff_factor", "max_delay"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, but is {getattr(self, name)!r}.")

    def delays(self) -> Iterator[float]:
        """Yield the seconds to wait before each further try."""
        for number in range(self.max_retries):
            wait = self.initial_delay * (self.backoff_factor**number if self.backoff_factor else 1)
            wait = min(wait, self.max_delay)
            yield wait * random.uniform(0.75, 1.25) if self.jitter and wait else wait  # noqa: S311 - no secret


def _matches(error: BaseException, wanted: Errors) -> bool:
    if isinstance(wanted, (type, tuple)):
        return isinstance(error, wanted)
    return bool(wanted(error))


class ModelRetry(AgentMiddleware):
    """Ask the model again when its server fails, after growing waits.

    >>> import toolkit as tk
    >>> model = tk.ScriptedModel([RuntimeError("busy"), "hello"])
    >>> tk.Agent(model, middleware=[ModelRetry(initial_delay=0)]).run("hi").text
    'hello'

    Args:
        max_retries: further tries after the first.
        retry_on: exception types, or a function of the exception.
        on_failure: "continue" ends the run with a message that says what failed; "error" raises. A `LimitError`
            always goes on.
        backoff: further fields of `Backoff`.
    """

    def __init__(
        self,
        max_retries: int = 2,
        *,
        retry_on: Errors = Exception,
        on_failure: Literal["continue", "error"] | Callable[[BaseException], str] = "continue",
        **backoff: Any,
    ) -> None:
        self.backoff = Backoff(max_retries, **backoff)
        self.retry_on = retry_on
        self.on_failure = on_failure

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Call the handler until it succeeds or the tries are used up."""
        waits = self.backoff.delays()
        tries = 0
        while True:
            tries += 1
            try:
                return handler(request)
            except Exception as error:
                wait = self._wait(error, waits)
                if wait is None:
                    return self._give_up(error, tries)
            time.sleep(wait)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Call the handler until it succeeds or the tries are used up."""
        waits = self.backoff.delays()
        tries = 0
        while True:
            tries += 1
            try:
                return await handler(request)
            except Exception as error:
                wait = self._wait(error, waits)
                if wait is None:
                    return self._give_up(error, tries)
            await asyncio.sleep(wait)

    def _wait(self, error: BaseException, waits: Iterator[float]) -> float | None:
        if isinstance(error, LimitError):  # the run's own end, not the server's failure
            return None
        return next(waits, None) if _matches(error, self.retry_on) else None

    def _give_up(self, error: Exception, tries: int) -> ChatMessage:
        if self.on_failure == "error" or isinstance(error, LimitError):
            raise error
        if callable(self.on_failure):
            return ChatMessage.from_assistant(self.on_failure(error))
        kind = type(error).__name__
        return ChatMessage.from_assistant(say("model_failed", tries=tries, kind=kind, reason=str(error)))


class ToolRetry(AgentMiddleware):
    """Run a tool again when it raises, after growing waits.

    >>> import toolkit as tk
    >>> tries = []
    >>> def flaky() -> str:
    ...     '''Fail once.'''
    ...     tries.append(1)
    ...     return "ok" if len(tries) > 1 else 1 / 0
    >>> model = tk.ScriptedModel([tk.ToolCall("flaky", {}), "done"])
    >>> trace = tk.Agent(model, tools=[flaky], middleware=[ToolRetry(initial_delay=0)]).run("go")
    >>> trace.tool_results[0].result
    'ok'

    Args:
        max_retries: further tries after the first.
        tools: names of the tools to retry; None retries all.
        retry_on: exception types, or a function of the exception.
        on_failure: "continue" gives the model an error result; "error" lets the exception go on, to outer layers
            and then as the agent's `on_tool_error` says; a function gives the result's text.
        backoff: further fields of `Backoff`.
    """

    def __init__(
        self,
        max_retries: int = 2,
        *,
        tools: Iterable[Any] | None = None,
        retry_on: Errors = Exception,
        on_failure: Literal["continue", "error"] | Callable[[BaseException], str] = "continue",
        **backoff: Any,
    ) -> None:
        self.backoff = Backoff(max_retries, **backoff)
        self.only = None if tools is None else {getattr(tool, "name", tool) for tool in tools}
        self.retry_on = retry_on
        self.on_failure = on_failure

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Call the handler until it succeeds or the tries are used up."""
        if self.only is not None and request.tool_call.name not in self.only:
            return handler(request)
        waits = self.backoff.delays()
        tries = 0
        while True:
            tries += 1
            try:
                return handler(request)
            except Exception as error:
                wait = next(waits, None) if _matches(error, self.retry_on) else None
                if wait is None:
                    return self._give_up(request, error, tries)
            time.sleep(wait)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Call the handler until it succeeds or the tries are used up."""
        if self.only is not None and request.tool_call.name not in self.only:
            return await handler(request)
        waits = self.backoff.delays()
        tries = 0
        while True:
            tries += 1
            try:
                return await handler(request)
            except Exception as error:
                wait = next(waits, None) if _matches(error, self.retry_on) else None
                if wait is None:
                    return self._give_up(request, error, tries)
            await asyncio.sleep(wait)

    def _give_up(self, request: Any, error: Exception, tries: int) -> ChatMessage:
        if self.on_failure == "error":
            raise error
        call = request.tool_call
        if callable(self.on_failure):
            return ChatMessage.from_tool(self.on_failure(error), call, error=True)
        values = {"name": call.name, "tries": tries, "kind": type(error).__name__, "reason": str(error)}
        return ChatMessage.from_tool(say("tool_failed", **values), call, error=True)
