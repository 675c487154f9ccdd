r"""Read `>>>NAME` and the arguments on the next line; `>>>all` is text.

>>> from toolkit.extraction import extract
>>> extract('>>>all\nI look.\n>>>f\n{"a": 1}').text
'I look.'

Not here: Functionary 3.1 (`wrappers`).
"""

import re

from toolkit.extraction.bodies import json_call
from toolkit.extraction.drafts import Reading, Source, Syntax
from toolkit.extraction.syntaxes import syntax

_NAME = r"[^\W\d][\w.\-]*(?:\(\))?[ \t]*\r?\n"
_HEAD = re.compile(r"\s*>>>(.*)\n")


@syntax(
    "functionary_v32", 'I look.>>>f\n{"a": 1}', rf">(?=>>{_NAME}\s*\{{)"
)  # as the models write it right behind text; a prompt of Python has no object on its next line
@syntax("functionary_v32", '>>>f\n{"a": 1}', rf"\n>>>{_NAME}", starts=">>>")
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `>>>NAME` and the arguments on the next line; `>>>all` is text: Functionary 2 and 3.2."""
    head = source.match(_HEAD, found.start())
    if head is None:
        return None
    name = head[1].strip()
    if name == "all":
        return Reading(head.end() - 1)
    at = source.skip(head.end())
    if not source.text.startswith(("{", "&quot;"), at):
        return None
    return json_call(source, source.text.index(">>>", found.start()), at, name, "functionary_v32")
