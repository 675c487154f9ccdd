r"""Read `<longcat_tool_call>NAME` with `<longcat_arg_key>` pairs: LongCat.

>>> from toolkit.extraction import extract
>>> [(call.tool_name, call.syntax) for call in extract('<longcat_tool_call>f\n<longcat_arg_key>a</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>\n</longcat_tool_call>').calls]
[('f', 'longcat')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "longcat",
    opener=r"<longcat_tool_call>",
    closer=r"</longcat_tool_call>",
    labels=(),
)
