"""Decode requests as an Ollama server does, and refuse what it refuses, in its words.

Unknown fields and options pass without a word, keys match in any case, text after the JSON is ignored.

Not here: how Go words an error (`go_errors`), what is answered (`ollama`).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from toolkit.testing.go_errors import duration, json_error, kind_of
from toolkit.testing.loopback import go_json
from toolkit.testing.prompts import tool_as_kept

LEVELS = ("high", "medium", "low", "max")
_FIELDS: dict[str, tuple[str, str]] = {  # name -> kind in JSON, type in Go
    "model": ("string", "string"), "prompt": ("string", "string"), "suffix": ("string", "string"),
    "system": ("string", "string"), "template": ("string", "string"), "stream": ("bool", "bool"),
    "raw": ("bool", "bool"), "truncate": ("bool", "bool"), "shift": ("bool", "bool"), "logprobs": ("bool", "bool"),
    "top_logprobs": ("number", "int"), "options": ("object", "map[string]interface {}"),
    "messages": ("array", "[]api.Message"), "tools": ("array", "api.Tools"), "context": ("array", "[]int"),
    "_debug_render_only": ("bool", "bool"),
}  # fmt: skip
_FLOATS = ("temperature", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
_INTEGERS = (
    "num_ctx", "num_predict", "seed", "top_k", "num_keep", "repeat_last_n", "num_batch", "num_gpu", "main_gpu",
    "num_thread", "draft_num_predict",
)  # fmt: skip
RELOADING = ("num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread", "draft_num_predict")
_GENERATE_ONLY = {"prompt", "suffix", "system", "template", "raw", "context"}


class RefusedError(Exception):
    """Tell why a request is refused: a status and the text of the error."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


def nested(status: int, message: str, kind: str = "invalid_request_error", **more: Any) -> RefusedError:
    """Return an error of the runner: its whole JSON, packed into the text of Ollama's own."""
    inner = {"code": status, "message": message, "type": kind, **more}
    return RefusedError(status, json.dumps({"error": inner}, ensure_ascii=False, separators=(",", ":")))


def decoded(body: bytes) -> dict[str, Any]:
    """Return the JSON of a body with its keys in lower case and without those that are null.

    Raises:
        RefusedError: there is none, or it is broken.
    """
    text = body.decode("utf-8", "replace")
    if not text.strip():
        raise RefusedError(400, "missing request body")
    try:
        value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except json.JSONDecodeError as error:
        said = json_error(text.lstrip(), error)
        raise RefusedError(400, "unexpected EOF" if said.startswith("unexpected end") else said) from None
    if not isinstance(value, dict):
        raise RefusedError(400, f"json: cannot unmarshal {kind_of(value)} into Go value of type api.ChatRequest")
    return {key.lower(): one for key, one in value.items() if one is not None}


def check_fields(body: Mapping[str, Any], chat: bool) -> None:
    """Refuse fields of the wrong type.

    Raises:
        RefusedError: with Go's words.
    """
    struct = "ChatRequest" if chat else "GenerateRequest"
    for name, (kind, go) in _FIELDS.items():
        known = name not in _GENERATE_ONLY if chat else name not in ("messages", "tools")
        if name in body and known and kind_of(body[name]) != kind:
            raise _unmarshal(body[name], f"{struct}.{name}", go)
    for message in body.get("messages", ()) if chat else ():
        _check_message(message)
    if "think" in body:
        _check_think(body["think"])
    if not 0 <= body.get("top_logprobs", 0) <= 20:
        raise RefusedError(400, "top_logprobs must be between 0 and 20")
    keep_alive(body)


def _unmarshal(value: Any, place: str, go: str) -> RefusedError:
    return RefusedError(400, f"json: cannot unmarshal {kind_of(value)} into Go struct field {place} of type {go}")


def _check_message(message: Any) -> None:
    if not isinstance(message, Mapping):
        raise _unmarshal(message, "ChatRequest.messages", "api.Message")
    for name in ("role", "content", "thinking"):
        if message.get(name) is not None and not isinstance(message[name], str):
            raise _unmarshal(message[name], f"ChatRequest.messages.{name}", "string")
    for image in message.get("images") or ():
        try:
            base64.b64decode(image, validate=True)
        except (binascii.Error, ValueError):
            at = next((at for at, sign in enumerate(image) if not re.match(r"[A-Za-z0-9+/=]", sign)), len(image))
            raise RefusedError(400, f"illegal base64 data at input byte {at}") from None
    for call in message.get("tool_calls") or ():
        if isinstance((call.get("function") or {}).get("arguments"), str):
            raise RefusedError(400, "Value looks like object, but can't find closing '}' symbol")


def _check_think(think: Any) -> None:
    words = ", ".join(f'"{level}"' for level in LEVELS) + ", true, or false"
    if isinstance(think, str) and think not in LEVELS:
        raise RefusedError(400, f'invalid think value: "{think}" (must be {words})')
    if not isinstance(think, (bool, str)):
        raise RefusedError(400, f"think must be a boolean or string ({words})")


def keep_alive(body: Mapping[str, Any]) -> float | None:
    """Return for how many seconds a model stays loaded; infinity for ever, None if nothing was said.

    Raises:
        RefusedError: it is no number and no duration with a unit.
    """
    value = body.get("keep_alive")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        kind = "bool" if isinstance(value, bool) else "[]interface {}"
        raise RefusedError(400, f"Unsupported type: '{kind}'")
    try:
        found = duration(value) if isinstance(value, str) else float(value)
    except ValueError as error:
        raise RefusedError(400, str(error)) from None
    return float("inf") if found < 0 else found


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known options, integers cut to whole numbers; unknown ones are dropped.

    Raises:
        RefusedError: one is of the wrong type (500), or the runner refuses its value.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name in _FLOATS or name in _INTEGERS:
            if not number:
                raise RefusedError(500, f'option "{name}" must be of type {_type_of(name)}')
            found[name] = int(value) if name in _INTEGERS else value
        elif name == "use_mmap":
            if not isinstance(value, bool):
                raise RefusedError(500, f'option "{name}" must be of type boolean')
            found[name] = value
        elif name == "stop":
            if not isinstance(value, list):
                raise RefusedError(500, 'option "stop" must be of type array')
            if not all(isinstance(stop, str) for stop in value):
                raise RefusedError(500, 'option "stop" must be of an array of strings')
            found[name] = value
    return found


def _type_of(name: str) -> str:
    return "float32" if name in _FLOATS else "integer"


def check_sampling(options: Mapping[str, Any]) -> None:
    """Refuse values that the runner refuses.

    Raises:
        RefusedError: with the runner's JSON inside.
    """
    value = options.get("repeat_last_n", 64)
    if value < 0:
        raise nested(400, f"Field 'repeat_last_n': Value must be between 0 <= value <= 2147483647, but got {value}")
    if options.get("repeat_penalty", 1.0) <= 0:
        raise nested(400, "Failed to initialize samplers: penalty_repeat must be finite and greater than 0")


def schema_of(body: Mapping[str, Any]) -> Any:
    """Return what decoding is held to: a schema, `json`, or None.

    Raises:
        RefusedError: it is neither (500, though the mistake is the client's).
    """
    wanted = body.get("format")
    if wanted in (None, "") or wanted == "json" or isinstance(wanted, dict):
        return wanted or (wanted if wanted == {} else None)
    shown = json.dumps(json.dumps(wanted, separators=(",", ":")))
    raise RefusedError(500, f'invalid format: {shown}; expected "json" or a valid JSON Schema object')


def grammar_problem(schema: Any) -> str | None:
    """Return what llama.cpp says of a schema that it cannot turn into a grammar; None if it can."""
    try:
        _walk(schema, schema)
    except ValueError as error:
        return str(error)
    return None


_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
_CONVERSION = "JSON schema conversion failed:\n"


def _walk(schema: Any, root: Any) -> None:
    if not isinstance(schema, Mapping):
        return
    types = schema.get("type", [])
    if {*([types] if isinstance(types, str) else types)} - _TYPES or (types == "" and "type" in schema):
        raise ValueError(_CONVERSION + f"Unrecognized schema: {json.dumps(schema, separators=(',', ':'))}")
    if (reference := schema.get("$ref", "")).startswith("#/"):
        at = root
        for step in reference[2:].split("/"):
            if not isinstance(at, Mapping) or step not in at:
                shown = json.dumps(at, separators=(",", ":"))
                raise ValueError(_CONVERSION + f"Error resolving ref {reference}: {step} not in {shown}")
            at = at[step]
    if pattern := schema.get("pattern"):
        if not (pattern.startswith("^") and pattern.endswith("$")):
            raise ValueError(_CONVERSION + "Pattern must start with '^' and end with '$'")
        if re.search(r"\\[dwsbDWSBpP]", pattern):
            raise ValueError("Failed to initialize samplers: failed to parse grammar")
    for key in ("properties", "$defs"):
        for one in (schema.get(key) or {}).values():
            _walk(one, root)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for one in schema.get(key) or ():
            _walk(one, root)
    _walk(schema.get("items"), root)


def grammar_refusal(problem: str, native: bool) -> RefusedError:
    """Return the error for such a schema, which the roads word differently."""
    if not problem.startswith(_CONVERSION):
        return nested(400, problem)
    road = "Unable to generate parser for this template. Automatic parser generation failed: "
    return nested(400, (road if native else "Field 'json_schema': \"json_schema\": ") + problem)


def check_runner(body: Mapping[str, Any], schema: Any, native: bool, sees: bool) -> None:
    """Refuse what the runner refuses once it has the prompt.

    Raises:
        RefusedError: with the runner's JSON inside.
    """
    if not sees and any(message.get("images") for message in body.get("messages") or ()):
        if native:
            hint = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
            raise nested(500, hint, "server_error")
        raise nested(400, "Multimodal data provided, but model does not support multimodal requests.")
    if native and body.get("tools") and body.get("logprobs"):
        raise nested(400, "logprobs is not supported with tools + stream")
    tools = [tool_as_kept(tool)["function"]["parameters"] for tool in body.get("tools") or ()] if native else []
    for one in [schema, *tools]:
        if isinstance(one, dict) and (problem := grammar_problem(one)):
            raise grammar_refusal(problem, native)


def error_line(error: str) -> str:
    """Return an error as its own JSON object."""
    return go_json({"error": error})
