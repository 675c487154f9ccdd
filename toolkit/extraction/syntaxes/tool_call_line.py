r"""Read a line `TOOL_CALL: NAME {…}`.

>>> from toolkit.extraction import extract
>>> [call.arguments for call in extract('I look.\nTOOL_CALL: f {"a": {"b": 1}}\nTOOL_CALL: g').calls]
[{'a': {'b': 1}}, {}]

Not here: `Action:` lines (`react`).
"""

import re

from toolkit.extraction.bodies import read_body
from toolkit.extraction.drafts import NOTHING, Draft, Reading, Syntax, refusal, spread
from toolkit.extraction.lenient_json import read_arguments
from toolkit.extraction.negatives import is_example_name
from toolkit.extraction.places import shown
from toolkit.extraction.python_calls import CALL
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_NAME = re.compile(r"[ \t]*+(?:\r?\n[ \t]*+)?[`*\"']{0,3}(\w[\w.\-:/\\]*+)[`*\"']{0,3}(?:\(\))?[`*:]{0,3}")
_ARGUMENTS = re.compile(
    r"\s*+(?:(?:with\s++)?(?:arguments?|args|parameters|input)\s*+[:=]\s*+)?(?:```\w*+\s*+|`)?(?=\{|&quot;)",
    re.IGNORECASE,
)
_TICKS = re.compile(r"\s*+```|`")
_LINE_END = re.compile(r"[ \t]*+`{0,3}\.?[ \t]*+(?=\r?\n|$|</?\w|<\|)")


@syntax(
    "tool_call_line", 'TOOL_CALL: f {"a": 1}',
    r"\n[ \t]*+(?:[*_`]{1,3}|[-*•][ \t]|\d++[.)][ \t])?(?i:tool[_ ]?call|call[_ ]?tool|function[_ ]?call)s?"
    r"(?:[*_`]{0,3}[ \t]*+(?:\d++[ \t]*+)?:[*_`]{0,3}|(?<=CALL_TOOL|TOOL_CALL)[ \t]++(?=[\w.\-]++[ \t]*+\{))",
    labels="airgap", starts="tool Tool TOOL call Call CALL function Function FUNCTION",
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read a line `TOOL_CALL: NAME {…}`: the airgap prompt and its relatives."""
    text, start = source.text, found.start() + (1 if found[0].startswith("\n") else 0)
    at = source.skip(found.end())
    if text.startswith(("{", "[", "```"), at) or CALL.match(text, at, source.limit):
        body = read_body(source, at, syntax)
        if body is None or body.problem or not body.drafts:
            return _problem(body.problem if body else None, start, source)
        return Reading(body.end, spread(body.drafts, start, body.end), explicit=False)
    name = _NAME.match(text, found.end(), source.limit)
    if name is None:
        return None
    opened = _ARGUMENTS.match(text, name.end(), source.limit)
    if opened is None:
        return _bare(source, start, name)
    read = read_arguments(source, opened.end())
    if read.problem is not None:
        return _problem("placeholder" if is_example_name(name[1]) else read.problem, start, source)
    end = source.past(_TICKS, read.end)
    doubtful = "example" if shown(text, start) else None  # "Your log shows:", and such a line below
    draft = Draft(
        name[1], read.value, (start, end), "tool_call_line", read.repairs, closed=read.closed, doubtful=doubtful
    )
    return Reading(end, (draft,), explicit=doubtful is None)


def _bare(source: Source, start: int, name: re.Match[str]) -> Reading | None:
    """Read a name without arguments; it must stand on the marker's line and end it."""
    if "\n" in name[0] or source.match(_LINE_END, name.end()) is None:
        return None
    if not source.tools.may_be(name[1]):
        return None
    closed = source.text.find("\n", name.end(), source.limit) >= 0
    return Reading(name.end(), (Draft(name[1], NOTHING, (start, name.end()), "tool_call_line", closed=closed),))


def _problem(problem: str | None, start: int, source: Source) -> Reading | None:
    """Report arguments that are cut or cannot be read."""
    if problem is None:
        return None
    line_end = source.text.find("\n", start, source.limit)
    return refusal(source, start, source.limit if line_end < 0 else line_end, problem, "tool_call_line")
