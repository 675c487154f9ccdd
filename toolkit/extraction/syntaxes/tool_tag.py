"""Read a call in `<tool>`, `<function_call>`, `<tools>`, `<tool_use>` and the like: Granite 20B, Gemma, small tunes.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<tool>{"name": "f", "parameters": {"a": 1}}</tool>').calls]
[('f', 'tool_tag')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "tool_tag",
    opener=r"<\s*(?i:tool|function_call|functioncall|tool_use|tools|tool_request|tool_code|call|function|functions|action|api_call)\s*>",
    closer=r"</\s*(?i:tool|function_call|functioncall|tool_use|tools|tool_request|tool_code|call|function|functions|action|api_call)\s*>",
    labels=("granite20b", "bfcl_xml", "minicpm_xml", "qwen3_coder", "anthropic_xml"),
)
