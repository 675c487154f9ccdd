"""Read `<|channel|>commentary to=functions.NAME<|message|>{…}<|call|>`, and messages that are thoughts or text.

>>> from toolkit.extraction import extract
>>> extract('<|channel|>final<|message|>{"name": "f", "arguments": {}}<|return|>').status
'abstained'

Not here: leaked tokens that belong to no message (`marks`).
"""

import re

from toolkit.extraction.bodies import json_call
from toolkit.extraction.drafts import Draft, Reading, Syntax, refusal
from toolkit.extraction.lenient_json import read_arguments
from toolkit.extraction.resolve import clean
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_MORE = r"(?:<\|(?:channel|constrain)\|>[^<]{0,200}){0,6}<\|message\|>"
_HEADER = re.compile(rf"(?:<\|start\|>[^<]{{0,200}})?{_MORE}")
_RECIPIENT = re.compile(r"\bto=([\w.\-:/]++)")
_RECIPIENT_BEFORE = re.compile(r"(?:assistant|functions)?\s*+to=[\w.\-:/]++\s*+$")
_CHANNEL = re.compile(r"<\|channel\|>\s*+(\w++)|^\s*+(analysis|commentary|final)\b")
_END = re.compile(r"\s*+<\|(?:call|end|return|eom|eot)\|>")
_STOP = re.compile(r"<\|(?:call|end|return|start|channel|eom|eot)\|>")
_LAST = re.compile(r"\s*+(?:<\|call\|>\s*+(?:<\|(?:start|channel)\|>|$)|$)")  # behind a call that ends its turn
_IN_SENTENCE = re.compile(r"[\w,][ \t]++$")
_SPEAKER = re.compile(r"<\|start\|>\s*+([\w.\-]++)")
_LONGEST_HEADER = 1_600
_BUILT_IN = re.compile(r"(?:python|browser|container)(?:\.|$)")


@syntax(
    "harmony",
    'analysis<|message|>hm<|end|><|start|>assistant to=f<|message|>{"a": 1}',
    rf"\n[ \t]*+(?:assistant[ \t]*+)?(?:to=[\w.\-:/]++|analysis|commentary|final)[^<\n]{{0,80}}{_MORE}",
    starts="to= assistant analysis commentary final",
)  # as a reply begins whose first tokens were in the prompt
@syntax(
    "harmony", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>',
    r"<\|(?:start\|>(?=[^<]{0,200}<\|(?:channel|message))|channel\|>|message\|>)",
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `<|channel|>commentary to=functions.NAME<|message|>{…}<|call|>`: gpt-oss; with tags in it: Muse Glimmer."""
    if found[0].startswith("<"):
        header = source.match(_HEADER, found.start())
        if header is None:
            return None
        before = _RECIPIENT_BEFORE.search(source.text, max(0, found.start() - 160), found.start())
        start, pos = before.start() if before else found.start(), header.end()
    else:
        start, pos = source.skip(found.start()), found.end()
    channel, recipient = _addressed(source.text[start:pos])
    if recipient:
        return _call(source, start, pos, recipient)
    return _thought(source, pos) if channel == "analysis" else _plain(source, pos, channel)


def _addressed(head: str) -> tuple[str, str]:
    """Return the channel of a message, and the tool that it is for, if it is for one."""
    speaker, to, named = _SPEAKER.match(head), _RECIPIENT.search(head), _CHANNEL.search(head)
    channel, recipient = (named[1] or named[2]) if named else "final", to[1] if to else ""
    if speaker is not None and not speaker[1].startswith("assistant"):
        return "echo", ""
    if recipient == "self":  # so Muse marks its thoughts
        return "analysis", ""
    if (channel == "final" and named) or recipient in ("assistant", "user", "all"):
        recipient = ""
    return channel, recipient


def _call(source: Source, start: int, pos: int, recipient: str) -> Reading:
    """Read a message to a tool."""
    if _BUILT_IN.match(recipient) and not source.tools.declared(recipient):
        end = _plain(source, pos, "echo").end
        return refusal(source, start, end, "undeclared", "harmony", recipient)
    name = recipient if recipient in source.tools.tools else clean(recipient)
    at = source.skip(pos)
    if (end := source.past(_END, at)) > at:
        return Reading(end, (Draft(name, {}, (start, end), "harmony"),))
    if source.text.startswith("<atem:", at):
        return Reading(at)  # a syntax of its own begins here
    reading = json_call(source, start, at, name, "harmony")
    if not reading.drafts:
        return reading
    end, draft = source.past(_END, reading.end), reading.drafts[0]
    closed = draft.closed and end > reading.end
    return Reading(end, (draft._replace(span=(start, end), closed=closed),))


def _thought(source: Source, pos: int) -> Reading:
    """Read a thought up to its end, or to the next message; a call that is only told in it is a part of it."""
    seen = pos
    while (stop := source.find(_STOP, seen)) is not None:
        if stop[0] in ("<|start|>", "<|channel|>"):
            header = source.match(_HEADER, stop.start())
            if header is None and source.limit - stop.start() < _LONGEST_HEADER:
                source.touch_end()
            if header is None or not _addressed(header[0])[1] or not _told(source, stop.start(), header.end()):
                break
            seen = header.end()
        elif stop[0] == "<|call|>" and seen > pos:
            seen = stop.end()  # that of the call that was told
        else:
            break
    inner_end = stop.start() if stop else source.limit
    return Reading(source.past(_END, inner_end), thinking=source.text[pos:inner_end])


def _told(source: Source, start: int, pos: int) -> bool:
    """Tell whether the call in a thought is only told: it stands in a sentence, or the turn does not end with it."""
    if _IN_SENTENCE.search(source.text, max(0, start - 16), start):
        return True
    read = read_arguments(source, source.skip(pos))
    if read.problem is not None:
        return read.problem != "truncated"
    last = source.match(_LAST, read.end)
    if last is None or last.end() >= source.limit:
        source.touch_end()
    return last is None


def _plain(source: Source, pos: int, channel: str) -> Reading:
    """Read a message to the user, or an echo of a tool's answer."""
    stop = source.find(_STOP, pos)
    inner_end = stop.start() if stop else source.limit
    end = source.past(_END, inner_end)
    inner = source.text[pos:inner_end]
    return Reading(end, text="" if channel == "echo" else inner)
