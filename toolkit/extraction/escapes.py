r"""Read the escapes of a quoted string, and leave as they are the backslashes of one that was never escaped.

One escape that JSON does not know shows that the writer did not escape at all: then the `\t` of `D:\games\tools` and
the `\b` of `\btide\b \d+` are no tab and no backspace either.

Not here: where a string ends (`quoted`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[01][0-9a-fA-F]{7}|x[0-9a-fA-F]{2}|\r\n|[\s\S])")
_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'", "_": "_"}
# As far as the first escape that JSON does not know; a line break behind a backslash is none.
_UNKNOWN = re.compile(r"(?:[^\\]++|\\(?:[\"\\/bfnrt'_\s]|u[0-9a-fA-F]{4}|U[01][0-9a-fA-F]{7}|x[0-9a-fA-F]{2}))*+\\.")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# A path from a drive's letter, a variable or a host on, as it stands before anything is escaped.
_PATH = re.compile(r"(?<![\w\\:])(?:[A-Za-z]:|%\w{1,40}%|\\\\[\w.\-]{2,64})\\(?!\\)[^\s\"'<>|*?]*+")
_NEW_LINE = re.compile(r"\s|\\[nrt]|[A-Z\d#<>/}@\"'\-]|$")  # what begins a line, and no name in a path or of LaTeX
_OF_LATEX = re.compile(r"(?:u|abla|eq?|eg|ot|otin|i|onumber|ewline|ewcommand)(?![a-z])")  # behind `\n`
_ENVIRONMENT = re.compile(r"(?<!\\)\\(?:begin|end)\{")  # of LaTeX, in which two backslashes end a line
_GOES_ON = re.compile(r"[a-z\d_]")  # a name does
_INDENTED = re.compile(r"(?:^|[\r\n\t]|\\[nrt])$")


def unescape(raw: str, repairs: list[str]) -> str:
    r"""Return what the text between two quotes stands for; what was mended is added to `repairs`.

    >>> unescape(r"D:\games\tools", repairs := []), unescape(r"a\tb", repairs), repairs
    ('D:\\games\\tools', 'a\tb', ['invalid_escape', 'invalid_escape'])
    """
    is_text = _judge(raw)

    def one(found: re.Match[str]) -> str:
        code = found[1]
        if code.isspace() or (is_text is not None and is_text(found)):
            repairs.append("invalid_escape")
            return found[0]
        if code[0] in "uUx" and len(code) > 1:
            return chr(min(int(code[1:], 16), 0x10FFFF))
        if code in "_'" or code not in _SIMPLE:
            repairs.append("invalid_escape")
        return _SIMPLE.get(code, found[0])

    read = _ESCAPE.sub(one, raw)
    whole = without_surrogates(read)
    if "\ufffd" in whole and whole.count("\ufffd") > read.count("\ufffd"):
        repairs.append("lone_surrogate")
    return whole


def _judge(raw: str) -> Callable[[re.Match[str]], bool] | None:
    """Return what tells whether a valid escape is none; None if JSON knows all escapes of the string."""
    unknown = _UNKNOWN.match(raw)
    if unknown is None:
        return None
    paths = [one.span() for one in _PATH.finditer(raw)]
    if not paths and not any(_is_unescaped(one[1]) for one in _ESCAPE.finditer(raw)):
        return lambda one: one[1] in ("b", "f")  # such as `\.` and `\$` of Markdown and of shells
    starts = [start for start, _ in paths]
    heads = frozenset(starts)

    def in_path(one: re.Match[str]) -> bool:
        place = bisect_right(starts, one.start())
        return place > 0 and one.start() < paths[place - 1][1] and _GOES_ON.match(raw, one.end()) is not None

    laid_out = doubled = False
    for one in _ESCAPE.finditer(raw):
        laid_out = laid_out or (one[1] == "n" and not in_path(one) and _begins_line(raw, one, "," if paths else ""))
        doubled = doubled or (one[1] == "\\" and raw[one.end() : one.end() + 1].isalnum() and one.start() not in heads)

    doubled = doubled and _ENVIRONMENT.search(raw) is None

    def is_text(one: re.Match[str]) -> bool:
        code = one[1]
        if code not in ("n", "r", "t"):
            return code in ("b", "f", "/", "_") or code[0] == "x" or (code == "\\" and not doubled)
        if not laid_out or in_path(one):
            return True
        if code == "n" or not _GOES_ON.match(raw, one.end()):
            return _OF_LATEX.match(raw, one.end()) is not None and code == "n"
        return _INDENTED.search(raw, max(0, one.start() - 2), one.start()) is None

    return is_text


def _begins_line(raw: str, one: re.Match[str], also: str) -> bool:
    """Tell whether an escaped line break is one by what stands round it: a new line, or the end of a sentence."""
    before = raw[max(0, one.start() - 2) : one.start()]
    return _NEW_LINE.match(raw, one.end()) is not None or (before[:1].isalpha() and before[1:] in {*".!?;", also})


def _is_unescaped(code: str) -> bool:
    """Tell whether an escape is one of regular expressions, formulas or paths, and not of Markdown or a shell."""
    return len(code) == 1 and code not in _SIMPLE and (code.isalnum() or code in "()[]{}")


def without_surrogates(text: str) -> str:
    r"""Return `text` with surrogate pairs joined and U+FFFD for each half that stands alone.

    >>> without_surrogates("\ud83d\ude00 \ud83d!") == "\U0001f600 \ufffd!"
    True
    """
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub("\ufffd", _SURROGATE_PAIR.sub(_joined, text))


def one_for_one(text: str) -> str:
    """Return `text` with U+FFFD for each surrogate, so that its length stays.

    Half a pair in a reply comes from a server that cut its text in the middle of a character.
    """
    return _SURROGATE.sub("\ufffd", text)


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")
