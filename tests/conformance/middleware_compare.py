"""Do two sets of notes mean the same? Words of the library may differ; what the scenario itself says may not.

Compared are the order of events, what each model call was given, the final messages and state, and the class of
failure. Not here: whether a difference is meant (`middleware_verdict`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from middleware_wording import same_words

Data = dict[str, Any]
SCRIPTED = ("ValueError", "KeyError", "RuntimeError", "TypeError", "ToolException")
LIMITS = ("GraphRecursionError", "ToolCallLimitExceededError", "ModelCallLimitExceededError")
CRASHES = ("KeyError", "AttributeError", "AssertionError")  # the original falls over instead of saying what is wrong
LEFT_OUT = "(in the words of the library)"  # what stands in our own file for texts of the original
TOLD = ("caught:", "fallback:")  # what a wrapper says of an error that it caught
COUNTS = ("thread_model_calls", "thread_tool_calls")  # shown here, kept by a checkpointer there


def strings(value: Any) -> Iterator[str]:
    """Yield every string of a scenario's definition."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("observed", "description", "name"):
                yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def scripted(error: Data | None, scenario: Data) -> bool:
    """Tell whether an error is one that the scenario itself raises."""
    if not error or error["type"] not in SCRIPTED:
        return False
    text = error["message"].strip("'\"")
    return text == "script exhausted" or f"{error['type']}:{text}" in set(strings(scenario))


def same_error(theirs: Data | None, ours: Data | None, scenario: Data) -> bool:
    if theirs is None or ours is None:
        return theirs is ours
    if scripted(theirs, scenario) or scripted(ours, scenario):
        same_text = theirs["message"].strip("'\"") == ours["message"].strip("'\"")
        return theirs["type"] == ours["type"] and same_text
    if theirs["type"] in CRASHES:
        return False
    return (theirs["type"] in LIMITS) == (ours["type"] == "LimitError")


def raised(own: set[str]) -> set[str]:
    """Return what the scenario itself raises, as CLASS:TEXT."""
    return {text for text in own if text.partition(":")[0] in SCRIPTED} | {"script exhausted"}


class Comparison:
    """Compare the notes of one scenario."""

    def __init__(self, scenario: Data, theirs: Data, ours: Data) -> None:
        self.scenario, self.theirs, self.ours = scenario, theirs, ours
        self.own = set(strings(scenario))
        self.builtin = any("builtin" in m for m in scenario.get("middlewares", []))
        self.asked_apart = asked_apart(scenario)
        taken = (scenario.get("response_format") or {}).get("title")
        self.free_tools = {taken, "write_todos"} - {None}
        self.words = {m["content"] for m in self._our_messages() if self._is_wording(m)}
        self.words |= {w for w in ours.get("words", ()) if self._is_wording({"content": w, "status": "error"})}

    def _our_messages(self) -> list[Data]:
        partial = self.ours.get("partial") or {}
        return self.ours.get("final_messages") or partial.get("final_messages") or []

    def _is_wording(self, m: Data) -> bool:
        if m["content"] in self.own or m["content"].startswith(TOLD):
            return False
        return m.get("status") == "error" or m.get("name") in self.free_tools

    def differences(self) -> list[str]:
        """Return which parts differ in meaning."""
        found = []
        if not same_error(self.theirs.get("error"), self.ours.get("error"), self.scenario):
            found.append("error")
        if self.events(self.theirs) != self.events(self.ours):
            found.append("events")
        if not self.same_calls(self.theirs["model_calls"], self.ours["model_calls"]):
            found.append("model_calls")
        if not self.same_messages(self.theirs.get("final_messages"), self.ours.get("final_messages")):
            found.append("final_messages")
        if self._state(self.theirs) != self._state(self.ours):
            found.append("final_state")
        return found

    def events(self, notes: Data) -> list[str]:
        return sorted(notes["events"]) if self.scenario.get("unordered_events") else notes["events"]

    def _state(self, notes: Data) -> Data:
        found = notes.get("final_state") or {}
        return {k: v for k, v in found.items() if v is not None and not (self.builtin and k in COUNTS)}

    def same_messages(self, theirs: list[Data] | None, ours: list[Data] | None) -> bool:
        if theirs is None or ours is None:
            return theirs is None and ours is None
        return len(theirs) == len(ours) and all(map(self._same_message, theirs, ours))

    def _same_message(self, theirs: Data, ours: Data) -> bool:
        free = ours.get("name") in self.free_tools
        for key in ("type", "tool_calls", "tool_call_id", *(() if free else ("status",))):
            if theirs.get(key) != ours.get(key):
                return False
        if theirs.get("name") != ours.get("name") and not (ours["type"] == "tool" and "name" not in theirs):
            return False
        return self.same_text(text_of(theirs["content"]), text_of(ours["content"]))

    def same_text(self, theirs: str, ours: str) -> bool:
        """Tell whether two texts mean the same: equal, or both in the words of their library."""
        if squeezed(theirs) == squeezed(ours):
            return True
        if theirs.startswith(TOLD):
            return self._both_told(theirs, ours)
        if theirs == LEFT_OUT and self.builtin:
            return ours not in self.own
        if theirs in self.own:
            return False
        same = same_words(theirs, ours)
        return ours in self.words if same is None else same

    def _both_told(self, theirs: str, ours: str) -> bool:
        """Tell whether two texts of a wrapper tell of an error that each library raised in its own words."""
        word, _, error = theirs.partition(":")
        scripted = any(error.replace("'", "").endswith(text.partition(":")[2] or text) for text in raised(self.own))
        return ours.startswith(f"{word}:") and not scripted

    def same_calls(self, theirs: list[Data], ours: list[Data]) -> bool:
        return len(theirs) == len(ours) and all(map(self._same_call, theirs, ours))

    def _same_call(self, theirs: Data, ours: Data) -> bool:
        if theirs["model"] == ours["model"] and (theirs["model"] in self.asked_apart or chooses(theirs)):
            return True
        # where no tool may be called we do not show them either, since servers ignore the choice
        same = ("model", "settings") if ours.get("tool_choice") == "none" else ("model", "settings", "tools")
        if any(theirs.get(key) != ours.get(key) for key in same):
            return False
        if choice_of(theirs) != choice_of(ours) or len(theirs["messages"]) != len(ours["messages"]):
            return False
        return all(map(self._same_line, theirs["messages"], ours["messages"]))

    def _same_line(self, theirs: str, ours: str) -> bool:
        (kind, said), (our_kind, our_said) = theirs.split(":", 1), ours.split(":", 1)
        if kind != our_kind:
            return False
        if "...[" in said or "...[" in our_said:  # cut: only the kind is left to compare
            return True
        return self.same_text(text_of(said), text_of(our_said))


def asked_apart(scenario: Data) -> set[str]:
    """Return the models that only ready-made middleware asks, with a prompt of the library's own."""
    names = set()
    for m in scenario.get("middlewares", []):
        if m.get("builtin") in ("SummarizationMiddleware", "LLMToolSelectorMiddleware", "LLMToolEmulator"):
            given = [*m.get("args", []), m.get("kwargs", {}).get("model")]
            names |= {name[7:] for name in given if isinstance(name, str) and name.startswith("$model:")}
    return names


def chooses(call: Data) -> bool:
    """Tell whether a call is the original's question which tools to offer."""
    return call.get("tools") == ["ToolSelectionResponse"]


def choice_of(call: Data) -> Any:
    """Return a call's tool choice; one in a server's form is its tool's name."""
    choice = call.get("tool_choice") or "auto"
    return choice["function"]["name"] if isinstance(choice, dict) else choice


def plain_events(events: list[str], scenario: Data) -> list[str]:
    """Return the events with one word for every exception class that the scenario does not raise itself."""
    raised = {text.partition(":")[0] for text in strings(scenario)}

    def plain(event: str) -> str:
        head, caught, kind = event.partition(":caught:")
        return f"{head}:caught:*" if caught and kind not in raised else event

    return [plain(event) for event in events]


def squeezed(text: str) -> str:
    """Return a text without line ends, and whole numbers written as such: 3.0 is 3 in JSON."""
    return re.sub(r"(?<![\d.])(\d+)\.0(?!\d)", r"\1", text.replace("\n", ""))


def text_of(content: Any) -> str:
    """Return the text of a content, also where it is a list of text blocks."""
    given = content
    if isinstance(content, str) and content.startswith("[{"):
        try:
            given = json.loads(content)
        except ValueError:
            return content
    if content == []:  # an empty list as a tool's result
        return "[]"
    if isinstance(given, list) and all(isinstance(block, dict) and block.get("type") == "text" for block in given):
        return "".join(block["text"] for block in given)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
