"""Read `<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME` and its arguments: DeepSeek R1, V3, V3.1; Step 3.

>>> from toolkit.extraction import extract
>>> extract('<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>').calls[0].syntax
'deepseek_v31'
"""

import re

from toolkit.extraction.drafts import Reading, Source
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.token_calls import read_token_calls


@syntax(
    "deepseek_v3",
    opener=r"<[｜|]tool[▁_ ]call(?:s[▁_ ](?:begin|start)|[▁_ ]begin)[｜|]>(?![^<\n]*<\|tool_call_argument)",
    labels=("deepseek_v31", "step3"),
)
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read from the outer marker, or from the first call's where the outer one is missing."""
    outer = found[0][:11].endswith("s")
    return read_token_calls(source, found.start(), found.end() if outer else found.start(), "deepseek_v3")
