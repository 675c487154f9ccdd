"""Replay scenarios of tool execution against our toolkit, and say of each whether we agree.

    python tests/conformance/replay_invoker.py tests/conformance/invoker_scenarios.json

Prints one line per scenario: agrees, differs on purpose (with the rows of the table of weaknesses), or differs; then
`agree A, on purpose P, differ D`. Ends with 1 if D is not 0.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from caller_scenarios import compare_caller, run_caller
from invoker_compare import compare
from invoker_probes import compare_leaves, run_probe
from invoker_verdict import Verdict
from invoker_world import run_invoker, run_tool
from openapi_compare import compare_openapi
from openapi_scenarios import run_openapi, run_openapitool
from openapitool_compare import compare_openapitool

KINDS = {
    "x_invoker": (run_invoker, compare),
    "c2_invoker": (run_invoker, compare),
    "c3": (run_invoker, compare),
    "c2_tool": (run_tool, compare_leaves),
    "x_caller": (run_caller, compare_caller),
    "x_openapi": (run_openapi, compare_openapi),
    "x_openapitool": (run_openapitool, compare_openapitool),
    "probe": (run_probe, compare_leaves),
}


def judge(scenario: dict) -> Verdict:
    """Run one scenario and compare."""
    if scenario["kind"] not in KINDS:
        return Verdict(differ=[f"kind {scenario['kind']!r} is not in the format"])
    run, weigh = KINDS[scenario["kind"]]
    try:
        return weigh(scenario, run(scenario))
    except Exception as error:
        return Verdict(differ=[f"the replayer failed: {type(error).__name__}: {error}"])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Replay scenarios of tool execution.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="replay scenarios whose name holds this text")
    options = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    counts = {"agrees": 0, "differs on purpose": 0, "differs": 0}
    for scenario in json.loads(options.file.read_text(encoding="utf-8"))["scenarios"]:
        if options.only not in scenario["name"]:
            continue
        verdict = judge(scenario)
        counts[verdict.word] += 1
        print(f"{scenario['name']}: {verdict}")
    print(f"agree {counts['agrees']}, on purpose {counts['differs on purpose']}, differ {counts['differs']}")
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
