"""Be a real MCP server for the tests: `python mcp_server.py` speaks stdio, `--http` prints a port and serves it."""

import os
import socket
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("tests")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def greet(name: str) -> str:
    """Greet someone."""
    return f"Grüß dich, {name}!"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def fail(reason: str) -> str:
    """Fail with a reason."""
    raise ValueError(reason)


@server.tool()
def slow(seconds: float) -> str:
    """Take a while."""
    time.sleep(seconds)
    return "done"


@server.tool()
def crash() -> str:
    """End the server at once."""
    print("out of cheese", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def environment(name: str) -> str:
    """Tell an environment variable."""
    return os.environ.get(name, "")


@server.tool()
def environment_length(name: str) -> int:
    """Tell how long an environment variable is."""
    return len(os.environ.get(name, ""))


@server.tool()
def fail_with_environment(name: str) -> str:
    """Fail, and tell an environment variable."""
    raise ToolError(f"bad value {os.environ[name]}")


@server.tool()
def environment_data(name: str) -> dict[str, list[str]]:
    """Tell an environment variable as data."""
    return {"values": [os.environ[name], "x"]}


@server.tool()
async def stall(seconds: float) -> str:
    """Keep the whole server busy."""
    time.sleep(seconds)
    return "done"


@server.tool()
def stock() -> dict[str, int]:
    """Tell what is in stock."""
    return {"coats": 3}


def serve_http() -> None:
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    serve_http() if "--http" in sys.argv else server.run()
