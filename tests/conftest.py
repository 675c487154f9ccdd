"""Fixtures that many tests share: a fake Ollama server over real HTTP, and the real embedded model."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import settings
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

settings.register_profile("toolkit", deadline=None)  # tests assert no times
settings.load_profile("toolkit")

SAMPLE = 4  # one in so many cases of a test that is sampled runs by default


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave most cases of the tests with very many to the runs that take slow ones."""
    seen: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("sampled") and hasattr(item, "callspec"):
            seen[item.originalname] += 1
            if seen[item.originalname] % SAMPLE != 1:
                item.add_marker(pytest.mark.slow)


collect_ignore = ["execution/mcp_server.py"]  # a program that the tests start; to import it for doctests takes seconds
NDJSON = "application/x-ndjson"


class FakeOllama:
    """Answer as an Ollama server would; each request takes the next line of a script.

    Attributes:
        host: for `load_model(..., host=)`; OLLAMA_HOST is set to it as well.
        requests: bodies of the generating requests, in order.
        looks: routes of the other requests, in order.
        models: what is pulled: name -> facts for `show`.
        loaded: what `/api/ps` lists.
        knows_truncate: whether it is new enough to refuse a prompt that is too long.
        left: set once a client has left a stream before its end.
    """

    def __init__(self, server: HTTPServer) -> None:
        self.host = server.url_for("").rstrip("/")
        self.requests: list[dict[str, Any]] = []
        self.looks: list[str] = []
        self.models: dict[str, dict[str, Any]] = {"qwen3:4b": {"capabilities": ["completion", "tools", "thinking"]}}
        self.loaded: list[dict[str, Any]] = []
        self.version = "0.32.15"
        self.knows_truncate = True
        self.left = threading.Event()
        self._script: list[Any] = []
        for route in ("/api/chat", "/api/generate"):
            server.expect_request(route, method="POST").respond_with_handler(self._generate)
        for route in ("/api/tags", "/api/version", "/api/ps", "/api/show"):
            server.expect_request(route).respond_with_handler(self._look)

    def says(
        self,
        text: str = "",
        *,
        thinking: str = "",
        tool_calls: Iterable[dict[str, Any]] = (),
        **last: Any,
    ) -> FakeOllama:
        """Queue an answer; `last` overrides fields of the closing piece."""
        pieces: list[dict[str, Any]] = [{"message": {"content": "", "thinking": thinking}}] if thinking else []
        pieces += [
            {"message": {"role": "assistant", "content": text[at : at + 4]}, "response": text[at : at + 4]}
            for at in range(0, len(text), 4)
        ]
        if calls := list(tool_calls):
            pieces.append({"message": {"role": "assistant", "content": "", "tool_calls": calls}})
        closing = {
            "done": True, "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 5,
            "total_duration": 3_000_000, "load_duration": 1_000_000, "message": {"role": "assistant", "content": ""},
        }  # fmt: skip
        return self.sends(*pieces, {**closing, **last})

    def sends(self, *pieces: dict[str, Any]) -> FakeOllama:
        """Queue a stream of these very pieces."""
        self._script.append(list(pieces))
        return self

    def fails(self, status: int, error: Any) -> FakeOllama:
        """Queue an HTTP error."""
        self._script.append(Response(json.dumps({"error": error}), status, content_type="application/json"))
        return self

    def drips(self, text: str, gate: threading.Event) -> FakeOllama:
        """Queue a stream that sends `text`, then waits for `gate` before it ends."""
        self._script.append((text, gate))
        return self

    def _generate(self, request: Request) -> Response:
        body = json.loads(request.get_data())
        self.requests.append(body)
        if self.knows_truncate and body.get("truncate") not in (None, True, False):
            error = "json: cannot unmarshal string into Go struct field ChatRequest.truncate of type bool"
            return Response(json.dumps({"error": error}), 400)
        if body["model"] not in self.models:
            return Response(json.dumps({"error": f"model '{body['model']}' not found"}), 404)
        if not self._script:
            return Response(json.dumps({"error": "the script of the test has ended"}), 500)
        line = self._script.pop(0)
        if isinstance(line, Response):
            return line
        if isinstance(line, tuple):
            return Response(self._dripping(*line), content_type=NDJSON)
        return Response("".join(json.dumps(piece) + "\n" for piece in line), content_type=NDJSON)

    def _dripping(self, text: str, gate: threading.Event) -> Iterator[str]:
        piece = json.dumps({"message": {"role": "assistant", "content": text}}) + "\n"
        try:
            yield piece
            while not gate.wait(0.02):
                yield piece  # a closed connection shows only on writing
        except GeneratorExit:
            self.left.set()
            raise

    def _look(self, request: Request) -> Response:
        self.looks.append(request.path)
        if request.path == "/api/show":
            name = json.loads(request.get_data())["model"]
            if name not in self.models:
                return Response(json.dumps({"error": f"model '{name}' not found"}), 404)
            return Response(json.dumps(self.models[name]))
        tags = [{"name": name, "digest": f"digest of {name}", "size": 2_500_000_000,
                 "details": {"family": "qwen3", "parameter_size": "4.0B"}} for name in self.models]  # fmt: skip
        found = {
            "/api/tags": {"models": tags},
            "/api/ps": {"models": self.loaded},
            "/api/version": {"version": self.version},
        }
        return Response(json.dumps(found[request.path]))


@pytest.fixture(scope="session")
def _ollama_port() -> Iterator[HTTPServer]:
    with HTTPServer(threaded=True) as server:  # one for all tests: stopping one takes half a second
        yield server


@pytest.fixture
def fake_ollama(monkeypatch: pytest.MonkeyPatch, _ollama_port: HTTPServer) -> FakeOllama:
    """Run a fake Ollama server and point OLLAMA_HOST at it."""
    _ollama_port.clear()
    fake = FakeOllama(_ollama_port)
    monkeypatch.setenv("OLLAMA_HOST", fake.host)
    return fake


@pytest.fixture(scope="session")
def embedded_weights() -> str:
    """Return the name of the embedded default model, its weights fetched; skip by name where that cannot be."""
    from toolkit.errors import WeightsError
    from toolkit.models.weights import fetch_weights

    pytest.importorskip("xllamacpp", reason="the extra 'embedded' is not installed")
    try:
        fetch_weights("smollm2-135m")
    except WeightsError as error:
        pytest.skip(f"no embedded weights: {error}")
    return "smollm2-135m"


@pytest.fixture(autouse=True)
def _skip_without_weights(request: pytest.FixtureRequest) -> None:
    """Skip tests marked `embedded` where the weights cannot be had."""
    if request.node.get_closest_marker("embedded"):
        request.getfixturevalue("embedded_weights")
