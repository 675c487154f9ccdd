r"""Read `<seed:tool_call><function=NAME>` with `<parameter=KEY>` tags: Seed-OSS.

>>> from toolkit.extraction import extract
>>> reply = '<seed:tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</seed:tool_call>'
>>> [(call.tool_name, call.syntax) for call in extract(reply).calls]
[('f', 'seed_oss')]
"""

from toolkit.extraction.syntaxes import wrapper

wrapper(
    "seed_oss",
    opener=r"<seed:tool_call>",
    closer=r"</seed:tool_call>",
    labels=(),
)
