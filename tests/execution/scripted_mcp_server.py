"""Be an MCP server that answers as it is told, over stdio: `python scripted_mcp_server.py TOOLS RESULTS`, both JSON.

A call of a tool with `{"case": NAME}` is answered with the result of that name.
"""

import json
import sys
from typing import Any

INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "scripted", "version": "1"}}


def answer(message: dict[str, Any], tools: Any, results: Any) -> dict[str, Any]:
    given = message.get("params", {})
    answers = {
        "initialize": lambda: {"protocolVersion": given["protocolVersion"], **INFO},
        "tools/list": lambda: {"tools": tools},
        "tools/call": lambda: results[given["arguments"]["case"]],
        "ping": dict,
    }
    known = answers.get(message["method"])
    return {"result": known()} if known else {"error": {"code": -32601, "message": "no such method"}}


if __name__ == "__main__":
    told = [json.loads(argument) for argument in sys.argv[1:]]
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked, *told)}), flush=True)
