"""Which earlier turns, and which of their contexts, does the two-mode agent show to the model?

User texts, contexts and answers are kept apart, so that it is a setting, not a fact, how much of them is sent.

Not here: how a turn looks in the prompt (`prompts/two_mode/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolkit.agents.two_mode.turn import TwoModeTurn
from toolkit.prompting import templates

Contexts = Literal["all", "last", "none"]
CONTEXTS: tuple[Contexts, ...] = ("all", "last", "none")
CHARS_PER_TOKEN = 3.5  # JSON and short words; an estimate is enough to stay within a window


@dataclass(frozen=True)
class ShownTurn:
    """Hold one earlier turn as a template sees it.

    Attributes:
        user: what the user said.
        assistant: what the agent answered.
        reply: the JSON of what it did, as tool mode should have written it.
        context: the data of the turn, or None where it is left out.
    """

    user: str
    assistant: str
    reply: str
    context: Any = None

    @property
    def rows(self) -> list[Any]:
        """Return the items of a context that is a list, so that they can be numbered; else nothing."""
        return self.context if isinstance(self.context, list) else []

    @property
    def tokens(self) -> int:
        """Return about how many tokens the turn takes."""
        said = f"{self.user}{self.assistant}{self.reply}" + (
            "" if self.context is None else templates.as_json(self.context)
        )
        return int(len(said) / CHARS_PER_TOKEN) + 8


def shown_turns(turns: Sequence[TwoModeTurn], contexts: Contexts = "all", budget: int = 2000) -> list[ShownTurn]:
    """Return the turns to show, oldest first.

    Over the budget the oldest contexts go first, then the oldest turns; the last turn always stays.

    Args:
        turns: all turns so far.
        contexts: whose contexts are shown: of all turns, of the last one that had one, of none.
        budget: most tokens, by estimate.
    """
    with_context = [place for place, turn in enumerate(turns) if turn.context is not None]
    keep = {"all": with_context, "last": with_context[-1:], "none": []}[contexts]
    kept = set(keep)
    shown = [
        ShownTurn(turn.message, turn.text, _reply(turn), turn.context if place in kept else None)
        for place, turn in enumerate(turns)
    ]
    sizes = [turn.tokens for turn in shown]
    total = sum(sizes)
    for place in keep[:-1]:
        if total <= budget:
            return shown
        shown[place] = replace(shown[place], context=None)
        total += shown[place].tokens - sizes[place]
        sizes[place] = shown[place].tokens
    first = 0
    while first < len(shown) - 1 and total > budget:
        total -= sizes[first]
        first += 1
    return shown[first:]


def _reply(turn: TwoModeTurn) -> str:
    """Return what tool mode should have written: the actions that were carried out, or none."""
    done = [{"action": action.name, "action_input": action.input} for action in turn.actions]
    return templates.as_json(done[0] if len(done) == 1 else done or {"action": "none"})
