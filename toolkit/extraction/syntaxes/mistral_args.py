"""Read `NAME[ARGS]{…}` where the marker before it was lost.

Not here: the same behind `[TOOL_CALLS]` (`wrappers`).
"""

import re

from toolkit.extraction.bodies import wrapped
from toolkit.extraction.drafts import Reading, Source, Syntax
from toolkit.extraction.syntaxes import syntax

_NAME_BEFORE = re.compile(r"[^\W\d][\w.\-:/]{0,128}$")


@syntax(
    "mistral_args", 'f[ARGS]{"a": 1}', r"\[(?:ARGS|CALL_ID)\]",
    closer=r"</s>|\[/TOOL_CALLS\]", labels="mistral_array",
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `NAME[ARGS]{…}`, with or without `[CALL_ID]`, without a marker before it: Mistral Small 3.2, Devstral."""
    name = _NAME_BEFORE.search(source.text, max(0, found.start() - 128), found.start())
    if name is None or not source.tools.may_be(name[0]):
        return None
    return wrapped(source, name.start(), name.start(), syntax)
