"""Read what a server sends: its parts, checked, and what it says in place of an answer.

Not here: what becomes of it (`backend`), how it comes (`connection`, `llama`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from toolkit.errors import ModelError
from toolkit.models.base import Fault
from toolkit.traces.json_text import loads


class ServerError(ModelError):
    """Carry an error that the server gave in place of an answer.

    Attributes:
        status: HTTP status; 200 for an error within a stream, 0 for a connection that broke.
        said: what the server said.
        kind: the server's own word for it, where it has one.
        prompt_tokens: length of the prompt, where the error tells it.
        window: tokens that fit, where the error tells it.
    """

    def __init__(
        self, status: int, said: str, kind: str = "", prompt_tokens: int | None = None, window: int | None = None
    ) -> None:
        words = [f"HTTP {status}" if status >= 300 else "", kind, said]
        super().__init__(": ".join(word for word in words if word))
        self.status = status
        self.said = said
        self.kind = kind
        self.prompt_tokens = prompt_tokens
        self.window = window

    @classmethod
    def read(cls, status: int, wire: Any) -> ServerError:
        r"""Read an error as servers send it: text, JSON, or an object, which may lie under `error`.

        Ollama packs the whole answer of its runner into the text, as JSON or as Go prints a map.

        >>> ServerError.read(400, '{"error": "{\\"error\\": {\\"message\\": \\"too long\\"}}"}').said
        'too long'
        """
        if isinstance(wire, str):
            try:
                inner = loads(wire)
            except ValueError:
                inner = None
            if not isinstance(inner, Mapping):
                printed = _GO_MAP.search(wire)
                return cls(status, printed[1], printed[2]) if printed else cls(status, wire)
            wire = inner
        if isinstance(wire, Mapping) and wire.get("error"):
            return cls.read(status, wire["error"])
        if not isinstance(wire, Mapping):
            return cls(status, str(wire))
        said = wire.get("message") or wire.get("detail") or json.dumps(wire)
        if isinstance(said, str) and said.startswith("{") and said != json.dumps(wire):
            return cls.read(status, said)
        kind = str(wire.get("type") or "")
        return cls(status, str(said), kind, count(wire, "n_prompt_tokens"), count(wire, "n_ctx"))

    @property
    def busy(self) -> bool:
        """Tell whether the server said that it will answer later: its queue is full, or it loads the model."""
        return "unavailable_error" in self.kind or _BUSY.search(self.said) is not None

    @property
    def passes(self) -> bool:
        """Tell whether it may answer later, if in a while: it is busy, has had enough, or its proxy waits for it."""
        return self.busy or self.status in (429, 502, 503)

    @property
    def crowded(self) -> bool:
        """Tell whether slots that share one window filled it together; each request by itself may fit."""
        return _CROWDED in self.said.casefold()

    @property
    def misuse(self) -> str:
        """Say what was asked of a model that cannot do it; empty where that is not what the error is about."""
        if "does not support thinking" in self.said:
            return "It cannot think: leave the option think unset, or set it to False."
        if "not support multimodal" in self.said or "image input is not supported" in self.said:
            return "It takes no images: ask a model that sees, or leave them out."
        return "An image of the messages is no Base64." if "illegal base64" in self.said else ""

    @property
    def tool(self) -> str:
        """Return the tool whose call the error is about, where it names one."""
        named = _NAMED.search(self.said)
        return named[1] or named[2] if named else ""


# older versions say it with status 500 (Source: ollama#4159, ollama#4545)
_BUSY = re.compile(r"^server (busy|overloaded)|no slots? available|^loading model", re.IGNORECASE)
_CROWDED = "context size has been exceeded"  # llama.cpp, LM Studio (Source: llama.cpp#23652, lmstudio#1757)
_GO_MAP = re.compile(r"map\[code:\d+ message:(.*) type:(\w+)\]", re.DOTALL)

Kind = TypeVar("Kind", str, dict[str, Any], list[Any])
_WORDS = {str: "text", dict: "an object", list: "a list"}


def part(piece: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind:
    """Return a part of what a server sent; an empty one where it is missing or null.

    Raises:
        ServerError: it is of another kind.
    """
    return checked(piece.get(key), kind, key)


def checked(value: Any, kind: type[Kind], name: str) -> Kind:
    """Return what a server sent as `name`, an empty one for null; ServerError where it is of another kind."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ServerError(200, f"{name} of its answer must be {_WORDS[kind]}, not {value!r:.100}")
    return value


def parts(piece: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of a list that a server sent; ServerError where it is none, or holds something else."""
    return [checked(item, dict, f"each of {key}") for item in part(piece, key, list)]


def count(piece: Mapping[str, Any], key: str) -> int | None:
    """Return a number of tokens or the like; None where the server sent none that can be one."""
    value = piece.get(key)
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if known else None


def seconds(piece: Mapping[str, Any], key: str) -> float:
    """Return a duration in its own unit; 0 where the server sent none that can be one."""
    value = piece.get(key)
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST
    return float(value) if known and value is not None else 0.0


_MOST = 2**53  # beyond it a table cannot tell whole numbers apart


# what servers say of a call that their parser, or their grammar, could not read; each parser has words of its own
_UNREAD = re.compile(
    r"pars(e|ing) (tool.?call|\w+ call|(\w+ )?(XML|JSON|function|arguments))|XML syntax error|expected element type|"
    r"(empty|undeclared) (\w+ )?(function|tool)|(invalid|incomplete) (\w+ )?tool.?call|does not match ATEM|"
    r"^tool '.*' not found|does not match the expected \S+ format|failed to parse input|empty grammar stack|^EOF$|"
    r"^invalid character|^unexpected end of JSON|^json: cannot unmarshal",
    re.IGNORECASE,
)
_RAW = re.compile(r"raw='(.*?)'(?:, err=.*)?$|Failed to parse input at pos \d+: (.*)", re.DOTALL)
_NAMED = re.compile(
    r"""(?:arguments for|undeclared \w+ function|^tool|incomplete \w+ tool call:) ["']([^"']+)["']|call to (\S+):"""
)


def fault_of(error: ServerError) -> tuple[Fault, str]:
    r"""Return the fault that an error of a server means, and the model's raw text if the error holds it.

    A request that is refused (4xx) was not read by any model, so that nothing in it is a model's call.

    >>> fault_of(ServerError(500, "error parsing tool call: raw='{\"a\": 1', err=unexpected end"))[1]
    '{"a": 1'
    """
    if not 400 <= error.status < 500 and _UNREAD.search(error.said):  # QUIRK ollama#12064, ollama#17638, ollama#12380
        raw = _RAW.search(error.said)
        return Fault("parse", str(error)), (raw[1] or raw[2] or "") if raw else ""
    if "does not support tools" in error.said:
        return Fault("tools_unsupported", f"{error}; use the prompted or constrained arm."), ""
    if is_overflow(error.said, error.kind):
        return Fault("overflow", str(error), error.prompt_tokens, error.window), ""
    return Fault("server", str(error)), ""


def is_overflow(message: str, kind: str = "") -> bool:
    """Tell whether a server's error says that the prompt does not fit its window.

    >>> is_overflow("This model's maximum context length is 4096 tokens. However, you requested 5000")
    True
    """
    said = f"{kind} {message}".casefold()
    if _CROWDED in message.casefold():
        return False
    signs = ("exceed_context_size", "context size", "context length", "context window", "maximum context", "num_ctx",
             "prompt is too long", "prompt too long")  # fmt: skip
    return any(sign in said for sign in signs)
