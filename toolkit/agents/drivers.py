"""Do what the loop asks for: a sync and an async driver of one generator.

The two are twins, line for line; what they share has no I/O and lies elsewhere. A sync wrapper works under the async
driver too: it runs on a worker thread, and its handler waits there for the event loop.
Not here: what is done when (`toolkit.agents.loop`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from toolkit.agents.bridge import run_beside, stopped, without_stop
from toolkit.agents.loop import CallModel, RunHook, RunTools, Step
from toolkit.agents.places import Place, places, take
from toolkit.agents.plan import Hook
from toolkit.agents.requests import Command, ExtendedModelResponse, ModelRequest, ModelResponse
from toolkit.agents.run import Run
from toolkit.agents.tool_calls import CallRunner, Outcome
from toolkit.errors import UpdateError
from toolkit.execution.threads import in_order
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models.base import ChatModel, Chunk, Reply, last_reply

Commands = list[tuple[Command, Hook]]
Answer = tuple[ModelResponse, Commands]
Token = Callable[[Chunk], None]


class SyncDriver:
    """Drive a run on this thread; needs no event loop, so it works inside a notebook's."""

    def __init__(self, run: Run, calls: CallRunner, token: Token | None = None) -> None:
        self.run = run
        self.calls = calls
        self.token = token
        self.model: Callable[[ModelRequest], Answer] = self._ask
        for hook in reversed(run.chains.wrap_model_call):
            self.model = _layer(hook, self.model)

    def drive(self, loop: Generator[Step, Any, None]) -> None:
        """Run the loop to its end."""
        answer: Any = None
        while True:
            try:
                step = loop.send(answer)
            except StopIteration:
                return
            try:
                answer = self.perform(step)
            except StopIteration as error:
                raise stopped(error) from error

    def perform(self, step: Step) -> Any:
        """Do one step."""
        if type(step) is CallModel:
            return self.model(step.request)
        if type(step) is RunTools:
            return self._tools(step.calls)
        assert type(step) is RunHook
        return step.hook.call(step.state, self.run.runtime)

    def _ask(self, request: ModelRequest) -> Answer:
        question = self.run.question(request)
        reply = self._reply(request.model, question)
        return self.run.response(reply, question, request), []

    def _reply(self, model: ChatModel, question: Any) -> Reply:
        tools, schema, options, choice = question.tools, question.schema, question.options, question.tool_choice
        if self.token is None:
            return model.chat(question.messages, tools, schema, options, tool_choice=choice)
        chunks = model.stream(question.messages, tools=tools, schema=schema, options=options, tool_choice=choice)
        return last_reply(_tell(chunks, self.token))

    def _tools(self, calls: list[ToolCall]) -> list[Outcome]:
        if len(calls) == 1:
            return [self.calls.call(calls[0])]
        if not self.run.setup.parallel:
            return [self.calls.call(call) for call in calls]
        jobs = [_caught(self.calls.call, call, place) for call, place in zip(calls, places(len(calls)), strict=True)]
        found = list(in_order(jobs, self.calls.stage.most))
        for _, error in found:
            if error is not None:
                raise error
        return [outcome for outcome, _ in found]


def _tell(chunks: Any, token: Token) -> Any:
    for chunk in chunks:
        if chunk.text or chunk.thinking:
            token(chunk)
        yield chunk


def _caught(
    work: Callable[[ToolCall], Outcome], call: ToolCall, place: Place
) -> Callable[[], tuple[Any, BaseException | None]]:
    def job() -> tuple[Any, BaseException | None]:
        take(place)
        try:
            return work(call), None
        except BaseException as error:  # crosses threads as a value
            return None, error
        finally:
            place.passes()

    return job


def _layer(hook: Hook, inner: Callable[[ModelRequest], Answer]) -> Callable[[ModelRequest], Answer]:
    def layer(request: ModelRequest) -> Answer:
        if hook.when is not None and not hook.when(dict(request.state)):
            return inner(request)
        below: Commands = []

        def handler(new: ModelRequest) -> ModelResponse:
            below.clear()  # a further attempt discards the commands of the one before
            response, commands = inner(new)
            below.extend(commands)
            return response

        return settle(hook.call(request, handler), hook, below)

    return layer


class AsyncDriver:
    """Drive a run on the running event loop."""

    def __init__(self, run: Run, calls: CallRunner, token: Token | None = None) -> None:
        self.run = run
        self.calls = calls
        self.token = token
        self.model: Callable[[ModelRequest], Any] = self._ask
        for hook in reversed(run.chains.wrap_model_call):
            self.model = _alayer(hook, self.model)

    async def drive(self, loop: Generator[Step, Any, None]) -> None:
        """Run the loop to its end."""
        answer: Any = None
        while True:
            try:
                step = loop.send(answer)
            except StopIteration:
                return
            answer = await self.perform(step)

    async def perform(self, step: Step) -> Any:
        """Do one step."""
        if type(step) is CallModel:
            return await self.model(step.request)
        if type(step) is RunTools:
            return await self._tools(step.calls)
        assert type(step) is RunHook
        if step.hook.is_async:
            return await step.hook.call(step.state, self.run.runtime)
        return await asyncio.to_thread(without_stop(step.hook.call), step.state, self.run.runtime)

    async def _ask(self, request: ModelRequest) -> Answer:
        question = self.run.question(request)
        reply = await self._reply(request.model, question)
        return self.run.response(reply, question, request), []

    async def _reply(self, model: ChatModel, question: Any) -> Reply:
        tools, schema, options, choice = question.tools, question.schema, question.options, question.tool_choice
        if self.token is None:
            return await model.achat(question.messages, tools, schema, options, tool_choice=choice)
        reply = None
        chunks = model.astream(question.messages, tools=tools, schema=schema, options=options, tool_choice=choice)
        async for chunk in chunks:
            if chunk.text or chunk.thinking:
                self.token(chunk)
            reply = chunk.reply or reply
        return reply or last_reply(iter(()))

    async def _tools(self, calls: list[ToolCall]) -> list[Outcome]:
        if len(calls) == 1 or not self.run.setup.parallel:
            return [await self.calls.acall(call) for call in calls]
        room = asyncio.Semaphore(self.calls.stage.most)

        async def one(call: ToolCall, place: Place) -> Outcome:
            take(place)
            try:
                async with room:
                    return await self.calls.acall(call)
            finally:
                place.passes()

        found = await asyncio.gather(*map(one, calls, places(len(calls))), return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in found if not isinstance(outcome, BaseException)]


def _alayer(hook: Hook, inner: Callable[[ModelRequest], Any]) -> Callable[[ModelRequest], Any]:
    async def layer(request: ModelRequest) -> Answer:
        if hook.when is not None and not hook.when(dict(request.state)):
            answer: Answer = await inner(request)
            return answer
        below: Commands = []

        async def handler(new: ModelRequest) -> ModelResponse:
            below.clear()
            response, commands = await inner(new)
            below.extend(commands)
            return response  # type: ignore[no-any-return]

        if hook.is_async:
            return settle(await hook.call(request, handler), hook, below)
        return settle(await run_beside(hook.call, request, handler), hook, below)

    return layer


def settle(given: Any, hook: Hook, below: Commands) -> Answer:
    """Return what a model wrapper gave as a response, and its command after those of the layers below.

    Raises:
        UpdateError: it gave something else.
    """
    if type(given) is ModelResponse:
        response, command = given, None
    elif isinstance(given, ChatMessage):
        response, command = ModelResponse([given]), None
    elif isinstance(given, ExtendedModelResponse):
        response, command = given.model_response, given.command
    else:
        response, command = given, None
    if not isinstance(response, ModelResponse):
        raise UpdateError(f"{hook.label} returned {given!r}. Return a ModelResponse or an assistant ChatMessage.")
    if not all(isinstance(message, ChatMessage) for message in response.result):
        raise UpdateError(f"{hook.label} returned {response.result!r}. ModelResponse.result holds ChatMessages.")
    return response, [*below, (command, hook)] if command is not None else list(below)
