"""Read `<|channel|>commentary to=functions.NAME<|message|>{…}<|call|>`, and messages that are thoughts or text.

>>> from toolkit.extraction import extract
>>> extract('<|channel|>final<|message|>{"name": "f", "arguments": {}}<|return|>').status
'abstained'

Not here: leaked tokens that belong to no message (`marks`).
"""

import re

from toolkit.extraction.bodies import json_call
from toolkit.extraction.drafts import Draft, Reading, Syntax, refusal
from toolkit.extraction.resolve import clean
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_HEADER = re.compile(r"(?:<\|start\|>[^<]{0,200})?(?:<\|(?:channel|constrain)\|>[^<]{0,200}){0,6}<\|message\|>")
_RECIPIENT = re.compile(r"\bto=([\w.\-:/]++)")
_RECIPIENT_BEFORE = re.compile(r"(?:assistant|functions)?\s*+to=[\w.\-:/]++\s*+$")
_CHANNEL = re.compile(r"<\|channel\|>\s*+(\w++)")
_END = re.compile(r"\s*+<\|(?:call|end|return)\|>")
_STOP = re.compile(r"<\|(?:call|end|return|start|channel)\|>")
_SPEAKER = re.compile(r"<\|start\|>\s*+([\w.\-]++)")
_BUILT_IN = re.compile(r"(?:python|browser|container)(?:\.|$)")


@syntax(
    "harmony", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>',
    r"<\|(?:start\|>(?=[^<]{0,200}<\|(?:channel|message))|channel\|>|message\|>)",
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `<|channel|>commentary to=functions.NAME<|message|>{…}<|call|>`: gpt-oss."""
    header = source.match(_HEADER, found.start())
    if header is None:
        return None
    before = _RECIPIENT_BEFORE.search(source.text, max(0, found.start() - 160), found.start())
    start = before.start() if before else found.start()
    head = source.text[start : header.end()]
    recipient = _RECIPIENT.search(head)
    channel = _CHANNEL.search(head)
    speaker = _SPEAKER.match(head)
    if speaker is not None and not speaker[1].startswith("assistant"):
        return _plain(source, header.end(), "echo")
    if recipient is not None and channel is not None and channel[1] == "final":
        recipient = None
    if recipient is not None and recipient[1] not in ("assistant", "user", "all"):
        return _call(source, start, header.end(), recipient[1])
    return _plain(source, header.end(), channel[1] if channel else "final")


def _call(source: Source, start: int, pos: int, recipient: str) -> Reading:
    """Read a message to a tool."""
    if _BUILT_IN.match(recipient) and not source.tools.declared(recipient):
        end = _plain(source, pos, "echo").end
        return refusal(source, start, end, "undeclared", "harmony", recipient)
    name = recipient if recipient in source.tools.tools else clean(recipient)
    at = source.skip(pos)
    if (end := source.past(_END, at)) > at:
        return Reading(end, (Draft(name, {}, (start, end), "harmony"),))
    reading = json_call(source, start, at, name, "harmony")
    if not reading.drafts:
        return reading
    end, draft = source.past(_END, reading.end), reading.drafts[0]
    closed = draft.closed and end > reading.end
    return Reading(end, (draft._replace(span=(start, end), closed=closed),))


def _plain(source: Source, pos: int, channel: str) -> Reading:
    """Read a message to the user, a thought, or an echo of a tool's answer."""
    stop = source.find(_STOP, pos)
    inner_end = stop.start() if stop else source.limit
    end = source.past(_END, inner_end)
    inner = source.text[pos:inner_end]
    if channel == "analysis":
        return Reading(end, thinking=inner)
    return Reading(end, text="" if channel == "echo" else inner)
