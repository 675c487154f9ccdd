"""Read `<|python_start|>[f(a=1)]<|python_end|>`: Llama 4.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<|python_start|>[f(a=1)]<|python_end|>').calls]
[('f', 'llama4_python_tag')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "llama4_python_tag",
    opener=r"<\|python_start\|>",
    closer=r"<\|python_end\|>",
    labels=(),
)
