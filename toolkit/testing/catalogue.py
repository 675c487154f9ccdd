"""Keep the models of a fake Ollama server: list, show, pull, create, copy, delete, embed.

Not here: what a model is (`models`), chats (`ollama`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from toolkit.testing.loopback import JSON, NDJSON, Request, Response, go_json
from toolkit.testing.models import FakeModel, with_tag
from toolkit.testing.requests import RefusedError, decoded, error_line
from toolkit.testing.runners import Runners


class Catalogue:
    """Hold models by full name, and answer the routes that are about them.

    Attributes:
        models: full name -> model; may be changed at any time.
        cloud: whether cloud models are allowed.
        disk_full: whether a pull finds no room.
    """

    def __init__(self, models: Iterable[FakeModel | str], runners: Runners) -> None:
        self.models: dict[str, FakeModel] = {}
        self._runners = runners
        self.cloud = True
        self.disk_full = False
        for model in models:
            self.pulled(model if isinstance(model, FakeModel) else FakeModel(model))

    def pulled(self, model: FakeModel) -> FakeModel:
        """Add a model, or put it in the place of one of that name."""
        self.models[model.full_name] = model
        return model

    def model(self, name: str = "") -> FakeModel | None:
        """Return the model that a name means, in any case, `latest` left out or not; the first without a name."""
        wanted = with_tag(name).casefold()
        fits = (model for full, model in self.models.items() if not name or full.casefold() == wanted)
        return next(fits, None)

    def listed(self) -> list[FakeModel]:
        """Return the models in the order in which the server lists them, the newest first."""
        return sorted(self.models.values(), key=lambda model: -int(model.modified.timestamp()))

    def answer(self, request: Request) -> Response | None:
        """Return the answer to a request about models; None for another route."""
        if request.path.startswith("/api/blobs/"):
            return self._blob(request)
        routes: dict[str, Callable[[Mapping[str, Any]], Response]] = {
            "/api/show": self._show, "/api/embed": self._embed, "/api/pull": self._pull, "/api/create": self._create,
            "/api/copy": self._copy, "/api/delete": self._delete,
        }  # fmt: skip
        return routes[request.path](decoded(request.body)) if request.path in routes else None

    def named(self, body: Mapping[str, Any], text: str = "model '{}' not found", missing: str = "") -> FakeModel:
        """Return the model that a body names.

        Raises:
            RefusedError: in the words of the route, of which there are several.
        """
        name = body.get("model", body.get("name", ""))
        if not name:
            raise (
                RefusedError(404, "model '' not found") if missing == "404" else RefusedError(400, "model is required")
            )
        if not isinstance(name, str) or not name.strip() or " " in name.strip() or "//" in name:
            raise RefusedError(400, "invalid model name")
        if name.partition(":")[2].endswith("cloud") and not self.cloud:
            raise RefusedError(403, "ollama cloud is disabled: remote model is unavailable")
        model = self.model(name)
        if model is None:
            raise RefusedError(404, text.format(name, with_tag(name)))
        return model

    def _show(self, body: Mapping[str, Any]) -> Response:
        return Response(200, go_json(self.named(body, "model '{1}' not found").shown()))

    def _copy(self, body: Mapping[str, Any]) -> Response:
        source = self.named({"model": body.get("source")}, 'model "{}" not found')
        self.pulled(replace(source, name=body["destination"], digest=source.digest))
        return Response(200, "", None)

    def _delete(self, body: Mapping[str, Any]) -> Response:
        model = self.named(body)
        self._runners.unload(model)
        del self.models[model.full_name]
        return Response(200, "", None)

    def _blob(self, request: Request) -> Response:
        wanted = request.path.rpartition("/")[2]
        if request.method == "POST":
            got = "sha256:" + hashlib.sha256(request.body).hexdigest()
            if got != wanted:
                raise RefusedError(400, f'digest mismatch, expected "{wanted}", got "{got}"')
            return Response(201, "", None)
        there = any(f"sha256:{model.blob}" == wanted for model in self.models.values())
        return Response(200, "", None) if there else Response(404, "")

    def _embed(self, body: Mapping[str, Any]) -> Response:
        model = self.named(body, 'model "{}" not found, try pulling it first', missing="404")
        given = body.get("input", "")
        texts = [given] if isinstance(given, str) else list(given)
        if not all(isinstance(text, str) for text in texts):
            raise RefusedError(400, "invalid input type")
        if not any(texts):
            return Response(200, go_json({"model": body["model"], "embeddings": []}))
        if not model.dimensions:
            raise RefusedError(501, "This server does not support embeddings. Start it with `--embeddings`")
        size = body.get("dimensions", 0)
        size = size if 0 < size <= model.dimensions else model.dimensions
        counts = sum(map(model.counts, texts))
        answer = {"model": body["model"], "embeddings": [_vector(text, size) for text in texts],
                  "total_duration": 2_000_000, "load_duration": 1_000_000, "prompt_eval_count": counts}  # fmt: skip
        return Response(200, go_json(answer))

    def _pull(self, body: Mapping[str, Any]) -> Response:
        """Pull any name as a fresh model; a name with an address is refused, since nobody answers there."""
        name = str(body.get("model", body.get("name", "")))
        statuses: list[dict[str, Any]] = [{"status": "pulling manifest"}]
        if "://" in name:
            place, _, rest = name.partition("://")[2].partition("/")
            url = f"{name.partition('://')[0]}://{place}/v2/{rest}/manifests/latest"
            refused = f'pull model manifest: Get "{url}": dial tcp {place}: connect: connection refused'
            return _statuses([*statuses, {"error": refused}], body)
        model = FakeModel(name)
        layer = {"status": f"pulling {model.blob[:12]}", "digest": f"sha256:{model.blob}", "total": model.size}
        statuses += [{**layer, "completed": model.size // 4 * part} for part in (1, 2, 3)]
        if self.disk_full:  # Source: ollama#1731, ollama#15547
            file = f"/usr/share/ollama/.ollama/models/blobs/sha256-{model.blob}-partial"
            return _statuses([*statuses, {"error": f"write {file}: no space left on device"}], body)
        self.pulled(model)
        words = ("verifying sha256 digest", "writing manifest", "success")
        return _statuses([*statuses, {**layer, "completed": model.size}, *({"status": word} for word in words)], body)

    def _create(self, body: Mapping[str, Any]) -> Response:
        if str(body.get("template", "")).count("{{") != str(body.get("template", "")).count("}}"):
            return Response(400, error_line("template error: template: :1: unclosed action"), JSON)
        old = self.named({"model": body["from"]}) if "from" in body else None
        blob = next(iter(body.get("files", {}).values()), "").removeprefix("sha256:")
        base = old or FakeModel(body["model"], tools=False, blob=blob)
        made = replace(
            base, name=body["model"], parent=old.full_name if old else "", digest="", modified=datetime.now(UTC),
            system=body.get("system", base.system),
            parameters={**(base.parameters or {}), **body.get("parameters", {})},
            template=body.get("template", base.template), messages=tuple(body.get("messages", base.messages)),
        )  # fmt: skip
        self.pulled(made)
        first = ["parsing GGUF", "verifying conversion"] if blob else []
        first += [f"using existing layer sha256:{made.blob}"] * (1 if blob else 2)
        layers = [f"creating new layer sha256:{hashlib.sha256(key.encode()).hexdigest()}"
                  for key in ("template", "system", "parameters", "messages") if key in body]  # fmt: skip
        return _statuses([{"status": word} for word in [*first, *layers, "writing manifest", "success"]], body)


def _statuses(lines: list[dict[str, Any]], body: Mapping[str, Any]) -> Response:
    """Return the progress of a pull or create; without streaming only its end."""
    if body.get("stream", True):
        return Response(200, (go_json(line) + "\n" for line in lines), NDJSON)
    return Response(500 if "error" in lines[-1] else 200, go_json(lines[-1]), JSON)


def _vector(text: str, size: int) -> list[float]:
    """Return a vector of length one that depends on the words of a text."""
    values = [0.0] * size
    for word in text.lower().split() or [""]:
        values[int(hashlib.sha256(word.encode()).hexdigest(), 16) % size] += 1.0
    length = sum(value * value for value in values) ** 0.5
    return [value / length for value in values]
