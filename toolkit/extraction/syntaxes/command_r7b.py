"""Read `<|START_ACTION|>[{"tool_name": …, "parameters": {…}}]<|END_ACTION|>`: Command R7B, Command A.

>>> from toolkit.extraction import extract
>>> reply = '<|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>'
>>> [(call.tool_name, call.syntax) for call in extract(reply).calls]
[('f', 'command_r7b')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "command_r7b",
    opener=r"<\|START_ACTION\|>",
    closer=r"<\|END_ACTION\|>",
    labels=(),
)
