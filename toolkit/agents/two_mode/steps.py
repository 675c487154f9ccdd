"""Who continues a prompt and who carries out an action, for the two-mode agent?

A turn is a generator that yields `Complete`, `Act` and `Dispatch`; the drivers here answer them.

Not here: the turns themselves (`toolkit.agents.two_mode.agent`, `faithful`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolkit.agents.bridge import without_stop
from toolkit.agents.partial import telling
from toolkit.agents.two_mode.actions import Runner
from toolkit.agents.two_mode.turn import TwoModeTurn
from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel, Reply

TwoModes = Literal["tool", "chat"]


@dataclass(frozen=True)
class Complete:
    """Want a prompt continued in one mode; the answer is a Reply."""

    mode: TwoModes
    prompt: str
    stop: tuple[str, ...]
    max_tokens: int
    schema: dict[str, Any] | None = None


@dataclass(frozen=True)
class Act:
    """Want an action carried out with its input; the answer is (data, None) or (None, how it failed)."""

    name: str
    value: Any


@dataclass(frozen=True)
class Dispatch:
    """Want a parsed value given to the dispatcher as it is; the answer is (data, None) or (None, exception)."""

    value: Any


Steps = Generator[Complete | Act | Dispatch, Any, TwoModeTurn]


class Writer:
    """Continue prompts with a model or with a function of your own.

    Args:
        model: a ChatModel, or a function of (prompt, stop, max_tokens) that gives text, a Reply, or the dict of
            llama-cpp-python.
        raw: send the prompt as it is; otherwise it is one user message in the model's own chat template.
        options: further options of each request.

    Raises:
        ConfigError: it is neither.
    """

    def __init__(self, model: Any, raw: bool, options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(model, ChatModel) and not callable(model):
            raise ConfigError(f"{model!r} is no model. Give a ChatModel, a name, or a function of a prompt.")
        self.model = model
        self.raw = raw
        self.options = dict(options or {})

    def write(self, step: Complete) -> Reply:
        """Return the continuation."""
        if not isinstance(self.model, ChatModel):
            return as_reply(self.model(step.prompt, stop=list(step.stop), max_tokens=step.max_tokens))
        options = {**self.options, "stop": step.stop, "num_predict": step.max_tokens}
        if self.raw:
            return self.model.complete(step.prompt, schema=step.schema, options=options)
        return self.model.chat([ChatMessage.from_user(step.prompt)], schema=step.schema, options=options)


def as_reply(said: Any) -> Reply:
    """Read what a completion function gave: text, a Reply, or llama-cpp-python's dict.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(said, Reply):
        return said
    if isinstance(said, str):
        return Reply(said)
    try:
        choice = said["choices"][0]
        reason = "length" if choice.get("finish_reason") == "length" else "stop"
        return Reply(choice["text"], finish_reason=reason)  # type: ignore[arg-type] # one of the two words
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ConfigError(f"A completion must be text, a Reply or a dict with choices, not {said!r}.") from None


@dataclass(frozen=True)
class Driver:
    """Answer the steps of a turn.

    Attributes:
        writers: mode -> who continues its prompts.
        runner: carries out actions; None in faithful mode.
        dispatcher: gets parsed values; None in the default mode.
    """

    writers: Mapping[TwoModes, Writer]
    runner: Runner | None = None
    dispatcher: Callable[[Any], Any] | None = None

    def run(self, steps: Steps) -> TwoModeTurn:
        """Run a turn to its end."""
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                turn: TwoModeTurn = end.value
                return turn
            with telling(steps):
                answer = self._answer(step)

    async def arun(self, steps: Steps) -> TwoModeTurn:
        """Run a turn to its end without blocking the event loop."""
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                turn: TwoModeTurn = end.value
                return turn
            with telling(steps):
                if isinstance(step, Act) and self.runner is not None:
                    answer = await self.runner.arun(step.name, step.value)
                else:
                    answer = await asyncio.to_thread(without_stop(self._answer), step)

    def _answer(self, step: Complete | Act | Dispatch) -> Any:
        if isinstance(step, Complete):
            return self.writers[step.mode].write(step)
        if isinstance(step, Act):
            assert self.runner is not None
            return self.runner.run(step.name, step.value)
        assert self.dispatcher is not None
        try:
            return self.dispatcher(step.value), None
        except Exception as error:  # the published rule swallows all of them
            return None, error
