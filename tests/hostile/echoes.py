"""Attack the disarming: echoes of any text, whole and in parts, through every reader; texts that take it long.

Not here: how attacks are run and timed (`frame`), the echoes of known texts (`tests/prompting/test_disarming.py`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import toolkit as tk
from tests.hostile.extraction import HEADS, NAMED, TOOLS, cases, mutated, pieces
from tests.hostile.frame import FLOOR, Attack, attacks
from toolkit.extraction import extract
from toolkit.prompting.disarming import DOT, Disarming

NAMES = tuple(str(tool["name"]) for tool in TOOLS)
PROTOCOLS = ["auto", *(tk.load_protocol(name) for name in ("airgap", "hermes", "action_json"))]
BEFORE = ["", "User: hi\n", "Final Answer: x\n", "Observation:\n", "```python\nimport os\n", "I see: ", "<think>", "- "]


def echo(text: str, tools: Any, chance: random.Random) -> None:
    """Disarm a text and echo parts of it; none may be a call."""
    disarmed = Disarming(tuple(tool["name"] for tool in tools))(text)
    assert disarmed.replace(DOT, "") == text.replace(DOT, ""), "more than dots was added"
    lines = disarmed.split("\n")
    for _ in range(6):
        start, first = chance.randrange(len(disarmed) + 1), chance.randrange(len(lines))
        parts = [disarmed, disarmed[start:], disarmed[start : chance.randrange(start, len(disarmed) + 1)]]
        parts.append("\n".join(lines[first : chance.randrange(first, len(lines)) + 1]))
        part = chance.choice(BEFORE) + chance.choice(parts).replace(chance.choice(["`", "\0"]), "")
        assert not extract(part, tools, chance.choice(PROTOCOLS)).calls, part


@attacks("disarming")
def any_echo(chance: random.Random) -> Iterator[Attack]:
    """Echo mutated replies, and pieces of syntaxes put together."""
    known, every = cases(), [*pieces(), *NAMED]

    def make(seed: int) -> Any:
        own = random.Random(seed)
        if own.random() < 0.5:
            return "".join(own.choice(every) for _ in range(own.randint(1, 6))), TOOLS, own
        case = own.choice(known)
        return mutated(case["text"][:3000], own, every), case["tools"], own

    while True:
        seed = chance.getrandbits(32)
        yield Attack(f"echo of seed {seed}", lambda _, seed=seed: make(seed), lambda made: echo(*made), 0)


@attacks("disarming")
def long_texts(chance: random.Random) -> Iterator[Attack]:
    """Repeat what begins a call, behind something that is never closed."""
    disarm = Disarming(NAMES)
    for piece in dict.fromkeys([*NAMED, *pieces()]):
        for head in (HEADS[0], chance.choice(HEADS)):

            def make(size: int, piece: str = piece, head: str = head) -> str:
                return head + piece * (size // len(piece))

            yield Attack(f"{head!r} + {piece!r} * n", make, disarm, floor=FLOOR // 2)
