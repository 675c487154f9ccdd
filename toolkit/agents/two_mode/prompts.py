"""What do the two prompts of the two-mode agent show? Templates, examples, and earlier turns with their contexts.

Those with named slots run in jinja2's immutable sandbox, so braces in what a user says are only braces; those named
`faithful_` have the numbered slots of the published rule. User texts, contexts and answers of earlier turns are kept
apart, so that it is a setting, not a fact, how much of them is sent.
Not here: filling them (`toolkit.agents.two_mode.agent`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from toolkit import resources
from toolkit.agents.runtime import FRAME, tokens_of
from toolkit.agents.two_mode.turn import TwoModeTurn
from toolkit.errors import ConfigError, check_object, check_word
from toolkit.prompting import templates
from toolkit.prompting.disarming import Disarming
from toolkit.traces.json_text import parsed, read_text

Contexts = Literal["all", "last", "none"]
# of an example: key -> its type, and the type in words
_EXAMPLE: dict[str, tuple[Any, str]] = {
    "user": (str, "a text"), "action": (str, "a name"), "action_input": ((dict, str), "an object or a text"),
    "rows": ((list, tuple), "a list of what the action gave"),
}  # fmt: skip
CONTEXTS: tuple[Contexts, ...] = ("all", "last", "none")


@dataclass(frozen=True)
class Template:
    """Hold a template's text, and where it lies, for errors."""

    source: str
    where: str

    def fill(self, disarm: Disarming, **values: Any) -> str:
        """Return the prompt; what it shows as JSON is disarmed.

        Raises:
            ConfigError: it uses an unknown variable.
        """
        return templates.fill(self.source, values, self.where, disarm.json)


def load_template(value: str | Path | None, name: str) -> Template:
    """Read a prompt: its text, a file, or None for the one in `prompts/two_mode/`.

    Raises:
        ConfigError: the file cannot be read, or is no jinja template where it is to be one.
    """
    path = resources.path(f"prompts/two_mode/{name}") if value is None else value
    try:
        found = Template(path, name) if isinstance(path, str) else Template(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"Cannot read the prompt {str(path)!r}: {error}.") from None
    if name.endswith(".jinja"):
        templates.check(found.source, found.where)
    return found


def load_examples(examples: Iterable[Mapping[str, Any]] | None, names: Collection[str]) -> list[dict[str, Any]]:
    """Return few-shot turns as {"user", "reply", "rows"}: the reply as the model should write it, the data it gave.

    They are read from dicts with user, action, action_input and rows; None takes the bundled ones where they fit.

    Raises:
        ConfigError: an example lacks user or action, or names an unknown action.
    """
    if examples is not None:
        return [_example(row, f"example {number}", names) for number, row in enumerate(examples, 1)]
    path = resources.path("prompts/two_mode/examples.jsonl")
    rows = {
        where: parsed(line, where)
        for number, line in enumerate(read_text(path).split("\n"), 1)
        if line.strip() and (where := f"{str(path)!r} line {number}")
    }
    named = {row["action"] for row in rows.values() if isinstance(row, Mapping) and isinstance(row.get("action"), str)}
    found = [_example(row, where, named) for where, row in rows.items()]
    return found if named - {"none"} <= set(names) else []


def _example(row: Mapping[str, Any], where: str, names: Collection[str]) -> dict[str, Any]:
    check_object(where, row, _EXAMPLE, ["user", "action"])
    check_word(f"action of {where}", row["action"], ["none", *names])
    call = {key: row[key] for key in ("action", "action_input") if key in row}
    return {"user": row["user"], "reply": templates.as_json(call), "rows": list(row.get("rows", ()))}


@dataclass(frozen=True)
class ShownTurn:
    """Hold one earlier turn as a template sees it; `reply` is what tool mode should have written, in JSON."""

    user: str
    assistant: str
    reply: str
    context: Any = None  # None too where it is left out

    def disarmed(self, disarm: Disarming) -> ShownTurn:
        """Return the turn with nothing in it that could be read as a call, but what the agent did."""
        return ShownTurn(disarm(self.user), disarm(self.assistant), self.reply, disarm.value(self.context))

    @property
    def rows(self) -> list[Any]:
        """Return the items of a context that is a list, so that they can be numbered; else nothing."""
        return self.context if isinstance(self.context, list) else []

    @property
    def tokens(self) -> int:
        """Return about how many tokens the turn takes."""
        data = "" if self.context is None else templates.as_json(self.context)
        return tokens_of(f"{self.user}{self.assistant}{self.reply}{data}") + 3 * FRAME


def shown_turns(turns: Sequence[TwoModeTurn], contexts: Contexts = "all", budget: int = 2000) -> list[ShownTurn]:
    """Return the turns to show, oldest first, with the contexts of all, of the last one that had one, or of none.

    Over the budget of tokens the oldest contexts go first, then the oldest turns; the last turn always stays.
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
