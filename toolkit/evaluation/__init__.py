"""Measure recipes on cases: outcomes, tables with intervals, paired comparison.

`recipes` (what is run) · `cases` (on what) · `scoring` (the verdict) · `sweep` (evaluate) · `results` (tables) ·
`statistics` (intervals and tests) · `plots`.
"""

from toolkit.evaluation.cases import Case, list_cases, load_cases
from toolkit.evaluation.recipes import Recipe, load_recipes
from toolkit.evaluation.results import Comparison, Result
from toolkit.evaluation.scoring import OUTCOMES, Outcome, score
from toolkit.evaluation.sweep import evaluate

__all__ = [
    "OUTCOMES",
    "Case",
    "Comparison",
    "Outcome",
    "Recipe",
    "Result",
    "evaluate",
    "list_cases",
    "load_cases",
    "load_recipes",
    "score",
]
