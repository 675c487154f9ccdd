"""Find the next place of a text where a call, a thought or an echo may begin, in one compiled pattern.

The pattern is grouped by first character, so that the search runs over plain prose as a scan for a few characters.

Not here: what begins there (`syntaxes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from toolkit.extraction.syntaxes import ALIASES, Syntax, load


@dataclass(frozen=True, slots=True)
class Triggers:
    """Hold the patterns for one choice of syntaxes.

    Attributes:
        search: finds the next place; its group's name is the syntax.
        at_start: the same for the start of a line, without the line break.
        syntaxes: the syntaxes by name.
        later: name -> the syntaxes with the same first character that are tried after it, each with its pattern and
            its pattern for the start of a line.
        by_name: the syntax that is searched for by the names of the tools.
    """

    search: re.Pattern[str]
    at_start: re.Pattern[str]
    syntaxes: dict[str, Syntax]
    later: dict[str, list[tuple[Syntax, re.Pattern[str], re.Pattern[str]]]]
    by_name: Syntax | None

    @property
    def by_name_key(self) -> str:
        """Return the name of the syntax that is searched for by name."""
        return self.by_name.name if self.by_name is not None else ""

    def others(self, found: re.Match[str]) -> Iterator[tuple[Syntax, re.Match[str]]]:
        """Yield the syntaxes that open at the same place and are tried after the one that was found."""
        at_start = found.re is self.at_start
        for syntax, full, rest in self.later.get(found.lastgroup or "", ()):
            other = (rest if at_start else full).match(found.string, found.start(), found.endpos)
            if other is not None:
                yield syntax, other


@cache
def triggers(names: frozenset[str] | None) -> Triggers:
    """Return the patterns for these syntaxes; None for all."""
    chosen = [one for one in load().values() if names is None or one.mark or names & set(one.labels)]
    by_first: dict[str, list[str]] = {}
    for one in chosen:
        if one.by_name:
            continue
        first, rest = split_first(one.opener)
        by_first.setdefault(first, []).append(f"(?P<{one.name}>{rest})")
    search = "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in by_first.items())
    at_start = "|".join(by_first.get(r"\n", [r"(?!)"]))
    compiled = [(one, re.compile(one.opener), re.compile(split_first(one.opener)[1])) for one in chosen]
    later = {
        one.name: [
            item for item in compiled[place + 1 :] if split_first(item[0].opener)[0] == split_first(one.opener)[0]
        ]
        for place, one in enumerate(chosen)
    }
    by_name = next((one for one in chosen if one.by_name), None)
    return Triggers(re.compile(search), re.compile(at_start), {one.name: one for one in chosen}, later, by_name)


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
