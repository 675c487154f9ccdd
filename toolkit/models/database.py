"""Open the SQLite file of a store: claim a new one, refuse a file of something else, wait for other processes.

WAL mode and one commit a reply: `kill -9` loses at most the request in flight.

Not here: what is kept in it (`store`).
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolkit.errors import StoreError

_APPLICATION = 0x746B7231  # marks the file as a store of replies
_SECONDS_TO_WAIT = 60
_TABLE = (
    """
CREATE TABLE replies (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, request_digest TEXT NOT NULL, repeat INTEGER NOT NULL,
  fingerprint TEXT NOT NULL, request TEXT NOT NULL, reply TEXT NOT NULL, created REAL NOT NULL
) WITHOUT ROWID
""",
    "CREATE INDEX by_request ON replies (request_digest, model, repeat)",
)


def open_database(path: str) -> sqlite3.Connection:
    """Return the connection to a store's file, made with its folders if missing; one that nobody may write is read.

    Raises:
        StoreError: it is a database of something else.
    """
    if path == ":memory:":
        return _opened(path)
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return _opened(path)
    except (sqlite3.OperationalError, OSError):
        if not file.is_file():
            raise
    # a medium or folder for reading only: SQLite cannot lay its own files beside it there, and needs none
    for way in ("mode=ro", "immutable=1"):
        with suppress(sqlite3.OperationalError):
            return _opened(f"{file.resolve().as_uri()}?{way}", path)
    return _opened(path)  # which says what is wrong


def _opened(address: str, path: str = "") -> sqlite3.Connection:
    """Return a checked connection to a path, or to a URI for reading only, which stands for `path`."""
    connection = sqlite3.connect(address, timeout=_SECONDS_TO_WAIT, check_same_thread=False, uri=bool(path))
    try:
        # bytes that are no UTF-8 were not written here; what they say is checked where it is read
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        _claim(connection, path or address, write=not path)
        if not path:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: safe against kill -9, and cheap
    except BaseException:
        connection.close()
        raise
    return connection


def _claim(connection: sqlite3.Connection, path: str, write: bool) -> None:
    """Make the table in a new file; refuse a file of something else, untouched."""
    # each look is one transaction, else another process may make the table between its two halves;
    # the first takes no lock, for nearly every file is a store already
    for begin in ("BEGIN", "BEGIN IMMEDIATE") if write else ("BEGIN",):
        connection.execute(begin)
        with connection:  # commits, or rolls back
            owner, tables = (connection.execute(query).fetchone()[0] for query in (
                "PRAGMA application_id", "SELECT count(*) FROM sqlite_master"))  # fmt: skip
            if owner == _APPLICATION:
                return
            if owner or tables:
                raise StoreError(f"{path!r} is a database of something else. Name another file for the replies.")
            if begin == "BEGIN IMMEDIATE":
                for statement in (*_TABLE, f"PRAGMA application_id = {_APPLICATION}"):
                    connection.execute(statement)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; SQLite does not wait by itself when two processes switch at once."""
    end = time.monotonic() + _SECONDS_TO_WAIT
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - only to step out of each other's way


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what SQLite and the disk say into one sentence with the way out."""
    try:
        yield
    except sqlite3.ProgrammingError as error:
        if "closed" not in str(error):
            raise
        raise StoreError(f"The store {path!r} is closed. Open it again: Store({path!r}).") from None
    except (sqlite3.OperationalError, OSError) as error:
        raise StoreError(
            f"The store {path!r} cannot be opened or written: {error}. Check that its folder is writable and has room."
        ) from None
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"The store {path!r} is damaged or no store ({error}). Move it aside and run again; "
            "what a .jsonl recording holds can be read back with import_jsonl."
        ) from None
