"""Say what a fake model writes, token by token, and which faults meet it on the way.

Not here: what a server makes of the text (`parsers`), and how it is sent (`ollama`, `llama_server`).
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# words with the blank before them, digits one by one, runs of signs: near enough to what small models use
_TOKEN = re.compile(r"<\|[^|>]*\|>| ?[^\W\d_]{1,8}|\d| (?=\d)| ?(?:[^\s\w<]|<(?!\|)){1,3}|_|\s+(?=\S)|\s+|.", re.DOTALL)


def tokens(text: str) -> list[str]:
    """Return a text in pieces as a model would write it.

    >>> tokens("Item 23 is <b>.")
    ['Item', ' ', '2', '3', ' is', ' <', 'b', '>.']
    """
    return _TOKEN.findall(text)


@dataclass(frozen=True)
class ScriptedReply:
    """Hold what the model writes in answer to one request, calls and tags as it writes them.

    Attributes:
        text: all that it writes where nothing holds it.
        held: what it writes where decoding is held to a schema: text, or a value that is written as JSON in the
            order in which the server's grammar wants the keys; `text` if None.
        pieces: the tokens of the text, where it matters how it is cut.
        delay_s: seconds before each token.
        gate: waited for before the last token; ends early when the client leaves.
        dies_after: tokens after which the runner process dies.
        cut_after: tokens after which the connection breaks.
        down_s: seconds for which the server then answers nobody; loaded models are forgotten.
        error: status and body sent in place of an answer.
        raw: lines sent as they are, in place of an answer.
        last: fields laid over those of the last line, such as `prompt_eval_count`.
    """

    text: str = ""
    held: Any = None
    pieces: tuple[str, ...] = ()
    delay_s: float = 0.0
    gate: threading.Event | None = None
    dies_after: int | None = None
    cut_after: int | None = None
    down_s: float | None = None
    error: tuple[int, Any] | None = None
    raw: tuple[Any, ...] | None = None
    last: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_place(self) -> bool:
        """Tell whether it comes in place of what a model writes."""
        return self.error is not None or self.raw is not None

    def written(self, held: bool, sort: bool) -> list[str]:
        """Return the tokens that the model writes, with decoding held to a schema or not."""
        if not held or self.held is None:
            return list(self.pieces) or tokens(self.text)
        if isinstance(self.held, (list, tuple)) and all(isinstance(piece, str) for piece in self.held):
            return list(self.held)
        text = self.held if isinstance(self.held, str) else json.dumps(self.held, ensure_ascii=False, sort_keys=sort)
        return tokens(text)


class RunnerDiedError(Exception):
    """Tell that the process that runs the model is gone."""


class Script:
    """Hand out replies: those for the n-th request first, then those in order, then what a rule says.

    Attributes:
        asked: how many generating requests have come.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.rule: Callable[[dict[str, Any]], Any] | None = None
        self._in_order: deque[tuple[str | None, ScriptedReply]] = deque()
        self._at: dict[int, ScriptedReply] = {}
        self._lock = threading.Lock()

    def add(self, reply: ScriptedReply, model: str | None = None, at: int | None = None) -> None:
        """Queue a reply; `at` counts requests from 1, and `model` keeps it for one model."""
        with self._lock:
            if at is None:
                self._in_order.append((model, reply))
            else:
                self._at[at] = reply

    def clear(self) -> None:
        """Forget all that was queued."""
        self.__init__()  # type: ignore[misc]

    def begin(self) -> int:
        """Return the number of the request that begins."""
        with self._lock:
            self.asked += 1
            return self.asked

    def fault(self, number: int, model: str) -> ScriptedReply | None:
        """Return what comes in place of an answer, if that is what the script says next."""
        with self._lock:
            return self._next(number, model, faults=True)

    def take(self, number: int, body: dict[str, Any], model: str) -> ScriptedReply:
        """Return what the model writes in answer to the request of a number."""
        with self._lock:
            reply = self._next(number, model, faults=False)
        if reply is not None:
            return reply
        said = self.rule(body) if self.rule else None
        if said is None:
            return ScriptedReply(error=(500, "the script has ended: no reply is left for this request"))
        return said if isinstance(said, ScriptedReply) else ScriptedReply(str(said))

    def _next(self, number: int, model: str, faults: bool) -> ScriptedReply | None:
        found = self._at.get(number)
        if found is not None and found.in_place == faults:
            return self._at.pop(number)
        for index, (wanted, reply) in enumerate(self._in_order):
            if found is None and wanted in (None, model):
                if reply.in_place == faults:
                    del self._in_order[index]
                    return reply
                break
        return None


class Writing:
    """Write the tokens of a reply until it ends, a stop string comes, or a limit is met.

    Attributes:
        count: tokens written so far, those of stop strings and the end token included.
        reason: `stop` or `length`, once it has ended.
    """

    def __init__(self, pieces: Iterable[str], stops: Iterable[str], limit: float) -> None:
        self._pieces = list(pieces)
        self._stops = [stop for stop in stops if stop]
        self._limit = limit
        self.count = 0
        self.reason = ""

    def run(self, reply: ScriptedReply, gone: Callable[[], bool]) -> Generator[str]:
        """Yield what can be shown of each token; nothing while a text may begin a stop string.

        Raises:
            RunnerDiedError: the script lets the runner die here.
        """
        held = ""
        for index, piece in enumerate([*self._pieces, None]):
            if index == reply.dies_after:
                raise RunnerDiedError
            if self.count >= self._limit:
                self.reason = "length"
                break
            if not pause(reply, piece is None, gone):
                return
            self.count += 1
            if piece is None:
                self.reason = "stop"
                break
            held += piece
            if found := [at for stop in self._stops if (at := held.find(stop)) >= 0]:
                self.reason = "stop"
                held = held[: min(found)]
                break
            withheld = any(overlap(held, stop) for stop in self._stops)
            yield "" if withheld else held
            held = held if withheld else ""
        if held:
            yield held


def pause(reply: ScriptedReply, last: bool, gone: Callable[[], bool]) -> bool:
    """Wait as long as a reply says before a token; False once the client has left."""
    if reply.delay_s:
        time.sleep(reply.delay_s)
    while last and reply.gate is not None and not reply.gate.wait(0.02):
        if gone():
            return False
    return not gone()


def overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text may begin a stop string."""
    return next((size for size in range(min(len(stop), len(text)), 0, -1) if text.endswith(stop[:size])), 0)
