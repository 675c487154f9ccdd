"""Does AirgapChat do what the original AirgapChatOpenAI was seen to do? Replay a file of observed scenarios.

    python tests/conformance/replay_airgap.py FILE.json [--mode compat|default] [-v]

Format: {"scenarios": [{"name", "messages": [{"role", "content"}], "tools": [{"name", "description", "returns" or
"raise", "style": "invoke" or "call"}], "replies": [what the base model says, in order], "stop", "kwargs", "bind",
"observed": {"final", "tool_log": [[name, args]], "calls": [{"messages": [[role, content]], "stop", "kwargs"}],
"error"}}]}. A scenario of kind "probe" has facts about the object in place of a run.

Each line is `agrees`, `differs on purpose` with the rows of the table of weaknesses that ask for it, or `differs`.
Prompts are compared by meaning: blanks and the words of an error may differ. In compat mode all must agree. In the
default mode a difference is on purpose only if the scenario touches a row that explains it and the run is what the
repaired rules ask for in every part (`airgap_fit`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from airgap_fit import misfits
from airgap_oracle import spoken, squeezed, strict_object
from airgap_probes import probe
from airgap_world import ROLES, Facts, blocks_text, method_of, run


def meaning(content: Any) -> str:
    """Bring a message's content to a form in which only differences of meaning are left."""
    text = re.sub(r"(\w+): Error - [^\n]*", r"\1: Error", blocks_text(content))
    return " ".join(text.split())


def same_call(ours: Facts, theirs: Facts) -> bool:
    ours_said = [[role, meaning(content)] for role, content in ours["messages"]]
    theirs_said = [[ROLES.get(role, role), meaning(content)] for role, content in theirs["messages"]]
    stop = theirs.get("stop")
    asked = {k: v for k, v in (theirs.get("kwargs") or {}).items() if k != "stop"}
    stop = (theirs.get("kwargs") or {}).get("stop") if stop is None else stop
    stop = [stop] if isinstance(stop, str) else stop
    return ours_said == theirs_said and ours["stop"] == (stop or None) and ours["kwargs"] == asked


def differences(ours: Facts, observed: Facts, mode: str) -> list[str]:
    """Name each fact in which a run is not what was observed; white space round the answer is none by default."""
    if "refused" in ours:
        return [f"refused: {ours['refused']}"]
    found = []
    if bool(ours.get("error")) != bool(observed.get("error")):
        found.append(f"error: {ours.get('error')!r}, observed {observed.get('error')!r}")
    for key in ("final", "tool_log", "bind_tools_returns_self"):
        pair = [ours.get(key), observed.get(key)]
        if key == "final" and mode == "default":
            pair = [value.strip() if isinstance(value, str) else value for value in pair]
        if key in observed and pair[0] != pair[1]:
            found.append(f"{key}: {ours.get(key)!r}, observed {observed[key]!r}")
    calls = observed.get("calls")
    if calls is not None and len(calls) != len(ours["calls"]):
        found.append(f"model calls: {len(ours['calls'])}, observed {len(calls)}")
    elif calls is not None:
        pairs = enumerate(zip(ours["calls"], calls, strict=True), 1)
        found += [f"call {n}: {a!r}, observed {b!r}" for n, (a, b) in pairs if not same_call(a, b)]
    known = {"error", "final", "tool_log", "bind_tools_returns_self", "calls"}
    return found + [f"{key}: cannot be judged" for key in observed if key not in known]


def touched(scenario: Facts) -> set[str]:
    """Name the rows of the table of weaknesses that this scenario touches, from its data alone."""
    replies = [reply for reply in scenario.get("replies", ()) if isinstance(reply, str)]
    marked = [reply for reply in replies if re.search(r"TOOL_CALL\s*:", reply, re.IGNORECASE)]
    names = [spec.get("name", "") for spec in scenario.get("tools") or () if isinstance(spec, dict)]
    called = [name for reply in marked for name in re.findall(r"TOOL_CALL\s*:\s*([^\s{\[]+)", reply, re.IGNORECASE)]
    rows = {
        "C-W1": any(not strict(reply) for reply in marked) or len(replies) < len(scenario.get("replies", ())),
        "C-W2": True,  # every conversation is sent as turns, not as one text
        "C-W3": bool(names),
        "C-W4": any(name not in names for name in called),
        "C-W5": any(not re.fullmatch(r"\w+", name) for name in names) or len(set(names)) < len(names),
        "C-W6": len(marked) > 1 or any(name not in names for name in called),
        "C-W7": bool(marked and names),
        "C-W8": bool(marked and names),
        "C-W9": scenario.get("tools") is not None,
        "C-W10": method_of(scenario) != "invoke",
        "C-W11": any(is_mentioned(reply) or is_quoted(reply, scenario) for reply in marked)
        or any(spoken(reply) != reply for reply in replies),
        "C-W12": bool(scenario.get("kwargs") or scenario.get("bind")),
    }
    return {row for row, yes in rows.items() if yes}


def is_mentioned(reply: str) -> bool:
    """Tell whether a marker stands within a line or in a code fence."""
    return len(re.findall(r"(?m)^\s*TOOL_CALL:", reply)) < reply.count("TOOL_CALL:") or "```" in reply


def is_quoted(reply: str, scenario: Facts) -> bool:
    """Tell whether a marked line stands in a message too."""
    said = "\n".join(squeezed(blocks_text(message["content"])) for message in scenario["messages"])
    return any(squeezed(line) in said for line in reply.splitlines() if re.search("TOOL_CALL", line, re.IGNORECASE))


def strict(reply: str) -> bool:
    """Tell whether the original reads the arguments of every call in a reply, and they are JSON by the standard."""
    cut = re.findall(r"TOOL_CALL:\s*\w+\s*({.*?})", reply, re.DOTALL)
    marks = len(re.findall(r"TOOL_CALL\s*:", reply, re.IGNORECASE))
    return len(cut) == marks and all(strict_object(text, 0) for text in cut)


# fact -> the rows that can explain why the default mode differs in it
EXPLAINED_BY = {
    "error": {"C-W4", "C-W6"},
    "final": {"C-W1", "C-W4", "C-W5", "C-W6", "C-W10", "C-W11"},
    "tool_log": {"C-W1", "C-W4", "C-W5", "C-W6", "C-W10", "C-W11"},
    "model calls": {"C-W1", "C-W4", "C-W5", "C-W6", "C-W10", "C-W11"},
    "bind_tools_returns_self": {"C-W9"},
    "call": {"C-W2", "C-W3", "C-W7", "C-W8", "C-W12"},
    "refused": {"C-W5"},
}


def judge(scenario: Facts, mode: str, ours: Facts | None = None) -> tuple[str, list[str]]:
    """Return the verdict on one scenario and what differs.

    Args:
        scenario: one of the file, with what the original was seen to do.
        mode: of AirgapChat.
        ours: our run, where it is at hand.
    """
    observed = scenario.get("observed", {})
    if scenario.get("kind") == "probe":
        found, rows = probe(observed, mode)
        return verdict(found, rows if mode == "default" else {""})
    ours = run(scenario, mode) if ours is None else ours
    found = differences(ours, observed, mode)
    if not found or mode == "compat" or any("cannot be judged" in line for line in found):
        return verdict(found, {""})
    if wrong := misfits(scenario, ours):
        return verdict([*found, *(f"not as repaired: {what}" for what in wrong)], {""})
    facts = [re.sub(r" \d+$", "", line.partition(":")[0]) for line in found]
    reasons = [EXPLAINED_BY.get(fact, set()) & touched(scenario) for fact in facts]
    return verdict(found, set().union(*reasons) if all(reasons) else {""})


def verdict(found: list[str], rows: set[str]) -> tuple[str, list[str]]:
    """Put a verdict into words; the empty row stands for a difference that no row explains."""
    if not found:
        return "agrees", []
    if "" in rows or not rows:
        return "differs", found
    return f"differs on purpose ({', '.join(sorted(rows, key=lambda row: int(row[3:])))})", found


def main(arguments: list[str] | None = None) -> int:
    """Replay files, print one line a scenario and the sums; return 1 if something differs without a purpose."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, default=[Path(__file__).with_name("airgap_own.json")])
    parser.add_argument("--mode", choices=("compat", "default"), default="compat")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what differs on purpose too")
    options = parser.parse_args(arguments)
    counts = {"agrees": 0, "on purpose": 0, "differs": 0}
    for path in options.files:
        for scenario in json.loads(path.read_text("utf-8"))["scenarios"]:
            word, found = judge(scenario, options.mode)
            print(f"{scenario.get('name', '?')}: {word}")
            counts["on purpose" if "purpose" in word else word] += 1
            for line in found if word == "differs" or options.verbose else ():
                print(f"    {line}")
    print(f"agree {counts['agrees']}, on purpose {counts['on purpose']}, differ {counts['differs']}")
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    sys.exit(main())
