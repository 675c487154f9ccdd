"""Say what the models of an Ollama server are, pull one, and tell which are in memory.

    list_models()   every model that can be used here      (in `registry`)
    show_model(name), running_models(), model_table()      road, capabilities, quantization, windows
    pull_model(name)                                       with progress

Not here: asking a model (`ollama`), what it really does (`toolkit.evaluation.probes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from toolkit.errors import ModelNotFoundError, UserError
from toolkit.models.base import Options
from toolkit.models.hosts import same_model
from toolkit.models.ollama import OllamaServer
from toolkit.models.roads import ROADS, road
from toolkit.models.wire import ServerError, count, part
from toolkit.traces.json_text import frame_html

_KIND = "ollama/"
_IDLE_S = 600.0  # a registry may be silent for minutes while a layer is checked
_FULL = "no space left"
_WAYS_OUT = {  # what a pull ends with -> what to do
    _FULL: "Make room where the server keeps its models, or remove one: `ollama rm NAME`.",
    r"file does not exist|not found|manifest unknown|invalid model name": "Look name and tag up in the library.",
    r"dial tcp|no such host|connection|timeout|nothing came|EOF|TLS": "The server cannot reach the registry. "
    "Check its network and proxy, then pull again: what came is kept.",
    r"newer version": "Update Ollama.",
}


@dataclass(frozen=True)
class ModelCard:
    """Hold what a server says of one model.

    Attributes:
        name: what `load_model` takes.
        road: who renders prompts and reads calls: `native`, `go` or `builtin`; see `ROADS`.
        capabilities: such as tools and thinking; a guess of the server from the template.
        quantization: of the weights.
        parameters: how many, such as `4.0B`.
        size: bytes on disk.
        trained: window in tokens that the weights were trained for.
        configured: window that requests ask for.
        loaded: window that it has in memory; None where it is not loaded.
        digest: of the model.
        blob: digest of the file of the weights, which several models may share.
        server: with its version.
        template: that is in force.
    """

    name: str
    road: str = ""
    capabilities: tuple[str, ...] = ()
    quantization: str = ""
    parameters: str = ""
    size: int | None = None
    trained: int | None = None
    configured: int | None = None
    loaded: int | None = None
    digest: str = ""
    blob: str = ""
    server: str = ""
    template: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {item.name: getattr(self, item.name) for item in fields(self)} | {
            "capabilities": list(self.capabilities)
        }

    @property
    def row(self) -> dict[str, str]:
        """Return the line of a table."""
        return {
            "model": self.name,
            "road": f"{self.road} ({ROADS[self.road]})" if self.road in ROADS else "",
            "capabilities": ", ".join(self.capabilities) or "not said",
            "weights": " ".join(filter(None, (self.parameters, self.quantization))),
            "on disk": f"{self.size / 1e6:,.0f} MB" if self.size else "",
            "trained": _tokens(self.trained),
            "configured": _tokens(self.configured),
            "loaded": _tokens(self.loaded) or "not in memory",
        }

    def __str__(self) -> str:
        more = {"digest": self.digest[:19], "weights file": self.blob[:19], "server": self.server}
        shown = {key: value for key, value in (self.row | more).items() if value}
        return "\n".join(f"{key:13} {value}" for key, value in shown.items())

    def _repr_html_(self) -> str:
        import pandas as pd

        return frame_html(pd.DataFrame({"": list(self.row), self.name: list(self.row.values())})[1:])


def _tokens(window: int | None) -> str:
    return "" if window is None else f"{window:,} tokens"


def show_model(name: str, host: str | None = None) -> ModelCard:
    """Return what an Ollama server says of a model, its road and its three windows included.

    Source: ollama#2732: `num_ctx` beyond what was trained is cut down without a word.

    Raises:
        UserError: it is no model of an Ollama server, or not pulled.
    """
    wanted = _bare(name)
    with _server(host) as server:
        listed = server.models()
        if not (found := [known for known in listed if same_model(known, wanted)]):
            raise server.not_pulled(wanted)
        return _card(server, found[0], listed[found[0]], server.models("/api/ps"))


def running_models(host: str | None = None) -> list[ModelCard]:
    """Return the models that are in memory, with the window that each was loaded with."""
    with _server(host) as server:
        listed, loaded = server.models(), server.models("/api/ps")
        return [_card(server, name, listed.get(name, facts), loaded) for name, facts in loaded.items()]


def model_cards(host: str | None = None) -> list[ModelCard]:
    """Return what an Ollama server says of each of its models."""
    with _server(host) as server:
        loaded = server.models("/api/ps")
        return [_card(server, name, facts, loaded) for name, facts in server.models().items()]


def model_table(host: str | None = None) -> Any:
    """Return one line for each model of an Ollama server, as a DataFrame."""
    import pandas as pd

    return pd.DataFrame([card.row for card in model_cards(host)], columns=list(ModelCard("").row))


def pull_model(name: str, host: str | None = None, progress: bool = True) -> ModelCard:
    """Have an Ollama server fetch a model, and return what it is then.

    A pull that breaks off is taken up again as long as it gets on (Source: ollama#1158, ollama#8533).

    Raises:
        UserError: it cannot be pulled; says why, and what to do.
    """
    from tqdm.auto import tqdm

    wanted = _bare(name)
    with _server(host) as server, tqdm(unit="B", unit_scale=True, disable=not progress) as bar:
        done: dict[str, int] = {}
        while True:
            before = sum(done.values())
            try:
                _follow(server.answer("/api/pull", {"model": wanted, "stream": True}, _IDLE_S), done, bar)
                break
            except (TimeoutError, ServerError) as error:
                if sum(done.values()) <= before or re.search(_FULL, str(error)):
                    raise _explained(error, server, wanted) from None
    return show_model(wanted, host)


def _explained(error: Exception, server: OllamaServer, wanted: str) -> UserError:
    """Return why a model cannot be pulled, with what to do."""
    if isinstance(error, ServerError) and (mend := server.mistake(error)):
        return mend
    said = error.said if isinstance(error, ServerError) else f"nothing came for {_IDLE_S:g} s"
    ways = (way for sign, way in _WAYS_OUT.items() if re.search(sign, said, re.IGNORECASE))
    way = next(ways, "Pull again: what came is kept.")
    return UserError(f"{server.host} cannot pull {wanted!r}: {said}. {way}")


def _follow(pieces: Iterator[dict[str, Any]], done: dict[str, int], bar: Any) -> None:
    """Take the pieces of a pull, and count in `done` the bytes of each layer.

    Raises:
        ServerError: it ended without success; a stream that breaks off says nothing (Source: ollama#8786).
    """
    totals: dict[str, int] = {}
    said = ""
    for piece in pieces:
        said = part(piece, "status", str)
        bar.set_description(said[:40], refresh=False)
        if digest := part(piece, "digest", str):
            totals[digest] = count(piece, "total") or totals.get(digest, 0)
            # a server that asks for a part anew counts back (Source: ollama#1736)
            done[digest] = max(count(piece, "completed") or 0, done.get(digest, 0))
            bar.total = sum(totals.values())
            bar.update(sum(done.values()) - bar.n)
    if said != "success":
        raise ServerError(0, f"it broke off after {said or 'nothing'!r}")


@contextmanager
def _server(host: str | None) -> Iterator[OllamaServer]:
    with closing(OllamaServer(host)) as server:
        yield server


def _bare(name: str) -> str:
    """Return a name as the server knows it."""
    kind, slash, _ = name.partition("/")
    if slash and kind in ("embedded", "openai"):
        raise ModelNotFoundError(f"{name!r} is no model of an Ollama server. Write 'ollama/NAME'; see `list_models()`.")
    if not name.removeprefix(_KIND).strip():
        raise ModelNotFoundError("Which model? Write 'ollama/NAME'.")
    return name.removeprefix(_KIND).strip()


def _card(
    server: OllamaServer, name: str, listed: Mapping[str, Any], loaded: Mapping[str, Mapping[str, Any]]
) -> ModelCard:
    show = server.look("/api/show", {"model": name})
    version = part(server.look("/api/version"), "version", str) or "unknown"
    details, info = part(show, "details", dict), part(show, "model_info", dict)
    weights = re.search(r"^FROM\s+\S*?sha256[-:]([0-9a-f]{64})", part(show, "modelfile", str), re.MULTILINE)
    return ModelCard(
        name=f"{_KIND}{name}",
        road=road(show, version),
        capabilities=tuple(map(str, part(show, "capabilities", list))),
        quantization=part(details, "quantization_level", str),
        parameters=part(details, "parameter_size", str),
        size=count(listed, "size"),
        trained=next((count(info, key) for key in info if key.endswith(".context_length")), None),
        configured=Options().num_ctx,
        loaded=next((count(facts, "context_length") for key, facts in loaded.items() if same_model(key, name)), None),
        digest=part(listed, "digest", str),
        blob=weights[1] if weights else "",
        server=f"ollama {version}",
        template=part(show, "template", str),
    )
