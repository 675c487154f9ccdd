"""Does AirgapChat do what the original AirgapChatOpenAI was seen to do? Replay a file of observed scenarios.

    python tests/conformance/replay_airgap.py FILE.json [--mode compat|default] [-v]

Format: {"scenarios": [{"name", "messages": [{"role", "content"}], "tools": [{"name", "description", "returns" or
"raise", "style": "invoke" or "call"}], "replies": [what the base model says, in order], "stop", "kwargs", "bind",
"observed": {"final", "tool_log": [[name, args]], "calls": [{"messages": [[role, content]], "stop", "kwargs"}],
"error"}}]}. A scenario of kind "probe" has facts about the object in place of a run.

Each line is `agrees`, `differs on purpose` with the rows of the table of weaknesses that ask for it, or `differs`.
Prompts are compared by meaning: blanks and the words of an error may differ. In compat mode all must agree.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import toolkit as tk
from toolkit.models.base import Chunk

Facts = dict[str, Any]
UNASKED = {"temperature": 0.0123, "num_predict": 4567}  # values that no scenario asks for, so that asking shows
ROLES = {"user": "human", "assistant": "ai"}


class Base(tk.ChatModel):
    """The base model: says the replies in order, whatever they are, and notes what it was given."""

    name = "base"

    def __init__(self, replies: list[Any], more: str | None = None) -> None:
        self.replies = list(replies)
        self.more = more  # said once the replies are used up; the default mode asks more often than the original
        self.seen: list[dict[str, Any]] = []

    def stream(self, messages: Any, *, options: Any = None, **request: Any) -> Iterator[Chunk]:
        self.seen.append({"messages": list(messages), "options": options, **request})
        return self._play()

    def complete_stream(self, prompt: str, *, options: Any = None, **request: Any) -> Iterator[Chunk]:
        return self.stream([tk.ChatMessage.from_user(prompt)], options=options, **request)

    def _play(self) -> Iterator[Chunk]:
        said = self.replies.pop(0) if self.replies or self.more is None else self.more
        if isinstance(said, dict) and (problem := said.get("raise") or said.get("error")):
            raise RuntimeError(problem)
        text = said.get("content", said) if isinstance(said, dict) else said
        if self.more is not None:  # only the original's rules can meet a reply that is no text
            text = blocks_text(text)
        yield Chunk(reply=tk.Reply(text))

    def fingerprint(self) -> dict[str, Any]:
        return {"backend": "base"}


def make_tool(spec: Any, log: list[Any]) -> Any:
    """Build an object with only the attributes that the scenario gives it."""
    if not isinstance(spec, dict):
        return spec

    def work(values: Any) -> Any:
        log.append([spec.get("name"), values])
        if "raise" in spec:
            raise RuntimeError(spec["raise"])
        return spec.get("returns")

    called = spec.get("style") in ("call", "callable", "function")
    method = {"__call__": lambda self, **kw: work(kw)} if called else {"invoke": lambda self, args: work(args)}
    shown = {key: spec[key] for key in ("name", "description") if key in spec}
    return type("ScenarioTool", (), {**shown, **method})()


def run(scenario: Facts, mode: str) -> Facts:
    """Run a scenario and return what can be seen of it, in the format's words."""
    base, log = Base(scenario.get("replies", ()), "That is all." if mode == "default" else None), []
    chat = tk.AirgapChat(base, mode=mode, **UNASKED)
    seen: Facts = {}
    if scenario.get("tools") is not None:
        bound = chat.bind_tools([make_tool(spec, log) for spec in scenario["tools"]])
        seen["bind_tools_returns_self"], chat = bound is chat, bound
    try:
        seen["final"] = ask(chat, scenario)
    except (tk.ToolkitError, RuntimeError, IndexError, TypeError, AttributeError) as error:
        seen["error"] = f"{type(error).__name__}: {error}"
    plain = tk.Options.of(chat.options)
    seen["calls"] = [request_facts(request, plain) for request in base.seen]
    seen["tool_log"] = log
    return seen


def ask(chat: tk.AirgapChat, scenario: Facts) -> Any:
    kwargs = next((scenario[k] for k in ("kwargs", "generate_kwargs", "invoke_kwargs") if k in scenario), {})
    stop = scenario.get("stop", None)
    bound = chat.bind(**scenario["bind"]) if scenario.get("bind") else chat
    request = {**getattr(bound, "kwargs", {}), **kwargs, **({"stop": stop} if stop is not None else {})}
    chat = getattr(bound, "chat", bound)
    method = str(scenario.get("method") or scenario.get("via") or "invoke").strip("_")
    if "stream" in method:
        return [chunk.reply for chunk in chat.stream(scenario["messages"], **request)][-1].text
    if method.startswith("a"):
        return asyncio.run(chat.ainvoke(scenario["messages"], **request)).text
    return chat.invoke(scenario["messages"], **request).text


def request_facts(request: Facts, plain: tk.Options) -> Facts:
    options = tk.Options.of(request["options"])
    kwargs = {}
    if options.temperature != plain.temperature:
        kwargs["temperature"] = options.temperature
    if options.num_predict != plain.num_predict:
        kwargs["max_tokens"] = options.num_predict
    messages = [[ROLES.get(str(m.role), str(m.role)), m.text or ""] for m in request["messages"]]
    return {"messages": messages, "stop": list(options.stop) or None, "kwargs": kwargs}


def blocks_text(content: Any) -> str:
    """Return the text of a content, whether it is text or a list of blocks."""
    if isinstance(content, list):
        return "".join(block.get("text", "") if isinstance(block, dict) else str(block) for block in content)
    return str(content)


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


def differences(ours: Facts, observed: Facts) -> list[str]:
    """Name each fact in which a run is not what was observed."""
    found = []
    if bool(ours.get("error")) != bool(observed.get("error")):
        found.append(f"error: {ours.get('error')!r}, observed {observed.get('error')!r}")
    for key in ("final", "tool_log", "bind_tools_returns_self"):
        if key in observed and ours.get(key) != observed[key]:
            found.append(f"{key}: {ours.get(key)!r}, observed {observed[key]!r}")
    calls = observed.get("calls")
    if calls is not None and len(calls) != len(ours["calls"]):
        found.append(f"model calls: {len(ours['calls'])}, observed {len(calls)}")
    elif calls is not None:
        pairs = enumerate(zip(ours["calls"], calls, strict=True), 1)
        found += [f"call {n}: {a!r}, observed {b!r}" for n, (a, b) in pairs if not same_call(a, b)]
    known = {"error", "final", "tool_log", "bind_tools_returns_self", "calls"}
    return found + [f"{key}: cannot be judged" for key in observed if key not in known]


def probe(observed: Facts, mode: str) -> list[str]:
    """Compare facts about the object itself; each key names what is looked at."""
    found = []
    for key, value in observed.items():
        try:
            ours = probe_fact(key, value, mode)
        except KeyError:
            found.append(f"{key}: cannot be judged")
            continue
        except tk.UserError as error:  # the default mode refuses what is no tool
            ours = error
        if ours != value:
            found.append(f"{key}: {ours!r}, observed {value!r}")
    return found


def probe_fact(key: str, value: Any, mode: str) -> Any:
    chat = tk.AirgapChat(Base([]), mode=mode)
    if key == "only_tool_kwargs_returns_self":
        return chat.bind(tools=[1], tool_choice="auto", parallel_Tool_calls=True) is chat
    if key == "empty_bind_returns_self":
        return chat.bind() is chat
    if key == "kept":
        bound = chat.bind(**value, tools=[1], tool_choice="auto")
        return bound.kwargs if hasattr(bound, "kwargs") else {k: bound.options[k] for k in value}
    if key in ("second_bind_replaces", "bind_tools_replaces"):
        return chat.bind_tools([1]).bind_tools(value).tools
    if "bind_tools" in key and "self" in key:
        return chat.bind_tools([]) is chat
    if re.search(r"stream|agenerate|ainvoke|async|bypass", key):
        return bypass_fact(key, value, mode)
    raise KeyError(key)


def bypass_fact(key: str, value: Any, mode: str) -> Any:
    """Say whether streaming and async callers go round the prompt and the tools, in the polarity of the key."""
    goes_round = all(sends_untouched(method, mode) for method in ("stream", "ainvoke"))
    if isinstance(value, bool):
        own = re.search(r"overrid|own|defin|has_|tools", key) is not None
        return goes_round != own
    return value if goes_round else None  # text such as the parent's class name


def sends_untouched(method: str, mode: str) -> bool:
    base = Base(["TOOL_CALL: t {}", "end"])
    tool = make_tool({"name": "t", "description": "d", "returns": 1}, [])
    chat = tk.AirgapChat(base, mode=mode).bind_tools([tool])
    ask(chat, {"messages": [{"role": "human", "content": "hi"}], "method": method})
    return [m.text for m in base.seen[0]["messages"]] == ["hi"] and len(base.seen) == 1


def touched(scenario: Facts) -> set[str]:
    """Name the rows of the table of weaknesses that this scenario touches, from its data alone."""
    replies = [reply for reply in scenario.get("replies", ()) if isinstance(reply, str)]
    marked = [reply for reply in replies if re.search(r"TOOL_CALL:", reply, re.IGNORECASE)]
    names = [spec.get("name", "") for spec in scenario.get("tools") or () if isinstance(spec, dict)]
    called = [name for reply in marked for name in re.findall(r"TOOL_CALL:\s*([^\s{\[]+)", reply, re.IGNORECASE)]
    rows = {
        "C-W1": any(not strict(reply) for reply in marked) or len(replies) < len(scenario.get("replies", ())),
        "C-W2": True,  # every conversation is sent as turns, not as one text
        "C-W3": bool(names),
        "C-W4": any(name not in names for name in called),
        "C-W5": any(not re.fullmatch(r"\w+", name) for name in names),
        "C-W6": len(marked) > 1 or any(name not in names for name in called),
        "C-W7": bool(marked and names),
        "C-W8": bool(marked and names),
        "C-W9": scenario.get("tools") is not None,
        "C-W10": bool(scenario.get("method") or scenario.get("via")),
        "C-W11": any(len(re.findall(r"(?m)^\s*TOOL_CALL:", r)) < r.count("TOOL_CALL:") or "```" in r for r in marked),
        "C-W12": bool(scenario.get("kwargs")),
    }
    return {row for row, yes in rows.items() if yes}


def strict(reply: str) -> bool:
    """Tell whether the original reads the arguments of every call in a reply."""
    cut = re.findall(r"TOOL_CALL:\s*\w+\s*({.*?})", reply, re.DOTALL)
    try:
        return len(cut) == len(re.findall(r"TOOL_CALL:", reply, re.IGNORECASE)) and all(json.loads(c) or 1 for c in cut)
    except ValueError:
        return False


# fact -> the rows that can explain why the default mode differs in it
EXPLAINED_BY = {
    "error": {"C-W4", "C-W6"},
    "final": {"C-W1", "C-W4", "C-W5", "C-W6", "C-W10", "C-W11"},
    "tool_log": {"C-W1", "C-W4", "C-W5", "C-W6", "C-W10", "C-W11"},
    "model calls": {"C-W1", "C-W4", "C-W5", "C-W6", "C-W10", "C-W11"},
    "bind_tools_returns_self": {"C-W9"},
    "call": {"C-W2", "C-W3", "C-W7", "C-W8", "C-W12"},
}
PROBES_EXPLAINED_BY = "C-W9, C-W10, C-W12"


def judge(scenario: Facts, mode: str) -> tuple[str, list[str]]:
    """Return the verdict on one scenario and what differs."""
    observed = scenario.get("observed", {})
    is_probe = scenario.get("kind") == "probe"
    found = probe(observed, mode) if is_probe else differences(run(scenario, mode), observed)
    if not found:
        return "agrees", []
    if mode == "compat" or any("cannot be judged" in line for line in found):
        return "differs", found
    if is_probe:
        return f"differs on purpose ({PROBES_EXPLAINED_BY})", found
    rows = touched(scenario)
    facts = [re.sub(r" \d+$", "", line.partition(":")[0]) for line in found]
    reasons = [EXPLAINED_BY.get(fact, set()) & rows for fact in facts]
    if not all(reasons):
        return "differs", found
    named = sorted(set().union(*reasons), key=lambda row: int(row[3:]))
    return f"differs on purpose ({', '.join(named)})", found


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
            verdict, found = judge(scenario, options.mode)
            print(f"{scenario.get('name', '?')}: {verdict}")
            counts["on purpose" if "purpose" in verdict else verdict] += 1
            for line in found if verdict == "differs" or options.verbose else ():
                print(f"    {line}")
    print(f"agree {counts['agrees']}, on purpose {counts['on purpose']}, differ {counts['differs']}")
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    sys.exit(main())
