r"""Read calls in Python syntax, such as `[f(a=1), g.h(b='x')]`, as models really write them; nothing is evaluated.

Reserved words as keywords, `true` and `null`, raw newlines in strings, missing brackets, `\\_`, back-ticks and quotes
round a call, positional arguments and expressions are all read. What is no literal is kept as its source text.

Not here: mapping positional arguments to parameters (`shapes`), deciding whether it is meant as a call (`places`).
"""

from __future__ import annotations

import re
from typing import Any

from toolkit.extraction.arithmetic import arithmetic
from toolkit.extraction.budget import VALUE
from toolkit.extraction.drafts import Body, Draft
from toolkit.extraction.source import Source
from toolkit.extraction.values import DEPTH, STOP, Unreadable, ValueReader

CALL = re.compile(r"[A-Za-z_][\w.\\\-/:]*+[ \t]*+\(")
_KEYWORD = re.compile(r"(?:[\"']?)((?:[A-Za-z_$]|\\_)[\w\\.\-$]*+)(?:[\"']?)\s*+(=(?!=)|:(?!:))")
_PREFIX = re.compile(r"[rRbBfFuU]{1,2}(?=[\"'])")
# The usual argument, for which nothing has to be weighed: a plain literal with the next one, or the end, behind it.
_PLAIN = re.compile(
    r"([A-Za-z_]\w*+)=('[^'\\\x00-\x1f\x7f]*+'|\"[^\"\\\x00-\x1f\x7f]*+\"|-?(?:0|[1-9]\d{0,14})(?![\w.])"
    r"|[Tt]rue\b|[Ff]alse\b|None\b|null\b)"
    r"(?:,[ ]?(?=[A-Za-z_]\w*+=[^=])|(?=\)(?:\]?[ ]*+(?:$|\n|<)|,[ ]?[A-Za-z_][\w.]*+\()))"
)
_PLAIN_WORDS = {"true": True, "false": False, "none": None, "null": None}
_NEXT_KEYWORD = re.compile(r"\s*+[\"']?(?:[A-Za-z_$]|\\_)[\w\\.\-$]*+[\"']?\s*+(?:=(?!=)|:)|\s*+[)\]}]|\s*+$")
_HOLDS_PLACE = re.compile(r"\.{3,}+|…|\?++|_{2,}+|<[^<>]*+>")
_EXPRESSION_STEP = re.compile(r"[^()\[\]{},\"'<`]++|[\s\S]")
_LONGEST_EXPRESSION = 1000
_LIST_SEPARATOR = re.compile(r"\s*+[,;]*+\s*+")
_LINE_SEPARATOR = re.compile(r"[ \t]*+(?:[,;]|\r?\n)?(?:\s++|#[^\n]*+(?:\n|$))*+")
_HALF_CALL = re.compile(r"(?:[A-Za-z_][\w.\\\-/:]*+)?[ \t]*+")
_CLOSING = re.compile(r"\s*+\)")
_NEXT_LIST = re.compile(r"\s*+,?\s*+\[?")
_WRAPPER = re.compile(
    r"(?:print|await|return)\b[ \t]*+\(?|[A-Za-z_]\w*+[ \t]*+=[ \t]*+(?=(?:await[ \t]++)?[A-Za-z_][\w.\\\-]*+\()"
)


class CallReader(ValueReader):
    """Read calls and Python literals at a moving position."""

    closers = "}])"
    template = None  # `{x}` is an expression
    named = True  # whether the present argument has a name

    def note(self, code: str) -> None:
        """Record a repair; quotes and words of Python are at home here."""
        if code not in ("single_quotes", "py_literals", "triple_quotes"):
            super().note(code)

    def value(self, depth: int = 0) -> Any:
        """Read a literal, or keep an expression as its source text."""
        if depth > DEPTH:
            raise self.fail("too_deep")
        self.space()
        self.source.budget.spend(VALUE)
        start = self.pos
        prefix = _PREFIX.match(self.text, start, self.limit) if self.text[start : start + 1].isalpha() else None
        try:
            if prefix is not None:
                read = self.prefixed(prefix)
            elif self.text.startswith(("(", "dict("), start):
                read = self.tuple_or_dict(depth)
            else:
                read = super().value(depth)
            after = self.pos
            self.space()
            if self.peek() in ",)]}" or self.at_stop() or self.forgotten_comma(after):
                self.pos = after
                return read
        except Unreadable as stop:
            if stop.problem in ("truncated", "placeholder", "too_deep"):
                raise
        self.pos = start
        return self.expression()

    def prefixed(self, prefix: re.Match[str]) -> Any:
        """Read a string with a prefix; the backslashes of a raw one are its own."""
        known = list(self.repairs)
        self.pos = prefix.end()
        read = super().value()
        if "r" not in prefix[0].lower():
            return read
        self.repairs = known
        marks = 3 if self.text[prefix.end() : prefix.end() + 3] in ('"""', "'''") else 1
        return self.text[prefix.end() + marks : self.pos - marks]

    def forgotten_comma(self, before: int) -> bool:
        """Tell whether the next keyword follows a value at once, without a comma."""
        return self.named and self.pos > before and _KEYWORD.match(self.text, self.pos, self.limit) is not None

    def tuple_or_dict(self, depth: int) -> Any:
        """Read `(1, 2)` or `dict(a=1)`."""
        if self.peek() == "(":
            return self.array(depth, ")")
        self.pos += len("dict(")
        keywords, positional, _ = self.arguments(depth + 1)
        if len(positional) > 1 or not all(isinstance(one, dict) for one in positional):
            raise self.fail("bad_json")
        self.solid = True
        return {**(positional[0] if positional else {}), **keywords}

    def at_stop(self) -> bool:
        """Tell whether a wrapper or a new line of prose follows."""
        return self.pos < self.limit and self.text[self.pos] in "<`~[" and bool(STOP.match(self.text, self.pos))

    def unseparated(self, before: int, closer: str) -> None:
        """Leave what follows a value to `value`, which knows expressions; a forgotten comma is mended."""
        if closer == ")":
            if self.forgotten_comma(before):
                self.note("missing_comma")
                return
            if STOP.match(self.text, self.pos, self.limit) or STOP.match(self.text, before, self.limit):
                self.limit = self.pos = before
                return
            raise self.fail("bad_json")
        super().unseparated(before, closer)

    def expression(self) -> Any:
        """Keep the text up to the next comma or closer of this level; work out arithmetic of numbers."""
        start = end = self.pos
        stop = min(self.limit, start + _LONGEST_EXPRESSION)
        while end < stop and (char := self.text[end]) not in ")]}":
            self.source.budget.spend(100)
            if char == "," and self.separates(end + 1):
                break
            step = _EXPRESSION_STEP.match(self.text, end, stop)
            end = self.source.closer_of(end) + 1 if char in "([{" or step is None else step.end()
        if end >= stop:
            raise self.fail("truncated" if stop == self.limit else "bad_json")
        source = self.text[start:end].strip()
        if not source or _HOLDS_PLACE.fullmatch(source):
            raise self.fail("placeholder")
        self.pos, self.solid = end, True
        number = arithmetic(source)
        self.note("arithmetic" if number is not None else "expression_text")
        return source if number is None else number

    def separates(self, after: int) -> bool:
        """Tell whether a comma ends an expression: always without keywords, else only before the next one."""
        return not self.named or _NEXT_KEYWORD.match(self.text, after, self.limit) is not None

    def call(self, label: str) -> Draft:
        """Read the call whose name begins here.

        Raises:
            Unreadable: there is none, or it is cut.
        """
        start = self.pos
        head = CALL.match(self.text, start, self.limit)
        if head is None:
            raise self.fail("bad_json")
        self.repairs, self.closed, self.comma = [], True, False
        written = head[0][:-1].strip()
        name = written.replace("\\", "")
        if name != written:
            self.note("invalid_escape")
        self.pos = head.end()
        keywords, positional, sources = self.arguments()
        return Draft(
            name,
            keywords,
            (start, self.pos),
            label,
            tuple(self.repairs),
            False,
            tuple(positional),
            sources,
            self.closed,
        )

    def arguments(self, depth: int = 0) -> tuple[dict[str, Any], list[Any], dict[str, str]]:
        """Read what stands between the brackets of a call."""
        keywords: dict[str, Any] = {}
        positional: list[Any] = []
        sources: dict[str, str] = {}
        while True:
            while (plain := _PLAIN.match(self.text, self.pos, self.limit)) is not None and plain[1] not in keywords:
                self.plain(plain, keywords, sources)
            if self.ends(")", bool(keywords or positional)):
                return keywords, positional, sources
            if self.text.startswith("**", self.pos):
                self.pos += 2
            name = self.keyword()
            self.named, self.member = bool(name), False
            self.space()
            start = self.pos
            value = self.value(depth)
            sources[name or str(len(positional))] = self.text[start : self.pos].strip()
            if not name and keywords and self.thousands(keywords, sources):
                sources.pop("0", None)
            elif name:
                if name in keywords:
                    self.note("duplicate_keys")
                keywords[name] = value
            else:
                positional.append(value)
            self.separator(")")

    def plain(self, found: re.Match[str], keywords: dict[str, Any], sources: dict[str, str]) -> None:
        """Take a plain argument."""
        name, written = found[1], found[2]
        first = written[0]
        if first in "'\"":
            keywords[name] = written[1:-1]
        else:
            keywords[name] = int(written) if first in "-0123456789" else _PLAIN_WORDS[written.lower()]
        sources[name] = written
        self.pos, self.solid = found.end(), True
        self.named, self.member = True, False
        self.comma = found[0][-1] in ", " and found.end() > found.end(2)

    def thousands(self, keywords: dict[str, Any], sources: dict[str, str]) -> bool:
        """Join `1` and `000` of `a=1,000` again; nothing without a name can follow a keyword."""
        last = next(reversed(keywords))
        if not re.fullmatch(r"\d{1,3}(?:,\d{3})*", sources[last]) or not re.fullmatch(r"\d{3}", sources.get("0", "")):
            return False
        sources[last] += f",{sources['0']}"
        keywords[last] = int(sources[last].replace(",", ""))
        self.note("number_form")
        return True

    def keyword(self) -> str:
        """Step over `name=` and return the name; "" before a positional argument."""
        found = _KEYWORD.match(self.text, self.pos, self.limit)
        if found is None:
            return ""
        self.pos = found.end()
        if found[2] == ":":
            self.note("colon_keywords")
        if "\\" in found[1]:
            self.note("invalid_escape")
        return found[1].replace("\\", "")


def read_calls(source: Source, pos: int, label: str) -> Body:
    """Read the calls that begin at `pos`: a list in brackets, or calls with `;`, `,` or line breaks between."""
    reader = CallReader(source, pos)
    found = Body(pos)
    try:
        _members(reader, found, label, source.cut)
    except Unreadable as stop:
        found.problem = stop.problem
        found.end = stop.position if stop.problem == "truncated" and not found.drafts else found.end
    except RecursionError:
        found.problem = "too_deep"
    return found


def _members(reader: CallReader, found: Body, label: str, cut: bool) -> None:
    """Read members until the list is closed, or no further call follows."""
    reader.space()
    brackets = 0
    while reader.peek() == "[":
        brackets += 1
        reader.pos += 1
        reader.space()
    while True:
        member = _member(reader, bool(brackets), label)
        if member is None:
            found.problem = None if found.drafts else "bad_json"
            if brackets:
                found.drafts = [_in_open_list(draft, cut) for draft in found.drafts]
            return
        found.drafts.append(member)
        found.end = reader.pos
        if len(found.drafts) > reader.source.budget.calls:  # more than may be settled
            return
        reader.limit = max(reader.limit, reader.pos)
        pattern = _LIST_SEPARATOR if brackets else _LINE_SEPARATOR
        separator = pattern.match(reader.text, reader.pos, reader.limit)
        reader.pos = separator.end() if separator else reader.pos
        while brackets and reader.peek() == "]":
            reader.pos += 1
            found.end = reader.pos
            brackets -= 1
            if not brackets:
                return
            more = _NEXT_LIST.match(reader.text, reader.pos, reader.limit)
            if more and more[0].endswith("["):
                brackets += 1
            reader.pos = more.end() if more else reader.pos


def _in_open_list(draft: Draft, cut: bool) -> Draft:
    """Return a call of a list without its bracket, which counts as cut only where the server says so."""
    repairs = tuple(dict.fromkeys((*draft.repairs, "missing_closers")))
    return draft._replace(repairs=repairs, closed=draft.closed and not cut)


def _member(reader: CallReader, listed: bool, label: str) -> Draft | None:
    """Read one call with what may be round it: quotes, back-ticks, print(), an assignment."""
    start = reader.pos
    text = reader.text
    quote = text[start] if listed and start < reader.limit and text[start] in "\"'`" else ""
    ticks = 0 if quote else len(text[start : start + 3]) - len(text[start : start + 3].lstrip("`"))
    reader.pos += len(quote) or (ticks if ticks == 1 else 0)
    opened = 0
    while (wrap := _WRAPPER.match(text, reader.pos, reader.limit)) is not None and not listed:
        opened += wrap[0].endswith("(")
        reader.pos = wrap.end()
    if CALL.match(text, reader.pos, reader.limit) is None:
        if _HALF_CALL.fullmatch(text, reader.pos, reader.limit):
            reader.source.touch_end()  # it may become the next call
        reader.pos = start
        return None
    call = reader.call(label)
    while opened and (closing := _CLOSING.match(text, reader.pos, reader.limit)) is not None:
        opened, reader.pos = opened - 1, closing.end()
    if reader.peek() == (quote or "`"):
        reader.pos += 1
    if not (quote or ticks):
        return call
    repairs = (*call.repairs, "quoted_call" if quote in ("'", '"') else "backticks")
    return call._replace(span=(start, reader.pos), repairs=repairs)
