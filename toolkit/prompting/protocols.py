"""Pair how tools are shown to a model with how its reply is read: load_protocol, Protocol.

A protocol is a folder, and its wording is an experimental variable:

    protocol.toml       title, syntax it asks for, fallbacks it allows, [schema] keys of a call in JSON, their aliases
    system.jinja        instructions and tools; sees `tools`, `system`, `tool_choice`, `parallel`, `arm`
    call.jinja          one call, as the model would have written it; sees `call`
    tool_result.jinja   one result; sees `result`, `name`, `id`, `error`
    examples.jsonl      optional few-shot turns, used where the tools they call are offered

Templates run in jinja2's immutable sandbox, and an unknown variable is an error.
Not here: the call syntaxes themselves (`toolkit.extraction.syntaxes`) and response schemas (`toolkit.tools.schemas`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from toolkit import resources
from toolkit.errors import ConfigError, check_object, did_you_mean
from toolkit.messages import ChatMessage, ChatRole, Part, TextContent, ToolCall, ToolCallResult, as_messages
from toolkit.prompting import templates
from toolkit.prompting.disarming import Disarming, disarming, is_sealed
from toolkit.tools import Tool, as_tools, schemas
from toolkit.traces.json_text import parsed, read_text

if TYPE_CHECKING:
    from toolkit.extraction.types import Extraction

T = TypeVar("T")
Arm = Literal["native", "prompted", "constrained"]
ARMS: tuple[Arm, ...] = ("native", "prompted", "constrained")
MOST_RENDERED = 4096  # messages kept in rendered form
_MOST_BYTES = 1_000_000  # of one file
_KINDS: dict[Any, str] = {str: "text", list: "a list of texts", dict: "a table"}
# of a line of examples.jsonl, and of a call in it: key -> its type, and the type in words
_EXAMPLE: dict[str, tuple[Any, str]] = {
    "user": (str, "a text"), "calls": (list, "a list of calls"), "answer": (str, "a text")
}  # fmt: skip
_CALL: dict[str, tuple[Any, str]] = {"name": (str, "a text"), "arguments": (dict, "an object")}
_KEYS = {"title", "description", "syntax", "fallbacks", "markers", "schema"}


@dataclass(frozen=True)
class Protocol:
    """Hold one way of asking for calls and reading them; make it with `load_protocol`.

    Attributes:
        name: the folder's name.
        folder: where the files lie.
        syntax: the call syntax that replies are read with.
        fallbacks: further syntaxes that a reply may use instead; a call found so is marked as such.
        markers: strings that open a call; broken up wherever text of tools or users holds them.
        keys: the keys of a call in JSON, as (name, arguments).
        aliases: other pairs of keys that a reply may use; None allows all that models are known to write.
        files: file name -> content; what the hash is made from.
    """

    name: str
    folder: Path
    syntax: str
    fallbacks: tuple[str, ...]
    markers: tuple[str, ...]
    keys: tuple[str, str]
    files: dict[str, str]
    aliases: tuple[tuple[str, str], ...] | None = None
    _rendered: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was rendered: it holds tools, and so functions, which other processes cannot get."""
        return self.__dict__ | {"_rendered": {}}

    @cached_property
    def hash(self) -> str:
        """Return 12 hex digits that change with any byte of any file of the folder."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{name}\0{len(content)}\0{content}\0".encode())
        return digest.hexdigest()[:12]

    def render(
        self,
        tools: Iterable[Any] | None,
        messages: Any,
        tool_choice: str = "auto",
        *,
        arm: Arm = "prompted",
        parallel: bool = True,
    ) -> list[ChatMessage]:
        """Return exactly what is sent: one system message, then the conversation as plain text turns.

        Calls and results in the history are written in the protocol's own words, so a model without tool support
        can follow them. Everything that changes comes last, which keeps a server's prefix cache warm.

        Args:
            tools: anything `as_tools` reads.
            messages: anything `as_messages` reads.
            tool_choice: "auto", "none" (tools are not shown), "any", or a tool's name.
            arm: "constrained" asks for bare JSON; "native" leaves the messages as they are.
            parallel: whether several calls in one reply are asked for.

        Raises:
            ConfigError: an unknown tool choice, or a template that fails.
        """
        offered = as_tools(tools)
        schemas.check_tool_choice(tool_choice, offered)
        said = as_messages(messages)
        if arm == "native":
            return said
        shown = [] if tool_choice == "none" else offered
        system = "\n\n".join(text for m in said if m.is_from(ChatRole.SYSTEM) for text in m.texts)
        values = {"tool_choice": tool_choice, "system": system, "parallel": parallel, "arm": arm}
        head = self._kept(("head", *values.values()), offered, lambda: self._head(offered, shown, values))
        # neighbours are joined before they are disarmed: a call may be split over two messages
        turns = _merge([*self._examples(shown, arm), *(m for m in said if not m.is_from(ChatRole.SYSTEM))])
        start = [ChatMessage.from_system(head)] if head else []
        return start + _merge((self._as_text(message, arm, offered) for message in turns), rendered=True)

    def response_schema(
        self, tools: Iterable[Any] | None, tool_choice: str = "auto", *, parallel: bool = True
    ) -> dict[str, Any]:
        """Return the JSON Schema that decoding is held to in the constrained arm.

        It has one branch a tool, one for a plain answer where the choice is "auto" or "none", and one for a list
        of calls where `parallel` is set.
        """
        return schemas.response_schema(as_tools(tools), self.keys, tool_choice, parallel=parallel)

    def extract(
        self, text: str, tools: Iterable[Any] | None = None, finish_reason: str | None = None, **options: Any
    ) -> Extraction:
        """Read the calls of a reply in this protocol's syntax and its fallbacks."""
        from toolkit.extraction import extract

        return extract(text, tools=tools, protocol=self, finish_reason=finish_reason, **options)

    def answer(self, text: str) -> str:
        """Return the words for the user: the text itself, or what a constrained reply put under its answer key."""
        return schemas.answer_of(text, self.keys)

    def call_text(self, calls: Iterable[ToolCall], arm: Arm = "prompted") -> str:
        """Return calls as the model would have written them in this protocol."""
        if arm == "constrained":
            name, arguments = self.keys
            wire = [{name: call.tool_name, arguments: call.arguments} for call in calls]
            return json.dumps(wire[0] if len(wire) == 1 else wire, ensure_ascii=False)
        return "\n".join(self._fill("call.jinja", {"call": call}).strip() for call in calls)

    def result_text(self, result: ToolCallResult, tools: Iterable[Any] | None = None) -> str:
        """Return one tool result as the model reads it; nothing in it can pass for a call or for its end."""
        disarm = self.disarming(tools)
        values = {
            "name": disarm(result.origin.tool_name),
            "id": result.origin.id,
            "result": disarm.json(result.result),
            "error": result.error,
        }
        return self._fill("tool_result.jinja", values).strip()

    def disarm(self, text: str, tools: Iterable[Any] | None = None) -> str:
        """Return text from a user or a tool in which nothing reads as a call; see `Disarming`."""
        return self.disarming(tools)(text)

    def disarming(self, tools: Iterable[Any] | None = None) -> Disarming:
        """Return what takes from a text all that could be read as a call of these tools; None knows no names."""
        return disarming(None, self.markers) if tools is None else self._disarming(as_tools(tools))

    def _disarming(self, offered: list[Tool]) -> Disarming:
        return disarming(tuple(tool.name for tool in offered), self.markers)

    def altered(self, tools: Iterable[Any] | None, messages: Any) -> list[tuple[str, str]]:
        """Return every text of users and tools that disarming changes: as it was, and as it is sent."""
        offered = as_tools(tools)
        disarm = self._disarming(offered)
        pairs: list[tuple[str, str]] = []
        for message in _merge(message for message in as_messages(messages) if not is_sealed(message)):
            text = "\n".join(message.texts)
            if message.is_from(ChatRole.USER):
                pairs.append((text, disarm(text)))
            results = [result.result for result in message.tool_call_results]
            if message.is_from(ChatRole.FUNCTION):
                results.append(text)
            pairs += [(templates.as_json(result), disarm.json(result)) for result in results]
        pairs += self._kept(("tools",), offered, lambda: [pair for tool in offered for pair in _altered(tool, disarm)])
        return [(said, sent) for said, sent in pairs if said != sent]

    def _head(self, offered: list[Tool], shown: list[Tool], values: dict[str, Any]) -> str:
        disarm = self._disarming(offered)
        own = {"tools": list(map(disarm.tool, shown)), "tool_choice": disarm(values["tool_choice"]), "keys": self.keys}
        return self._fill("system.jinja", {**values, **own}).strip()

    def _as_text(self, message: ChatMessage, arm: Arm, tools: list[Tool]) -> ChatMessage:
        return self._kept((id(message), arm), [message, *tools], lambda: self._written(message, arm, tools))

    def _kept(self, key: tuple[Any, ...], held: list[Any], made: Callable[[], T]) -> T:
        """Return what was made of these before, or make it: a loop renders its history every turn."""
        key = (key, tuple(map(id, held)))
        kept = self._rendered.get(key)
        if kept is None:
            if len(self._rendered) >= MOST_RENDERED:
                self._rendered.pop(next(iter(self._rendered)), None)
            kept = self._rendered[key] = (held, made())  # holding them keeps their ids theirs
        return cast("T", kept[1])

    def _written(self, message: ChatMessage, arm: Arm, tools: list[Tool]) -> ChatMessage:
        text = "\n".join(message.texts)
        if message.is_from(ChatRole.TOOL):
            text = "\n".join(self.result_text(result, tools) for result in message.tool_call_results)
            return ChatMessage.from_user(text, message.meta)
        if message.is_from(ChatRole.FUNCTION):  # a result too, in OpenAI's older form
            result = ToolCallResult(text, ToolCall(message.name or ""))
            return ChatMessage.from_user(self.result_text(result, tools), message.meta)
        if message.is_from(ChatRole.USER):
            said = text if is_sealed(message) else self._disarming(tools)(text)
            return ChatMessage(message.role, (TextContent(said), *message.images), message.name, message.meta)
        if message.tool_calls:
            text = "\n".join(part for part in (text, self.call_text(message.tool_calls, arm)) if part)
        return ChatMessage.from_assistant(text, message.meta, message.name)

    @cached_property
    def _few_shot(self) -> list[list[ChatMessage]]:
        lines = enumerate(self.files.get("examples.jsonl", "").split("\n"), 1)
        path = str(self.folder / "examples.jsonl")
        return [_example(line, f"{path!r} line {number}") for number, line in lines if line.strip()]

    def _examples(self, tools: list[Tool], arm: Arm) -> list[ChatMessage]:
        names = {tool.name for tool in tools}
        turns: list[ChatMessage] = []
        for messages in self._few_shot:
            if all(call.tool_name in names for message in messages for call in message.tool_calls):
                turns.extend(messages)
        return turns

    def _fill(self, template: str, values: Mapping[str, Any]) -> str:
        return templates.fill(self.files[template], values, str(self.folder / template))

    def __repr__(self) -> str:
        return f"Protocol({self.name!r}, syntax={self.syntax!r}, hash={self.hash})"


def load_protocol(name: str | Path | Protocol) -> Protocol:
    """Load a protocol by its name in `prompts/`, or from a folder of your own.

    Args:
        name: a name that `list_protocols` gives, or a path to a folder.

    Raises:
        ConfigError: no such protocol, a file is missing or cannot be read; the message names it.
    """
    if isinstance(name, Protocol):
        return name
    folder = Path(name)
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # no path of this system
        folder = folder if is_protocol(folder) else folder.expanduser()
        if folder.is_dir() and not is_protocol(folder):
            raise ConfigError(f"{str(folder)!r} is no protocol folder: it has no protocol.toml.")
    if not is_protocol(folder):
        bundled = resources.root() / "prompts" / str(name)
        if not is_protocol(bundled) or len(Path(name).parts) != 1:
            raise ConfigError(f"There is no protocol {str(name)!r}. {did_you_mean(str(name), list_protocols())}")
        folder = bundled
    return _read(folder.resolve())


def is_protocol(folder: Path) -> bool:
    """Tell whether a folder holds a protocol; whatever stands in the path, it is no error."""
    try:
        return (folder / "protocol.toml").is_file()
    except (OSError, ValueError):
        return False


def is_bundled(protocol: Protocol) -> bool:
    """Tell whether a protocol is one of the toolkit's own, unedited."""
    return protocol.name in list_protocols() and protocol.hash == load_protocol(protocol.name).hash


def list_protocols() -> list[str]:
    """Return the names of the protocols that come with the toolkit."""
    return sorted(path.parent.name for path in (resources.root() / "prompts").glob("*/protocol.toml"))


def _read(folder: Path) -> Protocol:
    toml = str(folder / "protocol.toml")
    kept = (path for path in sorted(folder.iterdir()) if path.suffix in (".toml", ".jinja", ".jsonl"))
    files = {path.name: _text(path, folder) for path in kept}
    missing = [n for n in ("system.jinja", "call.jinja", "tool_result.jinja") if n not in files]
    if missing:
        raise ConfigError(f"Protocol folder {str(folder)!r} lacks {', '.join(missing)}.")
    try:
        head = tomllib.loads(files["protocol.toml"])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{toml!r} is no valid TOML: {error}.") from None
    for key in head:
        if key not in _KEYS:
            raise ConfigError(f"{toml!r}: unknown key {key!r}. {did_you_mean(key, _KEYS)}")
    if not isinstance(head.get("syntax"), str):
        raise ConfigError(f'{toml!r} needs syntax = "NAME", the call syntax to read.')
    for template, content in files.items():
        if template.endswith(".jinja"):
            templates.check(content, str(folder / template))
    schema = _held(head, "schema", {}, toml)
    found = Protocol(
        name=folder.name,
        folder=folder,
        syntax=head["syntax"],
        fallbacks=tuple(_held(head, "fallbacks", [], toml)),
        markers=tuple(_held(head, "markers", [], toml)),
        keys=(_held(schema, "name", "name", toml), _held(schema, "arguments", "arguments", toml)),
        files=files,
        aliases=_pairs(schema.get("aliases"), toml),
    )
    _ = found._few_shot  # read now, so that a mistake in them is told now
    return found


def _text(path: Path, folder: Path) -> str:
    """Return the text of a file of a folder, which may be another one's: it lies in there, and is no device."""
    if path.resolve().parent != folder or not path.is_file():
        raise ConfigError(f"{str(path)!r} is no file of its folder: it leads elsewhere. Put the file itself there.")
    if path.stat().st_size > _MOST_BYTES:
        raise ConfigError(f"{str(path)!r} is larger than {_MOST_BYTES:,} bytes. Shorten it.")
    return read_text(path)


def _held(table: Mapping[str, Any], key: str, plain: Any, toml: str) -> Any:
    """Return a value of the kind that its default is of; a list holds texts."""
    value = table.get(key, plain)
    words = value if isinstance(value, list) else ()
    if not isinstance(value, type(plain)) or not all(isinstance(word, str) and word for word in words):
        raise ConfigError(f"{toml!r}: {key} must be {_KINDS[type(plain)]}, not {value!r:.100}.")
    return value


def _pairs(aliases: Any, toml: str) -> tuple[tuple[str, str], ...] | None:
    if aliases is None:
        return None
    pairs = [tuple(pair) if isinstance(pair, list) else () for pair in aliases] if isinstance(aliases, list) else [()]
    if not all(len(pair) == 2 and all(isinstance(k, str) for k in pair) for pair in pairs):
        raise ConfigError(f'{toml!r}: aliases must be pairs of keys, such as [["tool", "args"]], not {aliases!r:.100}.')
    return tuple(pairs)


def _example(line: str, where: str) -> list[ChatMessage]:
    """Read one few-shot line: {"user": …, "calls": [{"name", "arguments"}]} or {"user": …, "answer": …}."""
    row = parsed(line, f"{where} is no example:")
    check_object(where, row, _EXAMPLE, ["user"])
    if not row.get("calls") and "answer" not in row:
        raise ConfigError(f"{where} needs calls, {_EXAMPLE['calls'][1]}, or answer, a text; it shows no reply.")
    for call in row.get("calls", ()):
        check_object(f"{where}, a call", call, _CALL, ["name"])
    calls = [ToolCall(call["name"], call.get("arguments", {})) for call in row.get("calls", ())]
    return [ChatMessage.from_user(row["user"]), ChatMessage.from_assistant(row.get("answer"), tool_calls=calls)]


def _altered(tool: Tool, disarm: Disarming) -> list[tuple[str, str]]:
    """Return the texts of a tool that disarming changes."""
    shown = disarm.tool(tool)
    texts = [(tool.description, shown.description)]
    if shown.parameters != tool.parameters:
        texts.append((templates.as_json(tool.parameters), templates.as_json(shown.parameters)))
    return [(said, sent) for said, sent in texts if said != sent]


def _merge(messages: Iterable[ChatMessage], rendered: bool = False) -> list[ChatMessage]:
    """Join neighbouring messages of one role, since many chat templates refuse them."""
    merged: list[ChatMessage] = []
    for message in messages:
        alike = merged and merged[-1].role is message.role is ChatRole.USER
        if alike and (rendered or not (is_sealed(merged[-1]) or is_sealed(message))):
            last = merged.pop()
            parts: tuple[Part, ...] = (TextContent(f"{last.text}\n\n{message.text}"), *last.images, *message.images)
            message = ChatMessage(ChatRole.USER, parts, None, {**last.meta, **message.meta})  # noqa: PLW2901
        merged.append(message)
    return merged
