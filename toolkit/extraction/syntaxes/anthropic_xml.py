r"""Read `<invoke name="NAME"><parameter name="KEY">…`, perhaps in `<function_calls>`, with or without a namespace.

>>> from toolkit.extraction import extract
>>> extract('<invoke name="f"><parameter name="a">1</parameter></invoke>').calls[0].arguments
{'a': 1}
>>> extract('<function_calls>\nf(a=1)\n</function_calls>').calls[0].syntax
'olmo3'
"""

import re

from toolkit.extraction.bodies import tagged_calls, wrapped
from toolkit.extraction.drafts import Reading, Source
from toolkit.extraction.syntaxes import syntax

_CLOSER = re.compile(r"</(?:\w+:)?(?:function_calls|functions|tool_calls?)>")


@syntax(
    "anthropic_xml",
    opener=r"<(?:\w+:)?(?:function_calls\s*>|invoke\s+name\s*=|function\s+name\s*=|tool_call>(?=\s*<invoke))",
    labels=("minimax_m2", "olmo3", "minicpm_xml"),
)
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read the wrapper, or a call tag that stands alone."""
    label = "minimax_m2" if found[0].startswith("<minimax:") else "anthropic_xml"
    if "function name" in found[0]:
        return tagged_calls(source, found.start(), "minicpm_xml", _CLOSER)
    if "invoke" in found[0]:
        return tagged_calls(source, found.start(), label, _CLOSER)
    reading = wrapped(source, found.start(), found.end(), label, _CLOSER)
    if reading is None or not all(draft.syntax == label and not draft.untyped for draft in reading.drafts):
        return reading
    return reading._replace(drafts=tuple(draft._replace(syntax="olmo3") for draft in reading.drafts))
