"""Run a GGUF model in this process: llama.cpp's own server, without a server to start.

The server of one file and window is loaded once and shared; the last user unloads it.

Not here: fetching the weights (`weights`), reading the head of the file (`gguf`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from toolkit.errors import ModelError, UserError
from toolkit.messages import as_messages
from toolkit.models import llama
from toolkit.models.backend import Backend
from toolkit.models.base import ChatRequest, Options
from toolkit.models.connection import sendable
from toolkit.models.gguf import read_head, template_takes_tools, trained_context
from toolkit.models.openai import OpenAIAnswer, for_llama_cpp, request_body
from toolkit.models.weights import fetch_weights, file_digest, known_weights
from toolkit.models.wire import ServerError
from toolkit.tools import as_tools


class EmbeddedModel(Backend):
    """Answer from a GGUF file in this process. Nothing is fetched or loaded before the first request.

    Args:
        name: a known model such as `smollm2-135m`, or the path of a .gguf file.
        threads: threads of llama.cpp; one fewer than there are cores if None, for its spinning threads lose a
            factor of ten as soon as anything else runs.
        defaults: options of a request that sets none.

    Raises:
        WeightsError: no such name.
    """

    collects = OpenAIAnswer

    def __init__(self, name: str, threads: int | None = None, defaults: Options | None = None) -> None:
        self.name = f"embedded/{name}"
        self.threads = threads or llama.default_threads()
        self.defaults = defaults or Options()
        self._file = Path(name).expanduser() if name.endswith(".gguf") or "/" in name else None
        self._weights = None if self._file else known_weights(name)
        self._held: llama.Shared | None = None

    @property
    def path(self) -> Path:
        """Return the weights file, fetching it where it is missing."""
        return self._file or fetch_weights(self.name.removeprefix("embedded/"))

    @property
    def supports_tools(self) -> bool:  # type: ignore[override]
        """Tell whether the chat template has a place for tools; SmolLM2's has none."""
        return self._weights.supports_tools if self._weights else template_takes_tools(read_head(self.path))

    @property
    def trained_ctx(self) -> int | None:
        """Return the longest window the model was trained for, in tokens."""
        return trained_context(read_head(self.path))

    def body(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        """Return the method of llama.cpp's server, and the body."""
        request = for_llama_cpp(request, "keep")  # this one takes any text where it cannot hold a pattern
        if request.prompt is not None:
            return "handle_completions", request_body(request)
        return "handle_chat_completions", request_body(request)

    def pieces(self, route: str, body: dict[str, Any], options: Options) -> Iterator[dict[str, Any]]:
        """Run the request and yield the pieces of the answer, the seconds spent loading first."""
        if body.get("tools") and not self.supports_tools:
            raise ServerError(0, f"The chat template of {self.name!r} does not support tools: it has no place for them")
        shared, load_seconds = self._server(options)
        yield {"load_seconds": load_seconds}
        yield from llama.pieces(shared, route, sendable(body), options.timeout_s)

    def _server(self, options: Options) -> tuple[llama.Shared, float]:
        """Return the loaded server, and the seconds spent loading; it is held until another window is asked for."""
        path = self.path
        read_head(path)  # says what is wrong; llama.cpp would not
        threads = options.num_thread or self.threads
        shared, seconds = llama.shared_server(llama.ServerKey(path.resolve(), options.num_ctx, threads))
        self._held = shared
        return shared, seconds

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a text is, chat markers such as `<|im_start|>` counted as one each."""
        answer = self._ask("/tokenize", {"content": text, "add_special": False, "parse_special": True})
        return len(answer["tokens"])

    def apply_template(self, messages: Any, tools: Any = None) -> str:
        """Return the exact string that the model sees for a conversation."""
        body = request_body(ChatRequest(self.defaults, messages=as_messages(messages), tools=as_tools(tools or ())))
        shown = {key: value for key, value in body.items() if key in ("messages", "tools")}
        return str(self._ask("/apply-template", shown)["prompt"])

    @property
    def address(self) -> str:
        """Load the model and return its OpenAI-compatible address, which holds until `close`."""
        return f"{self._server(self.defaults)[0].server.listening_address}/v1"

    def _ask(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        import httpx

        shared, _ = self._server(self.defaults)
        url, timeout = shared.server.listening_address + route, self.defaults.timeout_s
        try:
            # a proxy set in the environment has no business on loopback
            answer = httpx.post(url, json=sendable(body), timeout=timeout, trust_env=False)
            return dict(answer.raise_for_status().json())
        except httpx.HTTPError as error:
            raise ModelError(f"llama.cpp did not answer {route}: {error}") from None

    def fingerprint(self) -> dict[str, Any]:
        """Return back end, file digest and llama.cpp version; needs neither the weights nor llama.cpp loaded."""
        return {"backend": "embedded", "name": self.name, "digest": self._digest, "server": _version()}

    @cached_property
    def _digest(self) -> str:
        if self._weights:
            return self._weights.sha256
        read_head(self.path)
        return file_digest(self.path)

    def check(self) -> None:
        """Raise `UserError` now if the model cannot answer; fetches missing weights."""
        llama.import_llama()
        read_head(self.path)

    def close(self) -> None:
        """Unload the model, unless another one shares its server; it loads again on use."""
        self._held = None


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"xllamacpp {version('xllamacpp')}"
    except PackageNotFoundError:
        raise UserError(llama.missing()) from None
