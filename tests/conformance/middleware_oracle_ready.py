"""What do ready-made middlewares do in the model of the loop? Each hook of theirs, by its description.

Sizes in tokens are counted as the original does; texts of our own wording have no certain length, so that whether a
history with such texts is long enough may be open (`Open`).
Not here: what they hide of personal data (`middleware_oracle_pii`), their wording (`middleware_wording`).
"""

from __future__ import annotations

import re
from typing import Any

from middleware_oracle_ops import next_turn
from middleware_oracle_pii import hide_input, hide_output
from middleware_oracle_state import MARK, Ended, Open, failed, note, worded

Data = dict[str, Any]
WINDOW = 8192  # tokens, for sizes that are a fraction of it
ATTEMPTS = 3  # at a summary
UNSURE = 60  # tokens that a text of our own wording may have beside its known words
ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
SILENT = ("ToolErrorMiddleware", "HumanInTheLoopMiddleware")  # where no scenario has a function or a person


def ready_hook(given: Data, hook: str) -> Data | None:
    """Return what a ready-made middleware does in a hook, or None."""
    work = READY.get((given["builtin"], hook))
    return {"ready": work, "can_jump_to": ("end",)} if work else None


def refused_at_build(run: Any, m: Data) -> None:
    """Refuse settings that cannot work; the original finds some later, and some that work here never."""
    options = m.get("kwargs", {})
    if m.get("builtin") == "ToolErrorMiddleware" and m.get("args"):  # a scenario has nothing that could be called
        run.refuse("D6", "ConfigError", repr(m["args"][0]))
    if m.get("builtin") == "SummarizationMiddleware":
        kinds = [kind for kind, _ in (*sizes(options.get("trigger")), *sizes(options.get("keep")))]
        if "fraction" in kinds:
            run.meet("D9")


# ---------------------------------------------------------------------- models
def model_retry(run, m, request, handler):
    options = m.get("kwargs", {})
    for attempt in range(options.get("max_retries", 2) + 1):
        try:
            return handler(request)
        except Ended as error:
            if attempt < options.get("max_retries", 2):
                continue
            if options.get("on_failure", "continue") == "error":
                raise
            return [note({"role": "ai", "content": worded(error.text)})], None, []
    raise AssertionError("a retry always ends")


def fallback(run, m, request, handler):
    models = [request["model"], *(name.removeprefix("$model:") for name in m.get("args", []))]
    for name in models[:-1]:
        try:
            return handler(request | {"model": name})
        except Ended:
            continue
    return handler(request | {"model": models[-1]})


def model_limit(run, m):
    limits = [m.get("kwargs", {}).get(key) for key in ("run_limit", "thread_limit")]
    if not any(limit is not None and run.turns >= limit for limit in limits):
        return None
    if m["kwargs"].get("exit_behavior", "end") == "error":
        raise Ended("LimitError", worded("model call"))
    return {"jump_to": "end", "messages": [{"role": "ai", "content": worded("model call")}]}


# ---------------------------------------------------------------------- tools
def tool_limit(run, m):
    options, turn = m.get("kwargs", {}), run.state.last_assistant()
    only = options.get("tool_name")
    calls = (turn or {}).get("tool_calls", [])
    mine = [c for c in calls if only in (None, c["name"])]
    limit = min(options[key] for key in ("run_limit", "thread_limit") if options.get(key) is not None)
    room = max(0, limit - run.used[id(m)])
    refused = mine[room:]
    if refused and options.get("exit_behavior", "continue") == "error":
        raise Ended("LimitError", worded(str(limit)))
    run.used[id(m)] += len(mine)
    if not refused:
        return None
    end = options.get("exit_behavior") == "end"
    answered = [*refused, *[c for c in calls if c not in refused]] if end else refused
    words = {c["id"]: (str(limit),) if c in refused else () for c in answered}
    told = [told_error(c["name"], c["id"], *words[c["id"]]) for c in answered]
    last = {"role": "ai", "content": worded(str(limit))}
    return {"messages": [*told, last], "jump_to": "end"} if end else {"messages": told}


def told_error(name: str, known: str, *words: str) -> Data:
    """Return the definition of an error result in words of our own."""
    return {"role": "tool", "content": worded(*words), "name": name, "tool_call_id": known, "status": "error"}


def tool_retry(run, m, request, handler):
    options, call = m.get("kwargs", {}), request["call"]
    if options.get("tools") is not None and call["name"] not in options["tools"]:
        return handler(request)
    for attempt in range(options.get("max_retries", 2) + 1):
        try:
            return handler(request)
        except Ended as error:
            if attempt < options.get("max_retries", 2):
                continue
            if options.get("on_failure", "continue") in ("error", "raise"):
                raise
            return failed(call["name"], call["id"], error.text)
    raise AssertionError("a retry always ends")


def emulate(run, m, request, handler):
    options, call = m.get("kwargs", {}), request["call"]
    if options.get("tools") is not None and call["name"] not in options["tools"]:
        return handler(request)
    said = asked(run, options["model"].removeprefix("$model:")).get("content", "")
    return {**failed(call["name"], call["id"]), "content": said, "status": "success"}


def select(run, m, request, handler):
    """Offer the tools that a model chose; without a model those that share most words with the question."""
    options, names = m.get("kwargs", {}), request["tools"]
    always, most = options.get("always_include", []), options.get("max_tools")
    if missing := [name for name in always if names and name not in names]:
        run.refuse(None, "ConfigError", repr(missing[0]))
    pool = [name for name in names if name not in always]
    if not pool:
        return handler(request)
    if "model" not in options:
        run.meet("D12")
        picked = by_words(run, request, pool)
    else:
        calls = asked(run, options["model"].removeprefix("$model:")).get("tool_calls", [])
        picked = [name for call in calls for name in call["args"].get("tools", [])]
    if not set(picked) <= set(pool):
        run.meet("D11")
    picked = [name for name in dict.fromkeys(picked) if name in pool][:most] or pool[:most]
    return handler(request | {"tools": [n for n in names if n in picked] + [n for n in names if n in always]})


def by_words(run: Any, request: Data, pool: list[str]) -> list[str]:
    """Return the tools, those first whose name and description share most words with the last question."""
    question = next((m["content"] for m in reversed(request["messages"]) if m["type"] == "human"), "")

    def score(name: str) -> int:
        told = run.registry[name].get("description", f"{name} tool")
        return len(words(question) & words(" ".join([name, told, *run.registry[name].get("params", {})])))

    return sorted(pool, key=score, reverse=True)


def words(text: str) -> set[str]:
    return {word.lower().rstrip("s") for word in re.findall(r"[^\W_]{3,}", text)}


# ---------------------------------------------------------------------- plans
def plan_told(run, m, request, handler):
    text = m.get("kwargs", {}).get("system_prompt", worded())
    return handler(request | {"system": "\n\n".join(part for part in (request["system"], text) if part)})


def plan_once(run, m):
    turn = run.state.last_assistant() or {}
    calls = [c for c in turn.get("tool_calls", []) if c["name"] == "write_todos"]
    return {"messages": [told_error(c["name"], c["id"]) for c in calls]} if len(calls) > 1 else None


# ---------------------------------------------------------------------- long histories
def summarize(run, m):
    """Put a summary in the place of all but the tail."""
    options, history = m.get("kwargs", {}), run.state.messages
    if not any(reached(history, size) for size in sizes(options.get("trigger"))):
        return
    cut = whole(history, tail(history, *sizes(options.get("keep", ["messages", 20]))[0]))
    if not cut:
        return
    summary = written(run, m["args"][0].removeprefix("$model:")).strip()
    if not summary:  # the original loses what it was to summarize
        run.meet("D8")
        return
    run.state.messages = [note({"role": "user", "content": worded(summary)}), *history[cut:]]
    return


def sizes(given: Any) -> list[list[Any]]:
    """Return one size of the format, or several, as pairs."""
    given = given["$tuple"] if isinstance(given, dict) else given or []
    return [given] if given and isinstance(given[0], str) else [size["$tuple"] for size in given]


def reached(history: list[Data], size: list[Any]) -> bool:
    kind, amount = size
    return len(history) >= amount if kind == "messages" else not fits(history, part(kind, amount) - 1)


def part(kind: str, amount: float) -> float:
    return max(1, int(amount * WINDOW)) if kind == "fraction" else amount


def tail(history: list[Data], kind: str, amount: float) -> int:
    """Return where the part begins that is kept."""
    if kind == "messages":
        return max(0, len(history) - int(amount))
    cut = len(history)
    while cut and fits(history[cut - 1 :], part(kind, amount)):
        cut -= 1
    return max(0, min(cut, len(history) - 1))


def fits(history: list[Data], most: float) -> bool:
    """Tell whether messages have at most so many tokens, four characters each and three for a message."""
    count = sum(3 + -(-len(counted(m)) // 4) for m in history)
    unsure = sum(UNSURE for m in history if MARK in m["content"])
    if count <= most < count + unsure:
        raise Open
    return count <= most


def counted(m: Data) -> str:
    calls = [{k: c[k] for k in ("name", "args", "id")} | {"type": "tool_call"} for c in m.get("tool_calls", [])]
    parts = [ROLES[m["type"]], m["content"].replace(MARK, ""), m.get("name", ""), m.get("tool_call_id", "")]
    return "".join([*parts, repr(calls) if calls else ""])


def whole(history: list[Data], cut: int) -> int:
    """Return the cut before the calls of the results it fell on, or behind results without calls."""
    end = cut
    while end < len(history) and history[end]["type"] == "tool":
        end += 1
    ids = {m["tool_call_id"] for m in history[cut:end]}
    for place in reversed(range(cut)):
        if ids & {c["id"] for c in history[place].get("tool_calls", [])}:
            return place
    return end


def asked(run: Any, model: str) -> Data:
    """Return what a model says to a prompt in words of our own."""
    run.model_calls.append({"model": model, "messages": [f"human:{worded()}"]})
    run.events.append(f"{model}:call")
    return next_turn(run, model)


def written(run: Any, model: str) -> str:
    for attempt in range(ATTEMPTS):
        try:
            return str(asked(run, model).get("content", ""))
        except Ended:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("a summary always ends")


def clear(run, m, request, handler):
    """Show old results as a placeholder."""
    for edit in m.get("kwargs", {}).get("edits", [{}]):
        if fits(request["messages"], edit.get("trigger", 100_000)):
            continue
        old = [n for n, said in enumerate(request["messages"]) if said["type"] == "tool"]
        old = old[: max(0, len(old) - edit.get("keep", 3))]
        old = [n for n in old if asked_just_before(request["messages"], n)]
        request = request | {"messages": [cleared(n in old, said, edit) for n, said in enumerate(request["messages"])]}
    return handler(request)


def asked_just_before(history: list[Data], place: int) -> bool:
    """Tell whether the last assistant message before a result holds its call."""
    turns = [m for m in history[:place] if m["type"] == "ai"]
    return any(c["id"] == history[place]["tool_call_id"] for m in turns[-1:] for c in m.get("tool_calls", []))


def cleared(old: bool, said: Data, edit: Data) -> Data:
    kept = not old or said.get("_cleared") or said.get("name") in edit.get("exclude_tools", ())
    return said if kept else said | {"content": edit.get("placeholder", "[cleared]"), "_cleared": True}


READY: dict[tuple[str, str], Any] = {
    ("ModelRetryMiddleware", "wrap_model_call"): model_retry,
    ("ModelFallbackMiddleware", "wrap_model_call"): fallback,
    ("ModelCallLimitMiddleware", "before_model"): model_limit,
    ("ToolCallLimitMiddleware", "after_model"): tool_limit,
    ("ToolRetryMiddleware", "wrap_tool_call"): tool_retry,
    ("LLMToolEmulator", "wrap_tool_call"): emulate,
    ("LLMToolSelectorMiddleware", "wrap_model_call"): select,
    ("TodoListMiddleware", "wrap_model_call"): plan_told,
    ("TodoListMiddleware", "after_model"): plan_once,
    ("SummarizationMiddleware", "before_model"): summarize,
    ("ContextEditingMiddleware", "wrap_model_call"): clear,
    ("PIIMiddleware", "before_model"): hide_input,
    ("PIIMiddleware", "after_model"): hide_output,
}
READY_TOOLS: dict[Any, list[Data]] = {
    "TodoListMiddleware": [{"name": "write_todos", "params": {"todos": "list"}, "impl": "todos"}]
}


def modelled(scenario: Data) -> bool:
    """Tell whether the model knows every ready-made middleware of a scenario, as it is set there."""
    ready = [m for m in scenario.get("middlewares", []) if "builtin" in m]
    return all(m["builtin"] in SILENT or known(m["builtin"], m.get("kwargs", {})) for m in ready)


def known(name: str, options: Data) -> bool:
    if name == "ContextEditingMiddleware":
        plain = {"$edit", "trigger", "keep", "placeholder", "exclude_tools"}
        by_script = options.get("token_count_method") == "model"
        return not by_script and all(set(edit) <= plain for edit in options.get("edits", [{}]))
    return any(name == built for built, _ in READY)
