"""Read call objects that nothing announces, alone or in a sentence.

>>> from toolkit.extraction import extract
>>> extract('{"name": "Orla", "age": 41}', tools=[{"name": "f"}]).status
'abstained'

Not here: objects in a wrapper (`wrappers`), in a fence (`md_json`) or behind a label (`react`, `tool_call_line`).
"""

import re
from functools import partial

from toolkit.extraction.bodies import wrapped
from toolkit.extraction.drafts import NOTHING, Draft, Reading, Syntax, refusal
from toolkit.extraction.lenient_json import SURPLUS, JsonRead, mend, read_strict
from toolkit.extraction.negatives import is_cut_echo
from toolkit.extraction.shapes import drafts_in
from toolkit.extraction.source import Found, Source
from toolkit.extraction.syntaxes import syntax

_LOOK = 600
_NAME_KEY = re.compile(
    r"(?:name|tool|function|action|func|command|recipient|toolName|functionName|tool_call|tool_calls|function_call)\w{0,5}"
    r"(?:[\"'”’`]|\\\"|&quot;|&#34;)?\s*+(?::|=>)",
)
_JUNK = r"(?:[\s\ufeff\u200b-\u200d\u2060]++|\\[nrt]|/\*[^*]{0,200}\*/)*+"
_CALL_AHEAD = re.compile(
    rf"[{{\[]{_JUNK}[{{\[]?{_JUNK}[\"'“]?(?:name|tool|tool_name|function|function_name|action)[\"'”]?{_JUNK}:{_JUNK}[\"'“]([^\"'”\n]++)[\"'”]"
)
_FIRST_KEY = re.compile(r"[{\[]\s*+\{?\s*+[\"'“]([^\"'”\n]{1,100})[\"'”]\s*+:")
_WORD = re.compile(r"\w[\w.\-:/]*+")
_STRAY = re.compile(
    r"\s*+</?(?:tool_call|tool|function_call|functions?|TOOLCALL|tool_calls)>|\s*+<\|(?:/tool_call|tool_call_end|action_end)\|>"
)
_MARKER = re.compile(r"functools\s*+$")


@syntax(
    "phi4mini", 'functools[{"name": "f", "arguments": {"a": 1}}]', r"\[(?=[\s\ufeff\u200b]*+\{)", labels="json_list"
)  # it begins at the bracket, since a search for a word would cost more than all others together
def read_functools(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read `functools[{"name": …, "arguments": {…}}, …]`: Phi-4-mini."""
    marker = _MARKER.search(source.text, max(0, found.start() - 16), found.start())
    return wrapped(source, marker.start(), found.start(), syntax) if marker else None


@syntax(
    "bare_json", '{"name": "f", "arguments": {"a": 1}}',
    r"\{(?=(?:\s|\\[nrt])*+(?:[\"'“”‘`}\ufeff\u200b\u200c\u2060]|[\w$]++\s*+(?::|=>)|\{\s*+[\"'\w]|\\\"|&quot;|&#34;|/[/*]))",
    labels="json_list single_key openai_json xlam_v1 hermes",
)  # fmt: skip
@syntax(
    "json_list", '[{"name": "f", "arguments": {"a": 1}}]', r"\[(?=[\s\ufeff\u200b]*+\{)",
    labels="xlam_list single_key phi4mini", summary="Read a list of objects that nothing announces: xLAM.",
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read one object that nothing announces: Ollama leaks, small Llamas, Qwen2.5-Coder."""
    start = found.start()
    read = read_strict(source, start)
    if read is None:
        if not _worth_mending(source, start):
            return None
        read = mend(source, start)
    take = _calls if read.problem is None else _failed
    return take(source, start, read, syntax.name)


@syntax(
    "bare_json", '"name": "f", "arguments": {"a": 1}}',
    r"\n[ \t]*+(?=[\"'](?:name|tool|tool_name|function)[\"']\s*+:\s*+[\"'])", starts='"',
)  # fmt: skip
def read_open(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read an object whose first brace is missing."""
    at = source.skip(found.start())
    read = mend(source, at, opened=False) if (at, source.limit) not in source.searches.dead else None
    return _calls(source, at, read, "bare_json") if read and read.problem is None and read.closed else None


def _worth_mending(source: Source, start: int) -> bool:
    """Tell whether a name key, or a declared name, stands near enough."""
    near = min(start + _LOOK, source.limit)
    named = source.find(_NAME_KEY, start)
    if named is not None and named.end() <= near:
        return True
    word = source.first("declared", start, partial(_declared_word, source))
    if word is not None and word[1] <= near:
        return True
    key = source.match(_FIRST_KEY, start)
    return key is not None and source.tools.declared(key[1])


def _declared_word(source: Source, pos: int, stop: int) -> Found | None:
    """Return the next word that is a tool's name."""
    if not source.tools.tools:
        return None
    for word in _WORD.finditer(source.text, pos, source.limit):
        source.budget.spend(word.end() - word.start() + 16)
        if word.start() >= stop:
            break
        if word[0].rstrip(":.") in source.tools.tools:
            return word.span()
    return None


def _calls(source: Source, start: int, read: JsonRead, label: str) -> Reading:
    """Take the calls of a value; data is stepped over as text."""
    blank = Draft("", NOTHING, (start, read.end), label, read.repairs)
    drafts = drafts_in(read.value, source, blank, explicit=False)
    if not drafts:
        return Reading(read.end, text=source.text[start : read.end])
    end = source.past(SURPLUS, read.end)
    stop = source.past(_STRAY, end)
    if stop == read.end and read.closed:
        return Reading(stop, tuple(drafts), explicit=False)
    codes = ("extra_closers",) * (end > read.end) + ("missing_open_tag",) * (stop > end)
    drafts = [
        draft._replace(
            syntax="hermes" if stop > end else draft.syntax, repairs=(*draft.repairs, *codes), closed=read.closed
        )
        for draft in drafts
    ]
    drafts[-1] = drafts[-1].at((drafts[-1].span[0], stop))
    return Reading(stop, tuple(drafts), explicit=stop > end)


def _failed(source: Source, start: int, read: JsonRead, label: str) -> Reading | None:
    """Report what began as a call of a declared tool and is cut or broken; anything else is text."""
    name, echo = begun_call(source, start)
    if name is None:
        return None
    end = source.limit if read.problem == "truncated" else max(read.end, start + 1)
    blank = Draft("", NOTHING, (start, read.end), label, read.repairs)
    kept = drafts_in(list(read.members), source, blank, explicit=False)
    return refusal(source, start, end, echo or read.problem or "bad_json", label, name, kept)._replace(explicit=False)


def begun_call(source: Source, pos: int) -> tuple[str | None, str]:
    """Return the declared name of a call that begins at `pos`, if one does, and `schema_echo` if it is none."""
    ahead = source.match(_CALL_AHEAD, pos)
    if ahead is None or not source.tools.declared(ahead[1]):
        return None, ""
    return ahead[1], "schema_echo" if is_cut_echo(source.text[pos : pos + 400]) else ""
