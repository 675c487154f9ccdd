"""Play scenarios that an original was seen in, and say of each how ours compares. The frame of all four replayers.

    python tests/conformance/replay_middleware.py FILE.json [--only TEXT] [--json] [-v] [--accept WHY]

One line a scenario: `agrees` (ours is what was observed), `as expected` (it is the reviewed `expected`, which stands
beside `observed` in the file, or in a file of ours under the same name), or `differs`. Exit code 1 if any differs.

Not here: playing a scenario (`*_world`), what counts as the same (`meaning`).
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from meaning import OPTIONAL

Data = dict[str, Any]
SCENARIOS = Path(__file__).with_name("scenarios")
LISTS = {"scenarios", "cases"}  # what a format calls its scenarios


@dataclass(frozen=True)
class Family:
    """Know what the scenarios of one original need.

    Attributes:
        name: how its files in `scenarios/` begin.
        play: runs a scenario and returns our outcome in the form of `observed`.
        meaning: brings an outcome, ours or theirs, to the form in which equal means the same.
        columns: the keys of a scenario that hold an outcome each, where it is not `observed` alone.
        expected: the key of the reviewed outcome.
    """

    name: str
    play: Callable[[Data], Data]
    meaning: Callable[[Data, Data], Data]
    columns: tuple[str, ...] = ()
    expected: str = "expected"

    def observed(self, scenario: Data) -> Data:
        """Return what the original was seen to do."""
        return {key: scenario[key] for key in self.columns if key in scenario} or scenario.get("observed", {})

    def reviewed(self, scenario: Data) -> Data:
        """Return the scenario itself if it has an expectation, else the one of that name in our files."""
        return scenario if self.expected in scenario else known(self.name).get(scenario.get("name"), {})


@dataclass(frozen=True)
class Verdict:
    """Say how ours compares in one scenario.

    Attributes:
        why: the reason of an expectation, or the parts in which ours is neither what was observed nor what is expected.
    """

    word: str
    ours: Data
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.why})" if self.why else self.word


@cache
def known(name: str) -> Data:
    """Return our own scenarios of a family by name."""
    return {s["name"]: s for path in sorted(SCENARIOS.glob(f"{name}*.json")) for s in scenarios_in(load(path))}


def load(path: Path) -> Data:
    return json.loads(path.read_text("utf-8"))


def scenarios_in(data: Data) -> list[Data]:
    """Return the scenarios of a file; the two-mode format calls them cases, and names its actions once for all."""
    shared = {"known_actions": data["known_actions"]} if "known_actions" in data else {}
    return [{**shared, **scenario} for scenario in data.get("scenarios") or data.get("cases", [])]


def different(ours: Data, theirs: Data) -> list[str]:
    """Name the parts in which two outcomes differ; some are compared only where both sides tell them."""
    keys = [key for key in {**theirs, **ours} if key not in OPTIONAL or (key in ours and key in theirs)]
    return [key for key in keys if written(ours.get(key)) != written(theirs.get(key))]


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def judge(scenario: Data, family: Family) -> Verdict:
    """Play one scenario and compare; a fault of the replay itself is a difference."""
    ours: Data = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ours = json.loads(written(family.play(scenario)))
            return compare(ours, scenario, family)
        except Exception as error:
            return Verdict("differs", ours, f"the replay failed: {type(error).__name__}: {error}")


def compare(ours: Data, scenario: Data, family: Family) -> Verdict:
    meant, reviewed = family.meaning(ours, scenario), family.reviewed(scenario)
    parts = different(meant, family.meaning(family.observed(scenario), scenario))
    if not parts:
        return Verdict("agrees", ours)
    if family.expected in reviewed:
        parts = different(meant, family.meaning(reviewed[family.expected], scenario))
    return (
        Verdict("differs", ours, ", ".join(parts)) if parts else Verdict("as expected", ours, reviewed.get("why", ""))
    )


def accept(path: Path, family: Family, verdicts: dict[str, Verdict], why: str) -> None:
    """Write our outcome as the expectation of each scenario of a file that differs, for somebody to review."""
    data = load(path)
    for scenario in data.get("scenarios") or data["cases"]:
        if (verdict := verdicts.get(scenario["name"])) and verdict.word == "differs" and verdict.ours:
            scenario |= {family.expected: family.meaning(verdict.ours, scenario), "why": why}
    save(path, data)


def save(path: Path, data: Data) -> None:
    """Write a file with one scenario a line."""
    heads = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in data.items() if k not in LISTS]
    (name,) = LISTS & data.keys()
    lines = ",\n".join(json.dumps(scenario, ensure_ascii=False) for scenario in data[name])
    path.write_text("{" + ",\n".join([*heads, f'"{name}": [\n{lines}\n]']) + "}\n", "utf-8")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="replay scenarios whose name holds this text")
    parser.add_argument("--json", action="store_true", help="print our outcome of each scenario as JSON instead")
    parser.add_argument("-v", "--verbose", action="store_true", help="print both sides of what differs")
    parser.add_argument("--accept", metavar="WHY", help="write ours as expected into the file where it differs")
    return parser


def replay(options: argparse.Namespace, family: Family) -> int:
    """Replay a file and print what came; return 1 if something differs."""
    scenarios = [s for s in scenarios_in(load(options.file)) if options.only in s.get("name", "")]
    played = [(scenario, judge(scenario, family)) for scenario in scenarios]
    counts = Counter(verdict.word for _, verdict in played)
    if options.json:
        found = [{"name": s.get("name"), "verdict": v.word, "why": v.why, "ours": v.ours} for s, v in played]
        print(json.dumps({"scenarios": found}, ensure_ascii=False, indent=1))
    else:
        for scenario, verdict in played:
            print(f"{scenario.get('name', '?')}: {verdict}")
            if options.verbose and verdict.word == "differs":
                wanted = family.reviewed(scenario).get(family.expected, family.observed(scenario))
                print("  wanted:", written(wanted), "\n  ours:  ", written(verdict.ours))
        print(f"agree {counts['agrees']}, as expected {counts['as expected']}, differ {counts['differs']}")
    if options.accept:
        accept(options.file, family, {s["name"]: v for s, v in played}, options.accept)
    return 1 if counts["differs"] else 0


def main(family: Family) -> None:
    logging.disable(logging.CRITICAL)
    sys.exit(replay(arguments().parse_args(), family))
