"""Run a fake of llama.cpp's own server: one scripted model behind its routes, errors by type, slots and window.

    with FakeLlamaServer() as server:
        server.says("Hello!")
        model = toolkit.load_model(f"openai/any@{server.host}/v1")

Not here: what the parts of an answer look like (`llama_events`), Ollama (`ollama`).
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from toolkit.testing.llama_events import LlamaAnswer, compact, described, listed, refusal
from toolkit.testing.loopback import EVENTS, CutError, Request, Response
from toolkit.testing.models import FakeModel
from toolkit.testing.prompts import jinja_prompt
from toolkit.testing.requests import RefusedError, check_sampling, decoded, grammar_problem, grammar_refusal, nested
from toolkit.testing.runners import LeftError
from toolkit.testing.script import tokens
from toolkit.testing.scripted import ScriptedServer, in_place
from toolkit.testing.windows import too_long

_CHAT = ("/v1/chat/completions", "/chat/completions")
_RAW = ("/v1/completions", "/completions", "/completion")
_OPEN = ("/health", "/v1/health", "/v1/models", "/models")
_FULL = "Context size has been exceeded."


class FakeLlamaServer(ScriptedServer):
    """Answer as llama.cpp's server does; any name in a request means the one model that it runs.

    Args:
        model: what is run; its name is the path of the file.
        window: tokens (`-c`).
        slots: requests at a time (`-np`); all share the window.
        api_key: what requests must bring, if any.

    Attributes:
        used: number of a request in flight -> tokens that it holds of the window.
        props: laid over what `/props` says.
        others: further entries of the list of models, for servers that hold several.
        loading: whether the model is still being loaded, so that all is refused with 503.
    """

    def __init__(
        self, model: FakeModel | None = None, *, window: int = 4096, slots: int = 1, api_key: str = ""
    ) -> None:
        self.runs = model or FakeModel("models/smollm2-tools.gguf", "native")
        self.window = window
        self.slots = slots
        self.api_key = api_key
        self.props: dict[str, Any] = {}
        self.others: list[dict[str, Any]] = []
        self.loading = False
        self._changed = threading.Condition()
        self.used: dict[int, int] = {}
        self._killed: set[int] = set()
        self._last_prompt: list[str] = []
        super().__init__()

    def model(self, name: str = "") -> FakeModel:
        """Return the one model."""
        return self.runs

    def handle(self, request: Request) -> Response:
        """Return the answer to a request."""
        try:
            return self._route(request)
        except RefusedError as refused:  # the text of a nested error is the whole body here
            return Response(refused.status, refused.error)
        except LeftError:
            return Response(0)

    def _route(self, request: Request) -> Response:
        path = request.path
        if self.api_key and path not in _OPEN and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return refusal(401, "Invalid API Key", "authentication_error")
        if self.loading:
            return refusal(503, "Loading model", "unavailable_error")
        if path in _CHAT or path in _RAW:
            body = decoded(request.body)
            self._note(body, request)
            return self._generate(body, request)
        self.looks.append(path)
        if request.method == "POST" and path in ("/tokenize", "/apply-template"):
            return self._counted(path, decoded(request.body))
        told: dict[str, Any] = {
            "/health": {"status": "ok"}, "/props": described(self.runs, self.window, self.slots) | self.props,
            "/v1/models": listed(self.runs, self.window, self.others), "/slots": self._slots(),
        }  # fmt: skip
        path = path if path in told else f"/v1{path}"
        return Response(200, compact(told[path])) if path in told else refusal(404, "File Not Found", "not_found_error")

    def _slots(self) -> list[dict[str, Any]]:
        busy = len(self.used)
        return [
            {"id": slot, "n_ctx": self.window, "speculative": False, "is_processing": slot < busy}
            for slot in range(self.slots)
        ]

    def _counted(self, path: str, body: Mapping[str, Any]) -> Response:
        if path == "/apply-template":
            return Response(200, compact({"prompt": self.prompt(body)}))
        ids = [zlib.crc32(token.encode()) % 49152 for token in tokens(str(body.get("content", "")))]
        return Response(200, compact({"tokens": ids}))

    def prompt(self, body: Mapping[str, Any]) -> str:
        """Return the prompt that a chat is made into."""
        if "messages" not in body:
            raise nested(400, "'messages' is required")
        if [message.get("role") for message in body["messages"][-2:]] == ["assistant"] * 2:
            raise nested(400, "Cannot have 2 or more assistant messages at the end of the list.")
        think = (body.get("chat_template_kwargs") or {}).get("enable_thinking")
        tools = body.get("tools") or [] if self.runs.tools else []
        return jinja_prompt(str(self.runs.template), body["messages"], tools, think)

    def _generate(self, body: dict[str, Any], request: Request) -> Response:
        chat = request.path in _CHAT
        prompt = self.prompt(body) if chat else str(body.get("prompt", ""))
        size = self.runs.counts(prompt)
        if size >= self.window:
            raise too_long(size, self.window)
        check_sampling(body)
        schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema", body.get("json_schema"))
        if schema is not None and (problem := grammar_problem(schema)):
            raise grammar_refusal(problem, native=chat)
        number = self._script.begin()
        if (fault := self._script.fault(number, self.runs.full_name)) is not None:
            return in_place(fault, EVENTS)
        answer = LlamaAnswer(
            self.runs, body, request.path, prompt, size, schema is not None, self._cached(body, prompt)
        )
        events = self._answered(answer, number, request)
        if body.get("stream"):
            return Response(200, events, EVENTS)
        try:
            return answer.whole(events)
        except CutError:
            return Response(0)

    def _cached(self, body: Mapping[str, Any], prompt: str) -> int:
        """Return how many tokens of a prompt are those of the one before; the last one is always read."""
        pieces = tokens(prompt)
        before, self._last_prompt = self._last_prompt, pieces
        same = next((at for at, (one, other) in enumerate(zip(pieces, before, strict=False)) if one != other), None)
        same = min(len(pieces), len(before)) if same is None else same
        return min(same, len(pieces) - 1) if body.get("cache_prompt", True) and pieces else 0

    def _answered(self, answer: LlamaAnswer, number: int, request: Request) -> Generator[str]:
        with self._slot(number, answer.size, request):
            reply = self._script.take(number, answer.body, self.runs.full_name)
            room = self.window - answer.size
            for index, event in enumerate(answer.events(reply, room, request.gone)):
                if index == reply.cut_after:
                    self._cut(reply)
                if self._overrun(number, answer.size + answer.count):
                    yield answer.error(500, _FULL)
                    return
                yield event

    @contextmanager
    def _slot(self, number: int, size: int, request: Request) -> Generator[None]:
        with self._changed:
            while len(self.used) >= self.slots:
                self._changed.wait(0.02)
                if request.gone():
                    raise CutError
            self.used[number] = size
        try:
            yield
        finally:
            with self._changed:
                self.used.pop(number, None)
                self._killed.discard(number)
                self._changed.notify_all()

    def _overrun(self, number: int, used: int) -> bool:
        """Note what a request holds; once all together overrun the window, all of them are killed."""
        with self._changed:
            self.used[number] = used
            if len(self.used) > 1 and sum(self.used.values()) > self.window:
                self._killed |= set(self.used)
            return number in self._killed
