"""Write a request down in one canonical way, name it by a key, and say how two of them differ.

The order of keys in schemas, tools and arguments is kept and counts: it decides what the model sees and the
order in which constrained decoding writes.

Not here: where requests and replies are kept (`store`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

_ENCODER = json.JSONEncoder(separators=(",", ":"), default=str)  # making one takes as long as using it


def as_json(value: Any) -> str:
    """Return compact ASCII JSON, so that even a lone surrogate can be stored; what is no JSON becomes text."""
    return _ENCODER.encode(value)


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's JSON."""
    return text_digest(as_json(value))


def text_digest(text: str) -> str:
    """Return the SHA-256 of JSON that is written already."""
    return hashlib.sha256(text.encode()).hexdigest()


def reply_key(request_digest: str, fingerprint: Mapping[str, Any], repeat: int) -> str:
    """Return the key under which a reply is kept."""
    return digest([request_digest, dict(sorted(fingerprint.items())), repeat])


def differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Say where two requests differ, one sentence a place.

    >>> differences({"options": {"seed": 0}}, {"options": {"seed": 1}})
    ['options.seed: stored 0, asked 1']
    """
    found = _walk(stored, asked, "")
    return [f"{place}: stored {_brief(old, new)}, asked {_brief(new, old)}" for place, old, new in found]


_ABSENT = object()


def _walk(old: Any, new: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if as_json(old) == as_json(new):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _walk(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{place}.{key}" if place else str(key))
        if list(old) != list(new) and set(old) == set(new):
            yield f"{place} (order of keys)", list(old), list(new)
    elif isinstance(old, list) and isinstance(new, list):
        for index, (one, other) in enumerate(zip_longest(old, new, fillvalue=_ABSENT)):
            yield from _walk(one, other, f"{place}[{index}]")
    else:
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
    start = _common(value, other) if isinstance(other, str) else 0
    begin = max(0, start - 15)
    return f"{'…' if begin else ''}{value[begin : start + 35]!r}… (from character {begin})"


def nearest(asked: Mapping[str, Any], stored: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the stored request that differs in the fewest places, and in these as late as possible."""

    def distance(request: dict[str, Any]) -> tuple[int, int]:
        places = list(_walk(request, asked, ""))
        return len(places), -sum(_common(str(old), str(new)) for _, old, new in places)

    return min(stored, key=distance)


def _common(one: str, other: str) -> int:
    """Return the length of the common start."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
