"""Read one JSON-like or Python-like value from hostile text, mending its form and recording each repair.

One recursive reader with a depth limit, linear in what it reads: it never looks further ahead than the next few
tokens and never backs up. What changes a meaning is refused: a cut value, NaN, dots for a value, a bare word.

Not here: the strict reading that comes first (`lenient_json`), calls in Python syntax (`python_calls`),
what closes a string (`quoted`).
"""

from __future__ import annotations

import re
from typing import Any

from toolkit.extraction.budget import VALUE
from toolkit.extraction.quoted import Quote, find_quote, read_string
from toolkit.extraction.source import Source

DEPTH = 64  # nested levels; the strict reader, in C, allows more

_JUNK = re.compile(r"[\s\ufeff\u200b\u200c\u200d\u2060]++|(?:\\[nrt])++|//[^\n]*+|/\*|#[^\n]*+")
_MAY_BE_JUNK = frozenset(" \t\r\n\f\v\x1c\x1d\x1e\x1f/#\\")
_ZERO_WIDTH = re.compile("[\ufeff\u200b\u200c\u200d\u2060]")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?")
_WORD = re.compile(r"[A-Za-z_$][\w$]*+")
_BARE_KEY = re.compile(r"[A-Za-z_$][\w$.\-\\]*+(?=[ \t]*+(?::|=>))")
_FLAG = re.compile(r"--([A-Za-z]\w*+(?:-\w++)*+)[ \t]*+(?:=>?|:)?[ \t]*+")  # `--key value`, as MiniMax writes pairs
_FLAG_END = r"(?=\s*+(?:--[A-Za-z]|[},]))"
_FLAG_TEXT = re.compile("|".join(rf"{q}(?:[^{q}\\]|\\[\s\S]|{q}(?!{_FLAG_END}))*+{q}{_FLAG_END}" for q in "\"'"))
_FLAG_VALUE = re.compile(r"(?:(?!\s--)[^\n{}\"',])*+")
_LOOSE_KEY = re.compile(r"[^\s:{}\[\],\"'<>][^:{}\[\],\"<>\n]*+(?=:)")  # where text has marks of its own
_BARE_VALUE = re.compile(r"[^,{}\[\]\n\"<>]++")
_DELIMITER = re.compile(r"[\s,}\])<`;:/#\ufeff\u200b\u200c\u200d\u2060]|\\[nrt]|$")
_KEY_AHEAD = re.compile(r"\s*+(?:[\"'“‘`][^\"'“”’`\n]{1,64}[\"'”’`]|[A-Za-z_]\w*+)\s*+(?::|=>)|\s*+--[A-Za-z]")
# What may stand where a closer is missing: the next wrapper, fence or marker, or a line of prose.
STOP = re.compile(r"</|<\|(?!\"\|>)|<｜|<\w{1,40}_call|<end|```|~~~|\[/?[A-Z_]{4,40}\]|✿|\r?\n[^\S\n]*+[A-Z*\n-]|$")
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_NOT_FINITE = {"NaN", "Infinity", "nan", "inf", "Inf"}
_PLACE = re.compile(r"\.\.\.|…|<[\w -]*+>|(?:function|tool|action)_name\b")  # what templates write for a value


class Unreadable(Exception):  # noqa: N818 - control flow, never seen outside the package
    """Say that no value can be read, why, and where."""

    def __init__(self, problem: str, position: int) -> None:
        self.problem, self.position = problem, position


class ValueReader:
    """Read values at a moving position of one text."""

    closers = "}]"
    # words in place of all members, as in `{its arguments}`
    template: re.Pattern[str] | None = re.compile(r"\s*+[A-Za-z_][\w .-]*+\}")
    comma = False  # whether a comma stood behind the last member

    def __init__(self, source: Source, pos: int, *, bare_values: bool = False) -> None:
        self.source, self.text, self.limit = source, source.text, source.limit
        self.pos, self.bare_values = pos, bare_values
        self.repairs: list[str] = []  # codes of what was mended so far, each once, in order
        self.closed = True  # False once a closer was missing
        self.solid = True  # whether the last value cannot go on beyond the end of the text
        self.members: list[Any] = []  # the complete members of the outermost array, also of one that is cut
        self.keys: list[int] = []  # where the members of an object without its opening brace begin
        self.member = False  # whether the value that is read is a member of an object

    def note(self, code: str) -> None:
        """Record a repair."""
        if code not in self.repairs:
            self.repairs.append(code)

    def fail(self, problem: str) -> Unreadable:
        """Return the exception for a problem at the present position."""
        if problem == "truncated":
            self.source.touch_end()
        return Unreadable(problem, self.pos)

    def peek(self) -> str:
        """Return the next character, or "" at the end."""
        return self.text[self.pos] if self.pos < self.limit else ""

    def space(self) -> None:
        """Skip blanks, comments and zero-width characters."""
        text = self.text
        if self.pos >= self.limit or not (text[self.pos] in _MAY_BE_JUNK or text[self.pos] > "~"):
            return
        while (found := _JUNK.match(text, self.pos, self.limit)) is not None:
            end, first = found.end(), text[found.start()]
            self.source.budget.spend(end - self.pos)
            if first in "/#":
                self.note("comments")
                if found[0] == "/*":
                    end = text.find("*/", end, self.limit) + 2
                    if end < 2:
                        raise self.fail("truncated")
            elif first == "\\":
                self.note("escaped_blanks")
            elif _ZERO_WIDTH.search(found[0]):
                self.note("strip_bom_zw")
            self.pos = end

    def value(self, depth: int = 0) -> Any:
        """Read the value that begins here, after blanks.

        Raises:
            Unreadable: there is none.
        """
        if depth > DEPTH:
            raise self.fail("too_deep")
        self.source.budget.spend(VALUE)
        self.space()
        first = self.peek()
        if not first:
            raise self.fail("truncated")
        if first == "{":
            return self.object(depth)
        if first == "[":
            return self.array(depth, "]")
        if (quote := find_quote(self.text, self.pos)) is not None:
            return self.string(quote)
        return self.scalar()

    def object(self, depth: int, opened: bool = True) -> dict[str, Any]:
        """Read an object; `opened=False` if its opening brace is missing."""
        doubled = False
        if opened:
            self.pos += 1
            self.space()
            if doubled := self.peek() == "{":
                self.note("doubled_braces")
                self.pos += 1
            if self.template is not None and self.template.match(self.text, self.pos, self.limit):
                raise self.fail("placeholder")
        else:
            self.note("missing_open_brace")
        result: dict[str, Any] = {}
        while not self.ends("}", bool(result)):
            if not opened:
                self.keys.append(self.pos)
            flag = _FLAG.match(self.text, self.pos, self.limit)
            key = flag[1] if flag else self.key()
            if not flag:
                self.colon()
            if key in result:
                self.note("duplicate_keys")
            self.member = True
            result[key] = self.flagged(flag.end(), depth + 1) if flag else self.value(depth + 1)
            self.separator("}")
        if doubled and self.peek() == "}":
            self.pos += 1
        self.solid = True
        return result

    def colon(self) -> None:
        """Step over what stands between a key and its value."""
        self.space()
        if self.peek() not in (":", "="):
            raise self.fail("truncated" if not self.peek() else "bad_json")
        self.pos += 2 if self.text.startswith("=>", self.pos) else 1

    def flagged(self, pos: int, depth: int) -> Any:
        """Read the value behind `--key`: a value of its own, or the words up to the next such key; True if none."""
        self.note("unquoted_keys")
        self.pos, quote = pos, find_quote(self.text, pos)
        if quote is not None and (whole := _FLAG_TEXT.match(self.text, pos, self.limit)) is not None:
            return self.string(quote, end=whole.end())
        if quote is not None or self.text.startswith(("[", "{"), pos):
            return self.value(depth)
        found = _FLAG_VALUE.match(self.text, pos, self.limit)
        written = found[0].strip() if found else ""
        self.pos, self.solid = pos + len(found[0] if found else ""), True
        if self.pos >= self.limit:
            raise self.fail("truncated")
        if _NUMBER.fullmatch(written):
            return self.number(written)
        if not written or written in _LITERALS:
            return _LITERALS[written] if written else True
        self.note("unquoted_value")
        return written

    def array(self, depth: int, closer: str) -> list[Any]:
        """Read an array, or a tuple if `closer` is a round bracket."""
        self.pos += 1
        result: list[Any] = []
        if depth == 0:
            self.members = result
        while not self.ends(closer, bool(result)):
            self.member = False
            result.append(self.value(depth + 1))
            self.separator(closer)
        self.solid = True
        return result

    def ends(self, closer: str, begun: bool) -> bool:
        """Tell whether the bracket ends here, and step over its closer if it is there."""
        self.space()
        following = self.peek()
        if following == closer:
            self.pos += 1
            return True
        if following == "," and begun:
            raise self.fail("bad_json")
        if not following:
            if begun and self.solid and not self.comma:
                self.missing()
                return True
            raise self.fail("truncated")
        if begun and self.closes_outer(following, closer):
            self.missing()
            return True
        return False

    def closes_outer(self, following: str, closer: str) -> bool:
        """Tell whether something stands here that shows that this bracket's own closer is missing."""
        if following in "}])":
            return following != closer
        return following in "<`~[✿" and STOP.match(self.text, self.pos, self.limit) is not None

    def missing(self) -> None:
        """Record a closer that is not there."""
        self.note("missing_closers")
        self.closed = False

    def separator(self, closer: str) -> None:
        """Step over what separates two members: a comma, or nothing where one was forgotten."""
        before = self.pos
        self.space()
        self.comma = False
        following = self.peek()
        if following == ",":
            self.pos += 1
            self.space()
            self.comma = True
            if self.peek() and self.peek() in "}])":
                self.note("trailing_comma")
        elif following and following not in "}])":
            self.unseparated(before, closer)

    def unseparated(self, before: int, closer: str) -> None:
        """Judge two members without a comma: a forgotten comma, or the end of a bracket without its closer."""
        ahead = _KEY_AHEAD.match(self.text, self.pos, self.limit)
        member = self.peek() == "{" or (self.peek() in "\"'" and self.pos > before)
        label = self.peek().isupper() and "\n" in self.text[before : self.pos]  # such as the next TOOL_CALL:
        if (closer == "}" and ahead is not None and not label) or (closer == "]" and member):
            self.note("missing_comma")
        elif STOP.match(self.text, self.pos, self.limit) or STOP.match(self.text, before, self.limit):
            self.limit = self.pos = before  # nothing of this value lies beyond
        else:
            raise self.fail("bad_json")

    def key(self) -> str:
        """Read the key of a member."""
        self.source.budget.spend(VALUE)
        quote = find_quote(self.text, self.pos)
        if quote is not None:
            return self.string(quote, key=True)
        pattern = _LOOSE_KEY if self.bare_values else _BARE_KEY
        if (bare := pattern.match(self.text, self.pos, self.limit)) is not None:
            self.pos = bare.end()
            self.note("unquoted_keys")
            return bare[0].replace("\\_", "_").rstrip("\\")
        if self.text.startswith(("...", "…"), self.pos):
            raise self.fail("placeholder")
        cut = _WORD.match(self.text, self.pos, self.limit)
        raise self.fail("truncated" if cut and cut.end() == self.limit else "bad_json")

    def string(self, quote: Quote, key: bool = False, end: int | None = None) -> str:
        """Read a quoted string, whose `end` may be known."""
        source = self.source if end is None else self.source.within(end)
        found = read_string(source, self.pos, quote, key=key, closers=self.closers, member=self.member)
        if found is None:
            raise self.fail("truncated")
        for code in found.repairs:
            self.note(code)
        self.pos, self.solid = found.end, True
        return found.value

    def scalar(self) -> Any:
        """Read a number, a literal or, where allowed, bare words."""
        start = self.pos
        number = _NUMBER.match(self.text, start, self.limit)
        if number is not None and _DELIMITER.match(self.text, number.end(), self.limit):
            self.pos = number.end()
            self.solid = self.pos < self.limit
            return self.number(number[0])
        word = _WORD.match(self.text, start, self.limit)
        if word is not None and word[0] in _LITERALS and _DELIMITER.match(self.text, word.end(), self.limit):
            self.pos, self.solid = word.end(), True
            if word[0][0] in "TFN":
                self.note("py_literals")
            return _LITERALS[word[0]]
        return self.bare(start, word[0] if word else "")

    def number(self, written: str) -> int | float:
        """Return what a number's text stands for."""
        if not re.fullmatch(r"-?(0|[1-9]\d*+)(\.\d++)?([eE][-+]?\d++)?", written):
            self.note("number_form")
        try:
            number = float(written) if re.search(r"[.eE]", written) else int(written)
        except ValueError:
            raise self.fail("bad_json") from None
        if number in (float("inf"), float("-inf")):
            raise self.fail("not_finite")
        return number

    def bare(self, start: int, word: str) -> Any:
        """Refuse a bare word, or take it as text where the syntax writes text without quotes."""
        text = self.text
        if word in _NOT_FINITE or text.startswith(("-Infinity", "-inf", "-NaN"), start):
            raise self.fail("not_finite")
        if _PLACE.match(text, start, self.limit):
            raise self.fail("placeholder")
        found = _BARE_VALUE.match(text, start, self.limit) if self.bare_values else None
        self.source.budget.spend(found.end() - start if found else 0)
        if found is None or found.end() >= self.limit:
            raise self.fail("truncated" if start + len(word) >= self.limit else "bad_json")
        self.pos, self.solid = found.end(), True
        self.note("unquoted_value")
        return found[0].strip()
