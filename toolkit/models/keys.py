"""Write a request down in one canonical way, name it by a key, and say how two of them differ.

The order of keys in schemas, tools and arguments is kept and counts: it decides what the model sees and the
order in which constrained decoding writes.

Not here: where requests and replies are kept (`store`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def as_json(value: Any) -> str:
    """Return compact ASCII JSON, so that even a lone surrogate can be stored; what is no JSON becomes text."""
    return json.dumps(value, separators=(",", ":"), default=str)


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's JSON."""
    return hashlib.sha256(as_json(value).encode()).hexdigest()


def reply_key(request_digest: str, fingerprint: Mapping[str, Any], repeat: int) -> str:
    """Return the key under which a reply is kept."""
    return digest([request_digest, dict(sorted(fingerprint.items())), repeat])


def differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Say where two requests differ, one sentence a place.

    >>> differences({"options": {"seed": 0}}, {"options": {"seed": 1}})
    ['options.seed: stored 0, asked 1']
    """
    return [
        f"{place}: stored {_brief(old, new)}, asked {_brief(new, old)}" for place, old, new in _walk(stored, asked, "")
    ]


_ABSENT = object()


def _walk(old: Any, new: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _walk(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{place}.{key}" if place else str(key))
        if list(old) != list(new) and set(old) == set(new):
            yield f"{place} (order of keys)", list(old), list(new)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            pair = [items[index] if index < len(items) else _ABSENT for items in (old, new)]
            yield from _walk(pair[0], pair[1], f"{place}[{index}]")
    elif as_json(old) != as_json(new) or (old is _ABSENT) != (new is _ABSENT):
        yield place, old, new


def _brief(value: Any, other: Any) -> str:
    """Show a value; of two long texts show where they part."""
    if value is _ABSENT:
        return "nothing"
    if not isinstance(value, str):
        text = as_json(value)
        return text if len(text) <= 60 else text[:59] + "…"
    if len(value) <= 60:
        return repr(value)
    start = 0
    if isinstance(other, str):
        limit = min(len(value), len(other))
        start = next((i for i in range(limit) if value[i] != other[i]), limit)
    begin = max(0, start - 15)
    cut = value[begin : start + 35]
    return f"{'…' if begin else ''}{cut!r}… (from character {begin})"


def nearest(asked: dict[str, Any], stored: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the stored request with the fewest differing parts, each message being one, or None if there is none."""
    if not stored:
        return None
    whole = _parts(asked)

    def distance(request: dict[str, Any]) -> tuple[int, int]:
        parts = _parts(request)
        unlike = [name for name in {**whole, **parts} if parts.get(name) != whole.get(name)]
        return len(unlike), -sum(_common(parts.get(name, ""), whole.get(name, "")) for name in unlike)

    return min(stored, key=distance)


def _parts(request: dict[str, Any]) -> dict[str, str]:
    """Return the JSON of each part, so that a changed system message does not hide which question is the same."""
    parts = {name: as_json(value) for name, value in request.items() if name != "messages"}
    said = request.get("messages")
    messages = said if isinstance(said, list) else []
    return parts | {f"messages[{place}]": as_json(message) for place, message in enumerate(messages)}


def _common(one: str, other: str) -> int:
    limit = min(len(one), len(other))
    low, high = 0, limit
    while low < high:  # longest common start, by halving
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
