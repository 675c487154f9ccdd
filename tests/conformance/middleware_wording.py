"""Do two texts of the libraries say the same in their own words? Pairs of patterns, whose parts must be the same.

Not here: texts of the scenario itself, which must be equal (`middleware_compare`).
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

USED = r"calls? (?:is|are) used up\."
OVER = r"(?:thread|run) limit exceeded \(\d+/(?P<number>\d+) calls\).*"
# the original's words and ours; parts of one name must agree
PAIRS: tuple[tuple[str, str], ...] = (
    (
        r"Error: (?P<name>.*) is not a valid tool, try one of \[(?P<names>.*)\]\.",
        r'There is no tool "(?P<name>.*)"\. Call one of: (?P<names>.*)\.',
    ),
    (r"Error invoking tool '[^']*' with kwargs .* with error:.*", r"Arguments of '[^']*' do not fit: .*"),
    (r"Returning structured response: (?P<data>\{.*\})", r"The answer was taken: (?P<data>\{.*\})"),
    (r"Here is a summary of the conversation to date:(?P<text>.*)", r"Summary of the conversation so far:(?P<text>.*)"),
    (r"Updated todo list to (?P<data>\[.*\])", r"The list is kept: (?P<data>\[.*\])"),
    (
        r"Error: The `write_todos` tool should never be called multiple times .*",
        r"Not kept\. Call write_todos once, .*",
    ),
    (
        r"Model call failed after (?P<number>\d+) attempts? with (?P<error>.*)",
        r"The model could not be asked: (?P<error>.*) \((?P<number>\d+) tr(?:y|ies)\)\.",
    ),
    (
        r"Tool '(?P<name>.*)' failed after (?P<number>\d+) attempts? with (?P<error>.*)\. Please try again\.",
        r'Tool "(?P<name>.*)" failed (?P<number>\d+) times?: (?P<error>.*)\.',
    ),
    (
        r"Model call limits exceeded: (?:thread|run) limit \(\d+/(?P<number>\d+)\).*",
        r"Stopped: all (?P<number>\d+) model calls are used up\.",
    ),
    (
        r"Tool call limit exceeded\. Do not make additional tool calls\.",
        rf"No tool may be called again; all \d+ {USED}",
    ),
    (
        r"Tool call limit exceeded\. Do not call '(?P<name>.*)' again\.",
        rf'Tool "(?P<name>.*)" may not be called again; its \d+ {USED}',
    ),
    (rf"Tool call limit reached: {OVER}", rf"No tool may be called again; all (?P<number>\d+) {USED}"),
    (
        rf"'(?P<name>.*)' tool call limit reached: {OVER}",
        rf'Tool "(?P<name>.*)" may not be called again; its (?P<number>\d+) {USED}',
    ),
    (r"Execution stopped before this tool call could run .*", r"Not run: the run was stopped first\."),
)


def same_words(theirs: str, ours: str) -> bool | None:
    """Tell whether two texts say the same; None where the original's is none that is known here."""
    known = [(found, said) for other, said in PAIRS if (found := re.fullmatch(other, theirs, re.DOTALL))]
    if not known:
        return None
    return any(matches(found, re.fullmatch(said, ours, re.DOTALL)) for found, said in known)


def matches(theirs: re.Match[str], ours: re.Match[str] | None) -> bool:
    """Tell whether the parts that both texts hold are the same."""
    if ours is None:
        return False
    left, right = theirs.groupdict(), ours.groupdict()
    if not offered(right.pop("names", None)) <= offered(left.pop("names", None)):
        return False
    return all(part(key, left[key]) == part(key, right[key]) for key in left.keys() & right.keys())


def offered(names: str | None) -> set[str]:
    """Return tools that a text names; ours names those only that were offered, the original's all that there are."""
    return set((names or "").split(", ")) - {"", "none"}


def part(name: str, text: str) -> Any:
    """Return a part of a text without what only its library's way of writing makes of it."""
    if name == "data":
        try:
            return json.loads(text)
        except ValueError:
            return ast.literal_eval(text)
    return re.sub(r"\s", "", text)
