"""Write replies as JSON Lines to commit beside notebooks and tests, and read them back.

One reply a line in an order that depends on the requests alone, without what changes from run to run on the
wire (`raw`), so a re-recording shows as a small diff.

Not here: the database (`store`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from toolkit.errors import ConfigError, StoreError, UserError
from toolkit.models.base import Reply
from toolkit.models.keys import digest, reply_key
from toolkit.traces.json_text import loads, writable, write_text

_KINDS = {"model": str, "repeat": int, "fingerprint": dict, "request": dict, "reply": dict}
_MOST_REPEATS = 1_000_000


def write_recording(rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write what `Store.rows` gives as one recording and return how many; the file is whole or untouched.

    Raises:
        UserError: the file cannot be written.
    """
    kept = sorted(rows, key=lambda r: (r["model"], digest(r["request"]), r["repeat"], digest(r["fingerprint"])))
    try:
        write_text(path, "".join(map(_line, kept)))
    except OSError as error:
        raise UserError(f"The recording {str(path)!r} cannot be written: {error.strerror or error}.") from None
    return len(kept)


def _line(row: Mapping[str, Any]) -> str:
    reply = {name: value for name, value in row["reply"].items() if name != "raw" and value not in (None, "", [], 0)}
    for clock in ("seconds", "load_seconds"):
        if clock in reply:
            reply[clock] = round(reply[clock], 3)
    text = json.dumps({**{name: row[name] for name in _KINDS}, "reply": reply}, ensure_ascii=False)
    return writable(text) + "\n"


def read_recording(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a recording.

    Raises:
        StoreError: the file is missing, a line is no reply, or two lines answer the same; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"The recording {str(path)!r} cannot be read: {error}. Check the path, or record it again."
        ) from None
    seen: dict[str, tuple[int, dict[str, Any]]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = _read_line(line, f"{path}:{number}")
            key = reply_key(digest(row["request"]), row["fingerprint"], row["repeat"])
            first, known = seen.setdefault(key, (number, row))
            if known != row:
                raise StoreError(
                    f"{path}:{number}: this line answers the same request as line {first}, otherwise. "
                    "Delete the one that is wrong, or record the file again."
                )
            yield row


def _read_line(line: str, place: str) -> dict[str, Any]:
    try:
        data = loads(line)
        row = {name: data[name] for name in _KINDS}
        _check_kinds(row)
        row["reply"] = Reply.from_dict(row["reply"]).to_dict()
        return row
    except (ValueError, KeyError, TypeError, ConfigError) as error:
        raise StoreError(
            f"{place}: this line is no recorded reply ({type(error).__name__}: {error}). "
            "Restore the file, or record it again."
        ) from None


def _check_kinds(row: Mapping[str, Any]) -> None:
    """Raise ValueError for a value that a hand has edited into something else."""
    for name, kind in _KINDS.items():
        if not isinstance(row[name], kind) or isinstance(row[name], bool):
            raise ValueError(f"{name} must be of type {kind.__name__}, not {row[name]!r}")
    if not 0 <= row["repeat"] <= _MOST_REPEATS:
        raise ValueError(f"repeat must be from 0 to {_MOST_REPEATS}, not {row['repeat']!r}")
    row["model"].encode()  # SQLite takes no lone surrogate here
