"""Read `✿FUNCTION✿: NAME` and `✿ARGS✿: {…}`.

Not here: Qwen 2.5 and later (`wrappers`).
"""

import re

from toolkit.extraction.bodies import json_call
from toolkit.extraction.drafts import NOTHING, Draft, Reading, Source, Syntax, refusal
from toolkit.extraction.syntaxes import syntax

_HEAD = re.compile(r"\s*:?\s*([^\W\d][\w.\-:/]*)\s*(?:✿ARGS✿\s*:?\s*)?")
_HALF_MARK = re.compile(r"(?:✿\w*)?")
_RESULT = re.compile(r"\s*✿(?:RESULT|RETURN)✿:?[^✿]*")


@syntax("qwen_agent", '✿FUNCTION✿: f\n✿ARGS✿: {"a": 1}', r"✿FUNCTION✿")
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `✿FUNCTION✿: NAME` and `✿ARGS✿: {…}`, and drop an invented result: Qwen 1.5 and 2 under Qwen-Agent."""
    start, head = found.start(), source.match(_HEAD, found.end())
    if head is None:
        return None
    stop = head.end()
    if source.text.startswith(("{", "&quot;"), stop):
        reading = json_call(source, start, stop, head[1], "qwen_agent")
        return reading._replace(end=source.past(_RESULT, reading.end)) if reading.drafts else reading
    if "ARGS" in head[0] and stop >= source.limit:
        return refusal(source, start, stop, "truncated", "qwen_agent", head[1])
    closed = _HALF_MARK.fullmatch(source.text, stop, source.limit) is None
    return Reading(stop, (Draft(head[1], NOTHING, (start, stop), "qwen_agent", closed=closed),))
