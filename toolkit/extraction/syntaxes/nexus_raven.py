"""Read `Call: f(a=1); g(b=2)<bot_end>`: NexusRaven.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('Call: f(a=1)<bot_end>').calls]
[('f', 'nexus_raven')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "nexus_raven",
    opener=r"\n[ \t]*Call:(?=\s*[A-Za-z_][\w.\-]*\()",
    closer=r"<bot_end>",
    starts="Call",
)
