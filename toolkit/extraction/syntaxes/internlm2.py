r"""Read `<|action_start|><|plugin|>{"name": …, "parameters": {…}}<|action_end|>`: InternLM 2, 2.5 and 3, Intern-S1.

>>> from toolkit.extraction import extract
>>> reply = '<|action_start|><|plugin|>\n{"name": "f", "parameters": {"a": 1}}<|action_end|>'
>>> [(call.tool_name, call.syntax) for call in extract(reply).calls]
[('f', 'internlm2')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "internlm2",
    opener=r"<\|action_start\|>\s*(?:<\|\w+\|>)?",
    closer=r"<\|action_end\|>",
    labels=(),
)
