r"""Read `<NAME><KEY>value</KEY></NAME>` where tool and parameters are declared.

>>> from toolkit.extraction import extract
>>> tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
>>> extract("<f>\n<a>1</a>\n</f>", tools=[tool]).calls[0].arguments
{'a': 1}

Not here: tags that are the same for every tool (`wrappers`).
"""

import re

from toolkit.extraction.drafts import NOTHING, Draft, Reading, Syntax, refusal
from toolkit.extraction.parameters import Tags, read_members
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax


@syntax("cline_xml", "<f>\n<a>1</a>\n</f>", r"<[ \t]*+(?!/)[^\W\d][\w.\-]*+[ \t]*+>", late=True)
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `<NAME><KEY>value</KEY></NAME>` where tool and parameters are declared: Cline and Roo prompts, Mixtral."""
    name = found[0].strip("<> \t")
    tool = source.tools.resolve(name).tool
    if tool is None:
        return None
    closer = re.compile(rf"\s*+</\s*+{re.escape(name)}\s*+>")
    if not tool.properties:
        end = source.past(closer, found.end())
        drafts = (Draft(name, NOTHING, (found.start(), end), "cline_xml"),)
        return Reading(end, drafts) if end > found.end() else None
    keys = "|".join(re.escape(key) for key in tool.properties)
    tags = Tags(
        re.compile(rf"<[ \t]*+(?P<key>{keys})[ \t]*+>"),
        re.compile(rf"</[ \t]*+(?:{keys})[ \t]*+>"),
        re.compile(rf"</\s*+{re.escape(name)}\s*+>"),
    )
    members = read_members(source, found.end(), tags, tool)
    if members.cut:
        return refusal(source, found.start(), source.limit, "truncated", "cline_xml", name)
    end = source.past(closer, members.end)
    closed = end > members.end
    if not members.values and (not closed or tool.required):
        return None
    codes = tuple(members.repairs) if closed else (*members.repairs, "missing_close_tag")
    draft = Draft(name, members.values, (found.start(), end), "cline_xml", codes, untyped=True, closed=closed)
    return Reading(end, (draft,))
