"""Compare facts about the object itself: each key of a probe names what is looked at.

A key whose meaning is not known "cannot be judged", which is a difference. Not here: runs (`airgap_world`).
"""

from __future__ import annotations

import re
from typing import Any

from airgap_world import Base, Facts, ask, make_tool

import toolkit as tk
from toolkit.agents.airgap.chat import ALLOWED_OPTIONS

# methods of the original's class -> how a caller of ours reaches the same path
PATHS = {"_generate": "invoke", "_agenerate": "ainvoke", "_stream": "stream", "_astream": "astream"}
# words of a key that say a path is the parent's, and words that say it is the class's own
ROUND = r"bypass|parent|inherit|untouched|skip|ignor|around"
OWN = r"overrid|own|defin|has_|class_dict|(?:uses?|with|appl\w+|sees?)_(?:the_)?(?:tools|prompt)"
BROKEN_RULES = {  # what the default mode answers where it repairs the original, and the row that asks for it
    "only_tool_kwargs_returns_self": (False, "C-W9"),
    "empty_bind_returns_self": (False, "C-W9"),
}


class NotJudged(KeyError):
    """No rule says what a key or its value means."""


def probe(observed: Facts, mode: str) -> tuple[list[str], set[str]]:
    """Return what differs, and the rows that ask for it where our fact is the repaired one."""
    found: list[str] = []
    rows: set[str] = set()
    for key, value in observed.items():
        try:
            ours = fact(key, value, mode)
        except NotJudged:
            found.append(f"{key}: cannot be judged")
            continue
        if ours == value:
            continue
        found.append(f"{key}: {ours!r}, observed {value!r}")
        row = "" if mode == "compat" else repaired(key, value, ours)
        rows.add(row)
    return found, rows


def repaired(key: str, value: Any, ours: Any) -> str:
    """Return the row that a repaired fact is owed to; none if ours is not what the repaired mode should give."""
    if key in BROKEN_RULES:
        wanted, row = BROKEN_RULES[key]
    elif key == "kept":
        wanted, row = {name: item for name, item in value.items() if name in ALLOWED_OPTIONS}, "C-W12"
    elif "replaces" in key:
        wanted, row = "refused", "C-W5"  # the originals' probes bind numbers and text, which have no names
    elif key in ("bind_type", "bound_is_same") or ("bind_tools" in key and "self" in key):
        wanted, row = not value if isinstance(value, bool) else "AirgapChat", "C-W9"
    elif is_about_paths(key):
        wanted, row = opposite(key, value), "C-W10"
    else:
        return ""
    return row if ours == wanted else ""


def fact(key: str, value: Any, mode: str) -> Any:
    """Look at our object and say the fact in the words of the observed value."""
    chat = tk.AirgapChat(Base([]), mode=mode)
    if key == "only_tool_kwargs_returns_self":
        return chat.bind(tools=[1], tool_choice="auto", parallel_Tool_calls=True) is chat
    if key == "empty_bind_returns_self":
        return chat.bind() is chat
    if key == "kept":
        return kept(chat.bind(**value, tools=[1], tool_choice="auto"), value)
    if key in ("second_bind_replaces", "bind_tools_replaces"):
        return replaced(chat, value)
    if "bind_tools" in key and "self" in key:
        return chat.bind_tools([]) is chat
    if key in ("bind_type", "bound_is_same"):
        return wrapper(chat, value)
    if key.startswith("tools_after"):
        return tools_after(chat)
    if is_about_paths(key):
        return path_fact(key, value, mode)
    raise NotJudged(key)


def kept(bound: Any, value: Facts) -> Facts:
    """Return which of the bound options are there, under the original's names."""
    if hasattr(bound, "kwargs"):
        return dict(bound.kwargs)
    names = {name: "num_predict" if name == "max_tokens" else name for name in value}
    return {name: bound.options[ours] for name, ours in names.items() if ours in bound.options}


def replaced(chat: tk.AirgapChat, value: list[Any]) -> Any:
    """Return the tools after a second binding; the default mode refuses what is no tool."""
    try:
        return list(chat.bind_tools([make_tool({"name": "t"}, [])]).bind_tools(value).tools)
    except tk.UserError:
        return "refused"


def wrapper(chat: tk.AirgapChat, value: Any) -> Any:
    """Say whether `bind` gives a wrapper round the same object, as the value says."""
    bound = chat.bind(temperature=0.5)
    if isinstance(value, bool):
        return getattr(bound, "chat", None) is chat
    is_wrapper = not isinstance(bound, tk.AirgapChat)
    return value if is_wrapper != ("Airgap" in str(value)) else type(bound).__name__


def tools_after(chat: tk.AirgapChat) -> bool:
    """Say whether tools are still bound after options were bound and a reply was streamed."""
    tool = make_tool({"name": "t", "description": "d"}, [])
    chat.model.replies = ["end"]
    bound = chat.bind_tools([tool]).bind(temperature=0.5)
    list(bound.stream("hi"))
    return len(getattr(bound, "chat", bound).tools) == 1


def is_about_paths(key: str) -> bool:
    return (
        not key.startswith("tools_after")
        and re.search(rf"stream|agenerate|ainvoke|async|methods|{ROUND}|class_dict", key) is not None
    )


def path_fact(key: str, value: Any, mode: str) -> Any:
    """Say which paths go round the prompt and the tools, in the polarity of key and value."""
    if isinstance(value, list):
        if not re.search("methods|class_dict", key):
            raise NotJudged(key)
        return own_methods(key, value, mode)
    goes_round = all(sends_untouched(path, mode) for path in paths_of(key))
    return value if goes_round == says_round(key, value) else opposite(key, value)


def says_round(key: str, value: Any) -> bool:
    """Tell whether a fact says that the path goes round the tools."""
    if isinstance(value, str):  # the name of the class that a method comes from
        return re.search(r"airgap|\bown\b|\bself\b", value, re.IGNORECASE) is None
    if not isinstance(value, bool) or not re.search(f"{ROUND}|{OWN}", key):
        raise NotJudged(key)
    return value if re.search(ROUND, key) else not value


def opposite(key: str, value: Any) -> Any:
    """Return how the same key would say the contrary."""
    if isinstance(value, list):
        return sorted({*value, *looked_at(key, value)})
    if isinstance(value, str):
        return "AirgapChat" if says_round(key, value) else "parent"
    return not value


def paths_of(key: str) -> list[str]:
    """Return the methods that a key names; all that were seen to go round if it names none."""
    if "agenerate" in key or "ainvoke" in key:
        return ["ainvoke"]
    if "astream" in key:
        return ["astream"]
    return ["stream"] if "stream" in key else ["stream", "astream", "ainvoke"]


def own_methods(key: str, value: list[str], mode: str) -> list[str]:
    """Say which methods have the tools, as a list of the original's methods; other names stand as they are."""
    names = looked_at(key, value)
    own = {name for name in names if not sends_untouched(PATHS[name], mode)}
    return value if own == names & set(value) else sorted(own | (set(value) - names))


def looked_at(key: str, value: list[str]) -> set[str]:
    """Return the methods that a list speaks of, in it or by leaving them out; a bare one is about the bypass."""
    return set(PATHS) - ({"_generate"} if "class_dict" in key and "_generate" not in value else set())


def sends_untouched(method: str, mode: str) -> bool:
    base = Base(["TOOL_CALL: t {}", "end"])
    tool = make_tool({"name": "t", "description": "d", "returns": 1}, [])
    chat = tk.AirgapChat(base, mode=mode).bind_tools([tool])
    ask(chat, {"messages": [{"role": "human", "content": "hi"}], "method": method})
    return [m.text for m in base.seen[0]["messages"]] == ["hi"] and len(base.seen) == 1
