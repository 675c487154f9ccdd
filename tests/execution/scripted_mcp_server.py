"""Be an MCP server that answers as it is told, over stdio: `python scripted_mcp_server.py TOOLS RESULTS`, both JSON.

A call of a tool with `{"case": NAME}` is answered with the result of that name.
"""

import json
import sys

TOOLS, RESULTS = map(json.loads, sys.argv[1:])
INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "scripted", "version": "1"}}

for line in sys.stdin:
    message = json.loads(line)
    given = message.get("params", {})
    answers = {
        "initialize": lambda g=given: {"protocolVersion": g["protocolVersion"], **INFO},
        "tools/list": lambda: {"tools": TOOLS},
        "tools/call": lambda g=given: RESULTS[g["arguments"]["case"]],
        "ping": dict,
    }
    if "id" in message:
        known = answers.get(message["method"])
        answer = {"result": known()} if known else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
