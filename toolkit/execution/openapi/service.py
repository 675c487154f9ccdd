"""Call the operations of one OpenAPI document: OpenAPIService, and the tools made of it.

The way of a call: is it allowed, do the arguments fit, build the request, sign it, send it, read the answer. Nothing
is sent before every earlier step has passed, and no text that comes out of it holds a credential.

Not here: letting a model choose the call (`toolkit.execution.openapi.tool`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from toolkit.errors import ConfigError, ToolInvocationError, ToolNotFoundException, closest, did_you_mean
from toolkit.execution.arguments import refusal, unknown_names
from toolkit.execution.openapi.auth import Credentials, as_credentials, mask_of, sign
from toolkit.execution.openapi.http import Answer, Limits, exchange, origin, place
from toolkit.execution.openapi.operations import Operation, operations
from toolkit.execution.openapi.request import build_request, server_url
from toolkit.execution.openapi.spec import OpenAPISpec, Source, load_spec
from toolkit.execution.ready import ReadyTool, make_ready
from toolkit.secrets import Mask, scrub
from toolkit.tools import Effect, Tool
from toolkit.tools.shown import shown

_EFFECTS: dict[str, Effect] = {"GET": "reads", "HEAD": "reads", "OPTIONS": "reads", "DELETE": "dangerous"}
# what servers write in; Python knows codecs that are none of theirs and fail in their own ways, such as idna
_CHARSETS = r"(?:utf|iso|latin|windows|cp|koi8|mac|big5|gb|euc|shift|us-?ascii|ascii|tis|hz|johab|ibm)[\w.-]*"
_MAX_ERROR = 500  # characters of a server's error text that are passed on

Origin = tuple[str, str, int]


@dataclass(frozen=True, eq=False)
class OpenAPIService:
    """Hold the operations that may be called, and what calling them needs."""

    spec: OpenAPISpec
    operations: tuple[Operation, ...]  # nothing else can be called
    credentials: Credentials = None
    server: str | None = None  # used instead of the document's
    home: frozenset[Origin] = frozenset()  # the origins that credentials may go to
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def load(
        cls,
        source: Source | OpenAPISpec,
        credentials: Any = None,
        allowed_operations: Iterable[str] | None = None,
        *,
        server: str | None = None,
        credential_hosts: Iterable[str] = (),
        timeout_s: float = 30.0,
        max_response_bytes: int = 1_000_000,
    ) -> OpenAPIService:
        """Read a document and make its operations callable.

        Args:
            source: URL, path, dict or text.
            credentials: text, a Secret, or {scheme name: text or Secret}.
            allowed_operations: operationIds, normalised names or "GET /path"; None allows all.
            server: a base URL to use instead of the document's.
            credential_hosts: further hosts that credentials may go to, where operations have servers of their own.
            timeout_s: seconds for one call, redirects included.
            max_response_bytes: most bytes of one answer.

        Raises:
            ConfigError: the document, an operation name or a credential cannot be used.
        """
        spec = load_spec(source, timeout_s=timeout_s)
        secrets = as_credentials(credentials, spec.security_schemes)
        found = tuple(operations(spec, allowed_operations))
        service = cls(spec, found, secrets, server, limits=Limits(timeout_s, max_response_bytes))
        hosts = [credential_hosts] if isinstance(credential_hosts, str) else credential_hosts
        urls = [host if "://" in host else f"https://{host}" for host in map(str, hosts)]  # a bare host means https
        try:
            return replace(service, home=_home(service).union(map(origin, urls)))
        except ValueError as error:
            raise ConfigError(f"credential_hosts names no host: {scrub(str(error))}. Give 'api.example.com'.") from None

    def call(self, name: str, arguments: Any) -> Any:
        """Call an operation, by its name or raw operationId; return its answer: JSON as Python data, else text.

        Raises:
            ToolNotFoundException: there is no such operation, or it is not allowed.
            ToolError: anything else that keeps the answer from being a success; the message holds no credential.
            ConfigError: the operation has no server.
        """
        said = name if isinstance(name, str) else shown(name)
        if said not in self._known:
            near = did_you_mean(said, [operation.name for operation in self.operations])
            raise ToolNotFoundException(f"No operation {said!r} is offered; nothing was sent. {near}")
        operation, ready = self._known[said]
        checked = ready.checked(arguments)
        _check_names(operation, checked)
        request = build_request(operation, checked, server_url(self.server or operation.server, self.spec.location))
        signed = sign(request, operation.security, self.spec.security_schemes, self.credentials)
        if signed != request and origin(request.url) not in self.home:
            host = urlsplit(request.url).hostname
            raise ToolInvocationError(
                f"Nothing was sent: operation {operation.name!r} is on another host, {host!r}, than the credentials "
                "were given for. Name it in credential_hosts if it may have them."
            )
        mask = mask_of(self.credentials)
        try:
            answer = exchange(signed, self.limits)
        except ToolInvocationError as error:
            failure = type(error)(mask(str(error)))
        else:
            return _result(operation, answer, mask)
        raise failure  # outside the handler, so that nothing is chained to it

    def tools(self) -> list[Tool]:
        """Return one tool for each allowed operation; GET reads, DELETE is dangerous, the others write."""
        return [self._known[operation.name][1].tool for operation in self.operations]

    @functools.cached_property
    def _known(self) -> dict[str, tuple[Operation, ReadyTool]]:
        """Return the operations by raw id and by name, which counts before; the first of an id that two share."""
        made = [(operation, make_ready(self._tool(operation))) for operation in self.operations]
        by_id = {item[0].id: item for item in reversed(made)}
        return by_id | {item[0].name: item for item in made}

    def __getstate__(self) -> dict[str, Any]:
        """Leave compiled validators out of a pickle; a Secret made from a token refuses by itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_known"}

    def _run(self, name: str, /, **arguments: Any) -> Any:
        return self.call(name, arguments)

    def _tool(self, operation: Operation) -> Tool:
        return Tool(
            operation.name,
            operation.description,
            operation.parameters,
            functools.partial(self._run, operation.name),
            effect=_EFFECTS.get(operation.method, "writes"),
        )

    def __repr__(self) -> str:
        return f"OpenAPIService({self.spec.title!r}, {len(self.operations)} operations)"


def _check_names(operation: Operation, arguments: Mapping[str, Any]) -> None:
    """Refuse a name that looks like a declared one; without it, the service would answer another question.

    Raises:
        ToolArgumentsError: there is one, and the body takes no further names (Source: fastmcp#380 of punkpeye).
    """
    known = [item.argument for item in operation.arguments]
    misspelt = [name for name in arguments if name not in known and closest(str(name), known, n=1)]
    if misspelt and not (operation.body and operation.body.more):
        raise refusal(operation.name, unknown_names(misspelt, known))


def _home(service: OpenAPIService) -> frozenset[Origin]:
    """Return where credentials belong: the document's own servers.

    A server that only one operation or path names counts only where the document has no servers of its own and all
    of them agree, so a document cannot send a credential to a stranger through one operation.
    """
    root = service.spec.document.get("servers")
    if service.server or (isinstance(root, list) and root):
        servers = [service.server] if service.server else [item for item in root or () if isinstance(item, Mapping)]
        return frozenset(_origins(servers, service.spec.location))
    found = frozenset(_origins([item.server for item in service.operations], service.spec.location))
    return found if len(found) == 1 else frozenset()


def _origins(servers: Iterable[str | Mapping[str, Any]], location: str) -> Iterator[Origin]:
    for server in servers:
        with contextlib.suppress(ConfigError):  # an unusable server is reported when it is called
            yield origin(server_url(server, location))


def _result(operation: Operation, answer: Answer, mask: Mask) -> Any:
    """Read an answer; what a server echoes of a credential is hidden too."""
    text = mask(_text(answer))
    if not 200 <= answer.status < 300:
        said = f": {text[:_MAX_ERROR]}" if text.strip() else "."
        raise ToolInvocationError(f"{operation.method} {place(answer.url)} answered {answer.status}{said}")
    if not text.strip():
        return {"status": answer.status}
    if "json" in answer.content_type.lower() or text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            return mask(json.loads(text))  # again: JSON can spell a text in many ways
    return text


def _text(answer: Answer) -> str:
    kind = answer.content_type.partition(";")[0].strip().lower()
    if kind.partition("/")[0] in ("image", "audio", "video", "font") or kind in ("application/zip", "application/pdf"):
        return json.dumps({"status": answer.status, "content_type": kind, "bytes": len(answer.body)})
    named = re.search(r"charset=\"?([\w.-]+)", answer.content_type)
    charset = named[1] if named and re.fullmatch(_CHARSETS, named[1], re.IGNORECASE) else "utf-8"
    try:
        return answer.body.decode(charset, errors="replace")
    except (LookupError, UnicodeError):
        return answer.body.decode("utf-8", errors="replace")
