"""Find where a quoted string really ends.

An unescaped quote inside a string ends it only if what follows is structure: a colon after a key; a comma and the
next member, a closing bracket, a forgotten comma before a key, or the end after a value.

Not here: its escapes (`escapes`), objects and arrays (`values`).
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from toolkit.extraction.budget import QUOTE
from toolkit.extraction.escapes import unescape
from toolkit.extraction.source import Found, Source

# Which characters may close what one opens: curly quotes are mixed up, straight ones never.
_CLOSED_BY = {"“": '[”"“]', "”": '[”"]', "„": '[”“"]', "‘": "[’'‘]", "’": "[’']", '"': '["]', "'": "[']", "`": "[`]"}
_RAW = re.compile(r"[\x00-\x1f]")
_BLANK = r"\s\ufeff\u200b\u200c\u200d\u2060"
# Blanks and comments behind a quote. A comment ends where its line does, and within 400 characters: `//` in "http://x"
# whose quote was taken for the end, or a `#` in prose, must not swallow what would show that it was none.
_SPACE = re.compile(
    rf"(?:(?:[{_BLANK}]|\\[nrt])++|//[^\n]{{0,400}}\n|/\*[^*]{{0,400}}\*/|#[^\n\"]{{0,400}}\n){{0,16}}+"
)
# A key in any quotes and its colon, such as "a": or \"a\": or &quot;a&quot;: or 'a' =. A quoted word before anything
# else is no key: in `"say "no", then"` it belongs to the string.
_QUOTED_KEY = (
    r"(?:(?:[\"'“‘`]|\\\"|&quot;)[^\"'“”’`\n\\&]{0,64}(?:[\"'”’`]|\\\"|&quot;)"
    r"|\"(?:[^\"\\]|\\.){0,200}\"|'(?:[^'\\]|\\.){0,200}')\s*+[:=]"
)
# The next item of a list or of positional arguments: a string, an object, a list, a number with an end, a literal, a
# call, a closer or the end. A bare word is none, nor is a number with words behind it, as in `"5", 6 o'clock"`.
_ITEM = r"[\"'“‘`{\[(]|-?\.?\d[\w.+-]*+\s*+(?:[,\]})#/]|$)|(?i:true|false|null|none)\b|[A-Za-z_][\w.]*+\(|[\]})]|$"
_CUT_KEY = r"[\"'“‘`][^\"'“”’`\n]{0,200}[\"'”’`]?\s*+$"  # where the text ends in it
# What may be the next member, in an object and elsewhere: `a = 1` is a keyword only outside objects, `a == 1` never.
_IN_OBJECT = re.compile(rf"\s*+(?:{_QUOTED_KEY}|[A-Za-z_$][\w$.\\\-]*+\s*+(?::|=>))")
_ELSEWHERE = re.compile(rf"\s*+(?:{_QUOTED_KEY}|(?:[A-Za-z_]|\\_)[\w\\]*+\s*+[:=](?!=))")
# What may follow the comma behind a closing quote: in an object only a key, so that `"Bob", "Al" said` goes on.
# A second comma is no part of it either: what it parts are two members, and the value is broken.
_AFTER_COMMA = {
    True: re.compile(rf"(?:\s*+,)*+(?:{_IN_OBJECT.pattern}|\s*+(?:[\]}})]|{_CUT_KEY}|$))"),
    False: re.compile(rf"(?:\s*+,)*+(?:{_ELSEWHERE.pattern}|\s*+(?:{_ITEM}))"),
}
_CLOSERS = {brackets: re.compile(rf"[{re.escape(brackets)}{_BLANK}]++") for brackets in ("}]", "}])")}
# What may follow closing brackets behind a closing quote: structure, a marker, or a sentence's end. Not a word: in
# `"a [b] c"` the bracket stands in the string.
_AFTER_CLOSERS = {
    brackets: re.compile(rf"[,<`~;|\[✿{{*{more}]|\\[nrt]|[.!?:](?=[\s*+)]|$)|$")
    for brackets, more in (("}]", ""), ("}])", "\"'"))
}
# A tag or a marker at which a string must have ended. Not `<` alone or `<b>`, which stand in texts, nor <|"|>, a quote.
_STOP = re.compile(r"</|<\|(?!\"\|>)|<｜|```|\[/|✿|<end|<\w{1,40}_call")
_TOKEN = re.compile(r"<[|｜](?!\"|>)\w[^<>|｜\n]{0,40}[|｜]>|\[/?TOOL_CALLS?\]|</?tool_calls?>")  # a model's own


_AHEAD, _NEAR = 300, 200  # characters that are looked at behind a comma; in which most strings end


@dataclass(frozen=True, slots=True)
class Quote:
    """Hold one kind of quote: its opening text, a pattern of its closing text, and the repair it means."""

    opening: str
    closing: re.Pattern[str]
    repair: str | None = None


class QuotedString(NamedTuple):
    """Hold a string that was read, and where it ends."""

    value: str
    end: int
    repairs: tuple[str, ...] = ()


def _quote(opening: str, closing: str, repair: str | None = None) -> Quote:
    return Quote(opening, re.compile(rf"\\[\s\S]|{closing}"), repair)


_REPAIRS = {"'": "single_quotes", "`": "single_quotes", '"': None}
_QUOTES = {char: _quote(char, closing, _REPAIRS.get(char, "smart_quotes")) for char, closing in _CLOSED_BY.items()}
_TRIPLE = {char * 3: Quote(char * 3, re.compile(rf"\\[\s\S]|{char * 3}"), "triple_quotes") for char in "\"'"}
_AFTER_EMPTY = re.compile(r"[\"'](?=\s*+[,}\])])")  # a quote too many behind an empty string, not three that open one
_ESCAPED = Quote('\\"', re.compile(r'\\\\\\"|\\"'), "escaped_quotes")
_ENTITIES = {
    text: Quote(text, re.compile(re.escape(text)), "html_unescape_call")
    for text in ("&quot;", "&#34;", "&apos;", "&#39;")
}
_MARKED = {text: Quote(text, re.compile(re.escape(text)), "") for text in ('<|"|>', "<escape>")}


def find_quote(text: str, pos: int) -> Quote | None:
    """Return the kind of quote that opens at `pos`, or None."""
    first = text[pos : pos + 1]
    quote = _QUOTES.get(first)
    if quote is not None:
        tripled = text[pos : pos + 3]
        return _TRIPLE[tripled] if tripled in _TRIPLE and not _AFTER_EMPTY.match(text, pos + 2) else quote
    if first == "\\":
        return _ESCAPED if text.startswith('\\"', pos) else None
    table = _ENTITIES if first == "&" else _MARKED if first == "<" else {}
    return next((quote for opening, quote in table.items() if text.startswith(opening, pos)), None)


def read_string(
    source: Source, pos: int, quote: Quote, *, key: bool = False, closers: str = "}]", member: bool = False
) -> QuotedString | None:
    """Read the string that opens with `quote` at `pos`; None if it does not end before the source's limit.

    It is the `key` of a member or a value in an object, a `member`, so that behind a comma a key follows, or neither;
    `closers` are the brackets that may close what it stands in, `}]` or `}])`.
    """
    start = pos + len(quote.opening)
    near = quote.closing.search(source.text, start, min(start + _NEAR, source.limit))
    source.budget.spend(QUOTE)
    if near is not None and not _escaped(near[0], quote) and _closes(source, near.end(), quote, key, closers, member):
        found, clean = near.span(), True  # as nearly always
    else:
        search = partial(_search_end, source, quote, key, closers, member)
        far = source.first((quote.opening, key, closers, member), start, search)
        if far is None:
            return None
        found, clean = far, False
    raw = source.text[start : found[0]]
    source.budget.spend(len(raw))
    repairs = [quote.repair] if quote.repair else []
    if not clean and not all(_escaped(one[0], quote) for one in quote.closing.finditer(raw)):
        if _TOKEN.search(raw) is not None:
            return None  # the quotes are not those of one text: a second call has run into it
        repairs.append("inner_quotes")
    return QuotedString(_decode(raw, quote, repairs), found[1], tuple(repairs))


def _search_end(
    source: Source, quote: Quote, key: bool, closers: str, member: bool, start: int, stop: int
) -> Found | None:
    """Return where the quote stands that closes a string, if before `stop`."""
    for one in quote.closing.finditer(source.text, start, source.limit):
        source.budget.spend(QUOTE)
        if one.start() >= stop:
            return None
        if not _escaped(one[0], quote) and _closes(source, one.end(), quote, key, closers, member):
            return one.span()
    return None


def _escaped(written: str, quote: Quote) -> bool:
    """Tell whether a quote is part of the string, since a backslash stands before it."""
    return written.startswith("\\\\") or (written[0] == "\\" and quote is not _ESCAPED)


def _closes(source: Source, end: int, quote: Quote, key: bool, closers: str, within: bool) -> bool:
    """Tell whether structure follows, so that the quote that ended at `end` is a closing one."""
    if len(quote.opening) > 1 and quote is not _ESCAPED:
        return True  # nobody writes these quotes inside a string
    text, limit = source.text, source.limit
    spaced = _SPACE.match(text, end, limit)
    after = spaced.end() if spaced else end
    following = text[after] if after < limit else ""
    if following in ("/", "#") and text.find("\n", after, after + _NEAR) < 0:
        source.touch_end()  # it is a comment once its line is over
    if key:
        return following in ":=" and following != ""
    if following == "":
        return True
    if following == ",":
        gap = _SPACE.match(text, after + 1, limit)
        member = gap.end() if gap else after + 1
        ahead = _AFTER_COMMA[within].match(text, member, limit)
        if limit - member < _AHEAD if ahead is None else ahead.end() == limit:
            source.touch_end()  # what follows may be half a key
        return ahead is not None
    if following in closers:
        run = _CLOSERS[closers].match(text, after, limit)
        stop = run.end() if run else after
        return text[stop - 1] not in closers or _AFTER_CLOSERS[closers].match(text, stop, limit) is not None
    if following in "+%" and after > end:
        return True
    if after > end and (_IN_OBJECT if within else _ELSEWHERE).match(text, after, limit):
        return True
    if text.count("\n", end, after) > 1 and text.find(text[end - 1], after, limit) < 0:
        return True  # a paragraph of prose, and no later quote that could be the closing one
    return _STOP.match(text, after, limit) is not None or (following in ";`" and not key)


def _decode(raw: str, quote: Quote, repairs: list[str]) -> str:
    """Return what the text between two quotes stands for."""
    if quote.repair == "html_unescape_call":
        raw = html.unescape(raw)
    if quote is _ESCAPED:
        raw = unescape(raw, [])
    if quote in _MARKED.values():
        return raw
    if quote.repair == "triple_quotes":
        raw = raw.removeprefix("\\\n")  # as Python's programmers begin a text of several lines
    elif _RAW.search(raw):
        repairs.append("raw_control_char")
    return unescape(raw, repairs) if "\\" in raw else raw
