"""Offer the tools of an MCP server as ordinary tools: over stdio or streamable HTTP, through the official client.

The client is asynchronous; it lives on a thread with an event loop of its own, so its tools can be called from sync
code, a notebook's running loop included.

Not here: running tools with validation and limits (`toolkit.execution.invoker`).
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import functools
import importlib
import json
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolkit.errors import ConfigError, ToolInvocationError, ToolTimeoutError, UserError, did_you_mean, install_hint
from toolkit.execution.conversion import to_text
from toolkit.execution.openapi.http import check_limit, place
from toolkit.secrets import Mask, Secret, credentials_in, scrub, scrub_logs
from toolkit.tools import Effect, Tool, as_tools
from toolkit.tools.shown import safe_str

_MAX_PAGES = 100
_WRITES: Effect = "writes"
_GRACE_S = 5.0  # what the client may take on top of a time limit, to end by itself
_LONGEST_REASON = 400
_STDERR_TAIL = 400  # characters of a dead server's last words
_REOPEN = "Start it anew with reopen() on its toolset."


class McpSession:
    """Keep one connection to an MCP server open on a thread of its own.

    Args:
        command: program and arguments of a server to start, such as ["python", "server.py"].
        url: address of a running server (streamable HTTP).
        env: further environment variables for the command; values may be Secrets, which no result or error shows.
        cwd: folder to start the command in.
        headers: HTTP headers for the URL; values may be Secrets.
        timeout_s: seconds for connecting, and for each call.

    Raises:
        ConfigError: neither or both of command and url, or `timeout_s` is no finite number above 0.
        UserError: the server cannot be started or reached, or the package `mcp` is missing.
    """

    def __init__(
        self,
        command: Sequence[str] | str | None = None,
        *,
        url: str | None = None,
        env: Mapping[str, str | Secret] | None = None,
        cwd: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        if bool(command) == bool(url):
            raise ConfigError("Give either command=['python', 'server.py'] or url='http://…/mcp', not both or neither.")
        try:
            importlib.import_module("mcp")
        except ModuleNotFoundError:
            raise UserError(f'"mcp" is not installed. {install_hint("mcp")}') from None
        with contextlib.suppress(ImportError):  # seconds that the client would take out of the first call's time
            importlib.import_module("jsonschema.validators")
        check_limit(timeout_s)
        scrub_logs()
        self.command = (command,) if isinstance(command, str) else tuple(command or ())
        self.url, self.env, self.cwd, self.headers = url or "", env, cwd, headers
        self.timeout_s = timeout_s
        self._open()

    @property
    def label(self) -> str:
        """Return what may stand in an error: no arguments, query or user, since they may hold credentials."""
        return repr(self.command[0] if self.command else place(self.url))

    def _open(self) -> None:
        self.listed: list[Any] = []
        self._secrets = Mask(credentials_in(self.url))  # hides every value that was handed over, in errors
        self._sealed = self._secrets  # hides those of Secrets and of the URL, in results too
        self._late: str | None = None  # the call that ran out of time, while nothing was answered since
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._client: Any = None
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the session
        self._thread = threading.Thread(target=self._run, name="toolkit-mcp", daemon=True)
        self._thread.start()
        try:
            self._ready.result(self.timeout_s + _GRACE_S)
            atexit.register(self.close)
            return
        except UserError:
            raise
        except BaseException as error:  # also what anyio groups
            reason = _reason_of(error)
        said = self._last_words()
        self.close()
        raise UserError(scrub(self._secrets(f"MCP server {self.label} cannot be used: {reason}.{said}")))

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool of the server and wait for its result.

        Raises:
            ToolTimeoutError: it took longer than `timeout_s`.
            ToolInvocationError: the tool reported an error, or the server is gone.
        """
        if self._loop is None or not self._thread.is_alive():
            raise ToolInvocationError(f"MCP server {self.label} is gone.{self._last_words()} {_REOPEN}")
        work = asyncio.run_coroutine_threadsafe(self._call(name, arguments), self._loop)
        try:
            answer = work.result(self.timeout_s + _GRACE_S)
            self._late = None
            return self._sealed(_read_result(name, answer))
        except ToolInvocationError as error:
            failure = type(error)(self._secrets(str(error)))
        except (Exception, concurrent.futures.CancelledError) as error:  # any fault of client or server
            work.cancel()
            failure = self._failure(name, error)
        raise failure  # outside the handlers, so that nothing unhidden is chained to it

    def run(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool as a function is called."""
        return self.call(name, arguments)

    def reopen(self) -> None:
        """Close the connection and open a new one, after a server hung or died; what the server held is lost.

        Raises:
            UserError: the server cannot be started or reached.
        """
        self.close()
        self._open()

    def close(self) -> None:
        """End the connection, and the server where it was started by us. Twice is once."""
        atexit.unregister(self.close)
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop may end in this very moment
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(10)
        self._errors.close()

    async def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        async with asyncio.timeout(self.timeout_s):
            return await self._client.call_tool(name, arguments, read_timeout_seconds=self.timeout_s)

    def _run(self) -> None:
        """Be the thread: connect, serve until told to stop, close in the task that opened."""
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # the thread that waits must hear of it
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        from mcp import Client

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(self.timeout_s):
                transport = await self._transport(stack)
                self._client = await stack.enter_async_context(Client(transport))
                self._client.session.validate_tool_result = _pass
                self.listed = await _list_tools(self._client)
            self._ready.set_result(None)
            await self._stop.wait()

    async def _transport(self, stack: contextlib.AsyncExitStack) -> Any:
        if self.command:
            from mcp.client.stdio import StdioServerParameters, stdio_client

            program, *arguments = self.command
            env = self._opened(self.env) or None
            server = StdioServerParameters(command=program, args=arguments, env=env, cwd=self.cwd)
            # a notebook's sys.stderr is no file, so the server's goes to one of ours
            return stdio_client(server, errlog=self._errors)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        timeout = httpx2.Timeout(self.timeout_s)
        http = httpx2.AsyncClient(headers=self._opened(self.headers), timeout=timeout)
        return streamable_http_client(self.url, http_client=await stack.enter_async_context(http))

    def _opened(self, values: Mapping[str, str | Secret] | None) -> dict[str, str]:
        """Resolve Secrets, and remember their values so that errors hide them."""
        sealed = {
            name: value.resolve_value() or "" for name, value in (values or {}).items() if isinstance(value, Secret)
        }
        opened = {name: sealed.get(name, str(value)) for name, value in (values or {}).items()}
        self._secrets = Mask([*opened.values(), *credentials_in(self.url)])
        self._sealed = Mask([*sealed.values(), *credentials_in(self.url)])
        return opened

    def _failure(self, name: str, error: BaseException) -> ToolInvocationError:
        """Say why a call failed; of one out of time, whether the server has been silent for longer."""
        if isinstance(error, TimeoutError):
            before, self._late = self._late, self._late or name
            said = f"MCP tool {name!r} did not finish within {self.timeout_s:g} s"
            if before is None:
                return ToolTimeoutError(f"{said}.")
            return ToolTimeoutError(  # it works off calls in a row
                f"{said}; server {self.label} has answered nothing since its {before!r} ran out of time. "
                f"Wait, or: {_REOPEN}"
            )
        reason = scrub(self._secrets(_reason_of(error)))
        if "closed" in reason.lower() or "Resource" in type(error).__name__:
            return ToolInvocationError(
                f"MCP server {self.label} is gone; tool {name!r} gave no result.{self._last_words()}"
            )
        return ToolInvocationError(f"MCP tool {name!r} failed: {reason}")

    def _last_words(self) -> str:
        try:
            self._errors.seek(0)
            said = " ".join("\n".join(self._errors.read().strip().splitlines()[-2:]).split())[-_STDERR_TAIL:]
        except (ValueError, OSError):
            return ""
        return f" Its last words: {self._secrets(said)}" if said else ""


def open_session(
    command: Sequence[str] | str | None = None,
    *,
    prefix: str = "",
    allowed_tools: Iterable[str] | None = None,
    **options: Any,
) -> tuple[McpSession, list[Tool]]:
    """Connect to an MCP server; return the session, to be closed when done, and its tools.

    Args:
        command: as in `McpSession`.
        prefix: put before every name, where two servers have tools of one name.
        allowed_tools: names of the tools to take, without prefix; None takes all.
        options: `url`, `env`, `cwd`, `headers`, `timeout_s`, as in `McpSession`.

    Raises:
        ConfigError: an unknown name in `allowed_tools`, or what `McpSession` raises.
    """
    session = McpSession(command, **options)
    try:
        known = [item.name for item in session.listed]
        wanted = known if allowed_tools is None else list(allowed_tools)
        for name in wanted:
            if name not in known:
                raise ConfigError(f"allowed_tools names {name!r}, which the server lacks. {did_you_mean(name, known)}")
        return session, as_tools(_tool(session, item, prefix) for item in session.listed if item.name in wanted)
    except BaseException:
        session.close()
        raise


def _tool(session: McpSession, item: Any, prefix: str) -> Tool:
    """Make a tool of one the server lists; without hints, it may write."""
    parameters = {"properties": {}, **item.input_schema, "type": "object"}
    parameters.pop("$schema", None)
    hints, effect = item.annotations, _WRITES
    if hints is not None:
        effect = "reads" if hints.read_only_hint else "dangerous" if hints.destructive_hint else "writes"
    said = item.description or item.title or item.name
    return Tool(prefix + item.name, said, parameters, functools.partial(session.run, item.name), effect=effect)


async def _list_tools(client: Any) -> list[Any]:
    found, cursor = [], None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        if not (cursor := page.next_cursor):
            return found
    raise UserError(f"The MCP server lists its tools on more than {_MAX_PAGES} pages.")


async def _pass(*_: Any) -> None:
    """Let a result stand that breaks the tool's own output schema; the client would throw away all of it."""


def _read_result(name: str, result: Any) -> Any:
    """Return what a tool said; see `_content`.

    Raises:
        ToolInvocationError: the tool reported an error (Source: hermes-agent#101330, langchain-mcp-adapters#619).
    """
    said = _content(result)
    if result.is_error:
        raise ToolInvocationError(f"MCP tool {name!r} reported an error: {to_text(said) or 'it gave no reason.'}")
    return said


def _content(result: Any) -> Any:
    """Return the text or the structured content where one holds all of the other, else both as text.

    (Source: dapr-agents#287.)
    """
    blocks = list(filter(None, map(_block, result.content)))
    text, structured = "\n".join(blocks), result.structured_content
    wrapped = isinstance(structured, dict) and set(structured) == {"result"}  # a value that is no object
    inner = structured["result"] if wrapped else structured
    if structured is None or (text and wrapped and inner in (text, _says(text), blocks, list(map(_says, blocks)))):
        return text
    if not text or _says(text) == structured:
        return structured if text else inner
    return f"{text}\n{to_text(structured)}"


def _says(text: str) -> Any:
    """Return the JSON that a text holds, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _block(block: Any) -> str:
    """Return one block of a result as text; what is no text is named with its type and size."""
    if block.type == "text":
        return str(block.text)
    inner = getattr(block, "resource", None)
    if inner is not None and hasattr(inner, "text"):
        return str(inner.text)
    kind = getattr(block, "mime_type", None) or getattr(inner, "mime_type", None) or "unknown type"
    where = getattr(block, "uri", None) or getattr(inner, "uri", "")
    size = len(getattr(block, "data", "") or getattr(inner, "blob", "") or "")
    return f"[{block.type} {kind} {where or f'{size} base64 characters'}]"


def _reason_of(error: BaseException) -> str:
    """Return the innermost reason in words; anyio wraps errors in groups."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    words = " ".join(safe_str(error).split())  # pydantic's are many lines
    return f"{type(error).__name__}: {words[:_LONGEST_REASON]}".rstrip(": .")
