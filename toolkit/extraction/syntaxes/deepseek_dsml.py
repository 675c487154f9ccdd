"""Read `<｜DSML｜invoke name="NAME">` with flagged `<｜DSML｜parameter>` tags: DeepSeek V3.2 and later.

>>> from toolkit.extraction import extract
>>> text = '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter></｜DSML｜invoke>'
>>> extract(text).calls[0].arguments
{'a': 1}
"""

import re

from toolkit.extraction.bodies import tagged_calls, wrapped
from toolkit.extraction.drafts import Reading, Source
from toolkit.extraction.syntaxes import syntax

_CLOSER = re.compile(r"</[｜|]DSML[｜|] ?(?:function_calls|tool_calls|calls)>")


@syntax("deepseek_dsml", opener=r"<[｜|]DSML[｜|] ?(?:function_calls>|tool_calls>|calls>|invoke\s)")
def read(source: Source, found: re.Match[str]) -> Reading | None:
    """Read the wrapper, or a call tag that stands alone."""
    if "invoke" in found[0]:
        return tagged_calls(source, found.start(), "deepseek_dsml", _CLOSER)
    return wrapped(source, found.start(), found.end(), "deepseek_dsml", _CLOSER)
