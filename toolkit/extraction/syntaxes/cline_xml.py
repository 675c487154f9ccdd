r"""Read `<NAME><KEY>value</KEY></NAME>` of declared tools, and `<tool_name>NAME</tool_name>` without a wrapper.

>>> from toolkit.extraction import extract
>>> tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
>>> extract("<f>\n<a>1</a>\n</f>", tools=[tool]).calls[0].arguments
{'a': 1}

Not here: tags that are the same for every tool (`wrappers`).
"""

import re

from toolkit.extraction.bodies import told, wrapped
from toolkit.extraction.drafts import Reading, Syntax
from toolkit.extraction.elements import NAMERS
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_NAME = re.compile(r"<[ \t]*+([\w.\-]++)")
_NAMER = re.compile(rf"<(?i:{NAMERS})\s*+>")


@syntax(
    "cline_xml", "<f>\n<a>1</a>\n</f>", r"<[ \t]*+(?!/)[^\W\d][\w.\-]*+(?:[ \t]*+/?>|\s(?=[^<>]{1,400}>))", late=True
)
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `<NAME><KEY>value</KEY></NAME>` where tool and parameters are declared: Cline and Roo prompts, Mixtral."""
    named = _NAME.match(source.text, found.start())
    if named is None or not (source.tools.declared(named[1]) or _NAMER.match(source.text, found.start())):
        return None
    reading = wrapped(source, found.start(), found.start(), syntax)
    plain = found[0].endswith(">") and not found[0].endswith("/>")
    return reading and told(source, reading if plain else reading._replace(explicit=False))
