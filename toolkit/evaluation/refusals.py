"""Refuse what a model cannot do before a sweep begins, and stop a recipe that its server refuses again and again.

Not here: running the cases (`toolkit.evaluation.sweep`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.asking import request
from toolkit.errors import ConfigError
from toolkit.evaluation import rows
from toolkit.evaluation.cases import Case
from toolkit.models.base import ChatModel, ChatRequest
from toolkit.recipes import Recipe

_NUMBERS = re.compile(r"[0-9a-f]{6,}|\d+")  # of requests, times and the like (Source: ollama#15934)
MOST_EQUAL = 5  # refusals in the same words, one after the other
_PASSING = ("timeout: ",)  # another case may be quicker


def check_requests(recipes: Iterable[Recipe], cases: Iterable[Case], model: ChatModel) -> None:
    """Check that a model can do what recipes ask of it, one request for each schema; nothing is asked.

    Raises:
        ConfigError: it takes no tools, cannot think, has a smaller window, or cannot be held to a schema.
    """
    seen: set[Any] = set()
    for recipe, case in itertools.product(recipes, cases):
        key = recipe.name, tuple(map(id, case.tools)) if recipe.arm == "constrained" else bool(case.tools)
        if key in seen:
            continue
        seen.add(key)
        sent = request(recipe, case.messages, case.tools)
        asked = ChatRequest(sent.options, sent.schema, sent.messages, sent.tools or (), sent.tool_choice)
        try:
            model.check_request(asked)
        except ConfigError as error:
            raise ConfigError(f"Recipe {recipe.name!r}, case {case.id!r}: {error}") from error


@dataclass
class Refusals:
    """Count the faults of one recipe in the same words, one after the other.

    Attributes:
        stopped: what the rows of the cases are that are not asked any more; None while they are.
    """

    last: str = ""
    count: int = 0
    stopped: rows.Row | None = None

    def add(self, outcome: Mapping[str, Any]) -> bool:
        """Take note of a row, and tell whether it is a refusal."""
        said = outcome["detail"] if outcome["outcome"] == "server_fault" else ""
        if self.stopped or not said or said.startswith(_PASSING):
            self.last, self.count = "", 0
            return bool(said)
        words = _NUMBERS.sub("#", said)
        self.count, self.last = self.count + 1 if words == self.last else 1, words
        if self.count >= MOST_EQUAL:
            why = f"not asked, for {self.count} requests before it were refused in the same words: {said}"
            seen = {"outcome": "server_fault", "right": False, "detail": why[:1000]}
            self.stopped = {**seen, **rows.NO_FACTS, "traceback": ""}
        return True
