"""Read `NAME[ARGS]{…}`, with or without `[CALL_ID]`, where the marker before it was lost: Mistral Small 3.2, Devstral.

>>> from toolkit.extraction import extract
>>> extract('f[ARGS]{"a": 1}').calls[0].arguments
{'a': 1}
"""

import re

from toolkit.extraction.bodies import wrapped
from toolkit.extraction.drafts import Reading, Source
from toolkit.extraction.syntaxes import syntax

_NAME_BEFORE = re.compile(r"[^\W\d][\w.\-:/]{0,128}$")
_CLOSER = re.compile(r"</s>|\[/TOOL_CALLS\]")


@syntax("mistral_args", opener=r"\[(?:ARGS|CALL_ID)\]", labels=("mistral_array",))
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read the name before the marker and the arguments behind it."""
    name = _NAME_BEFORE.search(source.text, max(0, found.start() - 128), found.start())
    if name is None or (not source.tools.open and not source.tools.declared(name[0])):
        return None
    return wrapped(source, name.start(), name.start(), "mistral_args", _CLOSER)
