"""How is a trace written while it grows, and read again after a crash? One JSON line an event; several runs a file.

Each line names its run, and goes to the operating system in one write, so that runs at the same time can share a file.
Not here: what a trace is (`toolkit.traces`).
"""

from __future__ import annotations

import contextlib
import json
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import ConfigError
from toolkit.messages import ChatMessage
from toolkit.traces.json_text import as_json


class Table:
    """Number messages, so that a prompt repeated each turn is stored once."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[ChatMessage] = []  # keeps ids from being used again
        self._same: dict[str, int] = {}  # text -> number; prompts are rendered anew each turn

    def numbers(self, messages: Sequence[ChatMessage]) -> list[int]:
        """Return the messages' numbers; new ones are added to `lines`."""
        return [self._number(message) for message in messages]

    def _number(self, message: ChatMessage) -> int:
        found = self._numbers.get(id(message))
        if found is None:
            line = message.to_dict()
            text = as_json(line)
            found = self._numbers[id(message)] = self._same.setdefault(text, len(self.lines))
            self._kept.append(message)
            if found == len(self.lines):
                self.lines.append(line)
        return found


class Journal:
    """Append what happens in one run to a file.

    But: a fault in writing ends the file, never the run; it is returned, and warned of.
    """

    def __init__(self, path: Path, run: str, head: dict[str, Any]) -> None:
        self._run = run
        self._table = Table()
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        # a run that was killed may have left half a line
        torn = path.exists() and path.stat().st_size > 0 and path.read_bytes()[-1:] != b"\n"
        self._out = path.open("ab", buffering=0)
        if torn:
            self._out.write(b"\n")
        self._write(head)

    def add(self, key: str, make: Callable[[Table], dict[str, Any]]) -> str | None:
        """Append one line, and before it the messages that it is the first to name; return what went wrong."""
        with self._lock:
            if self._out.closed:
                return None
            try:
                known = len(self._table.lines)
                line = make(self._table)
                for message in self._table.lines[known:]:
                    self._write({"run": self._run, "message": message})
                self._write({"run": self._run, key: line})
            except Exception as error:
                return self._give_up(error)
        return None

    def close(self) -> None:
        """Close the file; a run that has not ended stays readable."""
        with self._lock, contextlib.suppress(OSError):
            self._out.close()

    def _give_up(self, error: Exception) -> str:
        with contextlib.suppress(OSError):
            self._out.close()
        text = f"The trace file is not written any further: {type(error).__name__}: {error}"
        with contextlib.suppress(Warning):  # where warnings are errors, too, the run goes on
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return text

    def _write(self, line: dict[str, Any]) -> None:
        rest = memoryview((as_json(line) + "\n").encode())
        while rest:  # a raw file may take less than it is given
            rest = rest[self._out.write(rest) or 0 :]


def runs_in(path: Path) -> list[dict[str, Any]]:
    """Return the runs of a file as `Trace.from_dict` takes them, in the order they began.

    Raises:
        ConfigError: no such file.
    """
    if not path.is_file():
        raise ConfigError(f"There is no trace file {str(path)!r}.")
    runs: list[dict[str, Any]] = []
    by_id: dict[Any, dict[str, Any]] = {}
    # not splitlines: JSON text may hold U+2028 and its like as they are
    for text in path.read_text("utf-8", errors="replace").split("\n"):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):  # the half line of a killed process
            continue
        if not isinstance(line, dict):
            continue
        if "version" in line:
            runs.append({**line, "events": [], "table": [], "late": [], **_UNFINISHED})
            by_id[str(line.get("id"))] = runs[-1]
        elif runs:
            _add_line(by_id.get(str(line.get("run")), runs[-1]), line)  # older files name no run in their lines
    return runs


_UNFINISHED = dict.fromkeys(("structured_response", "error")) | {
    "messages": [], "state": {}, "stop_reason": "unfinished", "seconds": 0.0,
}  # fmt: skip


def _add_line(run: dict[str, Any], line: dict[str, Any]) -> None:
    """Put a line where it belongs; whether what it says is sound is found when a trace is made of the run."""
    if "message" in line:
        run["table"].append(line["message"])
    elif isinstance(event := line.get("event"), dict):
        run["events"].append(event)
        run["seconds"] = event.get("at")
        if event.get("kind") in ("tool_result", "edit"):
            run["late"].append(event)
    elif isinstance(line.get("history"), dict):
        run.update(line["history"], late=[])
    elif isinstance(line.get("end"), dict):
        run.update(line["end"], late=[])


def caught_up(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run with what happened after its history was written last: results, in call order, and edited calls."""
    late = run.get("late", ())
    edits = {event["data"]["call"]["id"]: event["data"]["call"] for event in late if event["kind"] == "edit"}
    lines = [run["table"][number] for number in run["messages"]]
    if edits and lines:
        parts = [{**part, **_edited(part, edits)} for part in lines[-1]["_content"]]
        lines[-1] = {**lines[-1], "_content": parts}
    results = sorted((e["data"] for e in late if e["kind"] == "tool_result"), key=lambda data: data["number"])
    lines += [{"_role": "tool", "_content": [{"tool_call_result": data["result"]}]} for data in results]
    if not late:
        return dict(run)
    numbers = [len(run["table"]) + place for place in range(len(lines))]
    return {**run, "messages": numbers, "table": [*run["table"], *lines]}


def _edited(part: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    call = edits.get(str((part.get("tool_call") or {}).get("id")))
    return {"tool_call": call} if call else {}
