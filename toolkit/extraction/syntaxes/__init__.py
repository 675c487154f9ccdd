"""List what can be read: the call syntaxes, and the marks of what holds no calls.

A syntax is a pattern that opens it and a function that reads on from there (`toolkit.extraction.drafts.Syntax`). One
that puts a known body between other tags is a row in `wrappers`; a mark is a row in `marks`; one with a logic of its
own is a function in a module here, registered with `syntax`.

Not here: how a reply is walked (`toolkit.extraction.walk`).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from toolkit.extraction.drafts import Read, Syntax

_SYNTAXES: list[Syntax] = []
# What a body is called that tells more than the wrapper round it; a syntax may say otherwise.
_FORMS = {"function": "qwen3_coder", "function_json": "functionary_v31", "pairs": "glm45"}
ALIASES = {
    "airgap": "tool_call_line",
    "pythonic": "llama_pythonic",
    "json": "bare_json",
    "xlam_list": "json_list",
    "qwen3_xml": "qwen3_coder",
}


def register(
    name: str,
    read: Read,
    example: str,
    opener: str,
    *,
    labels: str = "",
    starts: str = "",
    closer: str = "",
    **more: Any,
) -> None:
    """Register a syntax, or another way to open one; for the options see `Syntax`.

    Labels and starts are words with blanks between. Without a summary the first line of the reader's docstring is one.
    """
    more.setdefault("summary", (read.__doc__ or "").split("\n", 1)[0])
    more["closer"] = re.compile(closer) if closer else None
    more["forms"] = _FORMS | more.get("forms", {})
    all_labels, words = (name, *labels.split()), tuple(starts.split())
    _SYNTAXES.append(Syntax(name, opener, read, example=example, labels=all_labels, starts=words, **more))


def syntax(name: str, example: str, opener: str, **more: Any) -> Callable[[Read], Read]:
    """Register the function below as a reader."""

    def decorate(read: Read) -> Read:
        register(name, read, example, opener, **more)
        return read

    return decorate


@cache
def load() -> tuple[Syntax, ...]:
    """Return all in the order in which they are tried, calls first; what opens in several ways is there for each."""
    for module in sorted(item.name for item in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return tuple(sorted(_SYNTAXES, key=lambda one: (one.late, one.kind != "call")))


def table() -> dict[str, str]:
    """Return the call syntaxes: name -> one line about it."""
    return {one.name: one.summary for one in reversed(load()) if one.kind == "call"}
