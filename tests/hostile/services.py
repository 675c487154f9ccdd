"""Attack services: mutated OpenAPI documents and answers of rogue servers, and texts in which credentials are hidden.

Not here: how attacks are run and timed (`frame`), the mutations (`tests/execution/openapi/test_fuzz.py`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.execution.openapi import test_fuzz
from tests.hostile.frame import Attack, attacks
from toolkit.secrets import Mask, scrub

ODD: list[Any] = [
    None,
    True,
    -1,
    1e308,
    float("nan"),
    10**400,
    "",
    "\ud800",
    "a\r\nb",
    "../..",
    [],
    {},
    {1: 2, None: 3},
]
KEYS = ["s3cret-token", "ann:s3cret/pw+=", "sk-" + "aB3_" * 12]
PIECES = [
    "s",
    "s3",
    "\\",
    "&amp;",
    "&#115;",
    "%25",
    "%73",
    "czNj",
    "\\u0073",
    "sk-",
    "://a",
    "?key=",
    "bearer ",
    "x-x-",
    "=",
]


def play(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert "leak" not in test_fuzz.play(seed, ODD, patch)


@attacks("services")
def documents(source: random.Random) -> Iterator[Attack]:
    while True:
        seed = source.randrange(10**9)
        yield Attack(f"document and server {seed}", lambda size, seed=seed: seed, play, size=0)


@attacks("services")
def texts(source: random.Random) -> Iterator[Attack]:
    mask = Mask(KEYS)
    for name, hide in (("mask", mask), ("scrub", scrub)):
        for piece in PIECES:
            yield Attack(f"{name} {piece!r}", lambda size, piece=piece: piece * (size // len(piece)), hide)
        spelled = "".join(json.dumps(key)[1:-1] + " and " for key in KEYS)
        yield Attack(f"{name} credentials", lambda size, said=spelled: said * (size // len(said)), hide)
