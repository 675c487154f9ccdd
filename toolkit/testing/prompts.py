"""Render the prompt of a chat as the three roads of an Ollama server do, losses included.

llama.cpp runs the model's Jinja template; Ollama runs a Go template (imitated for the two here), or a renderer of
its own (qwen3-coder). What Ollama's types keep of a tool is the same on all roads.

Not here: how the answer is read (`parsers`), which messages are dropped (`windows`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from toolkit.testing.loopback import go_json

Message = Mapping[str, Any]

_FILES = Path(__file__).with_name("templates")
HERMES = (_FILES / "hermes.jinja").read_text(encoding="utf-8")
HERMES_GO = (_FILES / "hermes.gotmpl").read_text(encoding="utf-8").removesuffix("\n")
CHATML = (_FILES / "chatml.gotmpl").read_text(encoding="utf-8")
CHATML_JINJA = (_FILES / "chatml.jinja").read_text(encoding="utf-8")
_CODER = (_FILES / "qwen3-coder.txt").read_text(encoding="utf-8").removesuffix("\n")
_CODER_SYSTEM = "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks."
_TOOLS_HEAD, _TOOLS_TAIL = HERMES_GO.partition("# Tools")[2].split("{{- range .Tools }}", 1)
_TOOLS_TAIL = _TOOLS_TAIL[_TOOLS_TAIL.index("</tools>") : _TOOLS_TAIL.index("</tool_call>\n{{- end }}<|im_end|>")]


def tool_as_kept(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Ollama keeps of a tool: a few keywords, in an order of its own; the others are dropped."""
    function = tool.get("function") or {}
    given = function.get("parameters") or {}
    kept: dict[str, Any] = {"type": given.get("type", "")}
    for key in ("$defs", "items"):
        if key in given:
            kept[key] = _sorted(given[key])
    if given.get("required"):
        kept["required"] = given["required"]
    properties = given.get("properties")
    kept["properties"] = None if properties is None else {name: _property(one) for name, one in properties.items()}
    described = {"description": function["description"]} if function.get("description") else {}
    body = {"name": function.get("name", ""), **described, "parameters": kept}
    return {"type": tool.get("type", ""), "function": body}


def _property(given: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key in ("anyOf", "type", "items", "description", "enum", "properties", "required"):
        if key not in given:
            continue
        if key == "properties":
            kept[key] = {name: _property(one) for name, one in given[key].items()}
        elif key == "anyOf":
            kept[key] = [_property(one) for one in given[key]]
        else:
            kept[key] = _sorted(given[key]) if key == "items" else given[key]
    return kept


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def jinja_prompt(
    template: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], think: Any = None
) -> str:
    """Return the prompt as llama.cpp makes it; a last message of the assistant is left open to be continued."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    messages = [{**message, "content": message.get("content") or ""} for message in messages]
    open_turn = str(messages[-1]["content"]) if messages and messages[-1]["role"] == "assistant" else None
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    thinking = {} if think is None else {"enable_thinking": bool(think)}
    text = environment.from_string(template).render(
        messages=messages if open_turn is None else messages[:-1], tools=list(tools) or None,
        add_generation_prompt=True, **thinking,
    )  # fmt: skip
    return text + (open_turn or "")


def chatml_prompt(messages: Sequence[Message], merge: bool = True) -> str:
    """Return the prompt of the plain Go template; without merging, llama.cpp's own when a model has none."""
    turns = _merged(messages) if merge else messages
    text = "".join(f"<|im_start|>{turn['role']}\n{turn.get('content') or ''}<|im_end|>\n" for turn in turns)
    return text + "<|im_start|>assistant\n"


def hermes_go_prompt(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], think: Any = None, thinks: bool = False
) -> str:
    """Return the prompt of a Go template in the Hermes style, which prints Go's notation for tools."""
    system = "\n\n".join(message.get("content") or "" for message in messages if message["role"] == "system")
    text = ""
    if system or tools:
        text = "<|im_start|>system" + (f"\n{system}" if system else "")
        if tools:
            shown = "".join(f'{{"type": "function", "function": {_go_notation(tool)}}}\n' for tool in tools)
            text += "\n\n# Tools" + _TOOLS_HEAD + shown + _TOOLS_TAIL + "</tool_call>"
        text += "<|im_end|>\n"
    turns = _merged([message for message in messages if message["role"] != "system"])
    for index, turn in enumerate(turns):
        last = index == len(turns) - 1
        text += _hermes_turn(turn, last, thinks)
    if not turns or turns[-1]["role"] != "assistant":
        text += "<|im_start|>assistant\n"
        if thinks and think is False:
            text += "<think>\n\n</think>\n"
    return text


def _hermes_turn(turn: Message, last: bool, thinks: bool) -> str:
    content = turn.get("content") or ""
    if turn["role"] == "user":
        return f"<|im_start|>user\n{content}<|im_end|>\n"
    if turn["role"] == "tool":
        return f"<|im_start|>user\n<tool_response>\n{content}\n</tool_response><|im_end|>\n"
    if turn["role"] != "assistant":
        return ""
    text = "<|im_start|>assistant\n"
    if thinks and turn.get("thinking"):
        text += f"<think>{turn['thinking']}</think>\n"
    if content:
        text += content
    elif calls := turn.get("tool_calls"):
        lines = [
            f'{{"name": "{call["function"]["name"]}", "arguments": {_go_arguments(call)}}}\n' for call in calls
        ]  # fmt: skip
        text += "<tool_call>\n" + "".join(lines) + "</tool_call>"
    return text if last else text + "<|im_end|>\n"


def _go_arguments(call: Mapping[str, Any]) -> str:
    return go_json(_sorted(call["function"].get("arguments") or {}))


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Join neighbours of one role, of which only the contents survive; results of tools stay apart."""
    merged: list[Message] = []
    for role, group in groupby(messages, key=lambda message: message["role"]):
        turns = list(group)
        if role == "tool" or len(turns) == 1:
            merged += turns
        else:
            content = "\n\n".join(turn.get("content") or "" for turn in turns)
            merged.append({**turns[0], "content": content})
    return merged


def _go_notation(tool: Mapping[str, Any]) -> str:
    """Return a tool as `{{ .Function }}` prints it: a Go struct, with its properties as JSON."""
    function = tool["function"]
    parameters = function["parameters"]
    properties = {name: parameters["properties"][name] for name in sorted(parameters["properties"] or {})}
    parts = [
        parameters["type"], _go_value(parameters.get("$defs")), _go_value(parameters.get("items")),
        f"[{' '.join(parameters.get('required', []))}]", go_json(properties),
    ]  # fmt: skip
    return f"{{{function['name']} {function.get('description', '')} {{{' '.join(parts)}}}}}"


def _go_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{_go_value(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_value, value))}]"
    return "<nil>" if value is None else str(value)


def coder_prompt(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the prompt of the built-in renderer `qwen3-coder`."""
    rest = list(messages)
    system = str(rest.pop(0).get("content") or "") if rest and rest[0]["role"] == "system" else ""
    text = ""
    if system or tools:
        text = "<|im_start|>system\n" + (system or _CODER_SYSTEM)
        if tools:
            shown = "\n".join(_coder_tool(tool["function"]) for tool in tools)
            text += "\n\n" + _CODER.replace("{tools}", shown)
        text += "<|im_end|>\n"
    for role, group in groupby(rest, key=lambda message: message["role"]):
        turns = list(group)
        if role == "tool":
            results = [f"<tool_response>\n{turn.get('content') or ''}\n</tool_response>" for turn in turns]
            text += "<|im_start|>user\n" + "\n".join(results) + "<|im_end|>\n"
        else:
            text += "".join(f"<|im_start|>{role}\n{_coder_content(turn)}<|im_end|>\n" for turn in turns)
    if rest and rest[-1]["role"] == "assistant":
        return text.removesuffix("<|im_end|>\n")
    return text + "<|im_start|>assistant\n"


def _coder_content(turn: Message) -> str:
    text = str(turn.get("content") or "")
    for index, call in enumerate(turn.get("tool_calls") or ()):
        text += "\n" if index or not text else "\n\n"
        text += f"<tool_call>\n<function={call['function']['name']}>\n"
        for name, value in (call["function"].get("arguments") or {}).items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            text += f"<parameter={name}>\n{shown}\n</parameter>\n"
        text += "</function>\n</tool_call>"
    return text


def _coder_tool(function: Mapping[str, Any]) -> str:
    parameters = function["parameters"]
    lines = ["<function>", f"<name>{function['name']}</name>", f"<description>{function.get('description', '')}"]
    lines[-1] += "</description>"
    lines.append("<parameters>")
    for name, one in (parameters["properties"] or {}).items():
        lines += ["<parameter>", f"<name>{name}</name>", *_coder_keys(one, ("type", "description")), "</parameter>"]
    lines += _coder_keys({key: parameters[key] for key in ("$defs", "required") if key in parameters}, ())
    return "\n".join([*lines, "</parameters>", "</function>"])


def _coder_keys(one: Mapping[str, Any], first: Sequence[str]) -> list[str]:
    keys = [*(key for key in first if key in one), *(key for key in one if key not in first)]
    texts = {key: one[key] if isinstance(one[key], str) else go_json(_sorted(one[key])) for key in keys}
    return [f"<{key}>{text}</{key}>" for key, text in texts.items()]
