r"""Read a line with a tool's name and its arguments below: GLM-4-9B, ChatGLM3.

>>> from toolkit.extraction import extract
>>> extract('f\n{"a": 1}', tools=[{"name": "f"}]).calls[0].syntax
'glm4_line'
"""

import re

from toolkit.extraction.drafts import Draft, Reading, Source
from toolkit.extraction.lenient_json import read_json
from toolkit.extraction.syntaxes import syntax


@syntax(
    "glm4_line",
    opener=r"\n[ \t]*+[`*]{0,2}+[^\W\d][\w.\-]*+[`*]{0,2}:?[ \t]*+(?:\r?\n[ \t]*+)?+(?:```(?:json)?\s*+)?(?=\{|&quot;)",
)
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read a declared name and an object whose keys are declared."""
    head = re.compile(r"\s*[`*]{0,2}([^\W\d][\w.\-]*)").match(source.text, found.start(), source.limit)
    if head is None:
        return None
    tool = source.tools.resolve(head[1]).tool
    if tool is None:
        return None
    read = read_json(source.text, found.end(), source.limit)
    if read.problem is not None or not isinstance(read.value, dict):
        source.fuel.spend(read.end - found.end() + 64)
        return None
    if tool.properties and not set(read.value) <= set(tool.properties):
        return None
    end = read.end
    codes = read.repairs
    if (extra := re.compile(r"[}\]]+").match(source.text, end, source.limit)) is not None:
        end, codes = extra.end(), (*codes, "extra_closers")
    if "```" in found[0] and (closing := re.compile(r"\s*```").match(source.text, end, source.limit)):
        end = closing.end()
    draft = Draft(head[1], read.value, (head.start(1), end), "glm4_line", codes, closed=read.closed)
    return Reading(end, (draft,), explicit=False)
