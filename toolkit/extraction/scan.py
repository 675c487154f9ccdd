"""Find the next place of a text where a call, a thought or an echo may begin.

There is one compiled pattern for each first character, so that a search runs over plain prose as a scan for that
character; what begins a line is first tested for the few words that can begin one there.

Not here: what begins there (`syntaxes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from toolkit.errors import ConfigError, closest
from toolkit.extraction.drafts import Syntax
from toolkit.extraction.syntaxes import ALIASES, load

_LITERAL = re.compile(r"(?:(?:[\w<>/ ✿｜▁-]|\\[^\w\s])(?![?*+{]))*+")
_CHARACTERS = {r"\n": "\n"}  # what an escaped first character stands for, if not for itself
Keyed = tuple[str, Syntax]  # a name of a group in a pattern, and what it opens


@dataclass(frozen=True, slots=True)
class Triggers:
    """Hold the patterns for one choice of syntaxes."""

    # the first characters of a pattern, and it; the name of a match's group is the key of its syntax
    searches: tuple[tuple[str, re.Pattern[str]], ...]
    at_start: re.Pattern[str]  # what may begin a line, without the line break
    sign: re.Pattern[str]  # the first characters of all searches, and the bracket behind a tool's name
    # key -> syntax; None stands for the one that is searched for by the names of the tools
    syntaxes: dict[str | None, Syntax]
    later: dict[str | None, str]  # key -> pattern of what has the same first character and is tried after it
    labels: frozenset[str] | None  # what calls may be labelled; None for anything

    def is_prose(self, text: str) -> bool:
        """Tell at a glance that nothing can begin in a text, as in a short answer on one line."""
        return text.isascii() and self.sign.search(text) is None and self.at_start.match(text) is None

    def others(self, found: re.Match[str]) -> Iterator[tuple[Syntax, re.Match[str]]]:
        """Yield the syntaxes that open at the same place and are tried after the one that was found."""
        key = found.lastgroup
        while later := self.later.get(key):
            first = "" if found.re is self.at_start else split_first(self.syntaxes[key].opener)[0]
            other = re.compile(first + later).match(found.string, found.start(), found.endpos)  # which `re` remembers
            if other is None:
                return
            key = other.lastgroup
            yield self.syntaxes[key], other


@cache
def triggers(names: frozenset[str] | None) -> Triggers:
    """Return the patterns for these syntaxes; None for all."""
    chosen = [one for one in load() if names is None or one.kind != "call" or names & set(one.labels)]
    keys = [None if one.by_name else f"s{number}" for number, one in enumerate(chosen)]
    groups: dict[str, list[Keyed]] = {}
    for key, one in zip(keys, chosen, strict=True):
        if key is not None:
            groups.setdefault(split_first(one.opener)[0], []).append((key, one))
    groups = {first: _in_order(group) for first, group in groups.items()}
    run = {"<": "(?!<<)"}  # nothing begins with three of them; a run of them is passed over at once
    searches = tuple(
        (_literal(group), re.compile(f"{first}{run.get(first, '')}{_branches(group)}"))
        for first, group in groups.items()
    )
    at_start = re.compile(_branches(groups[r"\n"]) if r"\n" in groups else r"(?!)")
    later: dict[str | None, str] = {
        key: _branches(group[place + 1 :]) if group[place + 1 :] else ""
        for group in groups.values()
        for place, (key, _) in enumerate(group)
    }
    labels = names and names.union(*(one.labels for one in chosen if one.name in names))
    # a colon stands in much prose, so that what is before and behind it counts too
    signs = re.escape("".join({"(", *(literal[0] for literal, _ in searches)} - {":"}))
    sign = re.compile("|".join([f"[{signs}]", *(one.pattern for literal, one in searches if literal[0] == ":")]))
    return Triggers(searches, at_start, sign, dict(zip(keys, chosen, strict=True)), later, labels)


def _in_order(group: list[Keyed]) -> list[Keyed]:
    """Return the syntaxes with one first character in the order in which they are tried."""
    return sorted(group, key=lambda item: bool(item[1].starts or item[1].late))


def _branches(group: list[Keyed]) -> str:
    """Return the rests of openers with the same first character as one pattern; the guarded ones come behind a test."""
    guarded = [item for item in group if item[1].starts]
    branches = [_branch(*item) for item in group if not item[1].starts]
    if guarded:
        words = _words(sorted({word for _, one in guarded for word in one.starts}))
        rests = "|".join(_branch(*item) for item in guarded)
        branches.append(rf"(?=[ \t]*+(?:[^A-Za-z \t\r\n]|{words}))(?:{rests})")
    return f"(?:{'|'.join(branches)})"


def _words(words: list[str]) -> str:
    """Return words as one pattern that looks at each first letter once.

    >>> _words(["Call", "Here", "Human"])
    '(?=[CH])(?:C(?:all)|H(?:ere|uman))'
    """
    by_first: dict[str, list[str]] = {}
    for word in words:
        by_first.setdefault(re.escape(word[0]), []).append(re.escape(word[1:]))
    groups = "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in by_first.items())
    return f"(?=[{''.join(by_first)}])(?:{groups})"


def _branch(key: str, one: Syntax) -> str:
    return f"(?P<{key}>{split_first(one.opener)[1]})"


def _literal(group: list[Keyed]) -> str:
    """Return the characters that all openers of a group begin with; the longer, the fewer places are looked at."""
    first, rest = split_first(group[0][1].opener)
    more = _LITERAL.match(rest) if len(group) == 1 else None
    return _CHARACTERS.get(first, first[-1]) + (more[0].replace("\\", "") if more else "")


def split_first(opener: str) -> tuple[str, str]:
    r"""Split an opener after its first literal character.

    >>> split_first(r"\[TOOL_CALLS\]"), split_first("<tool>")
    (('\\[', 'TOOL_CALLS\\]'), ('<', 'tool>'))
    """
    length = 2 if opener.startswith("\\") else 1
    return opener[:length], opener[length:]


@cache
def _labels() -> frozenset[str]:
    return frozenset(label for one in load() for label in one.labels)


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
    known = _labels()
    wanted = frozenset(ALIASES.get(name, name) for name in names)
    if unknown := sorted(wanted - known):
        usual = ["action_json", "airgap", "hermes"]  # the protocols in prompts/
        near = closest(unknown[0], usual, 1) or closest(unknown[0], [*known, *ALIASES], 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"No call syntax is called {unknown[0]!r}.{hint} Use 'auto', a protocol ({', '.join(usual)}), "
            "or a syntax that `toolkit.extraction.syntaxes.table()` lists."
        )
    return wanted
