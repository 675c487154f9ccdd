"""How does any value become JSON text, and the JSON text of others a value? as_json, loads.

Tools, hooks and users put anything into states and arguments: tuples as keys, values that hold themselves, objects
whose `str` fails. A record of a run must not fail on them: what JSON cannot hold becomes text, nothing raises.
Not here: text that a model or a tool is to read back (`toolkit.execution`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from toolkit.errors import ConfigError

DEEPEST = 100  # levels; JSON readers give up at some depth too
_TOO_DEEP = f"it is nested deeper than {DEEPEST} levels"


def as_json(value: Any, indent: int | None = None) -> str:
    """Return JSON text of any value.

    >>> as_json({(1, 2): {3}})
    '{"(1, 2)": [3]}'
    """
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, default=as_text)
    except (TypeError, ValueError, RuntimeError):  # keys, cycles, depth, changes meanwhile
        text = json.dumps(plainly(value), ensure_ascii=False, indent=indent, default=as_text)
    return writable(text)


def writable(text: str) -> str:
    r"""Return text that any file takes: lone surrogates become escapes, which JSON reads back as they were.

    >>> writable("a\udc80b")
    'a\\udc80b'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_writable(text: str) -> bool:
    """Tell whether any file takes a text: whether it holds no lone surrogate."""
    return writable(text) == text


MOST_SHOWN = 20_000  # characters of one text in a view
MOST_CELL = 2_000  # characters of one cell of a table
MOST_HTML = 400_000  # characters of a whole view


def in_html(value: Any, most: int = MOST_SHOWN) -> str:
    r"""Return any value's text for a place in HTML: escaped, cut, lone surrogates as escapes.

    >>> in_html("<b>" + chr(0xD800)), in_html("abcd", 2)
    ('&lt;b&gt;\\ud800', 'ab … 2 characters more')
    """
    text = as_text(value)
    shown = escape(writable(text[:most]))
    return shown if len(text) <= most else f"{shown} … {len(text) - most:,} characters more"


def html_of(parts: Iterable[str], more: str = "more") -> str:
    """Join parts of a view up to `MOST_HTML`, and say how many are left out."""
    size, given = 0, list(parts)
    kept: list[str] = []
    for part in given:
        size += len(part)
        if size > MOST_HTML:
            return "".join([*kept, f"<div>… {len(given) - len(kept)} {more}</div>"])
        kept.append(part)
    return "".join(kept)


def frame_html(frame: Any, **options: Any) -> str:
    """Return a DataFrame as an HTML table whose texts are cut and can be sent to a front end."""
    shown = frame.map(lambda value: writable(value[:MOST_CELL]) if isinstance(value, str) else value)
    return writable(str(shown.to_html(index=False, **options)))


def plainly(value: Any, _above: tuple[int, ...] = ()) -> Any:
    """Return a value in JSON types: other keys and values as text, a value that holds itself cut there.

    >>> ring = []
    >>> ring.append(ring)
    >>> plainly({"ring": ring, None: 1.5})
    {'ring': ['(holds itself)'], 'None': 1.5}
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if not isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return as_text(value)
    if id(value) in _above:
        return "(holds itself)"
    if len(_above) >= DEEPEST:
        return "(too deep)"
    above = (*_above, id(value))
    try:
        if isinstance(value, Mapping):
            return {as_text(key): plainly(item, above) for key, item in list(value.items())}
        return [plainly(item, above) for item in list(value)]
    except RuntimeError:  # another thread changes it
        return as_text(value)


def as_text(value: Any) -> str:
    """Return any value's text; that of one whose `str` fails is the name of its class."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def loads(text: str) -> Any:
    """Return what JSON text of others holds; ValueError if it is none, or nested deeper than `DEEPEST`.

    What came in by way of this function can be written, compared and walked through without a bound of one's own.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") <= DEEPEST:
        return value
    level = [value]
    for _ in range(DEEPEST + 1):
        held = [item for item in level if isinstance(item, (dict, list))]
        if not held:
            return value
        level = [inner for item in held for inner in (item.values() if isinstance(item, dict) else item)]
    raise ValueError(_TOO_DEEP)


def parsed(text: str, where: str) -> Any:
    """Return what JSON text holds; ConfigError, which begins with `where`, if it is none."""
    try:
        return loads(text)
    except ValueError as error:
        raise ConfigError(f"{where} is no JSON: {error}.") from None


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{str(path)!r} is not UTF-8: {error}. Save it as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"Cannot read {str(path)!r}: {error.strerror}.") from None


def write_text(path: Path, text: str) -> None:
    """Write a file that is whole or untouched, whatever happens meanwhile; OSError where it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)  # it is there only if something went wrong
