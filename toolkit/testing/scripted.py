"""Put a script behind a server: what its models write next, and which faults come instead.

Not here: the script's own rules (`script`), HTTP (`loopback`), the two servers (`ollama`, `llama_server`).
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from email.message import Message
from typing import Any, Self

from toolkit.testing.loopback import EVENTS, CutError, FakeServer, Request, Response, go_json
from toolkit.testing.models import FakeModel, with_tag
from toolkit.testing.script import Script, ScriptedReply


class ScriptedServer(FakeServer):
    """Answer each generating request with the next reply of a script.

    Attributes:
        requests: bodies of the generating requests, in order.
        headers: of the generating requests, in order.
        looks: routes of the other requests, in order.
        asked: set once a generating request has come.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Message] = []
        self.looks: list[str] = []
        self.asked = threading.Event()
        self._script = Script()
        super().__init__()

    @abstractmethod
    def model(self, name: str = "") -> FakeModel | None:
        """Return the model of a name; the first without one."""

    def says(
        self,
        text: str = "",
        *,
        thinking: str = "",
        calls: Iterable[tuple[str, Mapping[str, Any]]] = (),
        held: Any = None,
        model: str | None = None,
        at: int | None = None,
        pieces: Iterable[str] = (),
        delay_s: float = 0.0,
        gate: threading.Event | None = None,
        dies_after: int | None = None,
        cut_after: int | None = None,
        down_s: float | None = None,
        **last: Any,
    ) -> Self:
        """Queue what the model writes next.

        Args:
            text: as the model writes it, calls and tags included.
            thinking: put in front, in its tags.
            calls: names and arguments, written behind the text in the syntax of the model's own road.
            held: what it writes where a `format` is in force; a value is written as JSON in the order that the road
                asks for.
            model: keep the reply for requests to this model.
            at: keep it for the request of this number, from 1.
            pieces: the tokens of the text.
            delay_s: seconds before each token.
            gate: waited for before the end.
            dies_after: let the runner die after so many tokens.
            cut_after: break the connection after so many tokens.
            down_s: then be gone for so long, and come back with nothing loaded.
            **last: fields of the last line, such as `prompt_eval_count` or `done_reason`.
        """
        written = (f"<think>{thinking}</think>" if thinking else "") + text + self._written(calls, model)
        reply = ScriptedReply(
            written, held, tuple(pieces), delay_s, gate, dies_after, cut_after, down_s, last=last
        )  # fmt: skip
        self._script.add(reply, with_tag(model) if model else None, at)
        return self

    def _written(self, calls: Iterable[tuple[str, Mapping[str, Any]]], name: str | None) -> str:
        model = self.model(name or "")
        return "".join(written_call(call, arguments, model) for call, arguments in calls)

    def sends(self, *lines: Any, at: int | None = None, cut: bool = False) -> Self:
        """Queue lines (of an event stream: events) that go out as they are, text or values; `cut` breaks off then.

        It is for what other servers and versions send: nothing of it is checked or read.
        """
        self._script.add(ScriptedReply(raw=lines, cut_after=len(lines) if cut else None), at=at)
        return self

    def fails(self, status: int, error: Any, at: int | None = None) -> Self:
        """Queue an HTTP error; a text becomes `{"error": text}`, bytes go out as they are."""
        self._script.add(ScriptedReply(error=(status, error)), at=at)
        return self

    def follows(self, rule: Callable[[dict[str, Any]], Any] | None) -> Self:
        """Let a function of the request's body say what no queued reply says: a text or a ScriptedReply."""
        self._script.rule = rule
        return self

    def _note(self, body: dict[str, Any], request: Request) -> None:
        self.requests.append(body)
        self.headers.append(request.headers)
        self.asked.set()

    def reset(self) -> None:
        """Forget the script and what came."""
        self._script.clear()
        for seen in (self.requests.clear, self.headers.clear, self.looks.clear):
            seen()
        self.left.clear()
        self.asked.clear()

    def _cut(self, reply: ScriptedReply) -> None:
        """Break the connection, and be gone for as long as the reply says."""
        if reply.down_s is not None:
            self.stop()
            timer = threading.Timer(reply.down_s, self.start)
            timer.daemon = True
            timer.start()
        raise CutError


def in_place(reply: ScriptedReply, kind: str) -> Response:
    """Return what a script sends in place of an answer."""
    if reply.error is None:
        return Response(200, _raw(reply, kind), kind)
    status, error = reply.error
    if isinstance(error, bytes):
        return Response(status, error.decode(), "text/plain")
    return Response(status, go_json({"error": error} if isinstance(error, str) else error))


def _raw(reply: ScriptedReply, kind: str) -> Generator[str]:
    event = kind == EVENTS
    for line in reply.raw or ():
        text = line if isinstance(line, str) else ("data: " if event else "") + json.dumps(line)
        yield text + ("\n\n" if event else "\n")
    if reply.cut_after is not None:
        raise CutError


def written_call(name: str, arguments: Mapping[str, Any], model: FakeModel | None) -> str:
    """Return a call in the syntax of a model's road."""
    if model is not None and model.parser == "qwen3-coder":
        lines = "".join(f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
                        for key, value in arguments.items())  # fmt: skip
        return f"<tool_call>\n<function={name}>\n{lines}</function>\n</tool_call>"
    inner = json.dumps(dict(arguments), ensure_ascii=False)
    if model is not None and model.parser == "ministral":
        return f"[TOOL_CALLS]{name}[ARGS]{inner}"
    key = "parameters" if model is not None and model.tag == "{" else "arguments"
    call = f'{{"name": "{name}", "{key}": {inner}}}'
    return call if key == "parameters" else f"<tool_call>\n{call}\n</tool_call>"
