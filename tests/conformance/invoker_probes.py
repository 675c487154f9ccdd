"""Run and compare scenarios of kind probe and c2_tool: construction, schemas from functions, serialisation, limits.

A probe is code that a scenario names. Each function here does with our toolkit what the probe did, and returns the
same form. A leaf that differs needs a rule in `PURPOSE`, which looks at what ours gave.
Not here: invokers at work, callers, OpenAPI.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from caller_scenarios import weather as _fc_weather
from invoker_compare import CONSTRUCTION
from invoker_verdict import Verdict
from invoker_world import error_of

import toolkit as tk

EMPTY = {"type": "object", "properties": {}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
POSTPONED = (
    "from __future__ import annotations\nfrom typing import Literal\n"
    "def f(u: Literal['a', 'b'] = 'a'):\n    return u\ndef g(n: int):\n    return n\n"
)


def weather_invoker(parameters: dict = EMPTY, **settings: Any) -> tk.ToolInvoker:
    return tk.ToolInvoker([tk.Tool("weather", "d", parameters, _fc_weather)], **settings)


def named(name: str) -> tk.Tool:
    return tk.Tool(name, "d", EMPTY, lambda: name)


def failure(job: Callable[[], Any]) -> dict | None:
    try:
        job()
    except Exception as error:
        return error_of(error)
    return None


def _x_to_dict():
    invoker = weather_invoker(CITY, raise_on_failure=False)
    data = invoker.to_dict()
    return {"dict": data, "round_trip_equal": tk.ToolInvoker.from_dict(copy.deepcopy(data)).to_dict() == data}


def _c2_to_dict():
    invoker = weather_invoker()
    data = invoker.to_dict()
    return {"dict": data, "round_trip_equal": tk.ToolInvoker.from_dict(copy.deepcopy(data)).to_dict() == data}


def _x_to_dict_lambda():
    invoker = tk.ToolInvoker([tk.Tool("l", "d", EMPTY, lambda: 1)])
    found = failure(invoker.to_dict)
    return {"error": found} if found else {"value": invoker.to_dict()["init_parameters"]["tools"][0]["function"]}


def _x_from_dict_mutates_input():
    data = weather_invoker().to_dict()
    tk.ToolInvoker.from_dict(data)
    return {"input_tools_now": type(data["init_parameters"]["tools"][0]).__name__}


def _x_tool_bad_schema():
    found = failure(lambda: tk.Tool("t", "d", {"type": "banana"}, _fc_weather))
    return {"error": found} if found else {"value": "accepted"}


def _x_tool_spec_and_invoke():
    tool = tk.Tool("t", "d", {"type": "object", "properties": {"city": {"type": "integer"}}}, _fc_weather)
    wrong = failure(lambda: tool.invoke(town="x"))
    return {
        "tool_spec": tool.tool_spec,
        "no_validation_of_arguments": tool.invoke(city="Berlin"),
        "wrong_kwarg": wrong,
        "message_keeps_root_error": "unexpected" in wrong["message"],
    }


def _x_from_function():
    def get_weather(
        city: Annotated[str, "the city"],
        unit: Annotated[Literal["C", "F"], "the unit"] = "C",
        days: int | None = None,
    ):
        """Weather doc."""
        return 1

    def nohint(x):
        return 1

    return {
        "spec": tk.Tool.from_function(get_weather).tool_spec,
        "no_hint": failure(lambda: tk.Tool.from_function(nohint)),
        "docstring_off": tk.Tool.from_function(get_weather, description="").description,
    }


def _x_chatmessage_shape():
    call = tk.ToolCall("a", {"x": 1}, "1")
    return {
        "assistant": tk.ChatMessage.from_assistant("t", tool_calls=[call]).to_dict(),
        "tool": tk.ChatMessage.from_tool("r", origin=call, error=True).to_dict(),
        "assistant_no_args": tk.ChatMessage.from_assistant().to_dict(),
    }


def _x_caller_to_dict():
    caller = tk.OpenAIFunctionCaller(available_functions={"weather": _fc_weather})
    back = tk.OpenAIFunctionCaller.from_dict(copy.deepcopy(caller.to_dict()))
    return {"dict": caller.to_dict(), "round_trip": back.available_functions["weather"] is _fc_weather}


def _c2_tool_from_function():
    def get_weather(city: Annotated[str, "the city"] = "Munich", unit: Literal["C", "F"] = "C"):
        """Doc."""
        return 1

    def nohint(x):
        return 1

    async def co(x: int):
        return 1

    renamed = tk.tool(name="w2", description="dd")(get_weather)
    return {
        "spec": tk.Tool.from_function(get_weather).tool_spec,
        "decorated_type": type(tk.tool(get_weather)).__name__,
        "renamed": [renamed.name, renamed.description],
        "no_hint": failure(lambda: tk.Tool.from_function(nohint)),
        "async_function": failure(lambda: tk.Tool.from_function(co)) or _answer_of(co),
        "empty_description": tk.Tool.from_function(get_weather, description="").description,
    }


def _answer_of(function: Callable[..., Any]) -> str:
    return tk.ToolInvoker([tk.Tool.from_function(function)]).invoke(tk.ToolCall("co", {"x": 3})).result


def _c2_duplicate_and_toolset():
    tools = tk.Toolset([named("a"), named("b")])
    return {
        "len": len(tools),
        "contains_by_name": "a" in tools,
        "dup_in_toolset": failure(lambda: tk.Toolset([named("a"), named("a")])),
        "dup_across": failure(lambda: tk.ToolInvoker([named("a"), tk.Toolset([named("a")])])),
        "single_tool": failure(lambda: tk.Toolset(named("a"))),
        "add_names": [tool.name for tool in tools + named("c")],
        "empty_list": failure(lambda: tk.ToolInvoker([])),
        "empty_toolset": failure(lambda: tk.ToolInvoker(tk.Toolset([]))),
        "bad_item": failure(lambda: tk.ToolInvoker(["x"])),
    }


def _c2_warm_up():
    warmed = []

    class Warm(tk.Tool):
        def warm_up(self):
            warmed.append(1)

    invoker = tk.ToolInvoker([Warm("w", "d", EMPTY, lambda: 1)])
    for _ in range(2):
        invoker.run(messages=[tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("w", {})])])
    first = len(warmed)
    other = Warm("o", "d", EMPTY, lambda: 1)
    invoker.run(messages=[tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("o", {})])], tools=[other])
    return {"warm_ups_after_two_runs": first, "runtime_tools_warmed": len(warmed) - first}


def _c2_max_workers():
    now, peak, lock = [0], [0], threading.Lock()

    def busy():
        with lock:
            now[0] += 1
            peak[0] = max(peak[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1

    invoker = tk.ToolInvoker([tk.Tool("t", "d", EMPTY, busy)], max_workers=2)
    calls = [tk.ToolCall("t", {}, str(i)) for i in range(5)]
    invoker.run(messages=[tk.ChatMessage.from_assistant(tool_calls=calls)])
    return {"peak_concurrency_with_max_workers_2": peak[0]}


def _string_annotations():
    scope: dict[str, Any] = {}
    exec(POSTPONED, scope)
    return {
        "literal": failure(lambda: tk.Tool.from_function(scope["f"]))
        or tk.Tool.from_function(scope["f"]).properties["u"],
        "builtin_int": failure(lambda: tk.Tool.from_function(scope["g"])) or "ok",
    }


PROBES = {
    "x_to_dict": _x_to_dict,
    "c2_to_dict": _c2_to_dict,
    "x_to_dict_lambda": _x_to_dict_lambda,
    "x_from_dict_mutates_input": _x_from_dict_mutates_input,
    "x_tool_bad_schema": _x_tool_bad_schema,
    "x_tool_spec_and_invoke": _x_tool_spec_and_invoke,
    "x_from_function": _x_from_function,
    "x_chatmessage_shape": _x_chatmessage_shape,
    "x_caller_to_dict": _x_caller_to_dict,
    "c2_tool_from_function": _c2_tool_from_function,
    "c2_duplicate_and_toolset": _c2_duplicate_and_toolset,
    "c2_warm_up": _c2_warm_up,
    "c2_max_workers": _c2_max_workers,
    "x_string_annotations": _string_annotations,
    "c2_string_annotations": _string_annotations,
}


def run_probe(scenario: dict) -> dict:
    probe = PROBES.get(scenario["name"])
    return probe() if probe else {"error": {"type": "LookupError", "message": "a probe is code, and this one is new"}}


# ------------------------------------------------------------------ comparing leaf by leaf
def _refused(error: Any, theirs: Any) -> bool:
    return isinstance(error, dict) and error.get("type") == "ConfigError"


PURPOSE: list[tuple[str, Callable[[str, Any, Any], bool], str]] = [
    # row, does (path, observed, ours) show the repaired behaviour?, what it is
    ("B-W18", lambda at, seen, ours: "lambda" in str(seen) and _refused(ours, seen), "a lambda is an error at to_dict"),
    (
        "B-W18",
        lambda at, seen, ours: at == "input_tools_now" and seen == "Tool" and ours == "dict",
        "from_dict leaves its input as it is",
    ),
    (
        "B-W2",
        lambda at, seen, ours: at == "message_keeps_root_error" and seen is False and ours is True,
        "the message keeps the root error",
    ),
    (
        "B-W8",
        lambda at, seen, ours: at == "async_function" and "type" in seen and ours == "1",
        "coroutine functions are tools, and run",
    ),
    (
        "B-W9",
        lambda at, seen, ours: (
            at == "literal" and seen.get("type") == "SchemaGenerationError" and ours.get("enum") == ["a", "b"]
        ),
        "postponed annotations are resolved",
    ),
]


def compare_leaves(scenario: dict, ours: dict) -> Verdict:
    """Compare a probe or a tool, leaf by leaf."""
    verdict = Verdict()
    if set(scenario["observed"]) == {"value"} and set(ours) == {"error"}:
        _leaf("value", scenario["observed"]["value"], ours["error"], verdict)
    else:
        _walk("", scenario["observed"], ours, verdict)
    return verdict


def _walk(at: str, theirs: Any, mine: Any, verdict: Verdict) -> None:
    if isinstance(theirs, dict) and "type" in theirs and "message" in theirs:
        _error(at, theirs, mine, verdict)
    elif isinstance(theirs, dict) and isinstance(mine, dict) and "parameters" in theirs and "name" in theirs:
        _spec(at, theirs, mine, verdict)
    elif isinstance(theirs, dict) and isinstance(mine, dict):
        theirs, mine = _flat(theirs), _flat(mine)
        for key, value in theirs.items():
            if key in mine:
                _walk(f"{at}.{key}".strip("."), value, mine[key], verdict)
            elif value not in (None, {}, []):
                verdict.check(False, f"{at}.{key} is missing in ours")
    elif isinstance(theirs, list) and isinstance(mine, list) and len(theirs) == len(mine):
        for index, (one, other) in enumerate(zip(theirs, mine, strict=True)):
            _walk(f"{at}[{index}]", one, other, verdict)
    else:
        _leaf(at, theirs, mine, verdict)


def _flat(data: dict) -> dict:
    """Bring 2.x's `{"type": …, "data": {…}}` of a tool into the flat form of ours."""
    return data["data"] if set(data) == {"type", "data"} else data


def _spec(at: str, theirs: dict, mine: dict, verdict: Verdict) -> None:
    """Compare what a model is shown of a tool; the order of keys and titles mean nothing."""
    verdict.check(theirs["name"] == mine["name"], f"{at}.name is {mine['name']!r}")
    verdict.check(theirs.get("description") == mine.get("description"), f"{at}.description is {mine['description']!r}")
    verdict.check(_covers(theirs["parameters"], mine["parameters"]), f"{at}.parameters are {mine['parameters']}")
    if "function" in theirs:
        _leaf(f"{at}.function", theirs["function"], mine.get("function"), verdict)


def _covers(theirs: Any, mine: Any) -> bool:
    """Tell whether our schema says all that theirs says."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        return all(_covers(value, mine.get(key, _ABSENT)) for key, value in theirs.items())
    return theirs == mine


_ABSENT = object()


def _error(at: str, theirs: dict, mine: Any, verdict: Verdict) -> None:
    same = isinstance(mine, dict) and (
        (theirs["type"] in (*CONSTRUCTION, "SchemaGenerationError") and mine.get("type") == "ConfigError")
        or (theirs["type"] == mine.get("type") and theirs.get("cause") == mine.get("cause"))
    )
    if not same:
        _leaf(at, theirs, mine, verdict)


def _leaf(at: str, theirs: Any, mine: Any, verdict: Verdict) -> None:
    if theirs == mine or _same_path(at, theirs, mine):
        return
    for row, shows, what in PURPOSE:
        try:
            holds = shows(at, theirs, mine)
        except (AttributeError, TypeError):
            holds = False
        if holds:
            verdict.on_purpose(row, what)
            return
    verdict.check(False, f"{at}: {theirs!r}, ours {mine!r}")


def _same_path(at: str, theirs: Any, mine: Any) -> bool:
    """Tell whether two import paths end in the same name: modules are named otherwise here."""
    names = isinstance(theirs, str) and isinstance(mine, str) and "." in theirs and "." in mine and "<" not in mine
    return names and theirs.rpartition(".")[2].removeprefix("_fc_") == mine.rpartition(".")[2].removeprefix("_fc_")
