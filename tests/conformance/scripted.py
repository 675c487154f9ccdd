"""What stands in for the world of a scenario? A model that says what it is told to, and tools that do what a file says.

Not here: the families' own forms of messages, tools and outcomes (`*_world`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import toolkit as tk
from toolkit.models.base import Chunk

Data = dict[str, Any]


class ToolException(Exception):
    """LangChain's exception for tools."""


EXCEPTIONS = {e.__name__: e for e in (ValueError, KeyError, RuntimeError, TypeError, ToolException)}


def exception(spec: str) -> Exception:
    """Return the exception that `CLASS:TEXT` names."""
    kind, _, text = spec.partition(":")
    return EXCEPTIONS.get(kind, RuntimeError)(text)


def error_of(error: BaseException) -> Data:
    """Return an error in the form of the files."""
    found = {"type": type(error).__name__, "message": str(error)}
    return found | ({"cause": type(error.__cause__).__name__} if error.__cause__ is not None else {})


def attempt(work: Callable[[], Any]) -> Any:
    """Return what work gives, or its error in the form of the files."""
    try:
        return work()
    except Exception as error:
        return error_of(error)


class Speaker(tk.ChatModel):
    """Answer each request, one without messages too, with what a function of it gives, and keep the requests."""

    supports_tools = True

    def __init__(self, answer: Callable[[Data], tk.Reply], name: str = "model") -> None:
        self.answer, self.name = answer, name
        self.requests: list[Data] = []

    def stream(self, messages: Any, *, options: Any = None, **request: Any) -> Iterator[Chunk]:
        said = [messages] if isinstance(messages, str) else messages
        said = [tk.ChatMessage.from_user(m) if isinstance(m, str) else m for m in said]
        self.requests.append({"messages": said, "options": tk.Options.of(options).to_dict(), **request})
        yield Chunk(reply=self.answer(self.requests[-1]))

    def complete_stream(self, prompt: str, *, options: Any = None, **request: Any) -> Iterator[Chunk]:
        return self.stream(prompt, options=options, **request)

    def fingerprint(self) -> Data:
        return {"backend": "scenario"}


class BadStr:
    def __str__(self) -> str:
        raise ValueError("no str for you")

    __repr__ = __str__


class Opaque:
    def __repr__(self) -> str:
        return "<Opaque>"


class HasToDict:
    def to_dict(self) -> Data:
        return {"kind": "HasToDict", "v": 1}


SPECIAL: dict[str, Callable[[], Any]] = {
    "badstr": BadStr,
    "opaque": Opaque,
    "set": lambda: {1},
    "nan": lambda: float("nan"),
    "bytes": lambda: b"\xff",
    "hastodict": HasToDict,
    "nested_todict": lambda: {"a": [HasToDict()]},
}


def fail(spec: Data, given: Data) -> Any:
    raise exception(spec["exc"])


IMPLS: dict[str, Callable[[Data, Data], Any]] = {
    "echo": lambda spec, given: f"{spec['name']}({json.dumps(given, sort_keys=True, ensure_ascii=False, default=str)})",
    "add": lambda spec, given: given["x"] + given["y"],
    "const": lambda spec, given: spec["value"],
    "special": lambda spec, given: SPECIAL[spec["value"]](),
    "raise": fail,
    "dict_of_args": lambda spec, given: dict(given),
}


def function_of(spec: Data, note: Callable[[str], Any], parameters: Sequence[str] | None, more: Data) -> Any:
    """Return the function of a scenario's tool, which notes when it starts and ends.

    Args:
        spec: the tool.
        note: takes `NAME:start` and `NAME:end`.
        parameters: of its signature, as Python writes them; None for any keywords.
        more: what an `impl` does that only one family has.
    """
    name, work = spec["name"], (IMPLS | more)[spec.get("impl", "echo")]

    def body(given: Data) -> Any:
        note(f"{name}:start")
        time.sleep(spec.get("sleep") or 0)
        try:
            return work(spec, given)
        finally:
            note(f"{name}:end")

    if parameters is None:
        return lambda **given: body(given)
    names = [part.split("=")[0].split(":")[0].strip() for part in parameters if part != "*"]
    given = ", ".join(f"{name!r}: {name}" for name in names)
    scope = {"body": body, "State": tk.State}
    exec(f"def fn({', '.join(parameters)}):\n    return body({{{given}}})", scope)  # the file is ours, never a model's
    return scope["fn"]
