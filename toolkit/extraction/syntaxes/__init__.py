"""List the call syntaxes that can be read, one small module each.

A syntax is a pattern that opens it and a function that reads on from there. Adding one touches one file: put a module
here that calls `syntax` or `wrapper`; its first docstring line is its line in `table()`.

Not here: how a reply is walked (`toolkit.extraction.walk`).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from toolkit.extraction.bodies import wrapped
from toolkit.extraction.drafts import Reading, Source

Read = Callable[[Source, re.Match[str]], Reading | None]


@dataclass(frozen=True, slots=True)
class Syntax:
    r"""Hold one call syntax.

    Attributes:
        name: what recipes and results call it.
        opener: pattern that opens it; begins with a literal character, where `\\n` also stands for the start of the
            text and for the end of the construct before. It must have no capturing groups.
        read: reads on from a match of `opener`; None if it is no call after all.
        labels: names that its results may carry.
        summary: one line about it.
        mark: it holds no calls and is read beside every chosen syntax.
        late: its opener is so wide that it is tried after all others.
        by_name: it begins with a bracket behind a tool's name, which is searched for by the names' last letters.
        starts: words of which one begins the line, if no sign does; a test that makes the search cheap.
    """

    name: str
    opener: str
    read: Read
    labels: tuple[str, ...]
    summary: str
    mark: bool = False
    late: bool = False
    by_name: bool = False
    starts: tuple[str, ...] = ()


SYNTAXES: dict[str, Syntax] = {}
ALIASES = {
    "airgap": "tool_call_line",
    "pythonic": "llama_pythonic",
    "json": "bare_json",
    "xlam_list": "json_list",
    "qwen3_xml": "qwen3_coder",
}
# Module whose marks are read beside every chosen syntax, since they hold no calls.
_MARKS = "toolkit.extraction.syntaxes.marks"


def syntax(
    name: str,
    opener: str,
    labels: tuple[str, ...] = (),
    *,
    late: bool = False,
    by_name: bool = False,
    starts: str = "",
) -> Callable[[Read], Read]:
    """Register the function below as the reader of a syntax; for the options see `Syntax`."""

    def register(read: Read) -> Read:
        summary = (sys.modules[read.__module__].__doc__ or "").split("\n", 1)[0]
        SYNTAXES[name] = Syntax(
            name,
            opener,
            read,
            (name, *labels),
            summary,
            read.__module__ == _MARKS,
            late,
            by_name,
            tuple(starts.split()),
        )
        return read

    return register


def wrapper(name: str, opener: str, closer: str, labels: tuple[str, ...] = (), *, starts: str = "") -> None:
    """Register a syntax that is a body (`toolkit.extraction.bodies`) between two markers.

    Args:
        name: what it is called.
        opener: pattern of the marker before the body.
        closer: pattern of the marker behind it; it may be missing in a reply.
        labels: other names that its results may carry, from the kind of body.
        starts: see `Syntax`.
    """
    closing = re.compile(closer)

    def read(source: Source, found: re.Match[str]) -> Reading | None:
        start = found.start() + (1 if found[0].startswith("\n") else 0)
        return wrapped(source, start, found.end(), name, closing)

    summary = (sys._getframe(1).f_globals.get("__doc__") or "").split("\n", 1)[0]
    SYNTAXES[name] = Syntax(name, opener, read, (name, *labels), summary, starts=tuple(starts.split()))


@cache
def load() -> dict[str, Syntax]:
    """Return all syntaxes by name, in the order in which they are tried."""
    for module in sorted(item.name for item in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return dict(sorted(SYNTAXES.items(), key=lambda item: item[1].late))


def table() -> list[tuple[str, str]]:
    """Return (name, one line about it) for each syntax."""
    return [(one.name, one.summary) for one in load().values() if not one.mark]
