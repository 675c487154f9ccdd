"""Say what went wrong, in one tree that a caller can catch at any height.

    ToolkitError
    ├── UserError                     the user can mend it; printed without a traceback
    │   ├── ConfigError               a recipe, case, protocol or schema file is wrong; a ValueError and TypeError too
    │   ├── ModelNotFoundError        no such model
    │   │   └── ServerGoneError       nobody answers at the address of its server
    │   ├── WeightsError              embedded weights missing, damaged or not fetchable
    │   ├── StoreError                a store of replies cannot be read or written; ends a sweep
    │   └── ReplayMissError           a request that the recordings do not hold
    ├── ModelError                    the model server failed on one request (see Reply.fault)
    ├── AgentError                    a run could not go on; `trace` holds everything up to there
    │   ├── LimitError                model calls, tokens, seconds or repetitions are used up
    │   └── UpdateError               a hook or tool returned something the run cannot use
    └── ToolError                     a tool call could not be carried out
        ├── ToolNotFoundException
        ├── ToolInvocationError
        │   ├── ToolArgumentsError    arguments do not fit the schema; nothing was run
        │   ├── ToolTimeoutError
        │   └── ToolNotApprovedError  a dangerous tool that nobody allowed; nothing was run
        ├── StringConversionError
        └── ToolOutputMergeError

Not here: faults of model and server during an evaluation. Those are data: `Reply.fault`, outcomes.
"""

from __future__ import annotations

import difflib
import heapq
import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

_MOST_COMPARED = 500  # names that are compared letter by letter; each takes some 40 µs
_MOST_NAMED = 30


class ToolkitError(Exception):
    """Root of every exception the toolkit raises on purpose."""


class UserError(ToolkitError):
    """Report something the user can mend; the message ends with what to do.

    Notebooks and the command line print it without a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        """Give IPython one line in place of the stack."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(UserError, ValueError, TypeError):
    """Report a recipe, case, protocol, schema or argument that cannot be used.

    It is a ValueError and a TypeError too, which is what the source libraries raise for a bad argument.
    """


class ModelNotFoundError(UserError):
    """Report a model name that nothing answers to, or a server that is not there."""


class ServerGoneError(ModelNotFoundError):
    """Report a server that does not answer; within a sweep it is waited for."""


class WeightsError(UserError):
    """Report embedded weights that are missing, damaged or cannot be fetched."""


class StoreError(UserError):
    """Report a store of replies that cannot be read or written: full disk, damaged file, no such file."""


class ReplayMissError(UserError):
    """Report a request for which the recordings hold no reply."""


class ModelError(ToolkitError):
    """Carry the fault of one model request to code that works with exceptions.

    Attributes:
        fault: the `toolkit.models.Fault` of the reply, or None.
    """

    def __init__(self, message: str, fault: Any = None) -> None:
        super().__init__(message)
        self.fault = fault


class AgentError(ToolkitError):
    """Report a run that could not go on; what it did so far is kept.

    Attributes:
        trace: the `toolkit.Trace` up to the failure: messages, state, events. None outside a run.
    """

    trace: Any = None


class LimitError(AgentError):
    """Report a run that used up its model calls, tokens or seconds, or repeats itself."""


class UpdateError(AgentError):
    """Report a hook or tool that returned something the run cannot use; names who and what."""


class ToolError(ToolkitError):
    """Root of the failures of one tool call."""


class ToolNotFoundException(ToolError):  # noqa: N818 - the name that Haystack users know
    """Report a call of a tool that was not offered."""


class ToolInvocationError(ToolError):
    """Report a tool that raised; `__cause__` is what it raised."""


class ToolArgumentsError(ToolInvocationError):
    """Report arguments that do not fit the tool's schema; the tool was not run."""


class ToolTimeoutError(ToolInvocationError):
    """Report a tool that did not finish in its time."""


class ToolNotApprovedError(ToolInvocationError):
    """Report a dangerous tool that the user did not allow; the tool was not run."""


class StringConversionError(ToolError):
    """Report a tool result that could not be turned into text."""


class ToolOutputMergeError(ToolError):
    """Report a tool result that could not be written to the state."""


def closest(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return up to `n` known names that look like `name`, best first.

    >>> closest("get_wether", ["get_weather", "send_mail"])
    ['get_weather']
    """
    pool = {item.casefold(): item for item in known}
    word, likely = name.casefold(), list(pool)
    if len(likely) > _MOST_COMPARED:
        pairs = set(itertools.pairwise(word))

        def likeness(item: str) -> float:
            return len(pairs.intersection(itertools.pairwise(item))) / (len(word) + len(item) + 1)

        likely = heapq.nlargest(_MOST_COMPARED, likely, key=likeness)
    return [pool[hit] for hit in difflib.get_close_matches(word, likely, n=n, cutoff=0.5)]


def check_word(what: str, word: Any, known: Iterable[str]) -> None:
    """Raise ConfigError unless a word is one of those known."""
    if word not in known:
        raise ConfigError(f"Unknown {what} {word!r}. {did_you_mean(str(word), known)}")


def check_number(what: str, value: Any, least: float = 0, *, whole: bool = True, optional: bool = False) -> None:
    """Raise ConfigError unless a value is a number from `least` on; `optional` lets None pass."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not value >= least:
        kind, none = "a whole number" if whole else "a number", ", or None" if optional else ""
        raise ConfigError(f"{what} must be {kind} from {least} on{none}, not {value!r}.")


def check_object(where: str, value: Any, kinds: Mapping[str, tuple[Any, str]], needed: Iterable[str] = ()) -> None:
    """Raise ConfigError unless a value is an object of known keys, each of its kind: {key: (type, words for it)}."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be an object with {', '.join(kinds)}, not {value!r:.100}.")
    for key, item in value.items():
        if key not in kinds:
            raise ConfigError(f"{where}: unknown key {key!r}. {did_you_mean(str(key), kinds)}")
        kind, words = kinds[key]
        if not isinstance(item, kind) or (kind is str and not item.strip()):
            raise ConfigError(f"{where}: {key} must be {words}, not {item!r:.100}.")
    for key in needed:
        if key not in value:
            raise ConfigError(f"{where} needs {key}, {kinds[key][1]}; it has {', '.join(value) or 'nothing'}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence that offers the nearest known name, and lists the known ones, of many only the first.

    >>> did_you_mean("hermess", ["airgap", "hermes"])
    "Did you mean 'hermes'? Known: airgap, hermes."
    """
    names = list(known)
    near = closest(name, names, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f"{hint}Known: {', '.join(names[:_MOST_NAMED]) or 'none'}{more}."


def install_hint(extra: str) -> str:
    """Return what to install for an extra, by its packages: a wheel of one's own has no name that pip could look up.

    >>> install_hint("embedded")  # doctest: +ELLIPSIS
    "Install: pip install 'xllamacpp>=..."
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = [line.partition(";") for line in requires("local-tool-calling") or ()]
    except PackageNotFoundError:  # run from a folder
        lines = []
    wanted = [name.strip() for name, _, mark in lines if re.search(rf"extra *== *.{extra}\b", mark)]
    return f"Install: pip install {' '.join(map(repr, wanted)) or f'.[{extra}] in the folder of the toolkit'}"
