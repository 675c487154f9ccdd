r"""Read `<NAME><KEY>value</KEY></NAME>` where tool and parameters are declared.

>>> from toolkit.extraction import extract
>>> tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
>>> extract("<f>\n<a>1</a>\n</f>", tools=[tool]).calls[0].arguments
{'a': 1}

Not here: tags that are the same for every tool (`wrappers`).
"""

import re

from toolkit.extraction.bodies import wrapped
from toolkit.extraction.drafts import Reading, Syntax
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax


@syntax(
    "cline_xml", "<f>\n<a>1</a>\n</f>", r"<[ \t]*+(?!/)[^\W\d][\w.\-]*+(?:[ \t]*+/?>|\s(?=[^<>]{1,400}>))", late=True
)
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `<NAME><KEY>value</KEY></NAME>` where tool and parameters are declared: Cline and Roo prompts, Mixtral."""
    name = re.split(r"[\s/>]", found[0].strip("< \t"), maxsplit=1)[0]
    reading = wrapped(source, found.start(), found.start(), syntax) if source.tools.declared(name) else None
    plain = found[0].endswith(">") and not found[0].endswith("/>")
    return reading and reading._replace(explicit=plain)
