"""Read `[TOOL_CALLS] [{…}, …]`, and `NAME[ARGS]{…}` or `NAME{…}` behind the marker: Mistral, Devstral, Magistral.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]').calls]
[('f', 'mistral_array')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "mistral_array",
    opener=r"\[TOOL_CALLS?\](?:\s*\[TOOL_CALLS?\])*",
    closer=r"\[/TOOL_CALLS?\]|</s>",
    labels=("mistral_args", "mistral_compact"),
)
