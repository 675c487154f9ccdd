"""How does the model of the loop keep state and messages? Plain dicts in the format's words.

A text of our own wording is written as a pattern: what it starts with, a mark, and words that it must hold.
Not here: the loop (`middleware_oracle`).
"""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
MARK = "\0"
TITLES = {"user": "human", "ai": "ai", "tool": "tool", "system": "system"}


def worded(*words: str, lead: str = "") -> str:
    """Return the pattern of a text of our own."""
    return lead + MARK + MARK.join(words)


class Open(Exception):
    """Say that it cannot be predicted how a run goes on."""


class Ended(Exception):
    """An exception on its way through the predicted run."""

    def __init__(self, kind: str, text: str, from_tool: bool = False) -> None:
        super().__init__(text)
        self.kind, self.text, self.from_tool = kind, text, from_tool

    @classmethod
    def scripted(cls, spec: str, from_tool: bool = False) -> Ended:
        """Make one that the scenario raises itself; a KeyError quotes its text."""
        kind, _, text = spec.partition(":")
        return cls(kind, repr(text) if kind == "KeyError" else text, from_tool)


def note(spec: Data) -> Data:
    """Return a message of the scenario's definition as the notes show it, with what they do not show under _names."""
    if spec["role"] in ("remove", "remove_all"):
        return {"_remove": spec.get("id")}
    found: Data = {"type": TITLES[spec["role"]], "content": spec.get("content", "")}
    if spec.get("id"):
        found["_id"] = spec["id"]
    if spec["role"] == "ai":
        found["_invalid"] = spec.get("invalid_tool_calls") or []
        if spec.get("tool_calls"):
            found["tool_calls"] = [{k: c[k] for k in ("name", "args", "id")} for c in spec["tool_calls"]]
    if spec["role"] == "tool":
        found |= {"tool_call_id": spec["tool_call_id"], "status": spec.get("status") or "success"}
        found |= {"name": spec["name"]} if spec.get("name") else {}
    return found


def failed(name: str, known: str | None, *words: str) -> Data:
    """Return an error result in words of our own that must hold the given ones."""
    return {"type": "tool", "content": worded(*words), "name": name, "tool_call_id": known, "status": "error"}


class OracleState:
    """Hold fields and messages of the predicted run."""

    def __init__(self, scenario: Data) -> None:
        self.given = scenario["input"]
        self.fields: dict[str, str] = {}
        for m in scenario.get("middlewares", []):
            self.fields |= m.get("state_fields") or {}
            self.fields |= {"todos": "replace"} if m.get("builtin") == "TodoListMiddleware" else {}
        self.fields |= scenario.get("agent_state_fields") or {}
        parts = [m.get("state_fields") or {} for m in scenario.get("middlewares", [])]
        parts.append(scenario.get("agent_state_fields") or {})
        self.once_public = {key for part in parts for key, kind in part.items() if kind != "private"}
        self.started = False
        self.messages: list[Data] = []
        self.values: Data = {}
        self.structured: Any = None

    def start(self, run: Any) -> None:
        """Take the run's input; every run starts anew."""
        self.started, self.messages, self.run = True, [], run
        empty: Data = {"add": 0, "extend": []}
        self.values = {k: empty[kind] for k, kind in self.fields.items() if kind in empty}
        for key in self.given:
            self.seen_privately(key)
            if key == "todos" and any(m.get("builtin") == "TodoListMiddleware" for m in run.middlewares):
                run.meet("D10")
        public = {k: v for k, v in self.given.items() if self.fields.get(k) != "private"}
        self.merge(public, "input", run)

    def output(self) -> Data:
        found = {k: v for k, v in self.values.items() if self.fields.get(k) != "private"}
        if self.run.structured is not None:
            found["structured_response"] = self.run.structured
        return found

    def shown(self, keys: list[str]) -> Data:
        seen: Data = {**self.values, "messages": len(self.messages)}
        return {k: seen[k] for k in keys if k in seen}

    def seen_privately(self, key: str) -> None:
        """Note where a field is private though one of its declarations is not."""
        if self.fields.get(key) == "private" and key in self.once_public:
            self.run.meet("A3.4")

    def is_plain(self, key: str) -> bool:
        return self.fields.get(key) in ("replace", "private")

    def merge(self, update: Any, who: str, run: Any) -> str | None:
        """Merge an update key by key and return the jump it asks for."""
        if update is None or update == {}:
            return None
        if not isinstance(update, dict):
            run.refuse(None, "UpdateError", who, repr(update))
        jump = None
        for key, value in update.items():
            if key == "messages":
                self.add([note(m) for m in value])
            elif key == "jump_to":
                jump = value
            elif key not in self.fields:
                run.refuse("A-W5", "UpdateError", who, repr(key))
            else:
                self.seen_privately(key)
                old = self.values.get(key)
                self.values[key] = old + value if self.fields[key] in ("add", "extend") else value
        return jump

    # ------------------------------------------------------------------ messages
    def add(self, messages: list[Data]) -> None:
        """Merge messages; what is to be removed goes at the end, and stays if its id is given again."""
        gone: set[str] = set()
        emptied = [n for n, m in enumerate(messages) if "_remove" in m and m["_remove"] is None]
        if emptied:
            self.messages, messages = [], messages[emptied[-1] + 1 :]
        for m in messages:
            ids = [old.get("_id") for old in self.messages]
            if "_remove" not in m:
                self.put(m, ids)
                gone.discard(m.get("_id", ""))
            elif m["_remove"] in ids:
                gone.add(m["_remove"])
            else:
                self.run.refuse("D4" if emptied else None, "UpdateError", repr(m["_remove"]))
        self.messages = [m for m in self.messages if m.get("_id") not in gone]

    def put(self, m: Data, ids: list[Any]) -> None:
        known = m.get("_id")
        if known is not None and known in ids:
            self.messages[ids.index(known)] = m
        else:
            self.messages.append(m)

    def place(self, turn: Data) -> int:
        return next(n for n, m in enumerate(self.messages) if m is turn)

    def insert_after(self, turn: Data, messages: list[Data]) -> None:
        place = self.place(turn) + 1
        self.messages[place:place] = messages

    def answered(self, turn: Data) -> set[Any]:
        return {m["tool_call_id"] for m in self.messages[self.place(turn) + 1 :] if m["type"] == "tool"}

    def last_assistant(self) -> Data | None:
        return next((m for m in reversed(self.messages) if m["type"] == "ai"), None)
