r"""Read `✿FUNCTION✿: NAME` and `✿ARGS✿: {…}`: Qwen 1.5 and 2 under Qwen-Agent.

>>> from toolkit.extraction import extract
>>> extract('✿FUNCTION✿: f\n✿ARGS✿: {"a": 1}').calls[0].arguments
{'a': 1}
"""

import re

from toolkit.extraction.drafts import NOTHING, Draft, Reading, Source
from toolkit.extraction.lenient_json import read_json
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.types import Rejected

_HEAD = re.compile(r"\s*:?\s*([^\W\d][\w.\-:/]*)\s*(?:✿ARGS✿\s*:?\s*)?")
_HALF_MARK = re.compile(r"(?:✿\w*)?")
_RESULT = re.compile(r"\s*✿(?:RESULT|RETURN)✿:?[^✿]*")


@syntax("qwen_agent", opener=r"✿FUNCTION✿")
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read the name, the arguments, and the invented result behind them."""
    head = _HEAD.match(source.text, found.end(), source.limit)
    if head is None:
        return None
    if not source.text.startswith(("{", "&quot;"), head.end()):
        stop = head.end()
        if "ARGS" in head[0] and stop >= source.limit:
            return Reading(stop, (), (Rejected((found.start(), stop), "qwen_agent", "truncated", "", head[1]),))
        closed = _HALF_MARK.fullmatch(source.text, stop, source.limit) is None
        return Reading(stop, (Draft(head[1], NOTHING, (found.start(), stop), "qwen_agent", closed=closed),))
    read = read_json(source.text, head.end(), source.limit)
    if read.problem is not None:
        stop = source.limit if read.problem == "truncated" else read.end
        return Reading(stop, (), (Rejected((found.start(), stop), "qwen_agent", read.problem, "", head[1]),))
    span = (found.start(), read.end)
    result = _RESULT.match(source.text, read.end, source.limit)
    draft = Draft(head[1], read.value, span, "qwen_agent", read.repairs, closed=read.closed)
    return Reading(result.end() if result else read.end, (draft,))
