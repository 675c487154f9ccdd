r"""Find which declared tool a written name means: exactly first, then by rules that leave one tool only.

Rules, in order: exact; prefix and suffix taken off (`functions.`, `default_api.`, `:0`, `()`, quotes, `\\_`); same
letters and digits (case, `_`, `-`, `.` and blanks ignored); same last part of a dotted name.

Not here: reading tools from functions (`toolkit.tools`), arguments (`coerce`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

from toolkit.extraction.types import CallKeys
from toolkit.tools import as_tool, single_tools

_PREFIX = re.compile(r"^(?:functions?[.:]++|tools?[.:]++|default_api\.|multi_tool_use\.|call:|api\.)", re.IGNORECASE)
_SUFFIX = re.compile(r"(?::\d++|\(\s*+\)|\.call)$")
_AROUND = "`'\"*<> \t\r\n,:;()[]{}“”‘’"
_FOLD = re.compile(r"[\W_]++")
NAME = re.compile(r"[^\W\d][\w.\-:/]*+")
_CACHE_SIZE, LONGEST_NAME, _MOST_COMPARED = 64, 200, 500


class Resolution(NamedTuple):
    """Hold the tool that a written name means, or None; `repairs` says how it was found."""

    tool: ToolSpec | None
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Hold what extraction needs to know of one tool."""

    name: str
    parameters: Mapping[str, Any]  # the tool's own, so that a change to it counts at once

    @property
    def required(self) -> tuple[str, ...]:
        """Return the names of the parameters that a call must give."""
        found = self.parameters.get("required")
        return tuple(found) if isinstance(found, (list, tuple)) else ()

    @property
    def properties(self) -> dict[str, Any]:
        """Return the schema of each parameter."""
        found = self.parameters.get("properties")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class ToolIndex:
    """Look tools up by name."""

    tools: dict[str, ToolSpec]  # the declared tools by name
    open: bool = False  # no tools were given, so that every name may be one
    # letters and digits of a name -> the tools that share them
    folded: dict[str, list[str]] = field(default_factory=dict)
    # letters and digits of the last part of a dotted name -> the tools that share them
    last: dict[str, list[str]] = field(default_factory=dict)
    known: dict[str, Resolution] = field(default_factory=dict)  # written name -> what it was resolved to
    endings: re.Pattern[str] | None = None  # pattern of an opening bracket behind what may be a tool's name
    # under which keys a call stands, as far as the protocol states it
    keys: CallKeys = CallKeys()  # noqa: RUF009 - a NamedTuple is fixed

    def resolve(self, written: str) -> Resolution:
        """Return the tool that `written` means.

        >>> index = tool_index([{"name": "math.factorial"}, {"name": "get_weather"}])
        >>> index.resolve("GetWeather").repairs, index.resolve("math_factorial").tool.name
        (('name_spelling',), 'math.factorial')
        """
        if len(written) > LONGEST_NAME:
            return Resolution(self.tools.get(written))
        found = self.known.get(written)
        if found is None:
            if len(self.known) >= _CACHE_SIZE * 16:
                self.known.clear()
            found = self.known[written] = self._resolve(written)
        return found

    def _resolve(self, written: str) -> Resolution:
        if (exact := self.tools.get(written)) is not None:
            return Resolution(exact)
        if not self.folded:
            self._fold()
        cleaned = clean(written)
        if (exact := self.tools.get(cleaned)) is not None:
            shorter = len(cleaned) < len(written.strip(_AROUND))
            return Resolution(exact, ("name_prefix" if shorter else "name_decoration",))
        for table, key, code in (
            (self.folded, fold(cleaned), "name_spelling"),
            (self.folded, fold(written), "name_spelling"),
            (self.last, fold(re.split(r"[.:/]", cleaned)[-1]), "name_namespace"),
        ):
            names = table.get(key, ())
            if key and len(names) == 1:
                return Resolution(self.tools[names[0]], (code,))
        return Resolution(None)

    def _fold(self) -> None:
        """Fill the tables for names that are not written exactly; few replies need them."""
        folded: dict[str, list[str]] = {}
        last: dict[str, list[str]] = {}
        for name in self.tools:
            folded.setdefault(fold(name), []).append(name)
            last.setdefault(fold(re.split(r"[.:/]", name)[-1]), []).append(name)
        self.last.update(last)  # whole, since another thread may be reading, and `folded` last
        self.folded.update(folded)

    def closest(self, written: str) -> tuple[str, ...]:
        """Return up to three declared names that look like `written`."""
        names = list(self.tools)
        if len(names) > _MOST_COMPARED:
            names = [name for name in names if name[:2] == written[:2]][:_MOST_COMPARED]
        return tuple(get_close_matches(written, names, 3, 0.5))

    def declared(self, written: str) -> bool:
        """Tell whether `written` means a declared tool."""
        return written in self.tools or self.resolve(written).tool is not None

    def may_be(self, written: str) -> bool:
        """Tell whether `written` means a declared tool, or any name may be one."""
        return self.open or self.declared(written)


def name_endings(names: list[str]) -> re.Pattern[str] | None:
    """Return the pattern of an opening bracket behind what may be one of these names; None if there are none.

    Only the last letters are looked at, in any case, so that the search stays a scan for a bracket.
    """
    letters = {name[-2:] if len(name) > 1 else name for name in names}
    for width in (2, 1):
        endings = sorted({re.escape(ending) for ending in letters if len(ending) == width})
        if endings and (width == 1 or not any(len(ending) == 1 for ending in letters)):
            return re.compile(rf"\((?<=(?i:{'|'.join(endings)})\()")
        letters = {ending[-1:] for ending in letters}
    return None


def fold(name: str) -> str:
    """Return only the letters and digits of a name, in lower case."""
    return _FOLD.sub("", name).casefold()


def clean(written: str) -> str:
    r"""Return a name without what models put round it.

    >>> clean("functions.get_weather:0"), clean("`find\\\\_book`()")
    ('get_weather', 'find_book')
    """
    name = written.strip(_AROUND).replace("\\", "")
    while (shorter := _SUFFIX.sub("", _PREFIX.sub("", name)).strip(_AROUND)) != name:
        name = shorter
    return name


_cache: dict[tuple[int, ...], tuple[list[Any], list[Any], ToolIndex]] = {}


def tool_index(tools: Iterable[Any] | ToolIndex | None) -> ToolIndex:
    """Build the index of `tools`: Tool objects, functions, or dicts in any usual form; None if none are known.

    Raises:
        ConfigError: something in it is no tool.
    """
    if tools is None:
        return ToolIndex({}, open=True)
    if isinstance(tools, ToolIndex):
        return tools
    given = list(single_tools(tools))
    key = tuple(map(id, given))
    marks = list(map(_mark, given))
    held = _cache.get(key)
    if held is not None and held[1] == marks:
        return held[2]
    specs = [_spec(item) for item in given]
    index = ToolIndex({spec.name: spec for spec in specs}, endings=name_endings([spec.name for spec in specs]))
    if len(_cache) >= _CACHE_SIZE:
        _cache.clear()
    _cache[key] = (given, marks, index)  # holding the tools keeps their ids from being used again
    return index


def _mark(item: Any) -> Any:
    """Return what would show that a dict was given another name or schema since it was indexed."""
    spec = _described(item)
    return None if spec is None else (spec.get("name"), id(spec.get("parameters")))


def _described(item: Any) -> Mapping[str, Any] | None:
    """Return the mapping with name and parameters, in or without OpenAI's wrapper; None if it is none."""
    if type(item) is not dict and not isinstance(item, Mapping):
        return None
    inner = item.get("function")
    return inner if isinstance(inner, Mapping) else item


def _spec(item: Any) -> ToolSpec:
    spec = _described(item)
    if spec is not None and isinstance(spec.get("name"), str):
        parameters = spec.get("parameters") or spec.get("input_schema") or spec.get("inputSchema")
        return ToolSpec(spec["name"], parameters if isinstance(parameters, Mapping) else {})
    tool = as_tool(item)
    return ToolSpec(tool.name, tool.parameters)
