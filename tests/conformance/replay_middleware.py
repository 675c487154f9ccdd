"""Does our agent do what the original and its middleware were seen to do? Replay a file of observed scenarios.

    python tests/conformance/replay_middleware.py FILE.json [--only NAME] [-v]

The format is described inside such a file (`format`). Each scenario gets one line: `agrees`, `differs on purpose`
with the rows of the table that ask for it (`middleware_rows`; `-v` prints those met), or `differs`. The last line
counts them; the exit code is 1 if anything differs otherwise than on purpose.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from middleware_probes import probe
from middleware_rows import ROWS
from middleware_verdict import judge
from middleware_world import play

Verdict = tuple[str, list[str], str]


def verdict_of(scenario: dict[str, Any]) -> Verdict:
    """Return the verdict on one scenario; a fault of the replay itself is a difference."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return probe(scenario) if scenario.get("kind") == "probe" else judge(scenario)
    except Exception as error:
        return "differs", [], f"the replay failed: {type(error).__name__}: {error}"


def line(scenario: dict[str, Any], verdict: Verdict) -> str:
    word, rows, what = verdict
    tail = f" ({', '.join(rows)})" if rows else ""
    return f"{scenario['name']}: {word}{tail}" + (f" in {what}" if word == "differs" else "")


def show(scenario: dict[str, Any]) -> None:
    """Print both sides of a scenario."""
    print("  theirs:", json.dumps(scenario.get("observed"), ensure_ascii=False)[:3000])
    if scenario.get("kind") != "probe":
        print("  ours:  ", json.dumps(play(scenario), ensure_ascii=False)[:3000])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", help="the name of one scenario")
    parser.add_argument("-v", "--verbose", action="store_true", help="print both sides of what differs")
    given = parser.parse_args(arguments)
    counts = {"agrees": 0, "differs on purpose": 0, "differs": 0}
    met: set[str] = set()
    for scenario in json.loads(given.file.read_text("utf-8"))["scenarios"]:
        if given.only not in (None, scenario["name"]):
            continue
        verdict = verdict_of(scenario)
        counts[verdict[0]] += 1
        met |= set(verdict[1])
        print(line(scenario, verdict))
        if given.verbose and verdict[0] == "differs":
            show(scenario)
    for row, why in ROWS.items() if given.verbose else ():
        if row in met:
            print(f"{row}: {why}")
    print(f"agree {counts['agrees']}, on purpose {counts['differs on purpose']}, differ {counts['differs']}")
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
