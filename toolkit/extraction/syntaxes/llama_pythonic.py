"""Read Python-like calls as the answer, in a list or one a line.

>>> from toolkit.extraction import extract
>>> [call.arguments for call in extract("[f(a=1), f(a=2)]", tools=[{"name": "f"}]).calls]
[{'a': 1}, {'a': 2}]
>>> extract("You call `f(a, b)` with two arguments.", tools=[{"name": "f"}]).status
'abstained'

Not here: reading the calls (`toolkit.extraction.python_calls`), fences (`md_json`).
"""

import re

from toolkit.extraction.drafts import Body, Draft, Reading, Syntax, refusal, spread
from toolkit.extraction.negatives import is_signature
from toolkit.extraction.python_calls import read_calls
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_NAME_BACKWARDS = re.compile(r"[\w.\\\-/]++")
_LEADS = re.compile(r"(?:^|\n|;[ \t]*+)((?:print\(|[A-Za-z_]\w*+[ \t]*+=)[ \t]*+|call:)$")
_LONGEST_LEAD, _SCRIPT_SEEN = 40, 1000  # characters before a call
_INDENTED = re.compile(r"\n[ \t]++$")
_SCRIPT = re.compile(
    r"^[ \t]*+(?:(?:import|from)[ \t]++[\w.]++(?:[ \t]++(?:import|as)\b.{0,400})?"
    r"|(?:def|class|for|while|if|elif|else|with|async|try)\b.{0,400}:)[ \t]*+$",
    re.MULTILINE,
)
_FIRST = re.compile(
    r"\[?\s*+\[?\s*+[`'\"]?\s*+(?:print\s*+\(\s*+|await\s++|[A-Za-z_]\w*+[ \t]*+=[ \t]*+)?"
    r"([A-Za-z_][\w.\\\-/:]*+)[ \t]*+\("
)


@syntax("llama_pythonic", "[f(a=1)]", r"\[(?=\s*+\[?\s*+[`'\"]?[A-Za-z_][\w.\\\-/:]*+[ \t]*+\()", labels="bfcl_prompt")
def read_list(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read Python-like calls in a list, `[f(a=1), g(b='x')]`: Llama 3.2 and 4, ToolACE, BFCL's prompt."""
    return python_reading(source, found.start(), "llama_pythonic")


@syntax("llama_pythonic", "f(a=1)", r"\(", labels="bfcl_prompt", by_name=True)
def read_line(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read Python-like calls without brackets round them, from the name before the bracket."""
    end = found.start()
    backwards = _NAME_BACKWARDS.match(source.text[max(0, end - 128) : end][::-1])
    name = backwards[0][::-1].lstrip(".-/\\0123456789") if backwards else ""
    if not name or source.tools.open or not source.tools.declared(name.replace("\\", "")):
        return None
    start = end - len(name)
    if _INDENTED.search(source.text, max(0, start - _LONGEST_LEAD), start) and _in_script(source.text, start):
        return None
    return python_reading(source, start - _led_in(source.text, start), "llama_pythonic")


def _led_in(text: str, start: int) -> int:
    """Return the length of `print(` or `x = ` before a call, if that begins the line and is not part of a script."""
    if text[start - 1 : start] not in ("(", " ", "=", ":"):
        return 0
    leads = _LEADS.search(text[max(0, start - _LONGEST_LEAD) : start])
    return len(leads[1]) if leads and not _in_script(text, start) else 0


def _in_script(text: str, start: int) -> bool:
    """Tell whether lines of a program stand before a call."""
    return _SCRIPT.search(text, max(0, start - _SCRIPT_SEEN), start) is not None


def python_reading(source: Source, start: int, label: str) -> Reading | None:
    """Read the calls that begin at `start`; None unless the first names a declared tool."""
    first = source.match(_FIRST, start)
    name = first[1].replace("\\", "") if first else ""
    if first is None or not source.tools.may_be(name):
        return None
    read = read_calls(source, start, label)
    if read.problem == "truncated":
        # what stands whole before it is kept, but not in one list that the server says was cut
        kept = bool(read.drafts) and not (source.cut and source.text.startswith("[", start))
        cut_from = read.drafts[-1].span[1] if kept else start
        whole = _judged(source.text, start, read) if kept else ()
        return refusal(source, cut_from, source.limit, "truncated", label, name, whole)._replace(explicit=False)
    return Reading(read.end, _judged(source.text, start, read), explicit=False) if read.drafts else None


def _judged(text: str, start: int, read: Body) -> tuple[Draft, ...]:
    """Return the calls that were read; documentation of a signature is turned down."""
    headed = text.startswith(":", read.end) and not text.startswith("[", start)  # `name(…): what it does`
    drafts = [
        draft._replace(doubtful="signature")
        if headed or is_signature(draft.sources, draft.arguments, len(draft.positional))
        else draft
        for draft in read.drafts
    ]
    return spread(drafts, start, read.end)
