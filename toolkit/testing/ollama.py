"""Run a fake Ollama server: scripted models behind the real routes, errors and endings.

    with FakeOllama() as server:
        server.says("Hello!")
        model = toolkit.load_model("ollama/qwen3:4b", host=server.host)

Not here: what one answer looks like (`generation`), its models (`catalogue`), loading and waiting (`runners`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolkit.testing import openai_route
from toolkit.testing.catalogue import Catalogue
from toolkit.testing.generation import DIED, Generation, Job, whole
from toolkit.testing.loopback import JSON, JSON_UTF8, NDJSON, CutError, Request, Response, go_json
from toolkit.testing.models import FakeModel, stamp
from toolkit.testing.parsers import ParserError
from toolkit.testing.requests import (
    RELOADING,
    RefusedError,
    check_fields,
    check_options,
    check_runner,
    check_sampling,
    decoded,
    error_line,
    keep_alive,
    schema_of,
)
from toolkit.testing.runners import LeftError, Runners
from toolkit.testing.script import RunnerDiedError
from toolkit.testing.scripted import ScriptedServer, in_place
from toolkit.testing.windows import messages_of, prompt_for, prompt_tokens

_GENERATING = ("/api/chat", "/api/generate", "/v1/chat/completions")
_POST = (*_GENERATING, "/api/show", "/api/embed", "/api/pull", "/api/create", "/api/copy")
_FAULTS = (RefusedError, ParserError, RunnerDiedError)


@dataclass
class _Asked:
    """Hold a generating request that the server takes."""

    model: FakeModel
    body: dict[str, Any]
    options: dict[str, Any]
    chat: bool
    number: int
    gone: Callable[[], bool]

    @property
    def native(self) -> bool:
        return self.chat and self.model.road == "native"


class FakeOllama(ScriptedServer):
    """Answer as an Ollama server does; each generating request takes the next reply of a script.

    Args:
        models: what is pulled; one model `qwen3:4b` that takes tools and thinks, if None.
        parallel: requests that a model serves at a time (OLLAMA_NUM_PARALLEL).
        max_queue: requests that may wait for a load (OLLAMA_MAX_QUEUE).
        max_loaded: models that fit at a time (OLLAMA_MAX_LOADED_MODELS).
        context_length: the window where no request and no model says one (OLLAMA_CONTEXT_LENGTH).
        keep_alive: seconds for which a model stays; below 0 for ever (OLLAMA_KEEP_ALIVE).
        version: of the server.
        cloud: whether cloud models are allowed.
        knows_truncate: whether it knows the fields `truncate` and `shift`; older servers pass over them.

    Attributes:
        models: full name -> model; may be changed at any time, as a `delete` from elsewhere does.
        runners: what is loaded.
    """

    def __init__(
        self,
        models: Iterable[FakeModel | str] | None = None,
        *,
        parallel: int = 1,
        max_queue: int = 512,
        max_loaded: int = 3,
        context_length: int = 4096,
        keep_alive: float = 300.0,
        version: str = "0.32.15",
        cloud: bool = True,
        knows_truncate: bool = True,
    ) -> None:
        self.runners = Runners(parallel, max_loaded, max_queue, keep_alive if keep_alive >= 0 else float("inf"))
        given = models if models is not None else [FakeModel("qwen3:4b", thinking=True, family="qwen3")]
        self.catalogue = Catalogue(given, self.runners)
        self.context_length = context_length
        self.version = version
        self.knows_truncate = knows_truncate
        self.catalogue.cloud = cloud
        super().__init__()

    @property
    def models(self) -> dict[str, FakeModel]:
        """Return full name -> model."""
        return self.catalogue.models

    def model(self, name: str = "") -> FakeModel | None:
        """Return the model that a name means; the first without one."""
        return self.catalogue.model(name)

    def pulled(self, model: FakeModel) -> FakeModel:
        """Add a model, or put it in the place of one of that name."""
        return self.catalogue.pulled(model)

    def reset(self) -> None:
        """Forget the script, what came, and what is loaded."""
        super().reset()
        self.runners.forget()

    def stop(self) -> None:
        """Go away as a killed server does: connections break, nothing stays loaded."""
        super().stop()
        self.runners.forget()

    def handle(self, request: Request) -> Response:
        """Return the answer to a request."""
        host = str(request.headers.get("host", "")).rpartition(":")
        if (host[0] or host[2]) not in ("127.0.0.1", "localhost", "[::1]"):
            return Response(403, "", None)
        try:
            return self._route(request)
        except RefusedError as refused:
            if request.path.startswith("/v1/"):
                return openai_route.refusal(refused)
            return Response(refused.status, error_line(refused.error))
        except LeftError:
            return Response(0)

    def _route(self, request: Request) -> Response:
        path = request.path
        if path in _POST and request.method != "POST":
            return Response(405, "405 method not allowed", "text/plain")
        if path in _GENERATING:
            body = decoded(request.body)
            self._note(body, request)
            if not self.knows_truncate:
                body = {key: value for key, value in body.items() if key not in ("truncate", "shift")}
            if path.startswith("/v1/"):
                return openai_route.answer(body, lambda asked: self._answer(asked, request.gone, chat=True))
            return self._answer(body, request.gone, chat=path == "/api/chat")
        self.looks.append(path)
        if path.startswith("/v1/models"):
            return openai_route.models(path, self.catalogue.listed(), self.model)
        if path == "/":
            return Response(200, "Ollama is running", "text/plain; charset=utf-8")
        if (told := self._told(path)) is not None:
            return Response(200, go_json(told))
        return self.catalogue.answer(request) or Response(404, "404 page not found", "text/plain")

    def _told(self, path: str) -> dict[str, Any] | None:
        """Return what the server says of itself."""
        if path == "/api/version":
            return {"version": self.version}
        if path == "/api/status":
            cloud = self.catalogue.cloud
            return {"cloud": {"disabled": not cloud, "source": "none" if cloud else "env"}}
        if path == "/api/tags":
            return {"models": [model.listed() for model in self.catalogue.listed()]}
        return {"models": [runner.listed() for runner in self.runners.listed()]} if path == "/api/ps" else None

    def _answer(self, body: dict[str, Any], gone: Callable[[], bool], chat: bool) -> Response:
        check_fields(body, chat)
        model = self.catalogue.named(body, missing="" if chat else "404")
        if not chat and body.get("raw") and any(body.get(key) for key in ("template", "system", "context")):
            raise RefusedError(400, "raw mode does not support template, system, or context")
        options = check_options({**(model.parameters or {}), **(body.get("options") or {})})
        asked = _Asked(model, body, options, chat, 0, gone)
        if not (body.get("messages") if chat else body.get("prompt")):
            return self._load(asked)
        if body.get("tools") and chat and not model.tools:
            raise RefusedError(400, f"registry.ollama.ai/library/{model.full_name} does not support tools")
        if body.get("think") and not model.thinking:
            raise RefusedError(400, f'"{body["model"]}" does not support thinking')
        asked.number = self._script.begin()
        if (fault := self._script.fault(asked.number, model.full_name)) is not None:
            return in_place(fault, NDJSON)
        return self._generated(asked)

    def _generated(self, asked: _Asked) -> Response:
        streams = bool(asked.body.get("stream", True))
        pieces = self._pieces(asked)
        try:
            first = next(pieces, None)
            if first is not None and "_debug_info" in first:
                pieces.close()
                return Response(200, go_json(first))
            if streams:
                return Response(200, _streamed(first, pieces), NDJSON)
            return Response(200, go_json(whole(_chained(first, pieces), bool(asked.body.get("tools")))))
        except _FAULTS as error:
            status, text = _said(error)
            return Response(status, error_line(text), JSON if streams and status != 503 else JSON_UTF8)
        except CutError:
            return Response(0)

    def _load(self, asked: _Asked) -> Response:
        """Load or unload a model, which is what a request without messages or prompt asks for."""
        seconds = keep_alive(asked.body)
        if seconds == 0:
            self.runners.unload(asked.model)
        else:
            with self.runners.slot(asked.model, *self._launch(asked), seconds, asked.gone):
                pass
        said: dict[str, Any] = {"message": {"role": "assistant", "content": ""}} if asked.chat else {"response": ""}
        ends = {"done": True, "done_reason": "unload" if seconds == 0 else "load"}
        return Response(200, go_json({**_head(asked), **said, **ends}))

    def _launch(self, asked: _Asked) -> tuple[tuple[Any, ...], int]:
        """Return what a loaded model must share with a request, and its window."""
        num_ctx = min(max(int(asked.options.get("num_ctx", self.context_length)), 4), asked.model.trained)
        rest = (asked.options.get(name) for name in RELOADING)
        return (num_ctx, asked.body.get("shift", True), *rest), num_ctx

    def _pieces(self, asked: _Asked) -> Generator[dict[str, Any]]:
        """Yield the objects of an answer while holding a slot."""
        started, model, body, options = time.perf_counter(), asked.model, asked.body, asked.options
        slot = self.runners.slot(model, *self._launch(asked), keep_alive(body), asked.gone)
        with slot as (runner, loading_s):
            messages = messages_of(model, body, asked.chat)
            prompt = prompt_for(model, messages, body, asked.chat, runner.window, runner.jinja)
            if body.get("_debug_render_only"):
                said: dict[str, Any] = {"message": {"role": "", "content": ""}} if asked.chat else {"response": ""}
                yield {**_head(asked), **said, "done": False, "_debug_info": {"rendered_template": prompt}}
                return
            size = model.counts(prompt) + len(body.get("context") or ())
            size = prompt_tokens(size, runner.window, body, not asked.native, options.get("num_keep", 4))
            schema = schema_of(body)
            check_sampling(options)
            check_runner(body, schema, asked.native, model.vision)
            reply = self._script.take(asked.number, body, model.full_name)
            if reply.error is not None:
                raise RefusedError(*reply.error)
            job = Job(model, runner, reply, body, options, asked.chat, prompt, size, schema, gone=asked.gone)
            job.loading_s, job.started = loading_s, started
            if asked.native and messages[-1]["role"] == "assistant":
                job.prefill = str(messages[-1].get("content") or "")
            try:
                for index, piece in enumerate(Generation(job).pieces()):
                    if index == reply.cut_after:
                        self._cut(reply)
                    yield piece
            except RunnerDiedError:
                self.runners.kill(model.full_name)
                raise


def _head(asked: _Asked) -> dict[str, Any]:
    return {"model": asked.body["model"], "created_at": stamp(datetime.now(UTC))}


def _said(error: Exception) -> tuple[int, str]:
    """Return status and text of an error that comes before anything else."""
    return (error.status, error.error) if isinstance(error, RefusedError) else (500, str(error) or DIED)


def _chained(first: Any, pieces: Generator[dict[str, Any]]) -> Generator[dict[str, Any]]:
    try:
        if first is not None:
            yield first
            yield from pieces
    finally:
        pieces.close()


def _streamed(first: Any, pieces: Generator[dict[str, Any]]) -> Generator[str]:
    try:
        for piece in _chained(first, pieces):
            yield go_json(piece) + "\n"
    except (ParserError, RunnerDiedError) as error:
        yield error_line(_said(error)[1]) + "\n"
