"""Find the next place of a text where a call, a thought or an echo may begin, in one compiled pattern.

The pattern is grouped by first character, so that the search runs over plain prose as a scan for a few characters.

Not here: what begins there (`syntaxes`).
"""

from __future__ import annotations

import re
from functools import cache

from toolkit.extraction.syntaxes import ALIASES, Syntax, load


@cache
def triggers(names: frozenset[str] | None) -> tuple[re.Pattern[str], re.Pattern[str], dict[str, Syntax]]:
    """Return the pattern to search with, the pattern for the start of a line, and the syntaxes by group name.

    Args:
        names: the syntaxes to look for; None for all.
    """
    chosen = [one for one in load().values() if names is None or one.mark or names & set(one.labels)]
    by_first: dict[str, list[str]] = {}
    for one in chosen:
        first, rest = split_first(one.opener)
        by_first.setdefault(first, []).append(f"(?P<{one.name}>{rest})")
    search = "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in by_first.items())
    at_start = "|".join(by_first.get(r"\n", [r"(?!)"]))
    return re.compile(search), re.compile(at_start), {one.name: one for one in chosen}


def split_first(opener: str) -> tuple[str, str]:
    r"""Split an opener after its first literal character.

    >>> split_first(r"\[TOOL_CALLS\]"), split_first("<tool>")
    (('\\[', 'TOOL_CALLS\\]'), ('<', 'tool>'))
    """
    length = 2 if opener.startswith("\\") else 1
    return opener[:length], opener[length:]


def syntax_names(protocol: object) -> frozenset[str] | None:
    """Return the names of the syntaxes that a protocol allows; None for all.

    Args:
        protocol: `auto`, a name, or an object with `syntax` and `fallbacks`.

    Raises:
        ConfigError: no such syntax.
    """
    if protocol is None or protocol == "auto":
        return None
    if isinstance(protocol, str):
        names = [protocol]
    else:
        names = [str(getattr(protocol, "syntax", "auto")), *map(str, getattr(protocol, "fallbacks", ()))]
    if "auto" in names:
        return None
    known = {label for one in load().values() for label in one.labels}
    wanted = frozenset(ALIASES.get(name, name) for name in names)
    if unknown := sorted(wanted - known):
        from toolkit.errors import ConfigError

        raise ConfigError(f"No call syntax is called {unknown[0]!r}. Use 'auto' or one of: {', '.join(sorted(known))}.")
    return wanted
