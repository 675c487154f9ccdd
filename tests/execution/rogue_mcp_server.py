"""Be an MCP server that answers as a seed says, over stdio: `python rogue_mcp_server.py SEED`."""

import json
import random
import sys
from typing import Any

JUNK = [
    *(
        None,
        True,
        -1,
        1e308,
        10**400,
        "",
        "x",
        "\ud800",
        "x" * 100_000,
        {},
        [],
        [None],
        {"": {}},
        [[[[]]]],
        {"type": "text"},
    ),
    {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}},
    *({"type": ["object", 5]}, {"$ref": "#"}),
]
TOOL = {
    "name": "t",
    "description": "d",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
BLOCKS: list[Any] = [
    {"type": "text", "text": "hello"},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "resource", "resource": {"uri": "file:///x", "text": "t"}},
    {"type": "resource_link", "uri": "file:///x", "name": "n"},
    {"type": "text", "text": "[" * 5000},
]
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "rogue", "version": "1"}}


def result_of(method: str, source: random.Random) -> Any:
    if method == "initialize":
        return json.loads(json.dumps(INFO))
    if method == "tools/list":
        return {"tools": [json.loads(json.dumps(TOOL)), {**TOOL, "name": source.choice(["u", "t", "ü", "a b"])}]}
    structured = source.choice([None, {"result": 3}, {"a": [1]}, {"result": "[" * 900}])
    return {"content": [source.choice(BLOCKS)], "isError": source.random() < 0.2, "structuredContent": structured}


def mutated(value: Any, source: random.Random) -> Any:
    """Replace or remove one part, at any depth."""
    if isinstance(value, (dict, list)) and value and source.random() < 0.8:
        key = source.choice(list(value)) if isinstance(value, dict) else source.randrange(len(value))
        if source.random() < 0.2:
            del value[key]
        else:
            value[key] = mutated(value[key], source)
        return value
    return source.choice(JUNK)


def main() -> None:
    source = random.Random(int(sys.argv[1]))
    aim = source.choice(["initialize", "tools/list", "tools/call", "tools/call"])
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        method = asked["method"]
        if method not in ("initialize", "tools/list", "tools/call"):
            answer: Any = {"error": {"code": -32601, "message": "no such method"}}
        else:
            found = result_of(method, source)
            answer = {"result": mutated(found, source) if method == aim else found}
        whole: Any = {"jsonrpc": "2.0", "id": asked["id"], **answer}
        if method == aim and source.random() < 0.2:
            whole = mutated(whole, source)
        if method == aim and source.random() < 0.1:
            print("no JSON {", flush=True)
        if method == aim and source.random() < 0.1:
            sys.exit(3)
        print(json.dumps(whole), flush=True)


if __name__ == "__main__":
    main()
