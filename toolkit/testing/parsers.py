"""Read what a fake model wrote as the parsers of a real server do: piece by piece, with what they lose.

Each reader takes the text in pieces (`feed`) and its end (`close`), and yields events: (`text`, str),
(`thinking`, str), (`call`, name, arguments), and on llama.cpp's road (`delta`, index, name, arguments as text).

Not here: the parsers built into Ollama (`builtin_parsers`), what goes over the wire (`ollama`, `llama_server`).
"""

from __future__ import annotations

import contextlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolkit.testing.script import overlap

Event = tuple[Any, ...]
DECODER = json.JSONDecoder(strict=False)


class ParserError(Exception):
    """Tell what a server's parser says of a reply that it cannot read."""


class Reader(ABC):
    """Take a reply in pieces and yield what a server would hand over of it."""

    def __init__(self) -> None:
        self.text = ""

    @abstractmethod
    def feed(self, piece: str) -> Iterator[Event]:
        """Take one piece."""

    def close(self) -> Iterator[Event]:
        """Take the end of the reply."""
        yield from ()

    def _shown(self, opening: str, keep_blank: bool) -> str:
        """Return what of the held text cannot belong to an opening tag, and keep the rest."""
        keep = overlap(self.text, opening)
        if not keep_blank:
            keep = len(self.text) - len(self.text[: len(self.text) - keep].rstrip())
        shown, self.text = self.text[: len(self.text) - keep], self.text[len(self.text) - keep :]
        return shown


class PlainReader(Reader):
    """Hand over the text as it is."""

    def feed(self, piece: str) -> Iterator[Event]:
        """Take one piece."""
        yield ("text", piece)


class ThinkingReader(Reader):
    """Split off thinking where the reply begins with its tag; another reader gets the rest."""

    def __init__(self, rest: Reader) -> None:
        super().__init__()
        self._rest = rest
        self._state = "start"

    def feed(self, piece: str) -> Iterator[Event]:
        """Take one piece."""
        if self._state == "answer":
            yield from self._rest.feed(piece)
            return
        self.text += piece
        if self._state == "start":
            begun = self.text.lstrip()
            if begun.startswith("<think>"):
                self._state, self.text = "blank", begun[len("<think>") :]
            elif not "<think>".startswith(begun):
                self._state = "answer"
                yield from self._rest.feed(self.text)
                return
            else:
                return
        if self._state == "blank" and (text := self.text.lstrip()):
            self._state, self.text = "thinking", text
        if self._state == "thinking":
            yield from self._think()
        if self._state == "after" and (text := self.text.lstrip()):
            self._state = "answer"
            yield from self._rest.feed(text)

    def _think(self) -> Iterator[Event]:
        thought, end, after = self.text.partition("</think>")
        if end:
            self._state, self.text = "after", after
        else:
            thought = self._shown("</think>", keep_blank=True)
        if thought:
            yield ("thinking", thought)

    def close(self) -> Iterator[Event]:
        """Take the end: unclosed thinking stays thinking."""
        if self._state == "start" and self.text:
            yield from self._rest.feed(self.text)
        elif self._state == "thinking" and self.text:
            yield ("thinking", self.text)
        yield from self._rest.close()


class GenericReader(Reader):
    """Read calls as Ollama's generic parser: a tag, the name of an offered tool anywhere, then the first object.

    What follows a tag and is no call of an offered tool is lost; with `{` as the tag it comes back as text.
    """

    def __init__(self, tag: str, names: Sequence[str]) -> None:
        super().__init__()
        self._tag = tag
        self._names = names
        self._inside = False
        self._off = False

    def feed(self, piece: str) -> Iterator[Event]:
        """Take one piece."""
        if self._off:
            yield ("text", piece)
            return
        self.text += piece
        if not self._inside:
            yield from self._before()
        found = list(self._calls()) if self._inside else []
        yield from found

    def _before(self) -> Iterator[Event]:
        if self._tag in "{[":  # only the very first sign counts
            begun = self.text.lstrip()
            self._inside = begun.startswith(self._tag)
            self._off = bool(begun) and not self._inside
            if self._off:
                yield ("text", self.text)
            return
        before, tag, after = self.text.partition(self._tag)
        if tag:
            self._inside, self.text = True, after
        else:
            before = self._shown(self._tag, keep_blank=True)
        if before:
            yield ("text", before)

    def _calls(self) -> Iterator[Event]:
        while (found := self._first_call()) is not None:
            yield found

    def _first_call(self) -> Event | None:
        places = [(self.text.find(name), -len(name), name) for name in self._names if name in self.text]
        if not places or any(overlap(self.text, name) for name in self._names):
            return None
        at, _, name = min(places)
        for end, value in _objects(self.text):
            found = _arguments(value, name)
            if found is None and "name" in value:
                return None
            if end < at:
                continue
            self.text = self.text[end:]
            return ("call", name, value if found is None else found)
        return None

    def close(self) -> Iterator[Event]:
        """Take the end: with `{` as the tag, what is no call was text all along."""
        if self._inside and self._tag in "{[" and self.text.strip(" \n,]"):
            yield ("text", self.text)


_BRACE = re.compile(r'"(?:\\.|[^"\\])*(?:"|$)|[{}]', re.DOTALL)


def _objects(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield where whole JSON objects end that no other one holds, and their values."""
    depth = start = 0
    for sign in _BRACE.finditer(text):
        if sign[0] == "{":
            start = start if depth else sign.start()
            depth += 1
        elif sign[0] == "}" and depth:
            depth -= 1
            if not depth:
                with contextlib.suppress(ValueError):
                    yield sign.end(), json.loads(text[start : sign.end()], strict=False)


def _arguments(value: Any, name: str) -> dict[str, Any] | None:
    """Return the arguments of a call that stands anywhere in a value."""
    if not isinstance(value, Mapping):
        items: Iterable[Any] = value if isinstance(value, list) else ()
        return next((found for item in items if (found := _arguments(item, name)) is not None), None)
    if "name" in value:
        for key in ("arguments", "parameters"):
            found = value.get(key)
            if isinstance(found, str):
                try:
                    found = json.loads(found)
                except ValueError:
                    continue
            if isinstance(found, dict):
                return found
    if isinstance(value.get(name), dict):
        return dict(value[name])
    return _arguments(list(value.values()), name)


class LlamaReader(Reader):
    """Read Hermes calls as llama.cpp does: a grammar holds what follows the tag, so nothing else is possible there.

    A scripted text that the grammar would not let through is an error, as it is for a model made to write it.
    """

    _OPENING = "<tool_call>\n"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names
        self._index = 0
        self._sent = -1  # characters of the arguments handed over; -1 before the first

    def feed(self, piece: str) -> Iterator[Event]:
        """Take one piece."""
        self.text += piece
        while True:
            if not self._index and self._sent < 0:
                before, tag, _ = self.text.partition(self._OPENING)
                if not tag:
                    if shown := self._shown(self._OPENING, keep_blank=True):
                        yield ("text", shown)
                    return
                self.text = self.text[len(before) :]
                if before:
                    yield ("text", before)
            ended = False
            for event in self._call(piece):
                ended = event == ("end",)
                if not ended:
                    yield event
            if not ended:
                return

    def _call(self, piece: str) -> Iterator[Event]:
        text = self.text.lstrip() if self._index else self.text
        heads = [f'{self._OPENING}{{"name": "{name}", "arguments": ' for name in self._names]
        head = next((head for head in heads if text.startswith(head)), None)
        if head is None:
            if not any(head.startswith(text) for head in heads):
                if self._index:  # after a call the grammar knows only more calls and the end
                    return
                raise ParserError(f"got exception: Unexpected empty grammar stack after accepting piece: {piece} (0)")
            return
        arguments, whole = _argument_text(text[len(head) :])
        if len(arguments) > max(self._sent, 0):
            name = head.split('"')[3] if self._sent < 0 else None
            yield ("delta", self._index, name, arguments[max(self._sent, 0) :])
            self._sent = len(arguments)
        after = text[len(head) + len(arguments) :]
        if whole and "</tool_call>" in after:
            self._index, self._sent = self._index + 1, -1
            self.text = after.partition("</tool_call>")[2]
            yield ("end",)

    def close(self) -> Iterator[Event]:
        """Take the end: a call that was cut behind its name has no arguments."""
        text = self.text.lstrip() if self._index else self.text
        for name in self._names if self._sent < 0 else ():
            if text.startswith(f'{self._OPENING}{{"name": "{name}"'):
                yield ("delta", self._index, name, "")
                return


def _argument_text(text: str) -> tuple[str, bool]:
    """Return the part of a text that is one JSON object, or begins one, and whether it is whole."""
    try:
        return text[: DECODER.raw_decode(text)[1]], True
    except ValueError:
        return text.lstrip() if text.lstrip().startswith("{") else "", False
