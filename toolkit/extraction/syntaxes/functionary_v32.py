r"""Read `>>>NAME` and the arguments on the next line; `>>>all` is text: Functionary 2 and 3.2.

>>> from toolkit.extraction import extract
>>> extract('>>>all\nI look.\n>>>f\n{"a": 1}').text
'I look.'
"""

import re

from toolkit.extraction.drafts import Draft, Reading, Source
from toolkit.extraction.lenient_json import read_json
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.types import Rejected


@syntax("recipient_in_line", opener=r">(?=>>[^\W\d][\w.\-]*(?:\(\))?[ \t]*\r?\n\s*\{)", labels=("functionary_v32",))
def read_in_line(source: Source, found: re.Match[str]) -> Reading | None:
    """Read a recipient right behind the text before it, as the models write it; a prompt of Python has no such line."""
    return read(source, re.compile(r">>>.*\n").match(source.text, found.start(), source.limit) or found)


@syntax("functionary_v32", opener=r"\n>>>(?:[^\W\d][\w.\-]*)(?:\(\))?[ \t]*\r?\n", starts=">>>")
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read one recipient and what is for it."""
    start = source.text.index(">>>", found.start())
    name = source.text[start + 3 : found.end()].strip()
    if name == "all":
        return Reading(found.end() - 1)
    at = source.skip(found.end())
    if not source.text.startswith(("{", "&quot;"), at):
        return None
    read = read_json(source.text, at, source.limit)
    if read.problem is not None:
        stop = source.limit if read.problem == "truncated" else read.end
        return Reading(stop, (), (Rejected((start, stop), "functionary_v32", read.problem, "", name),))
    extra = re.compile(r"[}\]]+").match(source.text, read.end, source.limit)
    end = extra.end() if extra else read.end
    codes = (*read.repairs, "extra_closers") if extra else read.repairs
    return Reading(end, (Draft(name, read.value, (start, end), "functionary_v32", codes, closed=read.closed),))
