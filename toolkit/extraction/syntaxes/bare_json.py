"""Read call objects that nothing announces, alone or in a sentence.

>>> from toolkit.extraction import extract
>>> extract('{"name": "Orla", "age": 41}', tools=[{"name": "f"}]).status
'abstained'
"""

import re

from toolkit.extraction.bodies import SURPLUS
from toolkit.extraction.drafts import Draft, Reading, Source, Syntax, refusal, spread
from toolkit.extraction.lenient_json import JsonRead, mend, read_strict
from toolkit.extraction.negatives import is_cut_echo
from toolkit.extraction.shapes import drafts_in
from toolkit.extraction.syntaxes import syntax

_NAME_KEY = re.compile(
    r"(?:name|tool|function|action|func|command|recipient|toolName|functionName|tool_call|tool_calls|function_call)\w{0,5}"
    r"(?:[\"'”’`]|\\\"|&quot;|&#34;)?\s*:",
)
_CALL_AHEAD = re.compile(
    r"[{\[]\s*[{\[]?\s*[\"'“]?(?:name|tool|tool_name|function|function_name|action)[\"'”]?\s*:\s*[\"'“]([^\"'”\n]+)[\"'”]"
)
_FIRST_KEY = re.compile(r"[{\[]\s*\{?\s*[\"'“]([^\"'”\n]{1,100})[\"'”]\s*:")
_STRAY = re.compile(
    r"\s*</?(?:tool_call|tool|function_call|functions?|TOOLCALL|tool_calls)>|\s*<\|(?:/tool_call|tool_call_end|action_end)\|>"
)
_LOOK = 600
_BACK = re.compile(r"functools\s*$")


@syntax(
    "bare_json", '{"name": "f", "arguments": {"a": 1}}',
    r"\{(?=\s*+(?:[\"'“”‘`}\ufeff\u200b\u200c\u2060]|[\w$]++\s*+:|\{\s*[\"'\w]|\\\"|&quot;|&#34;|/[/*]))",
    labels="json_list single_key openai_json xlam_v1 hermes",
)  # fmt: skip
def read_object(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read one object that nothing announces: Ollama leaks, small Llamas, Qwen2.5-Coder."""
    return _read(source, found.start(), "bare_json")


@syntax(
    "json_list", '[{"name": "f", "arguments": {"a": 1}}]', r"\[(?=[\s\ufeff\u200b]*\{)",
    labels="xlam_list single_key phi4mini",
)  # fmt: skip
def read_list(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read a list of objects; `functools` before it is Phi-4-mini's marker."""
    marker = _BACK.search(source.text, max(0, found.start() - 16), found.start())
    reading = _read(source, found.start(), "phi4mini" if marker else "json_list", explicit=marker is not None)
    if reading is None or marker is None or not reading.drafts:
        return reading
    return reading._replace(drafts=spread(reading.drafts, marker.start(), reading.drafts[-1].span[1]), explicit=True)


@syntax(
    "bare_json", '"name": "f", "arguments": {"a": 1}}',
    r"\n[ \t]*(?=[\"'](?:name|tool|tool_name|function)[\"']\s*:\s*[\"'])",
    labels="bare_json", starts='"',
)  # fmt: skip
def read_open(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read an object whose first brace is missing."""
    at = source.skip(found.start())
    read = mend(source.text, at, source.limit, opened=False)
    if read.problem is not None or not read.closed:
        source.fuel.spend(read.end - at + 64)
        return None
    return _calls(source, at, read, "bare_json", explicit=False)


def _read(source: Source, start: int, label: str, explicit: bool = False) -> Reading | None:
    read = read_strict(source.text, start, source.limit, source.fuel)
    if read is None:
        if not explicit and not _worth_mending(source, start):
            source.fuel.spend(64)
            return None
        read = mend(source.text, start, source.limit)
        source.fuel.spend(read.end - start + 64)
        if read.problem is not None:
            return _failed(source, start, read, label, explicit)
    return _calls(source, start, read, label, explicit)


def _worth_mending(source: Source, start: int) -> bool:
    """Tell whether a name key, or a declared name, stands near enough."""
    if source.fuel.left <= 0:
        return False
    window = source.text[start : min(start + _LOOK, source.limit)]
    if _NAME_KEY.search(window) is not None or any(name in window for name in source.tools.tools):
        return True
    key = _FIRST_KEY.match(window)
    return key is not None and source.tools.declared(key[1])


def _calls(source: Source, start: int, read: JsonRead, label: str, explicit: bool) -> Reading:
    """Take the calls of a value; data is stepped over as text."""
    end = read.end
    found = drafts_in(read.value, source.tools, (start, end), label, explicit=explicit, repairs=read.repairs)
    if not found:
        if explicit and read.value == []:
            return refusal(source, start, end, "empty", label)
        return Reading(end, text=source.text[start:end])
    codes: tuple[str, ...] = ()
    if (surplus := source.match(SURPLUS, end)) is not None:
        end, codes = surplus.end(), ("extra_closers",)
    stray = source.match(_STRAY, end)
    if stray is not None and label != "phi4mini":
        end, label, codes = stray.end(), "hermes", (*codes, "missing_open_tag")
    drafts = [_relabel(draft, label, codes, read.closed) for draft in found]
    drafts[-1] = drafts[-1].at((drafts[-1].span[0], end))
    return Reading(end, tuple(drafts), explicit=explicit or stray is not None)


def _relabel(draft: Draft, label: str, codes: tuple[str, ...], closed: bool) -> Draft:
    syntax_name = label if label in ("hermes", "phi4mini") else draft.syntax
    return draft._replace(syntax=syntax_name, repairs=(*draft.repairs, *codes), closed=closed)


def _failed(source: Source, start: int, read: JsonRead, label: str, explicit: bool) -> Reading | None:
    """Report what began as a call of a declared tool and is cut or broken; anything else is text."""
    ahead = source.match(_CALL_AHEAD, start)
    known = ahead is not None and source.tools.declared(ahead[1])
    if not (known or explicit):
        return None
    problem = read.problem or "bad_json"
    if is_cut_echo(source.text[start : start + 400]):
        problem = "schema_echo"
    end = source.limit if read.problem == "truncated" else max(read.end, start + 1)
    name = ahead[1] if ahead is not None else None
    span = (start, read.end)
    kept = drafts_in(list(read.members), source.tools, span, label, explicit=explicit, repairs=read.repairs)
    return refusal(source, start, end, problem, label, name, kept)._replace(explicit=explicit)
