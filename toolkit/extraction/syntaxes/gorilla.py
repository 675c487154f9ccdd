"""Read `<<function>>f(a=1)<<function>>g(b=2)`: Gorilla OpenFunctions.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<<function>>f(a=1)').calls]
[('f', 'gorilla')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "gorilla",
    opener=r"<<function>>",
    closer=r"<</function>>",
    labels=(),
)
