"""Measure recipes on cases: outcomes, tables with intervals, paired comparison.

`recipes` (what is run) · `cases`, `scenarios` (on what) · `scoring` (the verdict on a reply) · `trajectories` (on a
run) · `probes`, `probe_questions` (what model and server really do) · `play` (a run) · `sweep` (evaluate) · `rows`,
`results` (tables) · `statistics` (intervals and tests) · `plots`.
"""

from toolkit.asking import Asked, ask, read, request
from toolkit.evaluation.cases import Case, list_cases, load_cases
from toolkit.evaluation.probes import Probe, probe
from toolkit.evaluation.results import Result, display_table, readable
from toolkit.evaluation.scoring import OUTCOMES, Outcome, score
from toolkit.evaluation.statistics import Comparison
from toolkit.evaluation.sweep import evaluate
from toolkit.recipes import Recipe, load_recipes

__all__ = [
    "OUTCOMES", "Asked", "Case", "Comparison", "Outcome", "Probe", "Recipe", "Result", "ask", "display_table",
    "evaluate", "list_cases", "load_cases", "load_recipes", "probe", "read", "readable", "request", "score",
]  # fmt: skip
