r"""Read `<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen 2.5 and 3, Granite 4, many tunes.

>>> from toolkit.extraction import extract
>>> reply = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
>>> [(call.tool_name, call.syntax) for call in extract(reply).calls]
[('f', 'hermes')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "hermes",
    opener=r"<\s*(?i:tool_call)\s*>(?:\s*<\s*(?i:tool_call)\s*>)*",
    closer=r"<?\s*/\s*(?i:tool_call)\s*>(?:\s*</tool_call>)*|<\|/?tool_call\|>",
    labels=("glm45", "glm47", "qwen3_coder", "anthropic_xml", "granite3", "functionary_v31"),
)
