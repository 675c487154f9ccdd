"""Read `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`: Kimi K2 and later.

>>> from toolkit.extraction import extract
>>> extract('<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>').calls[0].tool_name
'f'
"""

import re

from toolkit.extraction.drafts import Reading, Source
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.token_calls import read_token_calls


@syntax("kimi_k2", opener=r"<\|tool_call(?:s?_section)?_begin\|>")
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read from the section's marker, or from the first call's where there is none."""
    section = "section" in found[0]
    return read_token_calls(source, found.start(), found.end() if section else found.start(), "kimi_k2")
