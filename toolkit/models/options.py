"""Fix the settings of one request, the same for every back end: Options.

Not here: how a back end sends them (`ollama`, `openai`, `embedded`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from toolkit.errors import ConfigError, check_word, did_you_mean

# llama.cpp aborts the process at 1; no prompt with its chat markers fits into fewer than this
_LEAST_CTX = 16
_MOST = 2**32  # no option of any back end holds more
_WHOLE = ("seed", "num_ctx", "num_predict", "top_k", "repeat_last_n", "num_keep", "num_batch", "num_gpu", "num_thread",
          "main_gpu")  # fmt: skip
_FRACTIONS = ("temperature", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty", "frequency_penalty",
              "timeout_s")  # fmt: skip
_LEAST = {  # option -> least value, and that in words
    "num_predict": (1, "a positive number of tokens"),
    "num_ctx": (_LEAST_CTX, f"at least {_LEAST_CTX} tokens"),
    "repeat_last_n": (0, "at least 0"),
    "num_keep": (-1, "at least -1"),
    "num_batch": (1, "at least 1"),
}
_LEVELS = ("low", "medium", "high", "max")
TRANSPORTS = ("auto", "chat", "raw")
_DURATION = re.compile(r"-?(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+")  # as Go writes it
SAMPLING = ("temperature", "seed", "top_p", "top_k", "min_p", "typical_p", "repeat_penalty", "repeat_last_n",
            "presence_penalty", "frequency_penalty")  # fmt: skip
LOADING = ("num_ctx", "num_batch", "num_gpu", "num_thread", "main_gpu", "use_mmap")
_NO_WORDS = ("timeout_s", "keep_alive")  # change no word of a reply


@dataclass(frozen=True)
class Options:
    """Hold the settings of one request; unknown names are refused, never passed on (Source: ollama-python#663).

    Those of `LOADING` hold from loading on: where one changes, Ollama loads the model anew, so keep them constant
    within a sweep. A sampling option that is None is sent as Ollama's own default, for else the model's Modelfile
    would decide.

    Attributes:
        temperature: 0 is greedy.
        seed: reaches the sampler on every back end.
        num_ctx: context window in tokens, at least 16; always sent.
        num_predict: most tokens to write; always finite (Source: ollama#7814).
        repeat_last_n: how many tokens back the penalties look; 0 is none. The -1 of old guides is refused by servers.
        num_keep: tokens kept at the start where a window slides.
        stop: strings at which writing ends; the text is cut there even if the server ignored them. Ollama gets those
            of the Modelfile too.
        think: None leaves the server's default, but is False where decoding is held to a schema: a model that
            thinks writes no JSON, and on some servers one that does not think then neither. Or True, False, or a
            level "low" / "medium" / "high" / "max".
        keep_alive: how long Ollama keeps the model loaded: "10m", or seconds; below 0 is for ever.
        timeout_s: seconds without a sign of work after which the request is given up. Until its first piece comes it
            may stand in a queue, so that what the server does for others of this process is a sign too.
        transport: how a conversation reaches the model. `chat` is the server's own way, which may read, drop or
            reorder what the model writes; `raw` lets the server render the prompt and sends that to raw completion, so
            that the text comes as it was written; `auto` is `raw` only where `chat` would lose something. None is
            `auto` where decoding is held to a schema, else `chat`.
        num_thread: threads; the embedded model's too.
    """

    temperature: float = 0.0
    seed: int = 0
    num_ctx: int = 8192
    num_predict: int = 512
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    num_keep: int | None = None
    stop: tuple[str, ...] = ()
    think: bool | str | None = None
    keep_alive: str | float | None = None
    timeout_s: float = 300.0
    transport: str | None = None
    num_batch: int | None = None
    num_gpu: int | None = None
    num_thread: int | None = None
    main_gpu: int | None = None
    use_mmap: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", _stops(self.stop))
        object.__setattr__(self, "keep_alive", _keep_alive(self.keep_alive))
        for name in (*_WHOLE, *_FRACTIONS):
            value, kinds = getattr(self, name), int if name in _WHOLE else (int, float)
            fits = isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < _MOST
            if not fits and not (value is None and _PLAIN[name] is None):
                wanted = "a whole number" if kinds is int else "a number"
                raise ConfigError(f"Option {name} must be {wanted}, not {value!r:.100}.")
            if value is not None and name in _LEAST and value < _LEAST[name][0]:
                raise ConfigError(f"Option {name} must be {_LEAST[name][1]}, not {value!r}.")
        if self.repeat_penalty is not None and self.repeat_penalty <= 0:
            raise ConfigError(f"Option repeat_penalty must be above 0, not {self.repeat_penalty!r}; 1 is none.")
        if self.use_mmap not in (None, True, False):
            raise ConfigError(f"Option use_mmap must be true or false, not {self.use_mmap!r:.100}.")
        if not (self.think is None or isinstance(self.think, bool) or self.think in _LEVELS):
            levels = ", ".join(map(repr, _LEVELS))
            raise ConfigError(f"Option think must be true, false, or one of {levels}, not {self.think!r:.100}.")
        if self.transport is not None:
            check_word("transport", self.transport, TRANSPORTS)

    @classmethod
    def of(cls, value: Options | Mapping[str, Any] | None, defaults: Options | None = None) -> Options:
        """Read options from a dict laid over `defaults`; an `Options` is taken whole; ConfigError if unusable."""
        if value is None:
            return defaults or cls()
        if isinstance(value, Options):
            return value
        known = [item.name for item in fields(cls)]
        for name in value:
            if name not in known:
                raise ConfigError(f"Unknown option {name!r}. {did_you_mean(str(name), known)}")
        return replace(defaults or cls(), **value)

    def for_key(self) -> dict[str, Any]:
        """Return what can change the words of a reply: all options but `timeout_s` and `keep_alive`.

        Of the transports only `raw` is named; `ChatModel.transport` says what `auto` is.
        """
        found = {name: value for name, value in self.to_dict().items() if name not in _NO_WORDS}
        return found if found.pop("transport", "") != "raw" else {**found, "transport": "raw"}

    def to_dict(self) -> dict[str, Any]:
        """Return the options that are set, as plain JSON data."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}  # asdict copies, ten times slower
        if found["stop"]:
            found["stop"] = list(self.stop)
        return {name: value for name, value in found.items() if value not in (None, ())}


_PLAIN = {item.name: item.default for item in fields(Options)}


def _stops(value: Any) -> tuple[str, ...]:
    """Return the stop strings; an empty one would end every reply at once, and as the only one stands for none."""
    stop = (value,) if isinstance(value, str) and value else value or ()
    if not isinstance(stop, (list, tuple)) or not all(isinstance(word, str) and word for word in stop):
        raise ConfigError(f"Option stop must be a text, or a list of texts that are not empty, not {value!r:.100}.")
    return tuple(stop)


def _keep_alive(value: Any) -> str | float | None:
    """Return a duration that Ollama takes: it refuses a number given as text (Source: ha-llmvision#625)."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST):
        return value
    if isinstance(value, str):
        if _DURATION.fullmatch(value):
            return value
        if re.fullmatch(r"-?\d{1,9}(\.\d*)?", value):
            return float(value) if "." in value else int(value)
    raise ConfigError(f'Option keep_alive must be a duration, such as "10m", or seconds, not {value!r:.100}.')
