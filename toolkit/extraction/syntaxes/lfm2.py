"""Read `<|tool_call_start|>[f(a=1)]<|tool_call_end|>`: LFM2, MiniCPM 3.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract("<|tool_call_start|>[f(a='x')]<|tool_call_end|>").calls]
[('f', 'lfm2')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "lfm2",
    opener=r"<\|tool_call_start\|>",
    closer=r"<\|tool_call_end\|>",
    labels=(),
)
