"""Is a run what was predicted? Every part compared: texts of the scenario exactly, a library's wording by its words.

Not here: predicting (`middleware_oracle`), comparing with the original (`middleware_compare`).
"""

from __future__ import annotations

import re
from typing import Any

from middleware_compare import COUNTS, LEFT_OUT, TOLD, asked_apart, choice_of, plain_events, squeezed, text_of
from middleware_oracle_state import MARK

Data = dict[str, Any]


class Fit:
    """Compare a prediction with notes.

    Args:
        ours: the notes.
        own: the texts of the scenario; none of them is wording of a library.
        theirs: the notes are the original's, in whose wording the scenario's own words alone are wanted.
    """

    def __init__(self, scenario: Data, predicted: Data, ours: Data, own: set[str], *, theirs: bool = False) -> None:
        self.scenario, self.predicted, self.ours, self.own = scenario, predicted, ours, own
        self.theirs, self.asked_apart = theirs, asked_apart(scenario)
        self.builtin = any("builtin" in m for m in scenario.get("middlewares", []))

    def misfits(self) -> list[str]:
        """Return the parts in which our run is not what was predicted."""
        partial = self.predicted.get("partial"), self.ours.get("partial")
        fits = {
            "error": self._error(self.predicted.get("error"), self.ours.get("error")),
            "events": self._events(self.predicted) == self._events(self.ours),
            "model_calls": self.calls(self.predicted["model_calls"], self.ours["model_calls"]),
            "final_messages": self.messages(self.predicted.get("final_messages"), self.ours.get("final_messages")),
            "final_state": state_of(self.predicted, self.builtin) == state_of(self.ours, self.builtin),
            "partial": self._partial(*partial),
        }
        return [part for part, fit in fits.items() if not fit]

    def _partial(self, expected: Data | None, ours: Data | None) -> bool:
        if expected is None or ours is None:
            return not expected and not ours
        same = self.messages(expected["final_messages"], ours["final_messages"])
        return same and state_of(expected, self.builtin) == state_of(ours, self.builtin)

    def _events(self, notes: Data) -> list[str]:
        events = plain_events(notes["events"], self.scenario)
        return sorted(events) if self.scenario.get("unordered_events") else events

    def _error(self, expected: Data | None, ours: Data | None) -> bool:
        if expected is None or ours is None:
            return expected is ours
        return expected["type"] == ours["type"] and self.text(expected["message"], ours["message"], whole=False)

    def messages(self, expected: list[Data] | None, ours: list[Data] | None) -> bool:
        """Tell whether a history is what was predicted."""
        return self._all(self._message, expected, ours)

    def calls(self, expected: list[Data], ours: list[Data]) -> bool:
        """Tell whether the models were given what was predicted."""
        return self._all(self._call, expected, ours)

    def _message(self, expected: Data, ours: Data) -> bool:
        if any(expected.get(key) != ours.get(key) for key in ("type", "tool_calls", "tool_call_id", "status")):
            return False
        named = (expected.get("name") or "") == (ours.get("name") or "") or (self.theirs and ours["type"] == "tool")
        return named and self.text(expected["content"], text_of(ours["content"]))

    def _all(self, fit: Any, expected: list[Any] | None, ours: list[Any] | None) -> bool:
        if expected is None or ours is None:
            return expected is ours
        return len(expected) == len(ours) and all(map(fit, expected, ours))

    def _call(self, expected: Data, ours: Data) -> bool:
        if self.theirs and expected["model"] == ours["model"] and expected["model"] in self.asked_apart:
            return True
        same = ["model", "settings", "tools"]
        if self.theirs and ours.get("tool_choice") == "none":  # where no tool may be called we show none
            same.remove("tools")
        if any(expected.get(key) != ours.get(key) for key in same):
            return False
        if choice_of(expected) != choice_of(ours):
            return False
        return self._all(self._line, expected["messages"], ours["messages"])

    def _line(self, expected: str, ours: str) -> bool:
        (kind, said), (our_kind, our_said) = expected.split(":", 1), ours.split(":", 1)
        if kind == our_kind and MARK in said and "...[" in our_said:  # cut, so that the words cannot be seen
            return our_said.startswith(self._lead(said.partition(MARK)[0])[:40])
        return kind == our_kind and self.text(said, text_of(our_said) if self.theirs else our_said)

    def _lead(self, lead: str) -> str:
        """Return what a text of a library starts with; the original's own errors have other classes."""
        return lead.partition(":")[0] if self.theirs and lead.startswith(TOLD) else lead

    def text(self, expected: str, ours: str, *, whole: bool = True) -> bool:
        """Tell whether a text of ours fits: the same, or wording of our own that holds the words."""
        lead, mark, words = expected.partition(MARK)
        lead = self._lead(lead)
        if not mark:
            return squeezed(expected) == squeezed(ours)
        rest = re.sub(r"#\d+(?=\.)", "", ours[len(lead) :])  # the number of one of several of a name
        told = not self.theirs or LEFT_OUT not in ours
        wanted = [word for word in words.split(MARK) if word and told and (not self.theirs or word in self.own)]
        strange = whole and ours in self.own
        return ours.startswith(lead) and bool(rest) and not strange and all(word in rest for word in wanted)


def state_of(notes: Data, builtin: bool) -> Data:
    found = notes.get("final_state") or {}
    return {k: v for k, v in found.items() if v is not None and not (builtin and k in COUNTS)}
