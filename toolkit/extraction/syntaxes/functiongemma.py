"""Read `call:NAME{key:<escape>text<escape>}` between FunctionGemma's or Gemma 4's markers.

>>> from toolkit.extraction import extract
>>> extract('<|tool_call>call:f{a:<|"|>x, y<|"|>,b:[1,2]}<tool_call|>').calls[0].arguments
{'a': 'x, y', 'b': [1, 2]}
"""

import re

from toolkit.extraction.drafts import Draft, Reading, Source, spread
from toolkit.extraction.lenient_json import mend
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.types import Rejected

_HEAD = re.compile(r"\s*(?:call:\s*)?([^\W\d][\w.\-:/]*)\s*(?=\{)")
_CLOSER = re.compile(r"\s*(?:<end_function_call>|<tool_call\|>|<\|tool_call\|>|<\|/tool_call>)")
_OWN = {"unquoted_keys", "unquoted_value", "comments"}


@syntax("functiongemma", opener=r"<(?:start_function_call>|\|tool_call>|tool_call>(?=\s*call:\w))", labels=("gemma4",))
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read the calls of one wrapper."""
    start = found.start()
    label = "functiongemma" if "start_function" in found[0] else "gemma4"
    drafts: list[Draft] = []
    end = found.end()
    while (head := _HEAD.match(source.text, end, source.limit)) is not None:
        read = mend(source.text, head.end(), source.limit, bare_values=True)
        if read.problem is not None:
            stop = source.limit if read.problem == "truncated" else max(read.end, head.end())
            rejected = Rejected((end if drafts else start, stop), label, read.problem, "", head[1])
            return Reading(stop, spread(drafts, start, end), (rejected,))
        codes = tuple(code for code in read.repairs if code not in _OWN)
        drafts.append(Draft(head[1], read.value, (head.start(1), read.end), label, codes, closed=read.closed))
        end = read.end
    closing = _CLOSER.match(source.text, end, source.limit)
    if not drafts:
        cut = closing is None and re.fullmatch(r"\s*(?:call:?\s*[\w.\-]*)?", source.text[end : source.limit][:200])
        reason = "truncated" if cut else "empty"
        stop = closing.end() if closing else source.limit if cut else end
        return Reading(stop, (), (Rejected((start, stop), label, reason),)) if closing or cut else None
    if closing is None:
        drafts[-1] = drafts[-1]._replace(closed=False)
    stop = closing.end() if closing else end
    return Reading(stop, spread(drafts, start, stop))
