"""Hold everything that decides how a request and a run behave in one value: Recipe.

A recipe is a TOML file; its identity is a hash of its content, the protocol's templates included, so that an
edited prompt is another recipe. The name is a label and not part of the hash.

    model = "ollama/qwen3:4b"
    arm = "prompted"
    protocol = "hermes"

    [options]
    num_predict = 256

    [agent]                      # how a run of the agent behaves beside its requests: `AgentSettings`
    max_model_calls = 8

    [[middleware]]               # a name of `tk.middleware`, or "package.module:Class"
    name = "ToolRetry"
    arguments = {max_retries = 1}

Not here: putting its request (`toolkit.asking`), running it (`toolkit.agents`), measuring it (`toolkit.evaluation`).
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from toolkit.errors import ConfigError, check_number, check_word
from toolkit.models.base import ChatModel, Options
from toolkit.models.connection import public_name
from toolkit.models.options import TRANSPORTS
from toolkit.prompting.protocols import ARMS, Arm, Protocol, is_protocol, load_protocol
from toolkit.traces.json_text import is_writable, write_text

Reading = Literal["protocol", "strict", "auto"]
READINGS: tuple[Reading, ...] = ("protocol", "strict", "auto")
UNLIMITED = "unlimited"  # how TOML, which has no null, writes a limit of None


@dataclass(frozen=True)
class AgentSettings:
    """Hold how a run behaves beside its requests: the table `[agent]` of a recipe. A limit of None is none.

    Attributes:
        max_model_calls: turns of the loop.
        max_run_tokens: prompt and written tokens of the whole run; by estimate where the server does not count them.
        max_seconds: wall time of the whole run, looked at between steps.
        max_repeats: identical turns in a row (same calls, same results), or rounds of two or three such turns.
        max_reasks: turns in a row without a usable call that are answered with the reason.
        on_tool_error: "result" tells the model of a tool's exception, "raise" ends the run.
        on_bad_answer: where a reply has no answer in the shape of `response_format`, "ask" asks again (`max_reasks`
            times, then `stop_reason` says so), "raise" ends the run.
        hidden_tools: "refuse" answers a call of a tool that the turn did not offer with an error, "allow" runs it.
        concurrent: whether the calls of one turn run at once, on threads or tasks.
        dedupe: whether identical calls of one turn run once.
        tool_timeout_s: seconds for each call of a tool without a limit of its own.

    Raises:
        ConfigError: a limit that is no number above 0, or another unusable value.
    """

    max_model_calls: int | None = 25
    max_run_tokens: int | None = None
    max_seconds: float | None = None
    max_repeats: int | None = 5
    max_reasks: int = 2
    on_tool_error: Literal["result", "raise"] = "result"
    on_bad_answer: Literal["ask", "raise"] = "ask"
    hidden_tools: Literal["refuse", "allow"] = "refuse"
    concurrent: bool = True
    dedupe: bool = False
    tool_timeout_s: float | None = None

    def __post_init__(self) -> None:
        check_word("on_tool_error", self.on_tool_error, ("result", "raise"))
        check_word("on_bad_answer", self.on_bad_answer, ("ask", "raise"))
        check_word("hidden_tools", self.hidden_tools, ("refuse", "allow"))
        for name in ("max_model_calls", "max_run_tokens", "max_seconds", "max_repeats", "max_reasks", "tool_timeout_s"):
            whole = name not in ("max_seconds", "tool_timeout_s")
            check_number(name, getattr(self, name), whole=whole, optional=name != "max_reasks")
        for name in ("concurrent", "dedupe"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be true or false, not {getattr(self, name)!r}.")

    @classmethod
    def of(cls, value: AgentSettings | Mapping[str, Any]) -> AgentSettings:
        """Read settings from a dict; the text "unlimited" is no limit.

        Raises:
            ConfigError: an unknown name or an unusable value.
        """
        if isinstance(value, AgentSettings):
            return value
        if not isinstance(value, Mapping):
            raise ConfigError(f"agent must be a table of settings, not {value!r}.")
        for name in value:
            check_word("agent setting", name, [item.name for item in fields(cls)])
        settings: dict[str, Any] = {name: None if item == UNLIMITED else item for name, item in value.items()}
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that are not the default, as TOML can hold them."""
        return {name: UNLIMITED if value is None else value for name, value in _changes(self, AgentSettings()).items()}


@dataclass(frozen=True)
class Recipe:
    """Hold one way of getting calls from one model.

    Attributes:
        model: what `load_model` takes, such as `embedded/smollm2-135m`; credentials in its URL are kept apart.
        arm: `native` (the server's own tools), `prompted` (protocol text), `constrained` (protocol text, decoding
            held to a JSON Schema).
        protocol: a name in `prompts/`, or a folder.
        options: settings of `Options`, such as {"num_predict": 256}.
        extraction: `protocol` reads its syntax and fallbacks, `strict` its syntax only, `auto` every syntax.
        tool_choice: "auto", "none", "any" or a tool's name.
        parallel: whether one reply may hold several calls.
        transport: how requests reach the model: `chat`, `raw`, or `auto`, see `Options`; `both` asks single requests
            either way, counts the chat and notes in `Asked.readings` where the two differ.
        tell_bounds: in the native arm, whether bounds, defaults and the like, which Ollama drops from tools, are
            written into the descriptions.
        system: a system text of your own, put first.
        agent: how a run of the agent behaves beside its requests; an `AgentSettings` or a dict of them.
        middleware: what stands around an agent's steps, outermost first: names, or {"name": …, "arguments": …};
            a name of `tk.middleware`, or "package.module:Class", which is imported. Read only recipes you trust.
        name: a label for tables; made from arm and protocol where empty.

    Raises:
        ConfigError: an unknown arm, extraction setting, option or agent setting.
    """

    model: str
    arm: Arm = "prompted"
    protocol: str = "hermes"
    options: dict[str, Any] = field(default_factory=dict)
    extraction: Reading = "protocol"
    tool_choice: str = "auto"
    parallel: bool = True
    transport: str = "auto"
    tell_bounds: bool = False
    system: str = ""
    agent: AgentSettings = AgentSettings()
    middleware: tuple[dict[str, Any], ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocol", str(self.protocol) if isinstance(self.protocol, Path) else self.protocol)
        for key, kind in _KINDS:
            if not isinstance(getattr(self, key), kind):
                raise ConfigError(f"{key} has the wrong kind of value, {getattr(self, key)!r:.100}.")
            if kind is str and not is_writable(getattr(self, key)):
                raise ConfigError(f"{key} holds half a character, {getattr(self, key)!r:.100}. Write it anew.")
        object.__setattr__(self, "model", public_name(self.model))  # a recipe is shown and written in many places
        check_word("arm", self.arm, ARMS)
        check_word("extraction", self.extraction, READINGS)
        object.__setattr__(self, "agent", AgentSettings.of(self.agent))
        if not isinstance(self.middleware, (list, tuple)):
            raise ConfigError(
                f'middleware must be a list, such as ["ToolRetry"] ([[middleware]] in TOML), not {self.middleware!r}.'
            )
        object.__setattr__(self, "middleware", tuple(map(read_entry, self.middleware)))
        options = Options.of(self.options).to_dict() if self.options else {}
        told = options.pop("transport", None) or "auto"
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "transport", told if self.transport == "auto" else self.transport)
        check_word("transport", self.transport, (*TRANSPORTS, "both"))
        if not self.name:
            label = self.arm if self.arm == "native" else f"{Path(self.protocol).name} {self.arm}"
            object.__setattr__(self, "name", label)

    @cached_property
    def settings(self) -> Options:
        """Return the options with every default filled in."""
        way = "chat" if self.transport == "both" else self.transport
        return Options.of({**self.options, "transport": way})

    @cached_property
    def loaded_protocol(self) -> Protocol:
        """Return the protocol itself, read once."""
        return load_protocol(self.protocol)

    @cached_property
    def hash(self) -> str:
        """Return 12 hex digits that change with anything that may change a reply or its reading."""
        content = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "name"}
        content["options"] = {key: value for key, value in self.settings.to_dict().items() if key != "transport"}
        content["agent"] = self.agent.to_dict()
        for key, plain in (("transport", "auto"), ("tell_bounds", False)):
            if content[key] == plain:  # so that a recipe from before there was a choice is the same one
                del content[key]
        content["protocol"] = None if self.arm == "native" else self.loaded_protocol.hash
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def replace(self, **changes: Any) -> Recipe:
        """Return a copy with some fields changed.

        Raises:
            ConfigError: an unknown field.
        """
        known = [item.name for item in fields(self)]
        for key in changes:
            check_word("field of a recipe", key, known)
        changed = replace(self, **changes)
        if "protocol" not in changes and "loaded_protocol" in self.__dict__:
            changed.__dict__["loaded_protocol"] = self.loaded_protocol  # it may be an edited one, see `using`
        return changed

    def using(self, protocol: Protocol) -> Recipe:
        """Return a copy that uses a protocol in memory, such as one being edited."""
        copy = replace(self)
        copy.__dict__["loaded_protocol"] = protocol  # fills the cached property
        return copy

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as plain data, defaults left out."""
        data: dict[str, Any] = {"model": self.model, "arm": self.arm, "protocol": self.protocol}
        data |= _changes(self, Recipe(self.model)) | {"name": self.name}
        if "agent" in data:
            data["agent"] = self.agent.to_dict()
        if self.middleware:
            data["middleware"] = list(self.middleware)
        return data

    @classmethod
    def of_model(cls, model: ChatModel, protocol: str | Path | Protocol = "hermes", **others: Any) -> Recipe:
        """Make the recipe of a loaded model: its own default options stand under those given.

        Raises:
            ConfigError: an unusable field, or no such protocol.
        """
        options = Options.of(others.pop("options", None), model.defaults).to_dict()
        named = protocol.name if isinstance(protocol, Protocol) else str(protocol)
        recipe = cls(model.name or type(model).__name__, protocol=named, options=options, **others)
        return recipe if recipe.arm == "native" else recipe.using(load_protocol(protocol))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "recipe") -> Recipe:
        """Build a recipe from plain data.

        Raises:
            ConfigError: an unknown or missing field, or a value of the wrong kind; the message says which.
        """
        known = [item.name for item in fields(cls)]
        try:
            for key in data:
                check_word("field", key, known)
            if "model" not in data:
                raise ConfigError('needs model = "NAME", such as "embedded/smollm2-135m".')
            return cls(**data)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None

    @classmethod
    def load(cls, path: str | Path) -> Recipe:
        """Read a recipe file; a relative protocol folder is looked up beside the file.

        Raises:
            ConfigError: no such file, broken TOML, or a wrong field; the message names file and place.
        """
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise ConfigError(
                f"Cannot read recipe {str(path)!r}: {error.strerror}. Give a TOML file, or a folder of them."
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"Recipe {str(path)!r} is no valid TOML: {error}.") from None
        folder = path.parent / str(data.get("protocol", ""))
        if data.get("protocol") and is_protocol(folder):
            data["protocol"] = str(folder.resolve())
        data.setdefault("name", path.stem)
        recipe = cls.from_dict(data, f"Recipe {str(path)!r}")
        try:
            _ = recipe.arm == "native" or recipe.loaded_protocol
        except ConfigError as error:
            raise ConfigError(f"Recipe {str(path)!r}: {error}") from None
        return recipe

    def save(self, path: str | Path) -> Path:
        """Write the recipe as a TOML file and return its path; a protocol folder is named relative to it.

        Raises:
            ConfigError: the file cannot be written.
        """
        import tomli_w

        path = Path(path)
        data = self.to_dict()
        if is_protocol(Path(self.protocol)):
            data["protocol"] = Path(os.path.relpath(self.protocol, path.parent)).as_posix()
        try:
            write_text(path, f"# recipe {self.hash}\n{tomli_w.dumps(data)}")
        except OSError as error:
            raise ConfigError(f"Cannot write {str(path)!r}: {error.strerror}. Choose another folder.") from None
        except TypeError as error:
            raise ConfigError(f"TOML cannot hold what recipe {self.name!r} holds: {error}.") from None
        return path

    def __repr__(self) -> str:
        protocol = "" if self.arm == "native" else f", protocol={Path(self.protocol).name!r}"
        named = f"Recipe({self.model!r}, arm={self.arm!r}{protocol}, name={self.name!r})"
        return named if len(named) <= 100 else f"{named[:98]}…)"


_KINDS: tuple[tuple[str, Any], ...] = (
    *((name, str) for name in ("model", "arm", "protocol", "extraction", "tool_choice", "transport", "system", "name")),
    *(("options", (Mapping, Options)), ("parallel", bool), ("tell_bounds", bool)),
)


def _changes(value: Any, plain: Any) -> dict[str, Any]:
    """Return the fields in which one dataclass differs from another."""
    found = {item.name: getattr(value, item.name) for item in fields(value)}
    return {name: item for name, item in found.items() if item != getattr(plain, name)}


def read_entry(value: Any) -> dict[str, Any]:
    """Read one entry of `middleware`; whether such a class exists is found when an agent is made of the recipe."""
    entry: Any = {"name": value} if isinstance(value, str) else value
    fits = isinstance(entry, Mapping) and set(entry) <= {"name", "arguments"} and isinstance(entry.get("name"), str)
    arguments = entry.get("arguments", {}) if fits else None
    if not isinstance(arguments, (Mapping, list, tuple)):
        raise ConfigError(f'{value!r} names no middleware. Write "NAME", or {{"name": "NAME", "arguments": {{…}}}}.')
    given = dict(arguments) if isinstance(arguments, Mapping) else list(arguments)
    return {"name": entry["name"], **({"arguments": given} if given else {})}


def load_recipes(sources: Iterable[Any] | Any) -> list[Recipe]:
    """Read recipes from TOML files, folders of them, dicts or Recipe objects; names are made unique.

    Raises:
        ConfigError: one of them cannot be read, or there is none.
    """
    if isinstance(sources, (str, Path, Recipe, Mapping)):
        sources = [sources]
    sources, found = list(sources), []
    for source in sources:
        if isinstance(source, Recipe):
            found.append(source)
        elif isinstance(source, Mapping):
            found.append(Recipe.from_dict(source))
        else:
            files = sorted(Path(source).glob("*.toml")) if Path(source).is_dir() else [source]
            found.extend(map(Recipe.load, files))
    if not found:
        places = ", ".join(repr(str(source)) for source in sources) or "an empty list"
        raise ConfigError(f"No recipe in {places}. Give a TOML file, a folder of them, or a Recipe.")
    return _unique_names(found)


def _unique_names(recipes: list[Recipe]) -> list[Recipe]:
    """Number the later ones of recipes that share a name; drop exact repeats."""
    kept = {recipe.hash: recipe for recipe in reversed(recipes)}
    taken = {recipe.name for recipe in recipes}
    found: dict[str, Recipe] = {}
    for recipe in reversed(kept.values()):
        name, count = recipe.name, 1
        while name in found or (count > 1 and name in taken):
            count += 1
            name = f"{recipe.name} #{count}"
        found[name] = recipe if name == recipe.name else recipe.replace(name=name)
    return list(found.values())
