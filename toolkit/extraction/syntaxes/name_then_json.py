r"""Read a tool's name and the JSON of its arguments behind it: GLM-4, Functionary, Mistral, Qwen-Agent.

>>> from toolkit.extraction import extract
>>> extract('>>>all\nI look.\n>>>f\n{"a": 1}').text
'I look.'

Not here: names and arguments in a wrapper (`wrappers`) or behind a label (`tool_call_line`, `react`).
"""

import re

from toolkit.extraction.bodies import json_call, wrapped
from toolkit.extraction.drafts import NOTHING, Draft, Reading, Syntax, refusal
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_NAME_LINE = re.compile(r"\s*+[`*]{0,2}([^\W\d][\w.\-]*+)")
_MARKED_LINE = r"[^\W\d][\w.\-]*+(?:\(\))?[ \t]*+\r?\n"
_MARKED_NAME = re.compile(r"\s*+>>>([^\n]*+)\n")
_NAME_BEFORE = re.compile(r"[^\W\d][\w.\-:/]{0,128}$")
_FLOWERS = re.compile(r"\s*+:?\s*+([^\W\d][\w.\-:/]*+)\s*+(?:✿ARGS✿\s*+:?\s*+)?")
_HALF_FLOWER = re.compile(r"(?:✿\w*+)?")


@syntax(
    "functionary_v32", 'I look.>>>f\n{"a": 1}', rf">(?=>>{_MARKED_LINE}\s*+\{{)"
)  # as the models write it right behind text; a prompt of Python has no object on its next line
@syntax("functionary_v32", '>>>f\n{"a": 1}', rf"\n>>>{_MARKED_LINE}", starts=">>>")
def read_marked_line(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `>>>NAME` and the arguments on the next line; `>>>all` is text: Functionary 2 and 3.2."""
    head = source.match(_MARKED_NAME, found.start())
    if head is None:
        return None
    name = head[1].strip()
    if name == "all":
        return Reading(head.end() - 1)
    at = source.skip(head.end())
    if not source.text.startswith(("{", "&quot;"), at):
        return None
    return json_call(source, source.text.index(">>>", found.start()), at, name, "functionary_v32")


@syntax(
    "glm4_line", 'f\n{"a": 1}',
    r"\n[ \t]*+[`*]{0,2}+[^\W\d][\w.\-]*+[`*]{0,2}:?[ \t]*+(?:\r?\n[ \t]*+)?+(?=(?:```(?:json)?\s*+)?(?:\{|&quot;))",
)  # fmt: skip
def read_line(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read a line with a tool's name, and an object with its parameters below: GLM-4-9B, ChatGLM3."""
    head = source.match(_NAME_LINE, found.start())
    tool = source.tools.resolve(head[1]).tool if head else None
    if head is None or tool is None:
        return None
    reading = json_call(source, head.start(1), found.end(), head[1], "glm4_line")
    if not reading.drafts or not isinstance(reading.drafts[0].arguments, dict):
        return None
    if tool.properties and not reading.drafts[0].arguments.keys() <= tool.properties.keys():
        return None
    return reading._replace(explicit=False)


@syntax(
    "mistral_args", 'f[ARGS]{"a": 1}', r"\[(?:ARGS|CALL_ID)\]",
    closer=r"</s>|\[/TOOL_CALLS\]", labels="mistral_array",
)  # fmt: skip
def read_args(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `NAME[ARGS]{…}`, with or without `[CALL_ID]`, without a marker before it: Mistral Small 3.2, Devstral."""
    name = _NAME_BEFORE.search(source.text, max(0, found.start() - 128), found.start())
    if name is None or not source.tools.may_be(name[0]):
        return None
    return wrapped(source, name.start(), name.start(), syntax)


@syntax("qwen_agent", '✿FUNCTION✿: f\n✿ARGS✿: {"a": 1}', r"✿FUNCTION✿")
def read_flowers(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `✿FUNCTION✿: NAME` and `✿ARGS✿: {…}`: Qwen 1.5 and 2 under Qwen-Agent."""
    start, head = found.start(), source.match(_FLOWERS, found.end())
    if head is None:
        return None
    stop = head.end()
    if source.text.startswith(("{", "&quot;"), stop):
        return json_call(source, start, stop, head[1], "qwen_agent")
    if "ARGS" in head[0] and stop >= source.limit:
        return refusal(source, start, stop, "truncated", "qwen_agent", head[1])
    closed = _HALF_FLOWER.fullmatch(source.text, stop, source.limit) is None
    return Reading(stop, (Draft(head[1], NOTHING, (start, stop), "qwen_agent", closed=closed),))
