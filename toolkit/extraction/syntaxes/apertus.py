"""Read `<|tools_prefix|>[{NAME: {…}}, …]<|tools_suffix|>`: Apertus.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>').calls]
[('f', 'apertus')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "apertus",
    opener=r"<\|tools_prefix\|>",
    closer=r"<\|tools_suffix\|>",
    labels=(),
)
