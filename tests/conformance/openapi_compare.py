"""Compare what an OpenAPI scenario observed with what ours did, by meaning.

As for invokers: ours must be what `openapi_oracle` works out, and each difference needs a row of the table.
Not here: running (`openapi_scenarios`).
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from invoker_probes import _covers
from invoker_verdict import Verdict
from openapi_oracle import (
    Op,
    Outcome,
    body_properties,
    called,
    clashes,
    document,
    misfits,
    normal_name,
    offered,
    operations,
    outcome,
    read_arguments,
)
from openapi_scenarios import first_call

OUR_KIND = {
    "ToolNotFoundException": "unknown",
    "ToolArgumentsError": "arguments",
    "ToolInvocationError": "auth",
    "ConfigError": "server",
}
ROW_OF_REFUSAL = {  # what ours refuses before sending -> the row that asks for it
    "arguments": ("B-W1", "arguments that do not fit are refused before sending"),
    "auth": ("B-W15", "a missing or unusable credential is an error before sending"),
    "unknown": ("B-W16", "the allow-list holds at the call"),
    "server": ("B-W12", "a server that is no http(s) URL is refused"),
}


def compare_openapi(scenario: dict, ours: dict) -> Verdict:
    """Compare one scenario of kind x_openapi."""
    verdict, observed = Verdict(), scenario["observed"]
    no_secret(scenario.get("credentials"), observed, ours, verdict)
    spec = document(scenario["spec"])
    wants_definitions = scenario.get("definitions", True)
    unloaded = any("definitions" not in seen for seen in (observed, ours)) and wants_definitions
    if spec is None or (unloaded and not _strange_list(spec, scenario)):
        verdict.check(
            "error" in observed and "error" in ours, f"ours: {ours.get('error')}, theirs: {observed.get('error')}"
        )
        return verdict
    allowed = scenario.get("allowed_operations")
    if names_nothing_known(spec, allowed, observed, ours, verdict):
        return verdict
    if wants_definitions:
        theirs = [entry["function"] for entry in observed["definitions"]]
        mine = [entry["function"] for entry in ours["definitions"]]
        compare_offers([d["name"] for d in theirs], [d["name"] for d in mine], spec, allowed, verdict)
        _definitions(theirs, mine, spec, verdict)
    if "payload" in scenario:
        _call(scenario, spec, observed, ours, verdict)
    return verdict


def _strange_list(spec: dict | None, scenario: dict) -> list[str]:
    """Return the names on an allow-list that the document lacks."""
    allowed = scenario.get("allowed_operations") or ()
    return [] if spec is None else [a for a in allowed if not any(offered(op, [a]) for op in operations(spec))]


def names_nothing_known(spec: dict, allowed: Any, observed: dict, ours: dict, verdict: Verdict) -> bool:
    """Explain an allow-list that ours refuses, since the document has no such operation."""
    strange = _strange_list(spec, {"allowed_operations": allowed})
    if strange and ours.get("error", {}).get("type") == "ConfigError":
        verdict.check(all(repr(name) in ours["error"]["message"] for name in strange[:1]), "ours does not name it")
        verdict.on_purpose("B-W16", "an allow-list that names what is not there is an error")
        return True
    return False


def no_secret(secret: str | None, observed: dict, ours: dict, verdict: Verdict) -> None:
    told = json.dumps({key: value for key, value in ours.items() if key not in ("request", "requests")})
    if secret and len(secret) > 1:
        verdict.check(secret not in told, "ours tells the credential")
        said = json.dumps({key: value for key, value in observed.items() if key not in ("request", "requests")})
        if secret in said:
            verdict.on_purpose("B-W15", "no error holds a credential")


# ------------------------------------------------------------------ what is offered
def compare_offers(theirs: list[str], mine: list[str], spec: dict, allowed: list[str] | None, verdict: Verdict) -> None:
    ops = {op.name: op for op in operations(spec)}
    want = [name for name, op in ops.items() if offered(op, allowed)]
    if not verdict.check(mine == want, f"ours offers {mine}, not {want}"):
        return
    if len(set(theirs)) < len(theirs):
        verdict.on_purpose("B-W12", "operations of one normalised name are told apart")
    for name in [name for name in mine if name not in theirs and name != f"{normal_name(ops[name].id)}_2"]:
        op = ops[name]
        if allowed and not theirs:
            verdict.on_purpose("B-W16", "the allow-list knows the names that the model is shown")
        elif not op.described or not op.own or (op.body is not None and body_properties(spec, op) is None):
            verdict.on_purpose("B-W14", "every operation is offered")
        else:
            verdict.check(False, f"ours offers {name!r}, theirs does not")
    for name in [name for name in theirs if name not in mine]:
        held = name in ops and allowed is not None and not offered(ops[name], allowed)
        if verdict.check(bool(held), f"theirs offers {name!r}, ours does not"):
            verdict.on_purpose("B-W16", "the allow-list stays in force")


def _definitions(theirs: list[dict], mine: list[dict], spec: dict, verdict: Verdict) -> None:
    found = {definition["name"]: definition for definition in mine}
    ops = {op.name: op for op in operations(spec)}
    names = [definition["name"] for definition in theirs]
    for definition in theirs:
        if names.count(definition["name"]) > 1:
            continue  # theirs cannot tell them apart either
        other = found.get(definition["name"])
        if other is None:
            continue
        verdict.check(
            _same_words(definition["description"], other["description"]), f"description {other['description']!r}"
        )
        wanted, given = definition["parameters"], other["parameters"]
        if (op := ops[definition["name"]]) and clashes(spec, op):
            declared = len(op.parameters) + len(body_properties(spec, op) or ())
            if verdict.check(len(given["properties"]) == declared, f"{op.name} takes {given}"):
                verdict.on_purpose("B-W13", "parameters of one name in two places are two arguments")
            continue
        if not verdict.check(_covers(_unordered(wanted), _unordered(given)), f"{definition['name']} takes {given}"):
            continue
        new = given["properties"].keys() - wanted.get("properties", {}).keys()
        _richer(ops[definition["name"]], new, wanted, given, verdict)


def _richer(op: Op, new: Any, wanted: dict, given: dict, verdict: Verdict) -> None:
    above = {p["name"] for p in op.parameters} - op.own
    for name in new:
        meant = name in above or (op.media and "json" not in op.media) or op.body is not None
        if verdict.check(bool(meant), f"ours has another parameter {name!r}"):
            verdict.on_purpose("B-W12", "parameters of the path and bodies of every media type are offered")
    kept = any(given["properties"][name] != schema for name, schema in wanted.get("properties", {}).items())
    if kept and not new:
        verdict.on_purpose("B-W12", "defaults, formats, bounds and composed schemas are kept")


def _unordered(schema: Any) -> Any:
    """Bring `required` lists into one order."""
    if isinstance(schema, dict):
        return {k: sorted(v) if k == "required" and isinstance(v, list) else _unordered(v) for k, v in schema.items()}
    return schema


def _same_words(theirs: str, mine: str) -> bool:
    return theirs == mine or (len(theirs) >= 1000 and mine.startswith(theirs[:1000]))


# ------------------------------------------------------------------ what is sent
def _call(scenario: dict, spec: dict, observed: dict, ours: dict, verdict: Verdict) -> None:
    call = first_call(scenario["payload"])
    if call is None:
        verdict.check("error" in observed and "error" in ours, "a payload without a call")
        return
    op = called(spec, call[0], scenario.get("allowed_operations"))
    if op is not None and clashes(spec, op):
        declared = len(op.parameters) + len(body_properties(spec, op) or ())
        if verdict.check(len(ours["parameters"][op.name]) == declared, "ours merges parameters of one name"):
            verdict.on_purpose("B-W13", "parameters of one name in two places are two arguments")
        return
    want = outcome(spec, *call, scenario.get("credentials"), scenario.get("allowed_operations"))
    kind = OUR_KIND.get(ours["error"]["type"], "other") if "error" in ours else "request"
    if not verdict.check(kind == want.kind, f"ours ended in {kind} ({ours.get('error')}), expected {want.kind}"):
        return
    if kind == "request":
        check_request(ours["request"], want, verdict)
    compare_sent(
        scenario, spec, call, observed.get("error"), observed.get("request"), ours.get("request"), want, verdict
    )
    if kind == "request" and "result" in observed:
        verdict.check(observed["result"] == ours.get("result"), f"result {ours.get('result')}")


def check_request(mine: dict, want: Outcome, verdict: Verdict) -> None:
    mine, expected = _normal(mine), _normal(want.request)
    for part in ("method", "url", "params", "headers", "cookies", "json"):
        if part not in want.loose:
            same = mine.get(part) == expected.get(part)
            verdict.check(same, f"our {part} is {mine.get(part)!r}, expected {expected.get(part)!r}")


def _normal(request: dict) -> dict:
    """Bring a request into one form: texts in query and headers, pairs sorted, header names in lower case."""
    found = dict(request)
    params = found.get("params") or []
    pairs = params.items() if isinstance(params, dict) else params
    flat = [(k, _word(v)) for k, value in pairs for v in (value if isinstance(value, list) else [value])]
    found["params"] = sorted(flat) or None
    found["headers"] = {k.lower(): _word(v) for k, v in (found.get("headers") or {}).items()} or None
    found["cookies"] = {k: _word(v) for k, v in (found.get("cookies") or {}).items()} or None
    return found


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def compare_sent(
    scenario: dict,
    spec: dict,
    call: tuple,
    error: dict | None,
    theirs: dict | None,
    mine: dict | None,
    want: Outcome,
    verdict: Verdict,
) -> None:
    """Compare refusals and requests with what was observed."""
    if theirs is None and mine is None:
        return  # both refused before sending
    if mine is None:
        if want.kind == "unknown" and scenario.get("allowed_operations") is None:
            verdict.check(False, "theirs sent a request for an operation that is not there")
            return
        verdict.on_purpose(*ROW_OF_REFUSAL[want.kind])
        return
    if theirs is None:
        _only_ours(spec, call, scenario, error or {}, verdict)
        return
    _requests(spec, call, scenario, _normal(theirs), _normal(mine), verdict)


def _only_ours(spec: dict, call: tuple, scenario: dict, error: dict, verdict: Verdict) -> None:
    op = called(spec, call[0], scenario.get("allowed_operations"))
    given = read_arguments(call[1]) or {}
    falsy = any(not value for value in given.values())
    if op is not None and op.media and "json" not in op.media:
        verdict.on_purpose("B-W12", "bodies of every media type are sent")
    elif falsy and not misfits(spec, op, given):
        verdict.on_purpose("B-W13", "0, false and empty text are values")
    elif call[1] in ("", None):
        verdict.on_purpose("B-W10", "empty arguments mean {}")
    elif op is not None and call[0] == op.id != op.name:
        verdict.on_purpose("B-W11", "one resolver knows an operation by its id and by its name")
    elif op is not None and op.security and scenario.get("credentials"):
        verdict.on_purpose("B-W15", "the credential goes with the scheme that the operation asks for")
    elif op is not None and call[0] in (op.id, op.name) and op.own != {p["name"] for p in op.parameters}:
        verdict.on_purpose("B-W12", "parameters of the path are known")
    elif op is not None and not (op.own or op.body):
        verdict.on_purpose("B-W14", "operations without parameters can be called")
    else:
        verdict.check(False, f"theirs refused with {error.get('type')}: {error.get('message')}, ours sent")


def _requests(spec: dict, call: tuple, scenario: dict, theirs: dict, mine: dict, verdict: Verdict) -> None:
    op = called(spec, call[0], scenario.get("allowed_operations"))
    given = read_arguments(call[1]) or {}
    verdict.check(theirs["method"] == mine["method"], f"method {mine['method']}")
    if theirs["url"] != mine["url"]:
        if unquote(mine["url"]).lower() == unquote(theirs["url"]).lower():
            verdict.on_purpose("B-W13", "path values are percent-encoded")
        elif _joined(theirs["url"]) == mine["url"] or "{" in theirs["url"] or not theirs["url"].startswith("http"):
            verdict.on_purpose("B-W12", "servers are filled in and made whole")
        else:
            verdict.check(False, f"url {mine['url']}, theirs {theirs['url']}")
    _pairs(dict(given), theirs, mine, verdict)
    for part in ("headers", "cookies"):
        _named_values(op, given, part, theirs.get(part) or {}, mine.get(part) or {}, scenario, verdict)
    _bodies(spec, op, theirs, mine, verdict)


def _joined(url: str) -> str:
    """Take the double slash out that a server with a slash at its end leaves."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.replace('//', '/')}"


def _pairs(given: dict, theirs: dict, mine: dict, verdict: Verdict) -> None:
    new = set(mine.get("params") or ()) - set(theirs.get("params") or ())
    gone = set(theirs.get("params") or ()) - set(mine.get("params") or ())
    objects = {name for name, value in given.items() if isinstance(value, dict)}
    if {name for name, _ in gone} <= objects and all(v == str(given[n]) for n, v in gone):
        if gone:
            verdict.on_purpose("B-W13", "values are written as OpenAPI writes them, not as Python does")
        new = {(n, v) for n, v in new if not any(given[o].get(n) is not None for o in objects)}
        gone = set()
    verdict.check(not gone, f"query lacks {sorted(gone)}")
    for name, value in new:
        if verdict.check(name in given and not given[name], f"query has another {name}={value}"):
            verdict.on_purpose("B-W13", "0, false and empty text are values")


def _named_values(op: Op, given: dict, part: str, theirs: dict, mine: dict, scenario: dict, verdict: Verdict) -> None:
    place = {"headers": "header", "cookies": "cookie"}[part]
    declared = {p["name"].lower() if part == "headers" else p["name"] for p in op.parameters if p["in"] == place}
    for name in mine.keys() - theirs.keys():
        if name in declared:
            verdict.on_purpose("B-W13", f"{place} parameters are sent, whatever their value")
        elif verdict.check(bool(scenario.get("credentials")), f"{part} has another {name!r}"):
            verdict.on_purpose("B-W15", "the credential is sent where the operation asks for it")
    for name in theirs.keys() - mine.keys():
        if verdict.check(not op.security, f"{part} lacks {name!r}"):
            verdict.on_purpose("B-W13", "an operation that opts out of security gets no credential")
    for name in theirs.keys() & mine.keys():
        if theirs[name] == mine[name]:
            continue
        sent = {k.lower() if part == "headers" else k: v for k, v in given.items()}.get(name)
        if verdict.check(theirs[name] == str(sent), f"{part}[{name!r}] is {mine[name]!r}"):
            verdict.on_purpose("B-W13", "values are written as OpenAPI writes them, not as Python does")


def _bodies(spec: dict, op: Op, theirs: dict, mine: dict, verdict: Verdict) -> None:
    if theirs.get("json") == mine.get("json"):
        return
    if op.body is not None and body_properties(spec, op) is None:
        if verdict.check(theirs.get("json") == {"body": mine.get("json")}, f"body {mine.get('json')}"):
            verdict.on_purpose("B-W13", "the body is the argument `body`, not an object around it")
        return
    properties = body_properties(spec, op) or {}
    leaked = theirs.get("json") or {}
    own = {k: v for k, v in leaked.items() if k in properties} if isinstance(leaked, dict) else leaked
    if verdict.check(own == (mine.get("json") or {}), f"body {mine.get('json')}, theirs {theirs.get('json')}"):
        verdict.on_purpose("B-W13", "the body holds the body's properties only")
