"""Read calls as the parsers built into an Ollama server do, and fail where they fail.

Not here: the generic parser and llama.cpp's (`parsers`).
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolkit.testing.go_errors import json_error
from toolkit.testing.parsers import DECODER, Event, ParserError, PlainReader, Reader


class TaggedReader(Reader):
    """Read calls between two tags as Ollama's built-in parsers do; blanks round them are dropped."""

    opening, closing = "<tool_call>", "</tool_call>"

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self._tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
        self._inside = False

    def feed(self, piece: str) -> Iterator[Event]:
        """Take one piece."""
        self.text += piece
        while True:
            if self._inside:
                body, end, after = self.text.partition(self.closing)
                if not end:
                    return
                self._inside, self.text = False, after
                yield self.call(body)
            else:
                before, tag, after = self.text.partition(self.opening)
                if not tag:
                    break
                self._inside, self.text = True, after
                if before.rstrip():
                    yield ("text", before.rstrip())
        if shown := self._shown(self.opening, keep_blank=False):
            yield ("text", shown)

    @abstractmethod
    def call(self, body: str) -> Event:
        """Return the call between the tags.

        Raises:
            ParserError: it cannot be read.
        """


class Qwen3Reader(TaggedReader):
    """Read JSON calls; any name will do."""

    def call(self, body: str) -> Event:
        """Return the call between the tags."""
        text = body.strip()
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise ParserError(f"failed to parse JSON: {json_error(text, error)}") from None
        name = value.get("name") if isinstance(value, dict) else None
        if not name:
            raise ParserError("empty function name")
        return ("call", name, value.get("arguments") or {})


class CoderReader(TaggedReader):
    """Read calls in the XML of qwen3-coder; values take the declared type where they can, else stay text."""

    _TAG = re.compile(r"<(/?)(function|parameter)(?:=([^>]*))?>")

    def call(self, body: str) -> Event:
        """Return the call between the tags."""
        name, values, opened, start = "", {}, [], 0
        key = ""
        for tag in self._TAG.finditer(body):
            line = body.count("\n", 0, tag.start()) + 1
            if not tag[1]:
                opened.append(tag[2])
                name, key = (tag[3] or "", key) if tag[2] == "function" else (name, tag[3] or "")
                start = tag.end()
                continue
            inner = opened.pop() if opened else ""
            if inner != tag[2]:
                raise ParserError(f"XML syntax error on line {line}: element <{inner}> closed by </{tag[2]}>")
            if tag[2] == "parameter":
                values[key] = self._value(name, key, body[start : tag.start()])
        if opened:
            raise ParserError(f"XML syntax error on line {body.count(chr(10)) + 1}: unexpected EOF")
        if not name:
            first = self._TAG.search(body)
            raise ParserError(f"expected element type <function> but have <{first[2]}>" if first else "EOF")
        return ("call", name, values)

    def _value(self, name: str, key: str, text: str) -> Any:
        text = text.removeprefix("\n").removesuffix("\n")
        declared = ((self._tools.get(name) or {}).get("properties") or {}).get(key) or {}
        types = declared.get("type") or []
        kinds = {"integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
        for kind in [types] if isinstance(types, str) else types:
            try:
                value = json.loads(text)
            except ValueError:
                continue
            if kind in kinds and isinstance(value, kinds[kind]) and isinstance(value, bool) == (kind == "boolean"):  # type: ignore[arg-type]
                return value
        return text


class MinistralReader(Reader):
    """Read `[TOOL_CALLS]name[ARGS]{...}`; a name that was not offered is an error."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self._names = [tool["function"]["name"] for tool in tools]
        self._inside = False

    def feed(self, piece: str) -> Iterator[Event]:
        """Take one piece."""
        self.text += piece
        if not self._inside:
            before, tag, after = self.text.partition("[TOOL_CALLS]")
            if tag:
                self._inside, self.text = True, after
            else:
                before = self._shown("[TOOL_CALLS]", keep_blank=True)
            if before:
                yield ("text", before)
        name, args, rest = self.text.partition("[ARGS]")
        if not self._inside or not args:
            return
        if name not in self._names:
            raise ParserError(f"tool '{name}' not found")
        try:
            value, end = DECODER.raw_decode(rest.lstrip())
        except ValueError:
            return
        self._inside, self.text = False, rest.lstrip()[end:]
        yield ("call", name, value)


def reader_for(parser: str, tools: Sequence[Mapping[str, Any]]) -> Reader:
    """Return the built-in parser of a name."""
    known: dict[str, type[Qwen3Reader | CoderReader | MinistralReader]] = {
        "qwen3": Qwen3Reader,
        "qwen3-coder": CoderReader,
        "ministral": MinistralReader,
    }
    return known[parser](tools) if parser in known else PlainReader()
