"""Read `<|open|>call tool="NAME"<|sep|>` with typed `argument` elements.

Not here: Kimi K2 (`token_calls`).
"""

import html
import re
from typing import Any

from toolkit.extraction.drafts import Draft, Reading, Syntax, refusal
from toolkit.extraction.lenient_json import decode
from toolkit.extraction.parameters import put
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_NAME = re.compile(r"tool=\"([^\"]*+)\"")
# Between two words a separator and the token behind it may be lost, so that the words are one: `argumentcall`.
_ARGUMENT = re.compile(r"\s*+(?:<\|open\|>)?argument\s++key=\"([^\"]*+)\"(?:\s++type=\"(\w++)\")?[^<]*+<\|sep\|>")
_ARGUMENT_END = re.compile(
    r"<\|close\|>argument(?:(?:<\|sep\|>)?(?=\s*+(?:(?:<\|open\|>)?argument\s|(?:<\|close\|>)?call))|<\|sep\|>(?=\s*+$))"
)
_CALL_END = re.compile(r"\s*+(?:(?=<\|close\|>callcall\s)|(?:<\|close\|>)?call(?:tools|message|response)*+<\|sep\|>)")


@syntax(
    "kimi_k3",
    '<|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1<|close|>argument<|sep|>'
    "<|close|>call<|sep|>",
    r"<\|(?:open\|>[a-z]{0,20}call|close\|>callcall)\s[^<]{0,300}<\|sep\|>",
)
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `<|open|>call tool="NAME"<|sep|>` with typed `argument` elements: Kimi K3."""
    name = _NAME.search(found[0])
    if name is None:
        return None
    arguments: dict[str, Any] = {}
    end = found.end()
    while (opened := source.match(_ARGUMENT, end)) is not None:
        closing = source.find(_ARGUMENT_END, opened.end())
        if closing is None:
            return refusal(source, found.start(), source.limit, "truncated", "kimi_k3", name[1])
        written = source.text[opened.end() : closing.start()]
        read = decode(written, source.budget) if opened[2] != "string" else None
        put(arguments, html.unescape(opened[1]), written if read is None else read.value)
        end = closing.end()
    closed = source.match(_CALL_END, end)
    if closed is None:
        return refusal(source, found.start(), source.limit, "truncated", "kimi_k3", name[1])
    draft = Draft(html.unescape(name[1]), arguments, (found.start(), closed.end()), "kimi_k3", untyped=True)
    return Reading(closed.end(), (draft,))
