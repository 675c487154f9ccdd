"""Read `<|tool_call|>[{"name": …, "arguments": {…}}]`, without a closing tag: Granite 3.0 to 3.3, Phi-4-mini.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<|tool_call|>[{"name": "f", "arguments": {"a": 1}}]').calls]
[('f', 'granite3')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "granite3",
    opener=r"<[|｜]\s*(?i:tool_call)\s*[|｜]>",
    closer=r"<[|｜]\s*/(?i:tool_call)[|｜]>|</(?i:tool_call)>|<[|｜](?i:tool_call_end)[|｜]>|<[|｜](?i:tool_call)[|｜]>(?=\s*$)",
    labels=("phi4mini",),
)
