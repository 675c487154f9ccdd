"""What are the facts about tools, invokers and callers as objects? Questions that need code, one function each.

Each function does with ours what the probe of its name did with the original, and answers in the same words.
Not here: whether the facts are the same (`meaning`).
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from scripted import attempt

import toolkit as tk

Data = dict[str, Any]
EMPTY: Data = {"type": "object", "properties": {}}
CITY: Data = {"type": "object", "properties": {"city": {"type": "string"}}}
POSTPONED = (
    "from __future__ import annotations\nfrom typing import Literal\n"
    "def f(u: Literal['a', 'b'] = 'a'):\n    return u\ndef g(n: int):\n    return n\n"
)


def _fc_weather(city: str) -> Data:
    return {"city": city, "temp": 20}


def nohint(x):
    return 1


def weather_invoker(parameters: Data, **settings: Any) -> tk.ToolInvoker:
    return tk.ToolInvoker([tk.Tool("weather", "d", parameters, _fc_weather)], **settings)


def named(name: str, work: Any = lambda: 1) -> tk.Tool:
    return tk.Tool(name, "d", EMPTY, work)


def calling(*names: str) -> list[tk.ChatMessage]:
    return [tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall(n, {}, str(i)) for i, n in enumerate(names)])]


def failure(job: Callable[[], Any]) -> Data | None:
    """Return the error of a job, or nothing if it went well."""
    found = attempt(job)
    return found if isinstance(found, dict) and "message" in found else None


def outcome(job: Callable[[], Any]) -> Data:
    return {"error": found} if (found := failure(job)) else {"value": job()}


def round_trip(invoker: tk.ToolInvoker) -> Data:
    data = invoker.to_dict()
    return {"dict": data, "round_trip_equal": tk.ToolInvoker.from_dict(copy.deepcopy(data)).to_dict() == data}


def x_to_dict_lambda() -> Data:
    invoker = tk.ToolInvoker([named("l")])
    return outcome(lambda: invoker.to_dict()["init_parameters"]["tools"][0]["function"])


def x_from_dict_mutates_input() -> Data:
    data = weather_invoker(EMPTY).to_dict()
    tk.ToolInvoker.from_dict(data)
    return {"input_tools_now": type(data["init_parameters"]["tools"][0]).__name__}


def x_tool_bad_schema() -> Data:
    return outcome(lambda: tk.Tool("t", "d", {"type": "banana"}, _fc_weather) and "accepted")


def x_tool_spec_and_invoke() -> Data:
    tool = tk.Tool("t", "d", {"type": "object", "properties": {"city": {"type": "integer"}}}, _fc_weather)
    wrong = failure(lambda: tool.invoke(town="x"))
    return {
        "tool_spec": tool.tool_spec,
        "no_validation_of_arguments": tool.invoke(city="Berlin"),
        "wrong_kwarg": wrong,
        "message_keeps_root_error": "unexpected" in wrong["message"],
    }


def x_from_function() -> Data:
    def get_weather(
        city: Annotated[str, "the city"], unit: Annotated[Literal["C", "F"], "the unit"] = "C", days: int | None = None
    ) -> Any:
        """Weather doc."""
        return 1

    return {
        "spec": tk.Tool.from_function(get_weather).tool_spec,
        "no_hint": failure(lambda: tk.Tool.from_function(nohint)),
        "docstring_off": tk.Tool.from_function(get_weather, description="").description,
    }


def x_chatmessage_shape() -> Data:
    call = tk.ToolCall("a", {"x": 1}, "1")
    return {
        "assistant": tk.ChatMessage.from_assistant("t", tool_calls=[call]).to_dict(),
        "tool": tk.ChatMessage.from_tool("r", origin=call, error=True).to_dict(),
        "assistant_no_args": tk.ChatMessage.from_assistant().to_dict(),
    }


def x_caller_to_dict() -> Data:
    data = tk.OpenAIFunctionCaller(available_functions={"weather": _fc_weather}).to_dict()
    back = tk.OpenAIFunctionCaller.from_dict(copy.deepcopy(data))
    # run as a script and under pytest this file has two names, and so two functions
    return {"dict": data, "round_trip": back.available_functions["weather"].__name__ == "_fc_weather"}


def c2_tool_from_function() -> Data:
    def get_weather(city: Annotated[str, "the city"] = "Munich", unit: Literal["C", "F"] = "C") -> Any:
        """Doc."""
        return 1

    async def co(x: int) -> int:
        return 1

    renamed = tk.tool(name="w2", description="dd")(get_weather)
    return {
        "spec": tk.Tool.from_function(get_weather).tool_spec,
        "decorated_type": type(tk.tool(get_weather)).__name__,
        "renamed": [renamed.name, renamed.description],
        "no_hint": failure(lambda: tk.Tool.from_function(nohint)),
        "async_function": failure(lambda: tk.Tool.from_function(co))
        or tk.ToolInvoker([tk.Tool.from_function(co)]).invoke(tk.ToolCall("co", {"x": 3})).result,
        "empty_description": tk.Tool.from_function(get_weather, description="").description,
    }


def c2_duplicate_and_toolset() -> Data:
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


def c2_warm_up() -> Data:
    warmed = []

    class Warm(tk.Tool):
        def warm_up(self) -> None:
            warmed.append(1)

    invoker = tk.ToolInvoker([Warm("w", "d", EMPTY, lambda: 1)])
    for _ in range(2):
        invoker.run(messages=calling("w"))
    first = len(warmed)
    invoker.run(messages=calling("o"), tools=[Warm("o", "d", EMPTY, lambda: 1)])
    return {"warm_ups_after_two_runs": first, "runtime_tools_warmed": len(warmed) - first}


def c2_max_workers() -> Data:
    now, peak, lock = [0], [0], threading.Lock()

    def busy() -> None:
        with lock:
            now[0] += 1
            peak[0] = max(peak[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1

    tk.ToolInvoker([named("t", busy)], max_workers=2).run(messages=calling(*"ttttt"))
    return {"peak_concurrency_with_max_workers_2": peak[0]}


def string_annotations() -> Data:
    scope: Data = {}
    exec(POSTPONED, scope)
    return {
        "literal": attempt(lambda: tk.Tool.from_function(scope["f"]).properties["u"]),
        "builtin_int": failure(lambda: tk.Tool.from_function(scope["g"])) or "ok",
    }


PROBES: dict[str, Callable[[], Data]] = {
    "x_to_dict": lambda: round_trip(weather_invoker(CITY, raise_on_failure=False)),
    "c2_to_dict": lambda: round_trip(weather_invoker(EMPTY)),
    "x_string_annotations": string_annotations,
    "c2_string_annotations": string_annotations,
}
PROBES |= {
    work.__name__: work
    for work in (
        x_to_dict_lambda, x_from_dict_mutates_input, x_tool_bad_schema, x_tool_spec_and_invoke, x_from_function,
        x_chatmessage_shape, x_caller_to_dict, c2_tool_from_function, c2_duplicate_and_toolset, c2_warm_up,
        c2_max_workers,
    )
}  # fmt: skip
