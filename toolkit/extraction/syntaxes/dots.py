"""Read `<dots_function_call>` with `<invoke>` in it: dots.llm1.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<dots_function_call>{"name": "f", "arguments": {"a": 1}}</dots_function_call>').calls]
[('f', 'dots')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "dots",
    opener=r"<dots_function_call>",
    closer=r"</dots_function_call>",
    labels=(),
)
