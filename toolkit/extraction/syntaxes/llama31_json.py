"""Read `<|python_tag|>{"name": …, "parameters": {…}}`, perhaps with `;` between: Llama 3.1 to 3.3, R1-Distill-Llama.

>>> from toolkit.extraction import extract
>>> reply = '<|python_tag|>{"name": "f", "parameters": {"a": 1}}<|eom_id|>'
>>> [(call.tool_name, call.syntax) for call in extract(reply).calls]
[('f', 'llama31_json')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "llama31_json",
    opener=r"<\|python_tag\|>",
    closer=r"<\|(?:eom_id|eot_id)\|>",
    labels=("llama_pythonic",),
)
