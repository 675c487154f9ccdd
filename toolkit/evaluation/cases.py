"""Hold what is asked and what would be right: Case, load_cases.

A case file is JSONL, one case a line, with its tools in a file `NAME.tools.json` beside it:

    {"id": "lab-001", "messages": [{"role": "user", "content": "…"}], "tools": ["plot"],
     "expect": {"calls": [{"name": "plot", "arguments": {"kind": "bar"}}]}, "tags": ["plain"]}

`"expect": {"no_call": true}` says that the right thing is no call. A case without a checkable expectation is an
error (Source: promptfoo#10960). How arguments are compared stands in `toolkit.evaluation.matching`.
Not here: what makes a case a whole run (`toolkit.evaluation.scenarios`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from toolkit import resources
from toolkit.errors import ConfigError, did_you_mean
from toolkit.evaluation.matching import check_matcher
from toolkit.evaluation.reachable import unreachable
from toolkit.evaluation.scenarios import DATA_KEYS, EXPECT_KEYS, Scenario, check_state, scenario_of
from toolkit.messages import ChatMessage, as_messages
from toolkit.tools import Tool, as_tool, as_tools
from toolkit.traces.json_text import frame_html, is_writable, parsed, read_text, writable
from toolkit.worlds import load_world

Worlds = Mapping[str, Any]  # name -> class of a world; see `toolkit.worlds`


@dataclass(frozen=True)
class Case:
    """Hold one question, the tools offered with it, and what would be right.

    Attributes:
        id: unique within a file.
        messages: the conversation up to the model's turn.
        tools: the tools offered.
        calls: the expected calls as {"name": …, "arguments": {…}}; empty where the right thing is no call.
        tags: words to group by.
        domain: the file's name.
        scenario: what makes it a whole run; None for a single request.
    """

    id: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[Tool, ...]
    calls: tuple[dict[str, Any], ...] = ()
    tags: tuple[str, ...] = ()
    domain: str = ""
    scenario: Scenario | None = None

    @property
    def expects_call(self) -> bool:
        """Tell whether a call is right; of a run, whether anything is to be done."""
        return bool(self.calls) or (self.scenario is not None and not self.scenario.quiet)

    @property
    def expect(self) -> dict[str, Any]:
        """Return what would be right, as a case file says it."""
        calls = {"calls": list(self.calls)} if self.calls else {} if self.expects_call else {"no_call": True}
        return {**calls, **(self.scenario.expectation() if self.scenario else {})}

    @property
    def right(self) -> str:
        """Return in a few words what would be right."""
        if not self.expects_call:
            return "no call"
        names = ", ".join(call["name"] for call in self.calls)
        return names or " and ".join(key for key in ("state", "answer") if key in self.expect)

    @property
    def question(self) -> str:
        """Return the text of the last user message."""
        return next((m.text or "" for m in reversed(self.messages) if m.is_from("user")), "")

    def to_dict(self) -> dict[str, Any]:
        """Return the case as plain data with its tools inline; `case_from_dict` reads it back."""
        return {
            "id": self.id,
            "messages": [message.to_dict() for message in self.messages],
            "tools": [{**tool.tool_spec, "effect": tool.effect} for tool in self.tools],
            **(self.scenario.to_dict() if self.scenario else {}),
            "expect": self.expect,
            "tags": list(self.tags),
            "domain": self.domain,
        }

    def __repr__(self) -> str:
        return f"Case({self.id!r}: {self.question[:50]!r} → {self.right})"


@dataclass(frozen=True)
class Cases:
    """Hold a list of cases that shows itself as a table and can be narrowed."""

    items: tuple[Case, ...] = field(default=())

    def __iter__(self) -> Iterator[Case]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: int | str | slice) -> Any:
        if isinstance(key, slice):
            return Cases(self.items[key])
        if isinstance(key, int):
            return self.items[key]
        if key not in self._by_id:
            raise ConfigError(f"There is no case {key!r}. {did_you_mean(key, self._by_id)}"[:300])
        return self._by_id[key]

    @cached_property
    def _by_id(self) -> dict[str, Case]:
        return {case.id: case for case in self.items}

    def tagged(self, *tags: str) -> Cases:
        """Return the cases that carry every one of the tags.

        Raises:
            ConfigError: no case does.
        """
        found = Cases(tuple(case for case in self if set(tags) <= set(case.tags)))
        if not found:
            known = sorted({tag for case in self for tag in case.tags})
            said = f"Tags are: {', '.join(known)}." if known else "None of them has a tag."
            raise ConfigError(f"No case carries {' and '.join(map(repr, tags))}. {said}")
        return found

    def table(self) -> Any:
        """Return the cases as a DataFrame: id, domain, question, right, tools, tags."""
        import pandas as pd

        columns = ["id", "domain", "question", "right", "tools", "tags"]
        rows = [(c.id, c.domain, c.question, c.right, str(len(c.tools)), " ".join(c.tags)) for c in self]
        table = pd.DataFrame([tuple(map(writable, row)) for row in rows], columns=columns)
        return table.astype({"tools": int})

    def __repr__(self) -> str:
        return f"Cases({len(self)}, {sum(not case.expects_call for case in self)} of them no call)"

    def _repr_html_(self) -> str:
        return frame_html(self.table(), max_rows=20)


def list_cases() -> list[str]:
    """Return the names of the case files that come with the toolkit; those of whole runs start with `runs/`."""
    folder = resources.root() / "data" / "cases"
    return sorted(path.stem for path in folder.glob("*.jsonl")) + sorted(
        f"runs/{path.stem}" for path in folder.glob("runs/*.jsonl")
    )


def load_cases(source: str | Path | Iterable[Any], *tags: str, worlds: Worlds | None = None) -> Cases:
    """Load cases.

    Args:
        source: a name that `list_cases` gives, "all" for all single requests, "demo" for the easy ones of them, "runs"
            for all whole runs, a path to a JSONL file, or cases themselves.
        tags: keep only the cases that carry all of these.
        worlds: worlds of your own that the cases name, {"bank": Bank}.

    Raises:
        ConfigError: no such file, or a wrong line; the message names file and line.
    """
    if isinstance(source, (str, Path)):
        found = [case for path in _paths(source) for case in _read(path, worlds)]
    else:
        found = [case if isinstance(case, Case) else case_from_dict(case, worlds=worlds) for case in source]
    counts = Counter(case.id for case in found)
    for name, count in counts.items():
        if count > 1:
            raise ConfigError(f"{count} cases have the id {name!r}. Results are paired by id; make it unique.")
        if not is_writable(name):
            raise ConfigError(
                f"The id {name!r} of a case holds half a character. Results are paired by id; write it anew."
            )
    cases = Cases(tuple(found))
    wanted = (*tags, "demo") if source == "demo" else tags
    return cases.tagged(*wanted) if wanted else cases


def _paths(source: str | Path) -> list[Path]:
    folder, known = resources.root() / "data" / "cases", list_cases()
    if str(source) in ("all", "demo", "runs"):
        return [folder / f"{name}.jsonl" for name in known if name.startswith("runs/") == (str(source) == "runs")]
    for path in (folder / f"{source}.jsonl", Path(source).expanduser()):
        if path.is_file():
            return [path]
    names = ", ".join([*known, "all", "demo", "runs"])
    raise ConfigError(f"There is no case file {str(source)!r}. Give the path of a JSONL file, or: {names}.")


def _read(path: Path, worlds: Worlds | None) -> list[Case]:
    beside = path.with_name(f"{path.stem}.tools.json")
    described = parsed(read_text(beside), repr(str(beside))) if beside.is_file() else ()
    tools = {tool.name: tool for tool in as_tools(map(_described, described))}
    found: dict[str, tuple[int, Case]] = {}  # id -> line, case
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{str(path)!r} line {number}"
        case = case_from_dict(parsed(line, where), tools, where, path.stem, worlds)
        first, _ = found.setdefault(case.id, (number, case))
        if first != number:
            raise ConfigError(f"{where}: the id {case.id!r} is taken by line {first}. Make it unique.")
    if not found:
        raise ConfigError(f"{str(path)!r} holds no case.")
    return [case for _, case in found.values()]


def _described(item: Any) -> Tool:
    """Read a tool that may say its effect, as OpenAI's form does not."""
    tool = as_tool(item)
    return replace(tool, effect=item["effect"]) if isinstance(item, Mapping) and "effect" in item else tool


def case_from_dict(
    data: Any,
    tools: Mapping[str, Tool] | None = None,
    where: str = "case",
    domain: str = "",
    worlds: Worlds | None = None,
) -> Case:
    """Build a case from plain data.

    Args:
        data: as in a case file.
        tools: what tool names in it refer to.
        where: how errors name it.
        domain: the group it belongs to, unless the data say.
        worlds: worlds of your own by name.

    Raises:
        ConfigError: a missing or unusable part, an unknown tool or world, or nothing to check.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("id"), str):
        raise ConfigError(f"{where}: a case is an object with an id, not {data!r}."[:300])
    where = f"{where} (case {data['id']!r})"
    unknown = set(data) - {"id", "messages", "tools", "expect", "tags", "domain", "note", "reference", *DATA_KEYS}
    if unknown:
        raise ConfigError(f"{where}: unknown key {sorted(unknown)[0]!r}.")
    try:
        messages = tuple(as_messages(data.get("messages") or ()))
        world = load_world(data["world"], data.get("start"), worlds) if "world" in data else None
        known = tools or {}
        if world is not None and data.get("start"):
            usual = load_world(data["world"], None, worlds)
            check_state(data["start"], usual.state, data["world"], where, "start")
        if world is not None:  # as a case shows them: each run has a world, and functions, of its own
            known = {tool.name: replace(tool, function=None) for tool in as_tools(world.tools)}
        named = _list(data, "tools", where) or (list(known) if world is not None else [])
        offered = tuple(_tool(item, known, where) for item in named)
    except ConfigError as error:
        raise ConfigError(str(error) if where in str(error) else f"{where}: {error}") from None
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{where}: messages, tools or world cannot be read: {type(error).__name__}: {error}"
        ) from None
    if not messages or not all(isinstance(text, str) for message in messages for text in message.texts):
        raise ConfigError(f"{where}: has no messages, or one whose content is no text.")
    if not isinstance(data.get("domain", domain), str):
        raise ConfigError(f"{where}: domain must be text, not {data['domain']!r:.100}.")
    calls = _expected(data.get("expect"), offered, where)
    scenario = scenario_of(data, [tool.name for tool in offered], world, where)
    for item in scenario.results if scenario else ():  # a result for a call that cannot be is never given
        _check_arguments(item.get("arguments", {}), {tool.name: tool for tool in offered}[item["name"]], where)
    tags = tuple(map(str, _list(data, "tags", where)))
    return Case(data["id"], messages, offered, calls, tags, data.get("domain", domain), scenario)


def _list(data: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = data.get(key)
    if value is not None and not isinstance(value, (list, tuple)):
        raise ConfigError(f"{where}: {key} must be a list, not {value!r}.")
    return list(value or ())


def _tool(item: Any, tools: Mapping[str, Tool], where: str) -> Tool:
    if not isinstance(item, str):
        return _described(item)
    if not tools:
        raise ConfigError(
            f"{where}: tool {item!r} is not described. Put a list of tools into NAME.tools.json beside it."
        )
    if item not in tools:
        raise ConfigError(f"{where}: unknown tool {item!r}. {did_you_mean(item, tools)}")
    return tools[item]


def _expected(expect: Any, tools: tuple[Tool, ...], where: str) -> tuple[dict[str, Any], ...]:
    hint = 'Write "expect": {"calls": [{"name": …, "arguments": {…}}]} or {"no_call": true}.'
    keys = set(expect) if isinstance(expect, Mapping) else set()
    checked = keys & {"calls", "no_call", "state", "answer"}
    if not checked or checked >= {"calls", "no_call"}:
        raise ConfigError(f"{where}: nothing to check in expect={expect!r}. {hint}")
    if unknown := keys - {"calls", "no_call", *EXPECT_KEYS}:
        raise ConfigError(f"{where}: unknown key {sorted(unknown)[0]!r} in expect. {hint}")
    if expect.get("no_call", True) is not True:
        raise ConfigError(f"{where}: no_call must be true. {hint}")
    if "calls" not in expect:
        return ()
    calls = expect["calls"]
    if not isinstance(calls, list) or not calls:
        raise ConfigError(f"{where}: calls must be a list of at least one call. {hint}")
    offered = {tool.name: tool for tool in tools}
    for call in calls:
        if not isinstance(call, Mapping) or not isinstance(call.get("arguments", {}), Mapping):
            raise ConfigError(f"{where}: {call!r} is no expected call. {hint}")
        tool = offered.get(str(call.get("name")))
        if tool is None:
            raise ConfigError(
                f"{where}: expects a call of {call.get('name')!r}, which is not offered: {list(offered)}."
            )
        _check_arguments(call.get("arguments", {}), tool, where)
    return tuple({"name": call["name"], "arguments": dict(call.get("arguments", {}))} for call in calls)


def _check_arguments(arguments: Mapping[str, Any], tool: Tool, where: str) -> None:
    """Refuse an argument that no call could give: it would never come out right."""
    if not isinstance(arguments, Mapping):
        raise ConfigError(f"{where}: arguments of {tool.name!r} must be an object, not {arguments!r:.100}.")
    for name, value in arguments.items():
        if tool.properties and name not in tool.properties and not tool.parameters.get("additionalProperties"):
            hint = did_you_mean(name, tool.properties)
            raise ConfigError(f"{where}: {tool.name!r} has no parameter {name!r} to expect. {hint}")
        check_matcher(value, where)
        if problem := unreachable(value, tool.properties.get(name), tool.parameters, f"{tool.name}.{name}"):
            raise ConfigError(f"{where}: {problem}")
