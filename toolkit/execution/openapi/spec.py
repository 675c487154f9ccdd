"""Read an OpenAPI document and follow its references: from a URL, a file, a dict or text.

OpenAPI 3.0, 3.1 and 3.2, JSON or YAML. Reading is bounded in bytes, nodes, depth and number of documents, and
references leave the document only towards its own origin (URL) or its own folder (file).

Not here: operations (`operations`), schemas (`schema`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from toolkit.errors import ConfigError, UserError, install_hint
from toolkit.execution.openapi.http import HttpRequest, Limits, exchange, no_downgrade, place, same_origin
from toolkit.secrets import scrub
from toolkit.tools.shown import shown

_MAX_BYTES = 32_000_000  # the largest public specs are near 30 MB
_MAX_NODES = 2_000_000
_MAX_DEPTH = 200
_MAX_DOCUMENTS = 50
_YAML_SCALARS = (
    ("bool", "^(?:true|True|false|False)$", "tTfF"),
    ("int", "^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
)

Source = str | Path | Mapping[str, Any]
Text = tuple[str, str]  # and where it was found
Node = tuple[Any, str]  # a node of a document, and the location of that document


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of the document; an empty one where something else stands in its place."""
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, eq=False)
class OpenAPISpec:
    """Hold an OpenAPI document and where it came from."""

    document: dict[str, Any]
    location: str = ""  # its URL, for relative server URLs and references; empty for a dict or text
    _documents: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _followed: dict[tuple[str, str], tuple[Any, str, str]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def title(self) -> str:
        """Return the title of the API."""
        return str(as_mapping(self.document.get("info")).get("title") or "API")

    @property
    def is_3_0(self) -> bool:
        """Tell whether schemas are in the dialect of OpenAPI 3.0, before JSON Schema 2020-12."""
        return str(self.document["openapi"]).startswith("3.0")

    @property
    def security_schemes(self) -> dict[str, Any]:
        """Return the security schemes by name."""
        schemes = as_mapping(as_mapping(self.document.get("components")).get("securitySchemes"))
        return {str(name): self.follow(scheme, self.location)[0] for name, scheme in schemes.items()}

    @functools.cached_property
    def heirs(self) -> dict[int, list[Node]]:
        """Return the document's schemas by the identity of each schema that they take in with `allOf`."""
        found: dict[int, list[Node]] = {}
        for schema in as_mapping(as_mapping(self.document.get("components")).get("schemas")).values():
            parts = as_mapping(schema).get("allOf")
            for part in parts if isinstance(parts, list) else ():
                with contextlib.suppress(ConfigError):
                    found.setdefault(id(self.follow(part, self.location)[0]), []).append((schema, self.location))
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Leave identities out of a pickle."""
        return {name: value for name, value in self.__dict__.items() if name != "heirs"}

    def follow(self, node: Any, base: str) -> tuple[Any, str, str]:
        """Follow the `$ref` of a node, and of what it leads to.

        Returns:
            the node at the end, the location of its document, and its full address ("" if there was no `$ref`).

        Raises:
            ConfigError: the reference leads nowhere, in a circle, or out of bounds.
        """
        if not isinstance(node, Mapping) or not isinstance(node.get("$ref"), str):
            return node, base, ""
        key = (base, node["$ref"])
        if key not in self._followed:
            self._followed[key] = self._end_of(node, base)
        return self._followed[key]

    def is_read_only(self, node: Any, base: str) -> bool:
        """Tell whether a property is only ever sent by the server."""
        return any(as_mapping(item).get("readOnly") is True for item in (node, self.follow(node, base)[0]))

    def _end_of(self, node: Any, base: str) -> tuple[Any, str, str]:
        address, seen = "", set()
        while isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            ref = node["$ref"]
            try:
                address = base + ref if ref.startswith("#") else urljoin(base, ref)
                urlsplit(address)
            except ValueError as error:
                raise ConfigError(f"Reference {ref!r} is no address: {error}. Mend the document.") from None
            if address in seen:
                raise ConfigError(f"Reference {ref!r} leads back to itself. Mend the document.")
            seen.add(address)
            base, pointer = urldefrag(address)
            node = _at(self._load(base, ref), pointer, ref)
        return node, base, address

    def _load(self, location: str, ref: str) -> Any:
        if location == self.location:
            return self.document
        if location not in self._documents:
            if len(self._documents) >= _MAX_DOCUMENTS:
                raise ConfigError(f"The document refers to more than {_MAX_DOCUMENTS} others. Bundle them into one.")
            _check_neighbour(location, self.location, ref)
            self._documents[location] = _parse(_read(location, may_follow=same_origin)[0], location)
        return self._documents[location]

    def __repr__(self) -> str:
        return f"OpenAPISpec({self.title!r}, {len(self.document['paths'])} paths)"


def load_spec(source: Source | OpenAPISpec, *, timeout_s: float = 30.0) -> OpenAPISpec:
    """Read an OpenAPI document.

    Args:
        source: URL (http, https), path of a file, dict, or the document itself as JSON or YAML text.
        timeout_s: seconds within which a URL must have answered.

    Raises:
        ConfigError: it cannot be read, or is no OpenAPI 3 document.
        UserError: PyYAML is needed and not installed.
    """
    if isinstance(source, OpenAPISpec):
        return source
    if isinstance(source, Mapping):
        _check_size(source)
        return OpenAPISpec(_check_document(source, source))
    location = _location(source)
    if location:
        text, location = _read(location, timeout_s)
    else:
        text = str(source)
        _check_bytes(len(text), "The OpenAPI text")
    return OpenAPISpec(_check_document(_parse(text, location), source), location)


def is_url(source: str | Path) -> bool:
    """Tell whether a document stands at a web address."""
    return str(source).lower().startswith(("http://", "https://"))


def _location(source: Any) -> str:
    """Return the address of a document, of a file too; empty for what is the text of one."""
    if not isinstance(source, (str, Path)):
        raise ConfigError(f"An OpenAPI spec is a URL, path, dict or text, not {shown(source)}.")
    if is_url(source):
        return str(source)
    with contextlib.suppress(OSError, ValueError):  # a long text is no file name
        if Path(source).is_file():
            return Path(source).resolve().as_uri()
    if isinstance(source, str) and ("\n" in source.strip() or source.lstrip().startswith(("{", "[")) or ":" in source):
        return ""
    raise ConfigError(
        f"{shown(scrub(source))} is no OpenAPI document: neither a file, an http(s) URL, nor JSON or YAML text."
    )


def _read(location: str, timeout_s: float = 30.0, may_follow: Callable[[str, str], bool] = no_downgrade) -> Text:
    """Return the text at an address, and where it was found: no credential is sent."""
    if location.startswith("file:"):
        path = Path(url2pathname(urlsplit(location).path))
        if not path.is_file():
            raise ConfigError(f"The document refers to {path.name!r}, which is not beside it.")
        _check_bytes(path.stat().st_size, repr(str(path)))
        return path.read_text("utf-8-sig", errors="replace"), location
    try:
        answer = exchange(HttpRequest("GET", location), Limits(timeout_s, _MAX_BYTES), may_follow)
        address = place(answer.url)  # user and query of an address may be credentials
    except Exception as error:
        raise ConfigError(f"Cannot read the OpenAPI document: {scrub(str(error))} Check the address.") from None
    if answer.status != 200:
        raise ConfigError(f"{address!r} answered {answer.status}, not an OpenAPI document. Check the address.")
    return answer.body.decode("utf-8-sig", errors="replace"), address


def _check_bytes(size: int, what: str) -> None:
    if size > _MAX_BYTES:
        raise ConfigError(f"{what} is larger than {_MAX_BYTES} bytes. Leave out what is not called.")


def _check_neighbour(location: str, home: str, ref: str) -> None:
    """Let references leave a document only towards its own origin, or its own folder."""
    there, here = urlsplit(location), urlsplit(home)
    same_place = home and (there.scheme, there.netloc) == (here.scheme, here.netloc)
    if same_place and here.scheme == "file":
        folder = Path(url2pathname(here.path)).parent.resolve()
        same_place = Path(url2pathname(there.path)).resolve().is_relative_to(folder)
    if not same_place:
        raise ConfigError(f"Reference {ref!r} leaves the place of the document and is not followed. Bundle it in.")


def _parse(text: str, location: str) -> Any:
    """Parse JSON, else YAML, and check that it is of bearable size."""
    try:
        try:
            found = json.loads(text)
        except ValueError:
            return _parse_yaml(text)
        _check_size(found)
        return found
    except RecursionError:
        raise ConfigError(f"{location or 'The OpenAPI text'} is nested too deeply.") from None
    except ConfigError:
        raise
    except ValueError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"{location or 'The OpenAPI text'} is neither JSON nor YAML: {reason}") from None


def _parse_yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise UserError(f'"yaml" is not installed. {install_hint("openapi")}') from None
    try:
        value = yaml.load(text, Loader=_yaml_loader(yaml))  # noqa: S506 - it is a safe one
    except RecursionError:
        raise
    except Exception as error:  # PyYAML's own, and a KeyError for `!!bool maybe`
        raise ValueError(f"{type(error).__name__}: {error}") from None
    _check_size(value)  # before it is copied: aliases can multiply without end
    return _plain(value)


def _yaml_loader(yaml: Any) -> Any:
    """Make a safe loader with JSON's types only: `NO`, `2020-01-01` and `12:30` stay texts."""

    class JsonLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - how PyYAML spells it
            first: [(tag, pattern) for tag, pattern in entries if tag.rpartition(":")[2] in ("null", "merge")]
            for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    for name, pattern, first in _YAML_SCALARS:
        JsonLoader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(pattern), list(first))
    return JsonLoader


def _plain(value: Any) -> Any:
    """Give mappings text keys, since `200:` is a number in YAML."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _check_size(value: Any) -> None:
    """Refuse documents that are too deep or too large, aliases counted as often as they are used."""
    stack, count = [(value, 0)], 0
    while stack:
        node, depth = stack.pop()
        count += 1
        if depth > _MAX_DEPTH or count > _MAX_NODES:
            raise ConfigError(f"The OpenAPI document is deeper than {_MAX_DEPTH} or larger than {_MAX_NODES} nodes.")
        if isinstance(node, Mapping):
            stack.extend((item, depth + 1) for item in node.values())
        elif isinstance(node, list):
            stack.extend((item, depth + 1) for item in node)


def _check_document(document: Any, source: Any) -> dict[str, Any]:
    if not isinstance(document, Mapping):
        said = shown(scrub(source if isinstance(source, str) else str(source)[:200]))
        raise ConfigError(f"{said} holds no OpenAPI document: expected an object with 'openapi' and 'paths'.")
    if "swagger" in document:
        raise ConfigError(
            f"This is Swagger {document['swagger']}; OpenAPI 3 is needed. Convert it, e.g. swagger2openapi."
        )
    version = str(document.get("openapi", ""))
    if not version.startswith("3."):
        raise ConfigError(f"OpenAPI version {version or None!r} is not read. Give a document with openapi: 3.0 or 3.1.")
    if not isinstance(document.get("paths"), Mapping):
        raise ConfigError("The OpenAPI document has no 'paths' object, so it describes nothing to call.")
    return dict(document)


def _at(document: Any, pointer: str, ref: str) -> Any:
    """Return what a JSON pointer names."""
    if pointer and not pointer.startswith("/"):
        raise ConfigError(f"Reference {ref!r} names an anchor; only JSON pointers such as '#/components/…' are read.")
    node = document
    for raw in pointer.split("/")[1:]:
        part = unquote(raw).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
        elif isinstance(node, Mapping) and part in node:
            node = node[part]
        else:
            raise ConfigError(f"Reference {ref!r} leads nowhere: {part!r} is missing. Mend the document.")
    return node
