"""Turn one string into a model: `embedded/…`, `ollama/…`, `openai/NAME@URL`; and list what there is.

Not here: the back ends themselves.
"""

from __future__ import annotations

import importlib
from contextlib import closing
from dataclasses import dataclass, fields
from typing import Any

from toolkit.errors import ConfigError, ModelNotFoundError, ToolkitError, closest, did_you_mean
from toolkit.models.base import ChatModel, Options
from toolkit.models.connection import full_name, public_name
from toolkit.secrets import HIDDEN

_FORMS = "'embedded/smollm2-135m', 'embedded//path/to/any.gguf', 'ollama/NAME' or 'openai/NAME@http://HOST:PORT/v1'"
# kind, which is also its module -> class, settings of its own
_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "embedded": ("EmbeddedModel", ("threads",)),
    "ollama": ("OllamaModel", ("host",)),
    "openai": ("OpenAIModel", ("api_key",)),
}


def load_model(name: str, **settings: Any) -> ChatModel:
    """Return the model that a string names. Nothing is contacted, fetched or loaded before the first request.

    Args:
        name: `embedded/smollm2-135m`, `embedded//path/to/any.gguf`, `ollama/qwen3:4b`,
            `openai/NAME@http://127.0.0.1:8080/v1`.
        settings: `threads=` for embedded models, `host=` for Ollama, `api_key=` (a Secret) for `openai/…`; every other
            one is an option of `Options` that requests use unless they set it themselves, such as `num_ctx=4096`.

    Raises:
        ModelNotFoundError: the name is of no known form.
        WeightsError: an embedded model that does not exist.
        ConfigError: an unknown setting.
    """
    full, name = full_name(name), public_name(name)
    if HIDDEN in full:
        raise ModelNotFoundError(
            f"The credentials in {name!r} were not kept. Write them anew, or set TOOLKIT_OPENAI_API_KEY."
        )
    kind, slash, rest = full.partition("/")
    if kind not in _KINDS or not slash or not rest:
        from toolkit.models.weights import KNOWN

        near = closest(name, [f"embedded/{known}" for known in KNOWN], n=1)
        if not near and "/" not in name and name:
            near = [f"embedded/{name}" if name in KNOWN else f"ollama/{name}"]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ModelNotFoundError(f"Model {name!r} is unknown.{hint} Write {_FORMS}.")
    class_name, own = _KINDS[kind]
    known = [item.name for item in fields(Options)]
    for setting in settings:
        if setting == "api_key" and setting not in own:
            raise ConfigError(f"{name!r} takes no api_key. Leave it out; a key for Ollama stands in OLLAMA_API_KEY.")
        if setting not in known and setting not in own:
            raise ConfigError(f"Unknown setting {setting!r} of {name!r}. {did_you_mean(setting, [*own, *known])}")
    options = {key: value for key, value in settings.items() if key in known}
    module = importlib.import_module(f"toolkit.models.{kind}")  # late, so that importing the package stays light
    given = {key: settings[key] for key in own if key in settings}
    model: ChatModel = getattr(module, class_name)(rest, defaults=Options.of(options), **given)
    return model


def as_model(value: Any) -> ChatModel:
    """Return a model, loaded by its name where one is given.

    Raises:
        ConfigError: it is neither.
        ModelNotFoundError: the name is of no known form.
    """
    if isinstance(value, str):
        return load_model(value)
    if not isinstance(value, ChatModel):
        raise ConfigError(f"{value!r} is no model. Give a ChatModel, or a name such as 'ollama/qwen3:4b'.")
    return value


@dataclass(frozen=True)
class ModelLine:
    """Hold one line of the list of models.

    Attributes:
        name: what `load_model` takes.
        state: `ready`, or what stands in the way.
        size: bytes on disk, or to fetch where the weights are not there; None if unknown.
        about: parameters, family, licence, whatever is known.
        to_fetch: whether `size` is a download.
    """

    name: str
    state: str
    size: int | None
    about: str
    to_fetch: bool = False

    @property
    def size_text(self) -> str:
        """Return the size with what it is, such as `98 MB on disk`; empty if unknown.

        >>> ModelLine("embedded/x", "fetched on first use", 92_871_040, "", to_fetch=True).size_text
        '93 MB to fetch'
        """
        return f"{self.size / 1e6:,.0f} MB {'to fetch' if self.to_fetch else 'on disk'}" if self.size else ""


def list_models(host: str | None = None) -> list[ModelLine]:
    """Return the embedded models, fetched or not, and what an Ollama server has.

    A server that does not answer is one line that says so, not an error.
    """
    from toolkit.models.weights import KNOWN, is_fetched

    lines = []
    for name, known in KNOWN.items():
        about, here = f"{known.about} ({known.licence})", is_fetched(name)
        state, size = ("ready", known.size) if here else ("fetched on first use", known.download)
        lines.append(ModelLine(f"embedded/{name}", state, size, about, to_fetch=not here))
    return [*lines, *_ollama_lines(host)]


def _ollama_lines(host: str | None) -> list[ModelLine]:
    from toolkit.models.ollama import OllamaServer

    try:
        with closing(OllamaServer(host)) as server:
            server.look_s = 2.0  # a list is looked at by the way; a host that swallows packets must not hold it up
            models = server.models()
    except ToolkitError as error:
        return [ModelLine("ollama/…", str(error), None, "")]
    lines = []
    for name, facts in models.items():
        known = facts.get("details") or {}
        about = [str(known[key]) for key in ("family", "parameter_size", "quantization_level") if known.get(key)]
        lines.append(ModelLine(f"ollama/{name}", "ready", facts.get("size"), " ".join(about)))
    return lines
