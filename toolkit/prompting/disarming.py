"""How does a text that is not ours lose what could be read as a call, or as a turn? Disarming, the one way of all.

It gets a dot in every place where a reader of replies would begin to read: `<·tool_call>`, `T·OOL_CALL: pay {}`,
`pay·(1)`, `{·"name": "pay"}`. So no part of an echo is a call, wherever it begins, with its back-ticks or without.
These places come from the tables of `toolkit.extraction` and from the names of the tools; a text without any stays as
it is, byte for byte. Each text is passed over a fixed number of times, so that it takes linear time.
Not here: reading calls (`toolkit.extraction`); what a protocol shows (`toolkit.prompting.protocols`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any

from toolkit.extraction.drafts import Syntax
from toolkit.extraction.elements import NAMERS
from toolkit.extraction.resolve import clean, fold
from toolkit.extraction.syntaxes import load
from toolkit.messages import ChatMessage
from toolkit.prompting import templates
from toolkit.tools import Tool

DOT = "·"
MOST_SHOWN = 4096  # tools whose texts are kept as they are shown
_LONGEST_NAME = 400  # characters of a written name that are looked at, its prefix included
_WORD = r"\w.\\\-/:"  # what a name may be written with
# a text without any of these holds nothing that could be read
_ANYTHING = re.compile(r"[<>{(\[:✿◁&]")
# tokens of chat templates that no syntax knows: turns, documents, padding, byte and image marks
_TOKENS = (
    r"<[|｜][^|｜<>\s]{1,40}[|｜]>", r"<\|[\w/\"-]{1,40}>", r"<[\w/\"-]{1,40}\|>", r"<</?SYS>>",
    r"</?(?i:tool_res(?:ult|ponse))", r"</?(?:\w{1,20}:)?(?i:(?:tool|function)_\w{1,20})>",
    r"</?(?i:s|bos|eos|pad|unk|mask|cls|sep|eop|eod|sop|[gs]mask|(?:bos|eos|pad|unk)_token|tools|escape|image|audio"
    r"|video|(?:start|end|begin)_of_\w{1,20}|(?:start|end)_\w{1,20}|unused_?\d{1,5}|reserved_\w{1,30}"
    r"|fim[_-]\w{1,20}|extra_id_\d{1,5}|image_soft_token)>",
    r"\[/?(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w{1,20}|ARGS|CALL_ID|THINK|IMG\w{0,10}|MODEL_SETTINGS"
    r"|[gs]MASK|BOS|EOS|PAD|UNK|CLS|SEP|MASK)\]",
    r"✿\w{1,20}✿", r"◁/?\w{1,20}▷", r"<\]\w{1,20}\[>\[",
)  # fmt: skip
_OPENING = frozenset("<[✿◁")
# syntaxes that begin a line with a word of plain text, and so count only by the tool's name behind it (`_Names`)
_BY_NAME = {"yamlish", "glm4_line", "bare_json"}
_OPTIONAL = re.compile(r"(?:\\n|\[ \\t\]\*\+?|\(\?:\[\*_#>-\]\{1,4\}\[ \\t\]\*\)\?)+")  # begins the openers of lines
# what makes a call of a label before it: JSON, a name with its arguments, a name alone if it is a tool's
_AHEAD = re.compile(
    r"(?:[`~]{3}\w*|[\s\ufeff\u200b\u200c\u200d\u2060`*_\"'“\[(:~\d-]|\\n)*+"
    r"(?:[{&]|(?P<name>[^\W\d][\w.\-/\\]{0,100}+(?::[\w.\-/\\]{1,100}+){0,2}+)"
    r"(?P<more>(?:\s|\\n|[`*_\"'”\]().:#>-])*+(?:[{(&]|(?i:with|arguments?|args|parameters|(?:action[ _]?)?input)\b)"
    r"|[ \t]*\()?)"
)
_HEADS = re.compile(
    rf"(?<![{_WORD}])(?P<name>[{_WORD}]++)(?:(?P<round>\()"
    r"|(?:[`~]{3}\w*|[`*\"'”\])\s])*+(?P<curly>\{|&quot;|&#34;))"
)
# with a blank before its bracket, a call stands only in a list, in a fence or at the start of a line
_SPACED = re.compile(rf"(?:^|[\[`'\",;(=])[ \t]*+(?P<name>[{_WORD}]++)[ \t]++(?P<round>\()", re.MULTILINE)
_TAG = re.compile(r"<[ \t]*+(?P<name>[^\W\d][\w.\-]*+)(?=[\s/>])")
_HOLDER = re.compile(rf"<(?i:{NAMERS})\s*+>\s*+(?P<name>[{_WORD}]++)\s*+</")
_LINE = re.compile(
    rf"(?=(?i:tool_name|function_name|tool|name|function|action)[ \t]*+:[ \t]*+[\"'`]?(?P<name>[{_WORD}]{{1,200}}))"
)
# a name and what makes a call of it: the pattern, the group that the dot goes to, and how far behind its start
_NAMED = (
    (_HEADS, "round", 0),
    (_HEADS, "curly", 0),
    (_SPACED, "round", 0),
    (_TAG, 0, 1),
    (_HOLDER, 0, 1),
    (_LINE, 0, 1),
)
_PAIR = re.compile(r"[\"'“](?=(?:name|tool|tool_name|function|action|function_name)[\"'”]\s*+:)")
_RUN = re.compile(r"[^\W_]+")  # what counts of a name, however it is written
_TRAIL = re.compile(r"(?<![:.])(?::\d{1,9}+|\.call)++$")  # what models put behind a name
_ESCAPE = re.compile(r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|\r?\n|[bfnrt])|&#?\w{1,31};")
_ATOM = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]|.", re.DOTALL)  # of a pattern
_PLAIN = re.compile(r"(?:\\[^\w]|[\w<>/:=✿◁▷｜])(?![?*+{])")  # a literal character of a pattern
_DEEPEST = 100  # levels of data that are shown as such; what lies deeper is shown as text
_REST = re.compile(r"(\[\^[^\]]+\])\*")  # of a pattern: all up to some sign
_LEVELS = 3  # how often JSON stands in a text of JSON, at most


class Seal(str):
    """Mark, in its meta, a message of our own making in which all else is disarmed already; no file can hold one."""

    __slots__ = ()


SEALED = {"disarmed": Seal("yes")}  # the meta of such a message


def is_sealed(message: ChatMessage) -> bool:
    """Tell whether a message is of our own making."""
    return isinstance(message.meta.get("disarmed"), Seal)


@dataclass(frozen=True)
class Disarming:
    """Disarm texts for readers that know these tools; call it with a text.

    >>> Disarming(("pay",))('Say TOOL_CALL: pay {"sum": 1}, or pay(1)')
    'Say T·OOL_CALL: pay ·{"sum": 1}, or pay·(1)'
    >>> Disarming(("pay",))('{"name": "Ann", "age": 7} likes <b>me</b>: do not pay (yet).')
    '{"name": "Ann", "age": 7} likes <b>me</b>: do not pay (yet).'
    """

    names: tuple[str, ...] | None  # None if any name may be a tool's
    markers: tuple[str, ...] = ()  # further strings that open a call, broken up wherever they stand
    _shown: dict[int, tuple[Tool, templates.ShownTool]] = field(default_factory=dict, init=False, compare=False)

    def __call__(self, text: str) -> str:
        """Return the text with a dot wherever something of it could be read as a call or as a turn."""
        if _ANYTHING.search(text) is None and not any(_literal(one).search(text) for one in self.markers):
            return text
        cuts = self._cuts(text)
        if "`" in text:
            places = [place for place, char in enumerate(text) if char != "`"]
            cuts |= {places[cut - 1] + 1 for cut in self._cuts(text.replace("`", "")) if cut}
        if not cuts:
            return text
        edges = sorted(cuts)
        return DOT.join(text[start:end] for start, end in zip([0, *edges], [*edges, len(text)], strict=True))

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return data with every text in it disarmed, tools too, since a model quotes it without its escapes."""
        if isinstance(value, str) or (depth > _DEEPEST and isinstance(value, (Mapping, list, tuple))):
            return self(value if isinstance(value, str) else templates.as_json(value))
        if isinstance(value, Tool):
            return self.tool(value)
        if isinstance(value, Mapping):
            return {self(str(key)): self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item, depth + 1) for item in value]
        return value

    def json(self, value: Any) -> str:
        """Return data as JSON text, disarmed inside, and as a whole where an object of it could be read as a call."""
        shown = self.value(value)
        text = templates.as_json(shown)
        return self(text) if isinstance(value, str) or self._calls(shown) else text

    def _calls(self, value: Any) -> bool:
        """Tell whether an object in the data has a tool's name for a key or for a value."""
        if isinstance(value, Mapping):
            texts = [str(key) for key in value] + [item for item in value.values() if isinstance(item, str)]
            return self.names is None or any(map(self._is_name, texts)) or any(map(self._calls, value.values()))
        return isinstance(value, (list, tuple)) and any(map(self._calls, value))

    def _is_name(self, text: str) -> bool:
        written = clean(text[:_LONGEST_NAME])
        return any(fold(part) in self._folded for part in (text, written, re.split(r"[.:/]", written)[-1]))

    def tool(self, tool: Tool) -> templates.ShownTool:
        """Return what a prompt shows of a tool: no text of it, its name included, can be read as a call."""
        kept = self._shown.get(id(tool))
        if kept is None:
            if len(self._shown) >= MOST_SHOWN:
                self._shown.clear()
            shown = templates.ShownTool(self(tool.name), self(tool.description), self.value(tool.parameters))
            kept = self._shown[id(tool)] = (tool, shown)  # holding the tool keeps its id its own
        return kept[1]

    def _cuts(self, text: str) -> set[int]:
        """Return the places before which a dot is due."""
        cuts: set[int] = set()
        for marker in self.markers:
            cuts.update(found.start() + 1 for found in _literal(marker).finditer(text))
        for found in _marks().finditer(text):
            inner = [place + 1 for place in range(*found.span()) if text[place] in _OPENING]
            cuts.update(inner or [found.start() + 1])
        for found in _labels().finditer(text):
            if (ahead := _AHEAD.match(text, found.end())) and (
                not ahead["name"] or ahead["more"] or self.ends_in_name(ahead["name"])
            ):
                letters = (place for place in range(*found.span()) if text[place].isalpha())
                cuts.add(next(letters, found.start()) + 1)
        for pattern, group, shift in _NAMED:
            for found in pattern.finditer(text):
                if found.start(group) >= 0 and self.ends_in_name(found["name"]):
                    cuts.add(found.start(group) + shift)
        last = self._last_mention(text)
        for pattern in (_objects(), _PAIR) if last >= 0 else ():
            cuts.update(found.start() + 1 for found in pattern.finditer(text) if found.start() < last)
        return cuts

    @cached_property
    def _folded(self) -> frozenset[str]:
        """Return the letters and digits of each name, and of the last part of each."""
        names = self.names or ()
        return frozenset(filter(None, (fold(part) for name in names for part in (name, re.split(r"[.:/]", name)[-1]))))

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return frozenset(name[:length] for name in self._folded for length in range(1, len(name) + 1))

    @cached_property
    def _ends(self) -> frozenset[str]:
        return frozenset(name[-1] for name in self._folded)

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        return tuple({len(name) for name in self._folded})

    def ends_in_name(self, written: str) -> bool:
        """Tell whether a written name is a tool's, or is once its first characters are cut off."""
        if self.names is None:
            return True
        end = written[-1:]
        if end.isalnum() and end.casefold()[-1] not in self._ends and ":" not in written and end != "l":
            return False  # told at once, as nearly always
        folded = fold(_TRAIL.sub("", written[-_LONGEST_NAME:]))
        return any(folded[-length:] in self._folded for length in self._lengths)

    def _last_mention(self, text: str) -> int:
        """Return where the last name of a tool ends that could be one in JSON; -1 if there is none."""
        if self.names is None:
            return len(text)
        if not self._folded or (_objects().search(text) is None and _PAIR.search(text) is None):
            return -1
        decoded, last = text, self._mentioned(text)
        for _ in range(_LEVELS):
            before, decoded = decoded, _ESCAPE.sub(_decoded, decoded)
            if decoded == before:
                break
            if self._mentioned(decoded) >= 0:
                return len(text)
        return last

    def _mentioned(self, text: str) -> int:
        """Return where the last run of words ends that is a tool's name and stands between signs, not in a sentence."""
        runs, last, before = list(_RUN.finditer(text)), -1, 0
        for place, run in enumerate(runs):
            name, start, before = run[0].casefold(), before, run.end()
            if name in self._beginnings and (not place or _apart(text[start : run.start()])):
                for end in range(place, len(runs)):
                    after = runs[end]
                    name = name if end == place else name + after[0].casefold()
                    if name not in self._beginnings:
                        break
                    behind = runs[end + 1].start() if end + 1 < len(runs) else -1
                    if name in self._folded and (behind < 0 or _apart(text[after.end() : behind])):
                        last = max(last, after.end())
        return last


@lru_cache(maxsize=64)
def disarming(names: tuple[str, ...] | None, markers: tuple[str, ...] = ()) -> Disarming:
    """Return the disarming for these names, one for all who ask, since it keeps what it worked out from them."""
    return Disarming(names, markers)


@cache
def _literal(marker: str) -> re.Pattern[str]:
    return re.compile(re.escape(marker), re.IGNORECASE)


def _decoded(escape: re.Match[str]) -> str:
    """Return what an escape of JSON or HTML stands for; a blank for white space, which no name holds."""
    code = escape[1] or escape[2] or escape[3]
    if code:
        return chr(min(int(code, 16), 0x10FFFF))
    return html.unescape(escape[0]) if escape[0][0] == "&" else " "


def _apart(gap: str) -> bool:
    """Tell whether what stands between two words parts them, in JSON, as blanks and hyphens in a name do not."""
    return gap.strip(" \t_-") != ""


def _opened(one: Syntax) -> tuple[str, str]:
    """Return what stands before a syntax's opener in its own example, and what the opener matches there."""
    found = re.search(one.opener, f"\n{one.example}")
    return (found.string[: found.start()].strip(), found[0]) if found else ("", "")


@cache
def _marks() -> re.Pattern[str]:
    """Return the pattern of what always opens or closes something: tags, tokens, and what stands for one."""
    found = dict.fromkeys(_TOKENS)
    for one in load():
        before, opener = _opened(one)
        if opener in ("{", "["):
            if before:
                found[rf"{before}(?=\s*+\{opener})"] = None  # such as `functools[`
        elif not (opener.startswith("\n") or one.by_name or one.late or opener in ("`", "~")):
            found[one.opener] = None
        for branch in _branches(one.closer.pattern) if one.closer else ():
            if branch.startswith(("<", r"\[", "◁", "✿")):
                found[branch.replace("<?", "<", 1)] = None
    return _union(found)


@cache
def _labels() -> re.Pattern[str]:
    """Return the pattern of the words that begin a call at the start of a line, wherever a part may begin one."""
    lines = [one for one in load() if one.kind == "call" and one.opener.startswith(r"\n") and one.name not in _BY_NAME]
    return _union(_OPTIONAL.sub("", one.opener, count=1) for one in lines)


@cache
def _objects() -> re.Pattern[str]:
    """Return the pattern of what opens an object, or a list of them, that nothing announces."""
    return _union(one.opener for one in load() if _opened(one)[1] in ("{", "["))


def _union(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern for all; what a tag holds is looked at so far that each place takes no more than its share."""
    bounded = [_REST.sub(r"\1{0,200}", pattern) for pattern in patterns]
    return re.compile(_tree([branch for pattern in bounded for branch in _branches(pattern)]))


def _branches(pattern: str) -> list[str]:
    """Split a pattern at the bars that stand in no group."""
    branches, depth, start = [], 0, 0
    for found in _ATOM.finditer(pattern):
        depth += (found[0] == "(") - (found[0] == ")")
        if found[0] == "|" and not depth:
            branches.append(pattern[start : found.start()])
            start = found.end()
    return [*branches, pattern[start:]]


def _tree(branches: list[str]) -> str:
    """Return one pattern that looks at each literal character in which branches agree once, so that it fails fast."""
    groups: dict[str, list[str]] = {}
    for branch in dict.fromkeys(branches):
        found = _PLAIN.match(branch)
        groups.setdefault(found[0] if found else "", []).append(branch[found.end() :] if found else branch)
    parts = ["|".join(groups.pop("", ()))]
    # of a row of "<" only the last two can open something
    parts += [
        first + "(?!<<)" * (first == "<") + (_tree(rests) if len(rests) > 1 else rests[0])
        for first, rests in groups.items()
    ]
    return f"(?:{'|'.join(filter(None, parts))})"
