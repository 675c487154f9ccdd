r"""Read `<function=NAME>` with `<parameter=KEY>` tags, or with JSON in it: Qwen3-Coder, Qwen3-Next, Functionary 3.1.

>>> from toolkit.extraction import extract
>>> extract("<function=f>\n<parameter=a>\n1\n</parameter>\n</function>").calls[0].arguments
{'a': 1}
>>> extract('<function=f>{"a": 1}</function>').calls[0].syntax
'functionary_v31'
"""

import re

from toolkit.extraction.bodies import tagged_calls
from toolkit.extraction.drafts import Reading, Source
from toolkit.extraction.syntaxes import syntax

_CLOSER = re.compile(r"</(?i:tool_calls?|function_calls|functions?)>|<\|eo[mt]_id\|>")


@syntax("qwen3_coder", opener=r"<\s*function\s*=\s*", labels=("functionary_v31",))
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read one call tag and what closes it."""
    return tagged_calls(source, found.start(), "qwen3_coder", _CLOSER)
