"""Read `<TOOLCALL>[…]</TOOLCALL>` with JSON or Python calls in it: Nemotron.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<TOOLCALL>[f(a=1)]</TOOLCALL>').calls]
[('f', 'nemotron_toolcall')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "nemotron_toolcall",
    opener=r"<(?i:toolcalls?)>",
    closer=r"</(?i:toolcalls?)>",
    labels=(),
)
