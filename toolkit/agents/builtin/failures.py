"""What happens when a server, a tool or a reply fails? ModelRetry, ToolRetry, ModelFallback, ToolErrors, FormatRepair.

Not here: the agent's own defaults, which tell the model of any exception (`on_tool_error`) and ask again after a turn
that tried a call and failed (`max_reasks`); mending near-JSON without asking (`toolkit.extraction`).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from toolkit.agents.builtin.wrappers import ModelCall, ModelWrapper, ToolRun, ToolWrapper
from toolkit.agents.middleware import ModelResult
from toolkit.agents.modes import Mode
from toolkit.agents.requests import ModelRequest, ModelResponse, ToolAnswer, ToolCallRequest
from toolkit.agents.wording import say
from toolkit.errors import ConfigError, LimitError, check_number, did_you_mean
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel
from toolkit.models.registry import as_model
from toolkit.tools import Tool

Kind = type[BaseException] | str
Errors = Kind | Iterable[Kind] | Callable[[BaseException], bool]
T = TypeVar("T")


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
        retry_on: exception classes or their names, or a function of the exception; others are raised at once: they are
            mistakes in the program (Source: langchain#38893).
        on_failure: what comes of the last failure: "continue" says it in words, "error" raises it, and a function of
            it gives one's own words.

    Raises:
        ConfigError: a negative number, or an unknown on_failure.
    """

    max_retries: int = 2
    initial_delay: float = 1.0
    backoff_factor: float = 2.0
    max_delay: float = 60.0
    jitter: bool = True
    retry_on: Errors = Exception
    on_failure: Literal["continue", "error"] | Callable[[BaseException], str] = "continue"

    def __post_init__(self) -> None:
        if not callable(self.on_failure) and self.on_failure not in ("continue", "error"):
            raise ConfigError(f"on_failure {self.on_failure!r} is unknown. Use continue, error, or a function.")
        for name in ("max_retries", "initial_delay", "backoff_factor", "max_delay"):
            check_number(name, getattr(self, name), whole=name == "max_retries")

    @classmethod
    def of(cls, max_retries: int, more: Mapping[str, Any]) -> Backoff:
        """Build it from a middleware's arguments.

        Raises:
            ConfigError: an unknown field, a negative number, or an unknown on_failure.
        """
        known = list(cls.__dataclass_fields__)
        if unknown := [name for name in more if name not in known]:
            raise ConfigError(f"Nothing to set is called {unknown[0]!r}. {did_you_mean(unknown[0], known)}")
        return cls(max_retries, **more)

    def delays(self) -> Iterator[float]:
        """Yield the seconds to wait before each further try."""
        for number in range(self.max_retries):
            wait = self.initial_delay * (self.backoff_factor**number if self.backoff_factor else 1)
            wait = min(wait, self.max_delay)
            yield wait * random.uniform(0.75, 1.25) if self.jitter and wait else wait  # noqa: S311 - no secret

    async def run(
        self,
        work: Callable[[], Awaitable[T]],
        mode: Mode,
        message: str,
        *,
        passing: tuple[type[Exception], ...] = (),
        **values: Any,
    ) -> T | str:
        """Do the work until it succeeds; return what is said of its last failure, or raise that.

        Args:
            work: what is tried.
            mode: how to wait.
            message: the name of what is said, in `prompts/agents/`.
            passing: exceptions that are no failures and go on.
            values: what the message names.
        """
        waits, tries = self.delays(), 0
        while True:
            tries += 1
            try:
                return await work()
            except passing:
                raise
            except Exception as error:
                if not matches(error, self.retry_on):
                    raise
                wait = next(waits, None)
                if wait is None and self.on_failure == "error":
                    raise
                if wait is None and callable(self.on_failure):
                    return self.on_failure(error)
                if wait is None:
                    return say(message, tries=tries, kind=type(error).__name__, reason=str(error), **values)
            await mode.pause(wait)


def matches(error: BaseException, wanted: Errors) -> bool:
    """Tell whether an exception is of a wanted class, given itself or by name, or a function says so.

    >>> matches(FileNotFoundError(), "OSError"), matches(KeyError(), ["OSError", ValueError])
    (True, False)
    """
    if isinstance(wanted, str):
        return any(kind.__name__ == wanted for kind in type(error).__mro__)
    if isinstance(wanted, type):
        return isinstance(error, wanted)
    return bool(wanted(error)) if callable(wanted) else any(matches(error, kind) for kind in wanted)


class ModelRetry(ModelWrapper):
    """Ask the model again when its server fails, after growing waits.

    >>> import toolkit as tk
    >>> model = tk.ScriptedModel([RuntimeError("busy"), "hello"])
    >>> tk.Agent(model, middleware=[ModelRetry(initial_delay=0)]).run("hi").text
    'hello'

    Args:
        max_retries: further tries after the first.
        more: further fields of `Backoff`. `on_failure="continue"` ends the run with a message that says what failed.

    Raises:
        ConfigError: an unknown field, a negative number, or an unknown on_failure.
    """

    def __init__(self, max_retries: int = 2, **more: Any) -> None:
        if more.get("on_failure") in ("raise", "return_message"):  # LangChain's older words, which it ignores here too
            del more["on_failure"]
        self.backoff = Backoff.of(max_retries, more)

    async def around(self, request: ModelRequest, handler: ModelCall, mode: Mode) -> ModelResult:
        """Call the handler until it succeeds or the tries are used up."""
        given = await self.backoff.run(lambda: handler(request), mode, "model_failed", passing=(LimitError,))
        return ChatMessage.from_assistant(given) if isinstance(given, str) else given


class ToolRetry(ToolWrapper):
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
        more: further fields of `Backoff`. `on_failure="continue"` gives the model an error result; "error" lets the
            exception go on, to outer layers and then as the agent's `on_tool_error` says. One that is not in `retry_on`
            ends the run, unless an outer layer answers it.

    Raises:
        ConfigError: an unknown field, a negative number, or an unknown on_failure.
    """

    def __init__(self, max_retries: int = 2, *, tools: Iterable[Tool | str] | None = None, **more: Any) -> None:
        super().__init__(tools)
        self.backoff = Backoff.of(max_retries, more)

    async def around(self, request: ToolCallRequest, handler: ToolRun, mode: Mode) -> ToolAnswer:
        """Call the handler until it succeeds or the tries are used up."""
        if not self.concerns(request):
            return await handler(request)
        call = request.tool_call
        try:
            given = await self.backoff.run(lambda: handler(request), mode, "tool_failed", name=call.name)
        except Exception as error:
            if not matches(error, self.backoff.retry_on):
                request.runtime.fatal = error
            raise
        return ChatMessage.from_tool(given, call, error=True) if isinstance(given, str) else given


class ModelFallback(ModelWrapper):
    """Try further models in turn; the last one's exception goes on.

    >>> import toolkit as tk
    >>> broken, spare = tk.ScriptedModel([RuntimeError("down")]), tk.ScriptedModel(["hello"])
    >>> tk.Agent(broken, middleware=[ModelFallback(spare)]).run("hi").text
    'hello'

    Args:
        models: ChatModels, or names for `load_model`.

    Raises:
        ConfigError: none is given.
    """

    def __init__(self, *models: ChatModel | str) -> None:
        if not models:
            raise ConfigError("ModelFallback needs at least one further model.")
        self.models: list[ChatModel] = [as_model(model) for model in models]

    async def around(self, request: ModelRequest, handler: ModelCall, mode: Mode) -> ModelResult:
        """Ask the request's own model, then the others."""
        *some, last = (request, *(request.override(model=model) for model in self.models))
        for one in some:
            try:
                return await handler(one)
            except LimitError:  # the run's own end, not a model's failure
                raise
            except Exception:  # noqa: S112 - the next one is asked
                continue
        return await handler(last)


class ToolErrors(ToolWrapper):
    """Say in place of a tool's exception what the model is told of it.

    >>> import toolkit as tk
    >>> def read(path: str) -> str:
    ...     '''Read a file.'''
    ...     raise FileNotFoundError(path)
    >>> model = tk.ScriptedModel([tk.ToolCall("read", {"path": "x"}), "done"])
    >>> gone = ToolErrors({"OSError": "No such file."})
    >>> tk.Agent(model, tools=[read], middleware=[gone]).run("go").tool_results[0].result
    'No such file.'

    Args:
        on_error: texts by the name of an exception class or of one above it, the first that fits counts; or a function
            of (exception, request). What has no text, or None, goes on.
        tools: names of the tools it is for; None for all.

    Raises:
        ConfigError: neither texts nor a function.
    """

    def __init__(
        self,
        on_error: Mapping[str, str] | Callable[[Exception, ToolCallRequest], str | None],
        tools: Iterable[Tool | str] | None = None,
    ) -> None:
        super().__init__(tools)
        if not callable(on_error) and not isinstance(on_error, Mapping):
            raise ConfigError(
                f"ToolErrors needs texts by exception or a function of (exception, request): {on_error!r}."
            )
        self.word = on_error

    async def around(self, request: ToolCallRequest, handler: ToolRun, mode: Mode) -> ToolAnswer:
        """Catch what the tool raises."""
        try:
            return await handler(request)
        except Exception as error:
            text = self._text(error, request) if self.concerns(request) else None
            if text is None:
                raise
            return ChatMessage.from_tool(text, request.tool_call, error=True)

    def _text(self, error: Exception, request: ToolCallRequest) -> str | None:
        if callable(self.word):
            return self.word(error, request)
        return next((text for name, text in self.word.items() if matches(error, name)), None)


class FormatRepair(ModelWrapper):
    """Ask once more, or `times`, with the reason why no call could be read.

    This asks inside the turn: the model sees its reply and the reason, and only the repaired reply is kept, which costs
    fewer tokens later.

    >>> import toolkit as tk
    >>> def now() -> str:
    ...     '''Tell the time.'''
    ...     return "noon"
    >>> good = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    >>> model = tk.ScriptedModel(['<tool_call>{"name": "now", "argu', good, "It is noon."])
    >>> agent = tk.Agent(model, tools=[now], arm="prompted", middleware=[FormatRepair()])
    >>> len(agent.run("time?").messages)
    4

    Args:
        times: further tries after the first.
    """

    def __init__(self, times: int = 1) -> None:
        check_number("times", times)
        self.times = times

    async def around(self, request: ModelRequest, handler: ModelCall, mode: Mode) -> ModelResult:
        """Ask until the reply can be read or the tries are used up."""
        response = await handler(request)
        for _ in range(self.times):
            again = _repair(request, response)
            if again is None:
                break
            response = await handler(again)
        return response


def _repair(request: ModelRequest, response: ModelResponse) -> ModelRequest | None:
    """Return the request that asks again, or None where nothing is wrong."""
    message = next(iter(response.result), None)
    invalid = message.meta.get("invalid_calls") if message is not None else None
    if message is None or not invalid or message.tool_calls:
        return None
    reason = "; ".join(str(bad.get("reason") or bad.get("error") or "it is no valid JSON") for bad in invalid)
    told = ChatMessage.from_user(say("invalid_call", reason=reason))
    said = ChatMessage.from_assistant(message.text or "")
    return request.override(messages=(*request.messages, said, told))
