r"""Read `<longcat_tool_call>NAME` with `<longcat_arg_key>` pairs: LongCat.

>>> from toolkit.extraction import extract
>>> pair = '<longcat_arg_key>a</longcat_arg_key><longcat_arg_value>1</longcat_arg_value>'
>>> reply = f'<longcat_tool_call>f{pair}</longcat_tool_call>'
>>> [(call.tool_name, call.syntax) for call in extract(reply).calls]
[('f', 'longcat')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "longcat",
    opener=r"<longcat_tool_call>",
    closer=r"</longcat_tool_call>",
    labels=(),
)
