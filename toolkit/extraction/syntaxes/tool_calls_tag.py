"""Read `<tool_calls>[{"name": …, "arguments": {…}}, …]</tool_calls>`: Jamba, Hunyuan A13B.

>>> from toolkit.extraction import extract
>>> reply = '<tool_calls>[{"name": "f", "arguments": {"a": 1}}]</tool_calls>'
>>> [(call.tool_name, call.syntax) for call in extract(reply).calls]
[('f', 'tool_calls_tag')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "tool_calls_tag",
    opener=r"<(?i:tool_calls)>",
    closer=r"</(?i:tool_calls)>",
    labels=("glm45",),
)
