"""Group tools under unique names, those of a service too: Toolset.

Not here: the services themselves (`toolkit.execution.openapi`, `toolkit.execution.mcp`), tools (`toolkit.tools`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from toolkit.tools import Tool, as_tools

if TYPE_CHECKING:
    from toolkit.execution.mcp import McpSession


@dataclass
class Toolset:
    """Group tools under unique names; list-like.

    A subclass may have a `warm_up` of its own, which connects and then adds the tools; whatever takes the toolset
    apart, such as an invoker or an agent when it is made, calls it first, and may do so more than once.

    Attributes:
        tools: the tools.
        connection: the session of an MCP server that holds them open. A sum of toolsets has none: close its parts.

    Raises:
        ConfigError: two tools share a name, or something in it is no tool.
    """

    tools: tuple[Tool, ...]
    connection: McpSession | None = field(compare=False, repr=False)

    def __init__(self, tools: Iterable[Any] = (), connection: McpSession | None = None) -> None:
        self.tools = tuple(as_tools(tools))
        self.connection = connection

    def warm_up(self) -> None:
        """Get ready what has to be before the first use; here nothing has."""

    def add(self, tool: Any) -> None:
        """Add a tool, a typed function or a toolset; who took this one apart before does not get it.

        Raises:
            ConfigError: it is no tool, or its name is taken.
        """
        self.tools = tuple(as_tools([*self.tools, tool]))

    @classmethod
    def from_openapi(
        cls, spec: Any, credentials: Any = None, allowed_operations: Iterable[str] | None = None, **options: Any
    ) -> Toolset:
        """Make one tool of each operation of a REST API; DELETE is marked dangerous.

        Args:
            spec: OpenAPI 3 document as URL, path, dict or text.
            credentials: a Secret, or {security scheme: Secret}.
            allowed_operations: operationIds that may be called; None allows all.
            options: `server`, `credential_hosts`, `timeout_s`, `max_response_bytes`.

        Raises:
            ConfigError: the document, an operation name or a credential cannot be used.
        """
        from toolkit.execution.openapi.service import OpenAPIService

        return cls(OpenAPIService.load(spec, credentials, allowed_operations, **options).tools())

    @classmethod
    def from_mcp(cls, command: Any = None, *, url: str | None = None, **options: Any) -> Toolset:
        """Make one tool of each tool of an MCP server; close the toolset, or use it in a `with` block.

        Args:
            command: program and arguments of a server to start (stdio), such as ["python", "server.py"].
            url: address of a running server (streamable HTTP).
            options: `prefix`, `allowed_tools`, `env`, `cwd`, `headers`, `timeout_s`.

        Raises:
            ConfigError: neither or both of command and url.
            UserError: the server cannot be used, or the package `mcp` is missing.
        """
        from toolkit.execution.mcp import open_session

        session, tools = open_session(command, url=url, **options)
        return cls(tools, session)

    def close(self) -> None:
        """End the connection, and the server where it was started by us; without one nothing happens."""
        if self.connection is not None:
            self.connection.close()

    def reopen(self) -> None:
        """Connect anew after a server hung or died; the tools stay as they are, what the server held is lost.

        Raises:
            UserError: the server cannot be started or reached.
        """
        if self.connection is not None:
            self.connection.reopen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, item: object) -> bool:
        return any(item in (tool.name, tool) for tool in self.tools)

    def __getitem__(self, key: str | int) -> Tool:
        if isinstance(key, int):
            return self.tools[key]
        return {tool.name: tool for tool in self.tools}[key]

    def __add__(self, other: Any) -> Toolset:
        return Toolset([self, other])

    @property
    def names(self) -> list[str]:
        """Return the names, in order."""
        return [tool.name for tool in self.tools]

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self.names)})"
