"""Read `<dots_function_call>` with `<invoke>` in it: dots.llm1.

>>> from toolkit.extraction import extract
>>> reply = '<dots_function_call>{"name": "f", "arguments": {"a": 1}}</dots_function_call>'
>>> [(call.tool_name, call.syntax) for call in extract(reply).calls]
[('f', 'dots')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "dots",
    opener=r"<dots_function_call>",
    closer=r"</dots_function_call>",
    labels=(),
)
