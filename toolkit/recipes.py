"""Hold everything that decides how a request behaves in one value: Recipe.

A recipe is a TOML file; its identity is a hash of its content, the protocol's templates included, so that an
edited prompt is another recipe. The name is a label and not part of the hash.
Not here: running it (`toolkit.evaluation.sweep`).
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

from toolkit.errors import ConfigError, did_you_mean
from toolkit.models.base import Options
from toolkit.prompting.protocols import ARMS, Arm, Protocol, load_protocol

Reading = Literal["protocol", "strict", "auto"]
READINGS: tuple[Reading, ...] = ("protocol", "strict", "auto")


@dataclass(frozen=True)
class Recipe:
    """Hold one way of getting calls from one model.

    Attributes:
        model: what `load_model` takes, such as `embedded/smollm2-135m`.
        arm: `native` (the server's own tools), `prompted` (protocol text), `constrained` (protocol text, decoding
            held to a JSON Schema).
        protocol: a name in `prompts/`, or a folder.
        options: settings of `Options`, such as {"num_predict": 256}.
        extraction: `protocol` reads its syntax and fallbacks, `strict` its syntax only, `auto` every syntax.
        tool_choice: "auto", "none", "any" or a tool's name.
        parallel: whether several calls in one reply are asked for.
        system: a system text of your own, put first.
        name: a label for tables; made from arm and protocol where empty.

    Raises:
        ConfigError: an unknown arm, extraction setting or option.
    """

    model: str
    arm: Arm = "prompted"
    protocol: str = "hermes"
    options: dict[str, Any] = field(default_factory=dict)
    extraction: Reading = "protocol"
    tool_choice: str = "auto"
    parallel: bool = True
    system: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        _one_of("arm", self.arm, ARMS)
        _one_of("extraction", self.extraction, READINGS)
        object.__setattr__(self, "protocol", str(self.protocol))
        object.__setattr__(self, "options", Options.of(self.options).to_dict() if self.options else {})
        if not self.name:
            label = self.arm if self.arm == "native" else f"{Path(self.protocol).name} {self.arm}"
            object.__setattr__(self, "name", label)

    @property
    def settings(self) -> Options:
        """Return the options with every default filled in."""
        return Options.of(self.options)

    @cached_property
    def loaded_protocol(self) -> Protocol:
        """Return the protocol itself, read once."""
        return load_protocol(self.protocol)

    @cached_property
    def hash(self) -> str:
        """Return 12 hex digits that change with anything that may change a reply or its reading."""
        content = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "name"}
        content["options"] = self.settings.to_dict()
        content["protocol"] = None if self.arm == "native" else self.loaded_protocol.hash
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def replace(self, **changes: Any) -> Recipe:
        """Return a copy with some fields changed.

        Raises:
            ConfigError: an unknown field.
        """
        known = [item.name for item in fields(self)]
        for key in changes:
            if key not in known:
                raise ConfigError(f"A recipe has no field {key!r}. {did_you_mean(key, known)}")
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
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        always = ("name", "model", "arm", "protocol")
        return {k: v for k, v in data.items() if k in always or v != _DEFAULTS.get(k)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "recipe") -> Recipe:
        """Build a recipe from plain data.

        Raises:
            ConfigError: an unknown or missing field, or a value of the wrong kind; the message says which.
        """
        known = [item.name for item in fields(cls)]
        for key in data:
            if key not in known:
                raise ConfigError(f"{where}: unknown field {key!r}. {did_you_mean(key, known)}")
        if not isinstance(data.get("model"), str):
            raise ConfigError(f'{where}: needs model = "NAME", such as "embedded/smollm2-135m".')
        for key, kind in (("options", Mapping), ("parallel", bool), ("system", str), ("tool_choice", str)):
            if key in data and not isinstance(data[key], kind):
                raise ConfigError(f"{where}: {key} has the wrong kind of value, {data[key]!r}.")
        try:
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
                f"Cannot read recipe {str(path)!r}: {error.strerror}. Give the path of a TOML file."
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"Recipe {str(path)!r} is no valid TOML: {error}.") from None
        folder = path.parent / str(data.get("protocol", ""))
        if data.get("protocol") and (folder / "protocol.toml").is_file():
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
        if (Path(self.protocol) / "protocol.toml").is_file():
            data["protocol"] = Path(os.path.relpath(self.protocol, path.parent)).as_posix()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# recipe {self.hash}\n{tomli_w.dumps(data)}", "utf-8")
        except OSError as error:
            raise ConfigError(f"Cannot write {str(path)!r}: {error.strerror}. Choose another folder.") from None
        return path

    def __repr__(self) -> str:
        return f"Recipe({self.name!r}, model={self.model!r}, arm={self.arm!r}, protocol={Path(self.protocol).name!r})"[
            :100
        ]


_DEFAULTS: dict[str, Any] = {
    "options": {}, "extraction": "protocol", "tool_choice": "auto", "parallel": True, "system": "",
}  # fmt: skip


def _one_of(what: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ConfigError(f"Unknown {what} {value!r}. {did_you_mean(str(value), known)}")


def load_recipes(sources: Iterable[Any] | Any) -> list[Recipe]:
    """Read recipes from TOML files, folders of them, dicts or Recipe objects; names are made unique.

    Raises:
        ConfigError: one of them cannot be read, or there is none.
    """
    if isinstance(sources, (str, Path, Recipe, Mapping)):
        sources = [sources]
    found: list[Recipe] = []
    for source in sources:
        if isinstance(source, Recipe):
            found.append(source)
        elif isinstance(source, Mapping):
            found.append(Recipe.from_dict(source))
        elif Path(source).is_dir():
            found.extend(Recipe.load(path) for path in sorted(Path(source).glob("*.toml")))
        else:
            found.append(Recipe.load(source))
    if not found:
        raise ConfigError(f"No recipe in {sources!r}. Give a TOML file, a folder of them, or a Recipe.")
    return _unique_names(found)


def _unique_names(recipes: list[Recipe]) -> list[Recipe]:
    """Number the later ones of recipes that share a name; drop exact repeats."""
    kept: dict[str, Recipe] = {}
    taken = {recipe.name for recipe in recipes}
    given: set[str] = set()
    for recipe in recipes:
        if recipe.hash in kept:
            continue
        name, count = recipe.name, 1
        while name in given or (count > 1 and name in taken):
            count += 1
            name = f"{recipe.name} #{count}"
        given.add(name)
        kept[recipe.hash] = recipe if name == recipe.name else recipe.replace(name=name)
    return list(kept.values())
