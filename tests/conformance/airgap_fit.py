"""Is a run of the default mode, part for part, what the repaired original should have done?

What is right follows from the scenario and from what the base model said: which messages each request holds, which
calls are run, what the results say, and what the user is told. Nothing of the toolkit is used to tell, and nothing
here knows a scenario's name. Texts are compared without white space and without the dots that break up markers.

Not here: reading the calls of one reply (`airgap_oracle`), what the original did (`replay_airgap`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from airgap_oracle import copied, holds, is_tangled, may_be_broken, outside, same_name, spoken, squeezed, sure_calls
from airgap_world import MORE, ROLES, Facts, asked_for, blocks_text, raised

MOST_REQUESTS = 6  # five rounds of tools and the answer
MOST_RESULT = 4000
PASSED_ON = {"max_tokens", "temperature", "seed", "top_p", "top_k", "min_p", "num_ctx", "num_predict", "think"}
_BLOCK = re.compile(r"<tool_result (\w+)>\n(.*)\n</tool_result \1>")


def norm(text: Any) -> str:
    """Return what two texts are compared by."""
    return re.sub(r"[\[{]", "(", "".join(str(text).split()).replace("·", ""))


def within(part: str, whole: str) -> bool:
    """Tell whether the characters of one text stand in another, in order: it is that text with parts left out."""
    rest = iter(whole)
    return all(char in rest for char in part)


def refusal(scenario: Facts) -> bool:
    """Tell whether the tools should be refused: each needs a name of its own, by which it is looked up (C-W5)."""
    names = [spec.get("name") if isinstance(spec, dict) else None for spec in scenario.get("tools") or ()]
    nameless = any(not isinstance(name, str) or not name.strip() for name in names)
    return nameless or max(Counter(names).values(), default=0) > 1


def misfits(scenario: Facts, ours: Facts) -> list[str]:
    """Name each part of a run that is not what it should be."""
    if refusal(scenario) or "refused" in ours:
        wrong = not refusal(scenario) or "refused" not in ours or ours["calls"] or ours["tool_log"]
        return ["refused"] if wrong else []
    return Fit(scenario, ours).misfits()


class Fit:
    """Walk through one run, request by request, and gather what does not fit."""

    def __init__(self, scenario: Facts, ours: Facts) -> None:
        self.ours, self.found = ours, []
        self.messages, self.asked = scenario["messages"], asked_for(scenario)
        self.bound = {k: v for k, v in (scenario.get("bind") or {}).items() if "tool" not in k.casefold()}
        self.tools = {shown(spec["name"]): spec for spec in scenario.get("tools") or ()}
        self.said = list(scenario.get("replies", ()))
        self.left = [(shown(name), values) for name, values in ours["tool_log"]]
        self.foreign = [blocks_text(m["content"]) for m in self.messages if role_of(m) in ("human", "tool")]
        self.mended = False

    def check(self, holds: Any, what: str) -> None:
        if not holds:
            self.found.append(what)

    def reply(self, number: int) -> Any:
        return self.said[number] if number < len(self.said) else MORE

    def misfits(self) -> list[str]:
        requests = self.ours["calls"]
        self.check(requests and len(requests) <= MOST_REQUESTS, "number of model calls")
        if self.found:
            return self.found
        self.first(requests[0]["messages"])
        for number, request in enumerate(requests):
            self.options(request, number + 1)
            if number:
                self.round(number, requests[number - 1]["messages"], request["messages"])
        self.check(not self.left, f"calls that no request shows: {self.left}")
        self.end(len(requests), self.reply(len(requests) - 1))
        return self.found

    def options(self, request: Facts, number: int) -> None:
        """C-W12: what the model knows is passed on with every request."""
        asked = {**self.bound, **self.asked}
        stop = asked.pop("stop", None)
        stop = [stop] if isinstance(stop, str) else stop
        self.check(request["stop"] == (list(stop) if stop else None), f"stop of request {number}")
        kept = {name: value for name, value in asked.items() if name in PASSED_ON}
        self.check(request["kwargs"] == kept, f"options of request {number}")

    # ------------------------------------------------------------------ the first request
    def first(self, messages: list[list[str]]) -> None:
        """C-W2, C-W3: system texts, all tools, and the whole conversation as turns."""
        texts = [blocks_text(m["content"]) for m in self.messages if role_of(m) == "system"]
        head = norm("".join(texts))
        turns = list(messages)
        if head or self.tools:
            self.check(turns and turns[0][0] == "system", "a system message")
            listed = turns.pop(0)[1] if turns else ""
            self.check(norm(listed).startswith(head), "system texts")
            self.listing(listed)
        wanted = self.turns()
        self.check([role for role, _ in turns] == [role for role, _ in wanted], "turns of the conversation")
        for (_, text), (role, parts) in zip(turns, wanted, strict=False):
            self.check(self.says(text, parts), f"a {role} turn of the conversation")

    def listing(self, listed: str) -> None:
        for name, spec in self.tools.items():
            line = norm(f"- {name}(")
            self.check(line in norm(listed), f"tool {name} in the prompt")
            self.check(norm(spec.get("description") or "") in norm(listed), f"description of {name} in the prompt")
        self.check(("TOOL_CALL: tool_name" in listed) == bool(self.tools), "how to call a tool")

    def turns(self) -> list[tuple[str, list[str]]]:
        """Return role and parts of each turn; neighbouring user turns are one."""
        turns: list[tuple[str, list[str]]] = []
        for message in self.messages:
            role, text = role_of(message), blocks_text(message["content"])
            if role == "system":
                continue
            parts = [json.dumps(text, ensure_ascii=False) if role == "tool" and not is_data(text) else text]
            parts += [call_line(call["name"], call["args"]) for call in message.get("tool_calls") or ()]
            role = "human" if role == "tool" else role
            if turns and turns[-1][0] == role == "human":
                turns[-1][1].extend(parts)
            else:
                turns.append((role, parts))
        return turns

    def says(self, text: str, parts: list[str]) -> bool:
        """Tell whether a turn has these parts, and nothing else if no result's block is among them."""
        if _BLOCK.search(text) and any(role_of(m) == "tool" for m in self.messages):
            return within("".join(map(norm, parts)), norm(text))
        return norm(text) == "".join(map(norm, parts))

    # ------------------------------------------------------------------ further requests
    def round(self, number: int, before: list[list[str]], messages: list[list[str]]) -> None:
        """C-W6, C-W7, C-W8: a further request is the one before, the reply, and the results in blocks."""
        reply, added = self.reply(number - 1), messages[len(before) :]
        self.check(messages[: len(before)] == before, f"request {number + 1} holds the one before")
        self.check([role for role, _ in added] == ["ai", "human"], f"turns that request {number + 1} adds")
        self.check(raised(reply) is None, f"request {number + 1} follows a failure")
        if self.found:
            return
        reply = blocks_text(reply)
        items = [json.loads(body) for _, body in _BLOCK.findall(added[1][1])]
        self.check(items and len({token for token, _ in _BLOCK.findall(added[1][1])}) == 1, "blocks of results")
        self.check(self.tools, "a further request without tools")
        if [list(item) for item in items] == [["error"]]:
            self.mending(reply, added)
            return
        found = re.findall(r"(?m)^TOOL_CALL: (\S+) (\{.*\})$", added[0][1])[-len(items) :]
        called = [(name, json.loads(values)) for name, values in found]
        self.check(len(called) == len(items), f"a result for each call of reply {number}")
        sure = [(self.known(name), values) for name, values in sure_calls(reply, self.foreign)]
        self.check(called[: len(sure)] == sure, f"calls of reply {number}: {called}, surely {sure}")
        for (name, values), item in zip(called, items, strict=False):
            self.call(name, values, item, reply)
        words = norm(added[0][1]).removesuffix(norm("".join(call_line(*call) for call in called)))
        self.check(within(words, norm(reply)), f"words in the turn of reply {number}")

    def known(self, name: str) -> str:
        """Return the tool's name that is meant."""
        return next((known for known in self.tools if same_name(name, known)), name)

    def mending(self, reply: str, added: list[list[str]]) -> None:
        """A reply whose call cannot be read is asked for once more, once a run."""
        self.check(not self.mended and not sure_calls(reply, self.foreign), "asked for a call again")
        self.check(may_be_broken(reply), "asked for a call where there is none")
        self.check(norm(added[0][1]) == norm(reply), "the reply that is to be mended")
        self.mended = True

    def call(self, name: str, values: Facts, item: Facts, reply: str) -> None:
        """Check one call against the reply, and the block of its result against the tool's answer."""
        call, spec = f"{name}({values})", self.tools.get(name)
        self.check(item.get("tool") == name, f"result of {call}")
        self.check(holds(reply, name, values), f"{call} is not in the reply")
        self.check(not copied(reply, name, values, self.foreign), f"{call} is copied")
        if spec is None:  # C-W4
            error = norm(item.get("error"))
            self.check(all(norm(part) in error for part in (name, *list(self.tools)[:3])), f"error of {call}")
            return
        self.check(self.left[:1] == [(name, values)], f"{call} was run")
        self.left = self.left[1:]
        if "raise" in spec:
            self.check(norm(spec["raise"]) in norm(item.get("error")), f"error of {call}")
        else:
            self.check(same_result(item, spec.get("returns")), f"result of {call}")
        self.foreign.append(str(item.get("error", spec.get("returns"))))

    # ------------------------------------------------------------------ the end
    def end(self, number: int, reply: Any) -> None:
        """The last reply is what the user is told, without thoughts; calls in it are left only at the limit."""
        if raised(reply) is not None:
            self.check("error" in self.ours, "a failure of the model is an error")
            return
        self.check("error" not in self.ours, f"error {self.ours.get('error')}")
        reply, final = blocks_text(reply), squeezed(str(self.ours.get("final")))
        sure = sure_calls(reply, self.foreign) if self.tools else []
        self.check(not sure or number == MOST_REQUESTS, f"calls that were not run: {sure}")
        if sure or is_tangled(reply) or (self.mended and may_be_broken(reply)):  # what reads as a call is left out
            self.check(within(final, squeezed(reply)), "the answer")
            self.check(self.mended or sure or squeezed(outside(reply)) in final, "the answer beside thoughts")
        else:
            told = {squeezed(spoken(reply)), *([squeezed(reply)] if "```" in reply else [])}  # a fence may show tags
            self.check(final in told, "the answer")


def role_of(message: Facts) -> str:
    return ROLES.get(message["role"], message["role"])


def shown(name: str) -> str:
    """Return the name under which a tool is shown: one that a call can carry (C-W5)."""
    if re.fullmatch(r"[\w.\-:/]+", name):
        return name
    return re.sub(r"[^\w.\-:/]+", "_", name).strip("_") or "tool"


def call_line(name: str, values: Any) -> str:
    return f"TOOL_CALL: {name} {json.dumps(values, ensure_ascii=False)}"


def is_data(text: str) -> bool:
    """Tell whether a text is a JSON object or list; a block shows it as such."""
    try:
        return isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def same_result(item: Facts, value: Any) -> bool:
    """Tell whether a block shows what the tool gave, as JSON; a long one is cut and says so."""
    if "result" not in item:
        return False
    found = item["result"]
    wanted = json.loads(value) if isinstance(value, str) and is_data(value) else value
    text = wanted if isinstance(wanted, str) else json.dumps(wanted, ensure_ascii=False)
    if "cut" in item:
        return len(text) > MOST_RESULT and isinstance(found, str) and norm(text).startswith(norm(found)[:100])
    return norm(json.dumps(found, ensure_ascii=False)) == norm(json.dumps(wanted, ensure_ascii=False))
