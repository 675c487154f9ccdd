r"""Read calls in a fence of their own, as JSON, Python, YAML or any marked syntax; other fences are code and skipped.

>>> from toolkit.extraction import extract
>>> extract('```python\nimport f\nf.f(a=1)\n```', tools=[{"name": "f"}]).status
'abstained'

Not here: marked calls in a fence, which the walk reads, and values (`toolkit.extraction.bodies`).
"""

import re

from toolkit.extraction.bodies import read_body
from toolkit.extraction.drafts import Draft, Reading, Syntax, refusal, spread
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.syntaxes.bare_json import begun_call
from toolkit.extraction.syntaxes.llama_pythonic import python_reading
from toolkit.extraction.syntaxes.yamlish import read_yaml

_HEAD = re.compile(r"(?P<fence>```++|~~~++)[ \t]*+(?P<language>[\w+.\-]*+)[ \t]*+(?:\r?\n|(?=[\[{<]))?")
_JSON = re.compile(
    r"[\s\ufeff\u200b]*+(?:[{\[]\s*+(?:[{\[]\s*+)?(?:[\"'“”‘`}\]]|&quot;|\\\"|/[/*]|[\w$]++\s*+(?::|=>)|[\ufeff\u200b])"
    r"|[\"'](?:name|tool|action)[\"']\s*+:)"
)
_PYTHON = re.compile(
    r"\s*+(?:#[^\n]*+\n\s*+)*+"
    r"(?P<call>(?:print\(|[A-Za-z_]\w*+[ \t]*+=[ \t]*+(?:await[ \t]++)?(?=[A-Za-z_])|await[ \t]++)?"
    r"\[*+\s*+[`'\"]?(?P<name>[A-Za-z_][\w.\\\-/:]*+)[ \t]*+\()"
)
_MARKED = re.compile(r"\s*+(?:<|\[TOOL_CALLS\]|✿FUNCTION|(?i:tool_call|call_tool|Action)s?\s*+:)")
_LEFT = re.compile(r"\s*+(?:#[^\n]*+|print\s*+\([^\n]{0,400}\)|[\]),;`]*+)\s*+")
_PYTHON_LANGUAGES = {
    "", "python", "py", "tool_code", "python3", "text", "txt", "plaintext", "bash", "tool_call", "json", "plain",
    "code", "function_call", "tool_calls", "output",
}  # fmt: skip
_CLOSING = re.compile(r"\s*+(?:```++|~~~++)")
_FENCES = {"```": re.compile(r"\n[ \t]*+```++[ \t]*+(?=\n|\r|$|<|\S)"), "~~~": re.compile(r"\n[ \t]*+~~~++")}


_LABELS = "action_json gemma3_tool_code yamlish json_list llama_pythonic bfcl_prompt bare_json single_key openai_json"


@syntax(
    "md_json", '~~~json\n{"name": "f", "arguments": {"a": 1}}\n~~~', r"~(?<!~~)(?=~~)", labels=_LABELS
)  # fmt: skip
@syntax(
    "md_json", '```json\n{"name": "f", "arguments": {"a": 1}}\n```', r"`(?<!``)(?=``)",
    labels=_LABELS,
)  # fmt: skip
def read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read calls in a fence of their own, as JSON, Python or YAML."""
    start = found.start()
    head = source.match(_HEAD, start)
    if head is None:
        return None
    language, at = head["language"].lower(), head.end()
    reading = _content(source, start, at, language, syntax)
    if reading is not None:
        return reading
    closing = source.find(_FENCES[head["fence"][:3]], at - 1)
    if closing is None:
        if language and language not in _PYTHON_LANGUAGES | {"xml", "yaml", "html"}:
            return Reading(source.limit, text=source.text[start : source.limit])
        return None
    if _MARKED.match(source.text, at, closing.start()) and language not in ("html", "jinja"):
        return Reading(closing.end(), inner=(at, closing.start()))
    return Reading(closing.end(), text=source.text[start : closing.end()])


def _content(source: Source, start: int, at: int, language: str, syntax: Syntax) -> Reading | None:
    """Read the content as calls; None if it is none."""
    if source.match(_JSON, at):
        return _json(source, start, at, syntax)
    python = source.match(_PYTHON, at)
    if python is not None and (language in _PYTHON_LANGUAGES or "[" in python["call"]):
        return _python(source, start, python, language)
    if language in ("", "yaml", "yml", "text"):
        return read_yaml(source, start, at, fenced=True)
    return None


def _json(source: Source, start: int, at: int, syntax: Syntax) -> Reading | None:
    """Read one or more JSON values."""
    body = read_body(source, at, syntax)
    if body is None:
        return None
    end = source.past(_CLOSING, body.end)
    if not body.drafts:
        name, echo = begun_call(source, source.skip(at))
        if body.problem in (None, "no_name") or name is None:
            return None
        closing = source.find(_FENCES[source.text[start : start + 3]], at) if body.problem != "truncated" else None
        stop = closing.end() if closing else source.limit
        return refusal(source, start, stop, echo or body.problem, "md_json", name)
    left = source.text[body.end : end].strip().strip("`~").strip()
    if left and not left.startswith(("<", "}", "]", "//", "#")) and source.text.find("```", body.end) >= 0:
        return None
    drafts = [_labelled(draft, source.text[at : body.end]) for draft in body.drafts]
    kept = spread(drafts, start, end)
    if body.problem == "truncated":
        return refusal(source, end, source.limit, "truncated", "md_json", kept=kept)._replace(explicit=False)
    return Reading(end, kept, explicit=False, open=end == body.end)


def _labelled(draft: Draft, text: str) -> Draft:
    codes = tuple(code for code in draft.repairs if code != "fence_removed")
    if draft.syntax == "md_json" and '"action_input"' in text.replace("“", '"').replace("”", '"'):
        return draft._replace(syntax="action_json", repairs=codes)
    return draft._replace(repairs=codes)


def _python(source: Source, start: int, found: re.Match[str], language: str) -> Reading | None:
    """Read Python-like calls that fill the fence; anything but comments and print() beside them is code."""
    if not source.tools.may_be(found["name"].replace("\\", "")):
        return None
    bare = "[" not in found["call"] and "print(" not in found["call"]
    label = "gemma3_tool_code" if language == "tool_code" else "llama_pythonic"
    reading = python_reading(source, found.start("name" if bare else "call"), label)
    if reading is None or not reading.drafts:
        return reading
    closing = source.find(_FENCES["```"], reading.end - 1)
    inline = source.text.find("```", reading.end, reading.end + 40)
    stop = closing.start() if closing is not None else inline if inline >= 0 else source.limit
    end = reading.end
    while end < stop and (left := _LEFT.match(source.text, end, stop)) is not None and left.end() > end:
        end = left.end()
    if end < stop and (closing is not None or language) and source.text[end] != "`":
        return None
    end = source.past(_CLOSING, end)
    return reading._replace(drafts=spread(reading.drafts, start, end), end=end, open=closing is None)
