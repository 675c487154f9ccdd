"""Run attacks: register generators by room, time each attack at growing sizes, report the worst, fail at a fault.

A generator yields attacks: a few named ones, or random ones without end. An attack makes its input for a size and runs
it; what it raises is a fault, and so is a text that hangs, is slower than the floor, or grows faster than its length.

Not here: the attacks (the other modules, one for each room).
"""

from __future__ import annotations

import faulthandler
import gc
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zlib import crc32

FLOOR = 600_000  # characters a second that any input must reach, beside SLOW_S that it may always take
SLOW_S = 0.5  # what a budget allows a small text
FULL = 8  # one in so many attacks is run up to a megabyte
MEGABYTE = 1_000_000
GROWTH = 2.5  # how much longer twice the text may take, unless an attack says otherwise
PACE_S = 0.05  # what adding up a million numbers took where the floors were set
HANGS_S = 60.0  # after this the whole run ends with a traceback
AGAIN = 4  # times that a growth is measured once more before it is believed
CERTAIN_S = 0.15  # shorter times say nothing about growth


@dataclass(frozen=True)
class Attack:
    """Hold one attack.

    Attributes:
        name: what the report calls it; enough to build it again.
        make: a size in characters -> the input.
        run: what is done with the input; it raises if a promise is broken.
        size: where growing begins; 0 for an attack that is run once, for what it raises.
        floor: characters a second that it must reach.
        growth: how much longer twice the text may take.
    """

    name: str
    make: Callable[[int], Any]
    run: Callable[[Any], object]
    size: int = 16_000
    floor: int = FLOOR
    growth: float = GROWTH


Generator = Callable[[random.Random], Iterator[Attack]]
ROOMS: dict[str, list[Generator]] = {}


def attacks(room: str) -> Callable[[Generator], Generator]:
    """Register the function below as a generator of attacks on a room."""

    def decorate(generator: Generator) -> Generator:
        ROOMS.setdefault(room, []).append(generator)
        return generator

    return decorate


@dataclass
class Report:
    """Hold what was found: how many attacks ran, the slowest, and the faults."""

    ran: int = 0
    slowest: dict[str, float] = field(default_factory=dict)  # name -> characters a second
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        worst = sorted(self.slowest.items(), key=lambda item: item[1])[:10]
        lines = [f"{self.ran} attacks, {len(self.faults)} faults"]
        lines += [f"  {speed / 1e6:8.2f} MB/s  {name}" for name, speed in worst]
        return "\n".join([*lines, *(f"FAULT {fault}" for fault in self.faults)])


def run(rooms: list[str], budget_s: float, seed: int) -> Report:
    """Run attacks of all generators in turn until the time is over; those that end are run in whole."""
    report, started = Report(), time.monotonic()
    waiting = [(room, make(random.Random(f"{seed}/{make.__name__}"))) for room in rooms for make in ROOMS[room]]
    while waiting and time.monotonic() - started < budget_s:
        room, source = waiting.pop(0)
        attack = next(source, None)
        if attack is None:
            continue
        waiting.append((room, source))
        _measure(f"{room}: {attack.name}", attack, report)
        report.ran += 1
    return report


def _measure(name: str, attack: Attack, report: Report) -> None:
    """Run one attack at growing sizes."""
    if sys.stderr.isatty():
        print(name[:100], file=sys.stderr, end="\r")
    try:
        if not attack.size:
            _seconds(attack, 0)
            return
        size, before = attack.size, _seconds(attack, attack.size)
        while size < MEGABYTE and before < CERTAIN_S * 8:
            size *= 2
            taken = _seconds(attack, size)
            if taken > CERTAIN_S:
                for _ in range(AGAIN):  # a busy machine is no fault: the least of several times counts
                    if taken > attack.growth * before:
                        before, taken = min(before, _seconds(attack, size // 2)), min(taken, _seconds(attack, size))
                if taken > attack.growth * before:
                    report.faults.append(f"{name}: {size:,} characters take {taken:.2f} s, half {before:.2f} s")
                    return
            before = taken
            if size >= 4 * attack.size and crc32(name.encode()) % FULL:
                break  # one in so many goes on to a megabyte
        report.slowest[name] = size / max(before, 1e-6)
        if before > (SLOW_S + size / attack.floor) * slowness():
            report.faults.append(f"{name}: {size:,} characters take {before:.2f} s")
    except Exception:
        report.faults.append(f"{name}\n{traceback.format_exc(limit=-6)}")
    finally:
        faulthandler.cancel_dump_traceback_later()


@cache
def slowness() -> float:
    """Return how many times as long this machine takes as the one that the floors were set on; at least 1."""
    taken = []
    for _ in range(5):
        start = time.process_time()
        sum(n % 7 for n in range(1_000_000))
        taken.append(time.process_time() - start)
    return max(1.0, min(taken) / PACE_S)


def _seconds(attack: Attack, size: int) -> float:
    """Return the processor time of one run; of the better of two where one is long, since others use the machine."""
    made = attack.make(size)
    gc.collect()
    taken = []
    for _ in range(2 if size else 1):
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        start = time.process_time()
        attack.run(made)
        taken.append(time.process_time() - start)
        if taken[0] < CERTAIN_S:
            break
    return min(taken)
