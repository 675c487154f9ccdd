"""Say what the repaired behaviour is for a scenario, worked out here anew and without our invoker.

The rules are those of the table of weaknesses: arguments are validated first (B-W1), failures name class and message
(B-W2), results are text, else JSON, else str (B-W3), results keep the order of the calls (B-W4), every failure has its
own class (B-W5), readers of the state run after its writers (B-W6), the state is injected by mapping only (B-W7).
Not here: comparing (`invoker_compare`).
"""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs
from invoker_world import BadStr, HasToDict, answer, append, calls_in, configured, function_of, schema_of


@dataclass
class Fate:
    """Hold what should become of one call: `kind` is ok, unknown, arguments, raised, conversion or merge."""

    kind: str = "ok"
    text: Any = None
    value: Any = None
    fields: list[str] = field(default_factory=list)
    exception: str = ""
    keywords: dict | None = None


@dataclass
class Expected:
    """Hold the fates of the calls in call order, the events in order of running, and the state at the end."""

    fates: list[Fate]
    order: list[list[int]]
    events: list[str]
    state: dict


class Unprintable(Exception):
    pass


def canonical(value: Any, quote: bool = False) -> str:
    """Write a value as the repaired rule says: text as it is, else JSON, else str."""
    if isinstance(value, BadStr):
        raise Unprintable
    if isinstance(value, str) and not quote:
        return value
    try:
        return json.dumps(_jsonlike(value), ensure_ascii=False)
    except TypeError:
        return str(value)


def _jsonlike(value: Any) -> Any:
    if isinstance(value, HasToDict):
        return value.to_dict()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _jsonlike(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonlike(inner) for inner in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(type(value).__name__)


def expect(scenario: dict, *, stale: bool = False) -> Expected:
    """Work out the fates of a scenario's calls, each on its own; raising mode is judged by the caller.

    With `stale`, work out the weakness B-W6 instead: every call reads the state as it was before the turn.
    """
    specs = {spec["name"]: spec for spec in scenario.get("runtime_tools") or scenario.get("tools", [])}
    calls = calls_in(scenario)
    quote = bool(scenario.get("init", {}).get("convert_result_to_json_string"))
    state = dict(scenario.get("state", {}).get("data") or {})
    schema = scenario.get("state", {}).get("schema", {})
    stateful = scenario["kind"] != "x_invoker"
    order = [list(range(len(calls)))] if stale else _order(calls, specs)
    fates: list[Fate] = [Fate() for _ in calls]
    events: list[str] = []
    for batch in order:
        for index in batch:
            fates[index] = _fate(calls[index], specs, state, quote, events)
        for index in batch:
            if stateful and fates[index].kind in ("ok", "conversion"):
                _write(specs[calls[index]["name"]], fates[index], schema, state)
    return Expected(fates, order, events, state)


def _order(calls: list[dict], specs: dict) -> list[list[int]]:
    left, found = list(range(len(calls))), []

    def waits(one: int, other: int) -> bool:
        reader, writer = (specs.get(calls[i]["name"], {}) for i in (one, other))
        given = calls[one].get("args") or {}
        inputs = reader.get("inputs_from_state") or {}
        reads = {key for key, parameter in inputs.items() if parameter not in given}
        live = [any("State" in part for part in spec.get("signature") or ()) for spec in (reader, writer)]
        touches = bool(reads or reader.get("outputs_to_state") or live[0])
        if any(live):
            return touches and bool(live[1] or writer.get("inputs_from_state") or writer.get("outputs_to_state"))
        return bool(reads & set(writer.get("outputs_to_state") or ()))

    while left:
        batch = [i for i in left if not any(waits(i, j) for j in left if j != i)] or left[:1]
        found.append(batch)
        left = [i for i in left if i not in batch]
    return found


def faults(call: dict, spec: dict) -> list[str]:
    """Return the names of the arguments that do not fit schema and signature."""
    given = call.get("args") or {}
    filled = set((spec.get("inputs_from_state") or {}).values())
    schema = schema_of(spec)
    schema = {**schema, "required": [name for name in schema.get("required", ()) if name not in filled]}
    found = []
    for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(given):
        value = error.kind.value
        found += (
            [error.instance_path[0]] if error.instance_path else [value] if error.kind.name == "required" else value
        )
    accepted = _signature(spec)
    if accepted is not None:
        found += [name for name in given if name not in accepted]
    return [str(name) for name in dict.fromkeys(found)]


def _signature(spec: dict) -> dict | None:
    if spec.get("signature") is None:
        return None
    return dict(inspect.signature(function_of(spec, [], [])).parameters)


def _fate(call: dict, specs: dict, state: dict, quote: bool, events: list[str]) -> Fate:
    spec = specs.get(call["name"])
    if spec is None:
        return Fate("unknown")
    wrong = faults(call, spec)
    if wrong:
        return Fate("arguments", fields=wrong)
    keywords = dict(call.get("args") or {})
    for key, parameter in (spec.get("inputs_from_state") or {}).items():
        if parameter not in keywords and key in state:
            keywords[parameter] = state[key]
    parameters = _signature(spec) or {}
    for name, parameter in parameters.items():
        if name in keywords or (
            parameter.annotation is not inspect.Parameter.empty and "State" in str(parameter.annotation)
        ):
            continue
        if parameter.default is inspect.Parameter.empty:
            needed = name in (spec.get("inputs_from_state") or {}).values() and name in schema_of(spec).get(
                "required", ()
            )
            return Fate("arguments", fields=[name]) if needed else Fate("raised", exception="TypeError")
        keywords[name] = parameter.default
    events += [f"{spec['name']}:start", f"{spec['name']}:end"]
    try:
        value = answer(spec, keywords)
    except Exception as error:
        return Fate("raised", exception=f"{type(error).__name__}: {error}", keywords=keywords)
    try:
        return Fate("ok", _shown(spec, value, quote), value, keywords=keywords)
    except (Unprintable, Exception):
        return Fate("conversion", value=value, keywords=keywords)


def _shown(spec: dict, value: Any, quote: bool) -> Any:
    config = configured(spec.get("outputs_to_string") or {})
    if not config or config.keys() & {"source", "handler", "raw_result"}:
        return _part(config, value, quote)
    return canonical({key: _part(part, value, False) for key, part in config.items()}, quote)


def _part(config: dict, value: Any, quote: bool) -> Any:
    if config.get("source") is not None and isinstance(value, dict):
        value = value.get(config["source"])
    if "handler" in config:
        value = config["handler"](value)
        return value if config.get("raw_result") or isinstance(value, str) else canonical(value, quote)
    return value if config.get("raw_result") else canonical(value, quote)


def _write(spec: dict, fate: Fate, schema: dict, state: dict) -> None:
    if not isinstance(fate.value, dict):
        return
    for key, config in (configured(spec.get("outputs_to_state")) or {}).items():
        source = config.get("source")
        if source is not None and source not in fate.value:
            continue
        if key not in schema:
            fate.kind = "merge"
            return
        new = fate.value if source is None else fate.value[source]
        handler = config.get("handler") or configured({"handler": schema[key].get("handler")})["handler"]
        try:
            if handler:
                state[key] = handler(state.get(key), new)
            else:
                state[key] = append(state.get(key), new) if schema[key]["type"] == "list" else new
        except Exception:
            fate.kind = "merge"
            return
