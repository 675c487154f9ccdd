"""Find out what a model and its server really do, and which recipes lean on something that does not hold: `tk.probe`.

    tk.probe("ollama/qwen3:4b", store="runs/x/replies.sqlite")

Not here: the questions (`probe_questions`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.errors import ReplayMissError
from toolkit.evaluation.probe_questions import Questions
from toolkit.models.base import ChatModel, Options, Reply
from toolkit.models.registry import as_model
from toolkit.models.store import Store
from toolkit.recipes import Recipe
from toolkit.traces.json_text import frame_html, loads
from toolkit.traces.text import printable

CHECKS: dict[str, str] = {
    "think_on": "thinking comes where it is asked for",
    "think_off": "none comes where it is turned off",
    "think_apart": "thinking stands apart from the answer",
    "format": "a schema is kept",
    "format_and_think": "a schema is kept where the model may think",
    "key_order": "keys come in the schema's order",
    "tools_shown": "the model is shown tools whole",
    "tools_read": "a call that the model writes is handed over",
    "unknown_name": "so is a call of a tool not offered, or reported",
    "seed": "the same seed gives the same words",
    "order": "what was asked before changes no greedy reply",
    "parallel": "requests in flight at once change no greedy reply",
    "prefix_cache": "a prompt is read once",
    "template": "the model's own template is in force",
    "speed": "speed",
}
_KEY = {"kind": "probe", "version": 1}  # of the row that holds a probe; raised where the questions change
_SETTINGS: dict[str, Any] = {"temperature": 0.0, "seed": 0, "num_predict": 256}
if hasattr(Options(), "transport"):  # the server's own way is what is looked at
    _SETTINGS["transport"] = "chat"
_VERDICTS = {True: "holds", False: "does not hold", None: "not known"}


@dataclass(frozen=True)
class Finding:
    """Hold what one question showed.

    Attributes:
        check: a key of `CHECKS`.
        holds: None where it could not be found out.
        seen: in words.
    """

    check: str
    holds: bool | None
    seen: str


@dataclass(frozen=True)
class Probe:
    """Hold what was found of one model on one server.

    Attributes:
        model: its name.
        fingerprint: of model and server, with the road that the server takes.
        findings: in the order of `CHECKS`.
    """

    model: str
    fingerprint: dict[str, Any]
    findings: tuple[Finding, ...]

    def __getitem__(self, check: str) -> Finding:
        return next(finding for finding in self.findings if finding.check == check)

    @property
    def broken(self) -> list[Finding]:
        """Return what does not hold."""
        return [finding for finding in self.findings if finding.holds is False]

    @property
    def says_broken(self) -> str:
        """Return one line with what does not hold; empty where everything does."""
        return "does not hold: " + "; ".join(CHECKS[one.check] for one in self.broken) if self.broken else ""

    def table(self) -> Any:
        """Return a DataFrame with one line for each question."""
        import pandas as pd

        lines = [(CHECKS[one.check], _VERDICTS[one.holds], one.seen) for one in self.findings]
        return pd.DataFrame(lines, columns=["what", "verdict", "seen"])

    def warnings(self, recipe: Recipe) -> list[str]:
        """Say what a recipe leans on that does not hold."""
        leans = leaned_on(recipe)
        return [
            f"Recipe {recipe.name!r} leans on {self.model}: {CHECKS[one.check]}. That does not hold ({one.seen}). "
            f"{leans[one.check]}"
            for one in self.broken
            if one.check in leans
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        found = [[one.check, one.holds, one.seen] for one in self.findings]
        return {"model": self.model, "fingerprint": self.fingerprint, "findings": found}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Probe:
        """Read what `to_dict` gave."""
        found = tuple(Finding(*one) for one in data["findings"] if one[0] in CHECKS)
        return cls(data["model"], data["fingerprint"], found)

    def __str__(self) -> str:
        what = {key: value for key, value in self.fingerprint.items() if key in ("server", "road") and value}
        head = ", ".join([self.model, *map(str, what.values())])
        width = max(map(len, CHECKS.values()))
        lines = [f"{CHECKS[one.check]:{width}}  {_VERDICTS[one.holds]:13}  {one.seen}" for one in self.findings]
        return "\n".join(map(printable, [head, *lines]))

    def _repr_html_(self) -> str:
        return frame_html(self.table())


def leaned_on(recipe: Recipe) -> dict[str, str]:
    """Return each check that a recipe needs to hold, with the way out where it does not."""
    options: Options = recipe.settings
    leans: dict[str, str] = {}
    thinks, held = options.think, recipe.arm == "constrained"
    if thinks:
        leans["think_on"] = "Leave think out, or ask for reasoning in the prompt."
    if thinks is False or (held and not thinks):
        leans["think_off"] = "Replies hold thinking: allow it, with a larger num_predict."
    if thinks or (thinks is None and not held):
        leans["think_apart"] = "Calls within thoughts stand in the text; set think = false."
    if held:
        leans["format_and_think" if thinks else "format"] = "Replies are checked, but not held: take the prompted arm."
        if getattr(options, "transport", "chat") == "chat":
            leans["key_order"] = "The model must write keys in another order than the prompt shows."
    if recipe.arm == "native":
        leans["tools_shown"] = "Say in descriptions what is lost, or take the prompted arm."
        leans["tools_read"] = leans["unknown_name"] = "Take the prompted arm: the text is read by us."
        leans["template"] = "Keep one tag of that file, or unload the other before."
    if options.temperature > 0:
        leans["seed"] = "Repeats cannot be asked again alike; keep the store."
    else:
        leans["order"] = leans["parallel"] = "Differences between recipes as small as that mean nothing."
    return leans


def probe(model: ChatModel | str, store: Store | str | Path | None = None) -> Probe:
    """Find out what a model and its server really do, with some thirty short requests.

    Args:
        model: a model or its name.
        store: where the answer is kept, for this digest, server version and road; a path makes one.

    Raises:
        UserError: the model cannot be reached.
    """
    asked = as_model(model)
    with closing(asked) if isinstance(model, str) else nullcontext():
        asked.check()
        kept = Store(store) if isinstance(store, (str, Path)) else store
        with closing(kept) if isinstance(store, (str, Path)) and kept else nullcontext():
            mark = asked.fingerprint()
            if kept is not None and (found := kept.find(_KEY, mark)):
                return Probe.from_dict(loads(found.text))
            return _asked(asked, mark, kept)


def _asked(model: ChatModel, mark: dict[str, Any], kept: Store | None) -> Probe:
    questions = Questions(model, _SETTINGS)
    seen = {check: Finding(check, holds, words) for check, holds, words in questions.all()}
    road = {"road": questions.card.road} if questions.card else {}
    found = Probe(model.name, {**mark, **road}, tuple(seen[check] for check in CHECKS if check in seen))
    if kept is not None and not questions.failed:  # what the server left open is asked again
        said = json.dumps(found.to_dict(), ensure_ascii=False)
        kept.keep(_KEY, mark, Reply(said, model=model.name), model=model.name)
    return found


def probes_for(recipes: Iterable[Recipe], store: Store | str | Path | None) -> list[Probe]:
    """Return what a store holds of the models of recipes, and warn of each recipe that leans on what does not hold."""
    if store is None or (isinstance(store, (str, Path)) and not Path(store).exists()):
        return []
    recipes, found = list(recipes), []
    with closing(Store(store)) if isinstance(store, (str, Path)) else nullcontext(store) as kept:
        for name in dict.fromkeys(recipe.model for recipe in recipes):
            with suppress(ReplayMissError):
                found.append(Probe.from_dict(loads(kept.replay(_KEY, name).text)))
    for one in found:
        for words in [words for recipe in recipes if recipe.model == one.model for words in one.warnings(recipe)]:
            warnings.warn(words, stacklevel=3)
    return found
