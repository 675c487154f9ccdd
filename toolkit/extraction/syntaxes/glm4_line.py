"""Read a line with a tool's name and its arguments below.

Not here: GLM 4.5's pairs behind a name (`toolkit.extraction.bodies`).
"""

import re

from toolkit.extraction.bodies import FENCE_END, json_call
from toolkit.extraction.drafts import Reading, Source, Syntax, spread
from toolkit.extraction.syntaxes import syntax

_NAME = re.compile(r"\s*[`*]{0,2}([^\W\d][\w.\-]*)")


@syntax(
    "glm4_line", 'f\n{"a": 1}',
    r"\n[ \t]*+[`*]{0,2}+[^\W\d][\w.\-]*+[`*]{0,2}:?[ \t]*+(?:\r?\n[ \t]*+)?+(?:```(?:json)?\s*+)?(?=\{|&quot;)",
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read a line with a tool's name, and an object with its parameters below: GLM-4-9B, ChatGLM3."""
    head = source.match(_NAME, found.start())
    tool = source.tools.resolve(head[1]).tool if head else None
    if head is None or tool is None:
        return None
    reading = json_call(source, head.start(1), found.end(), head[1], "glm4_line")
    if not reading.drafts or not isinstance(reading.drafts[0].arguments, dict):
        source.fuel.spend(reading.end - found.end() + 64)
        return None
    if tool.properties and not reading.drafts[0].arguments.keys() <= tool.properties.keys():
        return None
    end = source.past(FENCE_END, reading.end) if "```" in found[0] else reading.end
    return Reading(end, spread(reading.drafts, head.start(1), end), explicit=False)
