"""Read `call:NAME{key:<escape>text<escape>}` between the markers of FunctionGemma and Gemma 4.

>>> from toolkit.extraction import extract
>>> extract('<|tool_call>call:f{a:<|"|>x, y<|"|>,b:[1,2]}<tool_call|>').calls[0].arguments
{'a': 'x, y', 'b': [1, 2]}

Not here: Gemma 3's fences (`md_json`).
"""

import re

from toolkit.extraction.bodies import read_body
from toolkit.extraction.drafts import Draft, Reading, Syntax, refusal, spread
from toolkit.extraction.lenient_json import mend
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_HEAD = re.compile(r"\s*+(?:call:\s*+)?([^\W\d][\w.\-:/]*+)\s*+(?=\{)")
_BARE_HEAD = re.compile(r"\s*+call:[ ]?([^\W\d][\w.\-:/]*+)(?=\{)")
_CLOSER = re.compile(r"\s*+(?:<end_function_call>|<tool_call\|>|<\|tool_call\|>|<\|/tool_call>)")
_CUT = re.compile(r"\s*+(?:call:?\s*+[\w.\-]{0,190})?$")
_CALL = re.compile(r"\s*+call:")
_OWN = {"unquoted_keys", "unquoted_value", "comments"}


@syntax(
    "functiongemma", "<start_function_call>call:f{a:1}<end_function_call>", r"<start_function_call>", labels="gemma4"
)
@syntax(
    "gemma4", '<|tool_call>call:f{a:1}<tool_call|>', r"<(?:\|tool_call>|tool_call>(?=\s*+call:\w))",
    labels="functiongemma",
)  # fmt: skip
@syntax("gemma4", "call:f{a:1}", r":(?<=call:)(?=[ ]?[^\W\d][\w.\-:/]{0,128}+\{)", labels="functiongemma")
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `call:NAME{key:<escape>text<escape>}` between markers: FunctionGemma, Gemma 4."""
    start, end, label = found.start(), found.end(), syntax.name
    drafts: list[Draft] = []
    bare = found[0] == ":"
    if bare:
        start = end = start - len("call")
    while (head := source.match(_BARE_HEAD if bare else _HEAD, end)) is not None:
        if bare and not source.tools.declared(head[1]):
            break
        read = mend(source, head.end(), bare_values=True)
        if read.problem is not None:
            cut_from, stop = end if drafts else start, max(read.end, head.end())
            return refusal(source, cut_from, stop, read.problem, label, head[1], spread(drafts, start, end))
        codes = tuple(code for code in read.repairs if code not in _OWN)
        drafts.append(Draft(head[1], read.value, (head.start(1), read.end), label, codes, closed=read.closed))
        end = read.end
    if bare:
        return Reading(end, spread(drafts, start, end), explicit=False) if drafts else None
    stop = source.past(_CLOSER, end)
    if not drafts and (body := read_body(source, source.past(_CALL, end), syntax)) is not None and body.drafts:
        stop = source.past(_CLOSER, body.end)
        return Reading(stop, spread(body.drafts, start, stop))
    if not drafts:
        if stop > end:
            return refusal(source, start, stop, "empty", label)
        cut = source.match(_CUT, end) is not None
        return refusal(source, start, source.limit, "truncated", label) if cut else None
    drafts[-1] = drafts[-1]._replace(closed=stop > end and drafts[-1].closed)
    return Reading(stop, spread(drafts, start, stop))
