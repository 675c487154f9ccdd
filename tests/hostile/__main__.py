"""Run attacks from the command line: `python -m tests.hostile --budget 600`."""

from __future__ import annotations

import argparse
import sys

from tests.hostile import agents, echoes, extraction, services  # noqa: F401 - register their generators
from tests.hostile.frame import ROOMS, run


def main() -> int:
    options = argparse.ArgumentParser(description="Attack the toolkit; the exit code tells whether a promise broke.")
    options.add_argument("--budget", type=float, default=90, help="how many seconds it may take")
    options.add_argument("--room", action="append", choices=sorted(ROOMS), help="attack only these rooms")
    options.add_argument("--seed", type=int, default=1, help="another seed gives other attacks")
    given = options.parse_args()
    report = run(given.room or sorted(ROOMS), given.budget, given.seed)
    print(report)
    return 1 if report.faults else 0


sys.exit(main())
