"""Read `<|function_call|>{"name": …, "arguments": {…}}`: GigaChat 3.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<|function_call|>{"name": "f", "arguments": {"a": 1}}').calls]
[('f', 'gigachat')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "gigachat",
    opener=r"<\|(?:function_call|content_invoke_tool_json)\|>",
    closer=r"<\|/?(?:function_call|message_sep|end)\|>",
    labels=("inkling",),
)
