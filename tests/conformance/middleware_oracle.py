"""What does a scenario come to when the loop is as documented? A small model of it, made of plain data.

It plays a scenario's definition by the rules of the behaviour specification with the weaknesses repaired, and notes
what can be seen in the format's words. Where it meets a weakness it notes the row of the table and how far the run
had come: up to that point the original must have done the same. It shares no code with the toolkit.
Not here: wrappers and tools (`middleware_oracle_ops`), what is done with a prediction (`middleware_verdict`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from middleware_oracle_ops import ask
from middleware_oracle_ready import READY_TOOLS, ready_hook, refused_at_build
from middleware_oracle_state import Ended, OracleState, failed, worded
from middleware_oracle_tools import run_call

Data = dict[str, Any]
NODE_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
JUMPS = ("end", "model", "tools")
REASKS = 2  # turns in a row that hold unreadable calls only
MANY = 200


class Met(NamedTuple):
    """How far a run had come when it met a weakness: events and model calls noted, messages in the history."""

    events: int
    calls: int
    messages: list[Data] | None


class Oracle:
    """Predict one scenario.

    Attributes:
        events, model_calls: what the prediction notes.
        met: row of the table -> how far the run had come when that weakness was met first.
    """

    def __init__(self, scenario: Data) -> None:
        self.scenario = scenario
        self.middlewares = scenario.get("middlewares", [])
        self.is_async = scenario.get("mode") == "async"
        self.events: list[str] = []
        self.model_calls: list[Data] = []
        self.met: dict[str, Met] = {}
        self.counters: Counter[Any] = Counter()
        ready = [t for m in self.middlewares for t in (m.get("tools") or READY_TOOLS.get(m.get("builtin"), []))]
        self.tools_given = [*ready, *scenario.get("tools", [])]
        self.registry = {t["name"]: t for t in self.tools_given}
        self.known = {t["name"]: t for t in scenario.get("unregistered_tools", [])} | self.registry
        self.wraps_tools = bool(self.hooks("wrap_tool_call"))
        self.has_tools = bool(self.registry) or self.wraps_tools
        self.response_format = scenario.get("response_format")
        self.title = (self.response_format or {}).get("title")
        self.state = OracleState(scenario)

    # ------------------------------------------------------------------ the outside
    def predict(self) -> Data:
        """Return the notes of the repaired run; `partial` says what an error keeps."""
        found: Data = {}
        try:
            self.check_build()
            for number in range(self.scenario.get("repeat_invocations", 1)):
                if number:
                    self.events.append("--- next invocation")
                self.run()
            found |= self.outcome()
        except Ended as error:
            found["error"] = {"type": error.kind, "message": error.text}
            found["partial"] = self.outcome() if self.state.started else None
        return found | {"events": self.events, "model_calls": self.model_calls}

    def outcome(self) -> Data:
        seen = [{k: v for k, v in m.items() if not k.startswith("_")} for m in self.state.messages]
        return {"final_messages": seen, "final_state": self.state.output()}

    def meet(self, row: str) -> None:
        """Note a row of the table where it is met first."""
        self.met.setdefault(row, Met(len(self.events), len(self.model_calls), list(self.state.messages)))

    def hooks(self, hook: str) -> list[tuple[Data, Data]]:
        """Return (middleware, definition) for one hook, in list order."""
        found = []
        for given in self.middlewares:
            own = ready_hook(given, hook) if "builtin" in given else given.get("hooks", {}).get(hook)
            if own is not None:
                found.append((given, own))
        return found

    # ------------------------------------------------------------------ before the run
    def check_build(self) -> None:
        """Refuse what cannot work when the agent is built or started."""
        node = [(m, hook, given) for hook in NODE_HOOKS for m, given in self.hooks(hook)]
        for _, _, given in node:
            for target in given.get("can_jump_to", ()):
                if target not in JUMPS:
                    self.refuse("A-W3", "ConfigError", "can_jump_to", repr(target))
        names = [m.get("name") for m in self.middlewares]
        if len(set(names)) < len(names):
            self.meet("A-W8")
        tools = Counter(t["name"] for t in self.tools_given)
        if twice := [name for name, count in tools.items() if count > 1]:
            self.refuse("A-W17", "ConfigError", repr(twice[0]))
        for _, _, given in node:
            if "tools" in given.get("can_jump_to", ()) and not self.has_tools:
                self.refuse("A-W3", "ConfigError", "may jump to 'tools'")
        for m in self.middlewares:
            refused_at_build(self, m)
        if not self.is_async:
            self.check_flavours()

    def check_flavours(self) -> None:
        for m in self.middlewares:
            if m.get("flavour") == "async" and m.get("hooks"):
                self.refuse("A-W9", "ConfigError", m["name"])

    def refuse(self, row: str | None, kind: str, *words: str) -> None:
        """End the run with an error of our own that names the words."""
        if row is not None:
            self.meet(row)
        raise Ended(kind, worded(*words))

    # ------------------------------------------------------------------ the loop
    def run(self) -> None:
        self.offered: list[str] | None = None
        self.turns = self.jumps = self.asked_again = 0
        self.used: Counter[str] = Counter()  # of the ready limits
        self.structured: Any = None
        self.state.start(self)
        jump = self.chain("before_agent")
        stage, jumped = jump or "model", jump is not None
        while True:
            jump = self.chain("before_model") if stage == "model" else None
            if stage == "model" and jump is None:
                jump = self.turn()
                stage, jumped = jump or self.exit(), jump is not None
            elif stage == "model":
                stage, jumped = str(jump), True
            elif stage == "tools":
                stage, jumped = self.tools(jumped) or "model", False
            else:
                jump = self.chain("after_agent")
                if jump is None:
                    return
                stage, jumped = jump, True

    def chain(self, hook: str) -> str | None:
        """Run node hooks one by one; the first jump skips the rest."""
        chain = self.hooks(hook)
        for place, (m, given) in enumerate(chain if hook.startswith("before") else chain[::-1]):
            label = f"{m['name']}.{hook}"
            update = given["ready"](self, m) if "ready" in given else self.called(m, hook, given)
            jump = self.state.merge(update, label, self)
            if jump is None:
                continue
            allowed = given.get("can_jump_to", ())
            if jump not in allowed:
                self.refuse("A-W3", "UpdateError", label, repr(jump))
            if (hook, jump, place) == ("before_model", "model", 0):
                self.meet("A-W2")
            outer = self.middlewares[: next(n for n, other in enumerate(self.middlewares) if other is m)]
            limited = any(other.get("builtin") == "ModelCallLimitMiddleware" for other in outer)
            if hook == "after_model" and limited:  # whose own hook there would have run later
                self.meet("D5")
            self.count_jump()
            return str(jump)
        return None

    def called(self, m: Data, hook: str, given: Data) -> Any:
        """Return what a scripted node hook gives."""
        key = (id(m), hook)
        turn = self.counters[key]
        self.counters[key] += 1
        label = f"{m['name']}.{hook}"
        if m.get("flavour") == "both":
            label += "[async]" if self.is_async else "[sync]"
        if given.get("show_state"):
            label += ":" + json.dumps(self.state.shown(given["show_state"]), sort_keys=True)
        self.events.append(label)
        if str(turn) in given.get("raise_on", {}):
            raise Ended.scripted(given["raise_on"][str(turn)])
        returns = given.get("returns", [])
        update = returns[turn] if turn < len(returns) else given.get("default")
        if "goto" in given and given.get("as_command"):
            self.refuse("A1.7", "TypeError", "goto")
        if given.get("as_command") and isinstance(update, (str, int, float)):
            self.refuse("A-W5", "UpdateError", f"{m['name']}.{hook}", repr(update))
        return update

    def count_jump(self) -> None:
        self.jumps += 1
        if self.jumps > self.scenario.get("recursion_limit", MANY):
            raise Ended("LimitError", worded("jump"))

    # ------------------------------------------------------------------ the model
    def turn(self) -> str | None:
        """Ask the model once and run the after_model chain; return a jump."""
        if self.turns >= self.scenario.get("recursion_limit", MANY):
            raise Ended("LimitError", worded(str(self.turns)))
        self.turns += 1
        self.answer_unreadable()
        self.offered, self.structured = None, None
        said, structured, commands = ask(self, self.request())
        self.state.add(said)
        if structured is not None:
            self.structured = structured
        jump = self.apply(commands)
        if jump is not None:
            return jump
        return self.chain("after_model")

    def request(self) -> Data:
        system = self.scenario.get("system_prompt")
        names = list(dict.fromkeys(self.registry))
        said = list(self.state.messages)
        shape = self.response_format
        return {"model": "model", "messages": said, "system": system, "tools": names, "response_format": shape}

    def apply(self, commands: list[tuple[Data, str]]) -> str | None:
        """Merge the commands of one step: the last writer of a plain field wins."""
        written: Counter[str] = Counter()
        jump = None
        for update, who in commands:
            for key in update or ():
                written[key] += self.state.is_plain(key)
            if any(count > 1 for count in written.values()):
                self.meet("A-W6")
            asked = self.state.merge(update, who, self)
            if asked is not None:
                self.meet("A-W3")
                if asked not in JUMPS:
                    self.refuse("A-W3", "UpdateError", repr(asked))
                self.count_jump()
            jump = asked or jump
        return jump

    def answer_unreadable(self) -> None:
        """Put an error result right after each turn with calls that could not be read."""
        for turn in [m for m in self.state.messages if m.get("_invalid")]:
            answered = self.state.answered(turn)
            bad = [c for c in turn["_invalid"] if c["id"] not in answered]
            self.state.insert_after(turn, [failed(c["name"], c["id"], c.get("error") or "") for c in bad])

    def exit(self) -> str:
        """Tell where a turn leads."""
        if not self.has_tools:
            return "end" if self.title is None or self.structured is not None else "model"
        turn = self.state.last_assistant()
        if turn is None or not (turn.get("tool_calls") or turn.get("_invalid")):
            return "end"
        if self.pending(turn):
            self.asked_again = 0
            return "tools"
        if self.structured is not None:
            return "end"
        if turn.get("tool_calls") or not turn.get("_invalid"):
            return "model"
        self.meet("A-W12")
        if self.asked_again >= REASKS:
            return "end"
        self.asked_again += 1
        return "model"

    def pending(self, turn: Data) -> list[Data]:
        answered = self.state.answered(turn)
        return [c for c in turn.get("tool_calls", []) if c["id"] not in answered and c["name"] != self.title]

    # ------------------------------------------------------------------ the tools
    def tools(self, jumped: bool) -> str | None:
        """Run the calls without a result; return a jump."""
        turn = self.state.last_assistant()
        if turn is None:
            self.refuse(None, "UpdateError", "'tools'")
        assert turn is not None
        calls = self.pending(turn)
        if jumped and len(calls) < len(turn.get("tool_calls", [])):
            self.meet("A-W1")
        if not calls:
            return None
        outcomes = self.all_of([lambda call=call: run_call(self, call) for call in calls])
        jump = self.take(outcomes)
        if jump is not None:
            return jump
        if self.is_answered(turn):
            return "end"
        return "end" if self.title and self.gave_answer(turn) else None

    def is_answered(self, turn: Data) -> bool:
        """Tell whether every tool that ran gives the answer; what a wrapper put in a call's place is what ran.

        There each call decides for itself, and takes the others to have run under their own names.
        """
        later = self.state.messages[self.state.place(turn) :]
        put = {m["tool_call_id"]: m["name"] for m in later if m.get("_ran") in self.registry}
        called = {c["id"]: c["name"] for c in turn["tool_calls"]}
        ours = self.all_direct([*(called | put).values()])
        if {self.all_direct([*(called | {known: put.get(known, called[known])}).values()]) for known in called} != {
            ours
        }:
            self.meet("D13")
        return ours

    def all_direct(self, names: list[str]) -> bool:
        ran = [self.registry[name] for name in names if name in self.registry]
        return bool(ran) and all(tool.get("return_direct") for tool in ran)

    def all_of(self, jobs: list[Callable[[], Data]]) -> list[Data]:
        """Do every call of a turn; then the first exception goes on."""
        found, errors = [], []
        for job in jobs:
            try:
                found.append(job())
            except Ended as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return found

    def take(self, outcomes: list[Data]) -> str | None:
        """Merge results and commands in the order of the calls."""
        written: Counter[str] = Counter()
        jump = None
        for outcome in outcomes:
            if "update" not in outcome:
                self.state.add([outcome])
                continue
            for key in outcome["update"]:
                written[key] += self.state.is_plain(key)
            if any(count > 1 for count in written.values()):
                self.meet("A-W6")
            jump = self.apply([(outcome["update"], outcome["who"])]) or jump
        return jump

    def gave_answer(self, turn: Data) -> bool:
        mine = {c["id"] for c in turn["tool_calls"] if c["name"] == self.title}
        later = self.state.messages[self.state.place(turn) :]
        return any(m.get("tool_call_id") in mine and m["status"] == "success" for m in later)


def predict(scenario: Data) -> tuple[Data, dict[str, Met]]:
    """Return the notes of the repaired run and the weaknesses it met, each with how far the run had come."""
    oracle = Oracle(scenario)
    return oracle.predict(), oracle.met
