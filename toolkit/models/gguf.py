"""Read the head of a GGUF file: is it one, what was it trained for, what is its chat template.

llama.cpp says no more than "failed to load" about a bad file, so this looks first.

Not here: fetching files (`weights`), running them (`embedded`).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from toolkit.errors import WeightsError

# GGUF value type -> struct code; 8 is text, 9 a list
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_DEEPEST = 8  # lists in lists
_LONGEST = 1 << 24  # no key, text or count in a sound head comes near it


def read_head(path: Path) -> dict[str, Any]:
    """Return the metadata of a GGUF file, lists left out, and its size as `file_size`.

    Raises:
        WeightsError: the file is not there, not readable, or no whole GGUF file.
    """
    try:
        status = path.stat()
        return _read_head(path, status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        raise WeightsError(
            f"There is no model file {str(path)!r}. Check the path; it must name a .gguf file."
        ) from None
    except OSError as error:
        raise WeightsError(f"The model file {str(path)!r} cannot be read: {error.strerror or error}.") from None
    except (struct.error, ValueError, MemoryError) as error:
        raise WeightsError(f"{str(path)!r} is no sound GGUF file ({error}). Fetch or convert it again.") from None


@lru_cache(maxsize=32)
def _read_head(path: Path, size: int, _changed: int) -> dict[str, Any]:
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError("it does not begin with the letters GGUF")
        version, _tensors, count = struct.unpack("<IQQ", file.read(20))
        if version not in (2, 3) or count > _LONGEST:
            raise ValueError(f"version {version} is not known")
        head: dict[str, Any] = {"file_size": size}
        for _ in range(count):
            key = _read_text(file)
            value = _read_value(file, _number(file, "I"))
            if value is not None:
                head[key] = value
    return head


def _number(file: BinaryIO, code: str) -> Any:
    return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]


def _count(file: BinaryIO, what: str) -> int:
    count: int = _number(file, "Q")
    if count > _LONGEST:
        raise ValueError(f"a {what} in its head is too long")
    return count


def _read_text(file: BinaryIO) -> str:
    data = file.read(length := _count(file, "text"))
    if len(data) < length:
        raise ValueError("it ends within its head")
    return data.decode("utf-8", "replace")


def _read_value(file: BinaryIO, kind: int, depth: int = 0) -> Any:
    if kind == _TEXT:
        return _read_text(file)
    if kind in _SCALARS:
        return _number(file, _SCALARS[kind])
    if kind != _LIST or depth > _DEEPEST:
        raise ValueError(f"value type {kind} is not known, or nested too deep")
    inner, count = _number(file, "I"), _count(file, "list")
    if inner in _SCALARS:
        file.seek(struct.calcsize("<" + _SCALARS[inner]) * count, 1)
    else:
        for _ in range(count):
            _read_value(file, inner, depth + 1)
    return None


def trained_context(head: dict[str, Any]) -> int | None:
    """Return the longest window the model was trained for, in tokens; None where the file does not say."""
    found = head.get(f"{head.get('general.architecture')}.context_length")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def template_takes_tools(head: dict[str, Any]) -> bool:
    """Tell whether the chat template has a place for tools; without one `tools=` never reaches the model."""
    return "tools" in str(head.get("tokenizer.chat_template", ""))
