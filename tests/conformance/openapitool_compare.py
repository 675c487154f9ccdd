"""Compare what an OpenAPITool scenario observed with what ours did.

Not here: definitions and requests (`openapi_compare`), running (`openapi_scenarios`).
"""

from __future__ import annotations

import json

from invoker_verdict import Verdict
from openapi_compare import check_request, compare_offers, compare_sent, names_nothing_known, no_secret
from openapi_oracle import document, outcome
from openapi_scenarios import call_of_reply, first_call


def compare_openapitool(scenario: dict, ours: dict) -> Verdict:
    """Compare one scenario of kind x_openapitool."""
    verdict, observed = Verdict(), scenario["observed"]
    secret = scenario.get("run_credentials") or scenario.get("credentials")
    no_secret(secret, observed, ours, verdict)
    if "error" in ours or "error" in observed:
        _raised(scenario, observed, ours, verdict)
        return verdict
    spec = document(scenario.get("run_spec") or scenario.get("spec"))
    compare_offers(observed["tools_offered"], ours["tools_offered"], spec, scenario.get("allowed_operations"), verdict)
    theirs, mine = (json.loads(o["service_response"][0]["content"]) for o in (observed, ours))
    verdict.check(observed["service_response"][0]["role"] == ours["service_response"][0]["role"], "another role")
    call = next((c for c in map(call_of_reply, scenario.get("model_replies", [])[:1]) if c is not None), None)
    if call is None and "requests" in ours:
        call = _call_in_prose(scenario)
        if verdict.check(
            call is not None and "error" in theirs, f"ours found a call in {scenario['model_replies'][0]!r}"
        ):
            verdict.on_purpose("B-W11", "one reader of calls is used everywhere: in prose, and whatever the provider")
            check_request(ours["requests"][-1], outcome(spec, *call, _credentials(scenario)), verdict)
        return verdict
    if call is None:
        both = "error" in theirs and "error" in mine and "requests" not in ours
        verdict.check(both, f"a reply without a call gave {mine}, theirs {theirs}")
        return verdict
    _answered(scenario, spec, call, (theirs, mine), (observed, ours), verdict)
    return verdict


def _call_in_prose(scenario: dict) -> tuple | None:
    """Return the call in the first JSON value that a text holds."""
    text = scenario["model_replies"][0]
    if not isinstance(text, str):
        return first_call(text, ("arguments", "parameters", "input"))
    for start in (i for i, char in enumerate(text) if char in "[{"):
        try:
            return first_call(json.JSONDecoder().raw_decode(text[start:])[0], ("arguments", "parameters", "input"))
        except ValueError:
            continue
    return None


def _credentials(scenario: dict) -> str | None:
    """Return the credential that belongs to a run: the one given to it, else the first one."""
    return scenario.get("run_credentials") or scenario.get("credentials")


def _answered(scenario: dict, spec: dict, call: tuple, said: tuple, whole: tuple, verdict: Verdict) -> None:
    (theirs, mine), (observed, ours) = said, whole
    want = outcome(spec, *call, _credentials(scenario), scenario.get("allowed_operations"))
    sent = (ours.get("requests") or [None])[-1]
    if not verdict.check((sent is not None) == (want.kind == "request"), f"expected {want.kind}, ours said {mine}"):
        return
    if sent is not None:
        check_request(sent, want, verdict)
        failed = "send_error" in scenario
        verdict.check(("error" in mine) == failed, f"ours answered {mine}")
    else:
        verdict.check("error" in mine, f"ours answered {mine}")
    first = (observed.get("requests") or [None])[0]
    scenario = {**scenario, "credentials": _credentials(scenario)}
    compare_sent(scenario, spec, call, theirs if "error" in theirs else None, first, sent, want, verdict)
    if sent is not None and first is not None:
        verdict.check(theirs == mine or ("error" in theirs and "error" in mine), f"answer {mine}, theirs {theirs}")


def _raised(scenario: dict, observed: dict, ours: dict, verdict: Verdict) -> None:
    if "error" in ours:
        spec, allowed = document(scenario.get("spec") or ""), scenario.get("allowed_operations")
        if "error" not in observed and spec is not None and names_nothing_known(spec, allowed, observed, ours, verdict):
            return
        verdict.check("error" in observed, f"ours raised {ours['error']}, theirs did not")
        verdict.check(ours["error"]["type"] == "ConfigError", f"ours raised {ours['error']}")
        return
    text = isinstance(scenario.get("spec"), str) or isinstance(scenario.get("run_spec"), str)
    usable = document(scenario.get("run_spec") or scenario.get("spec") or "") is not None
    if verdict.check(text and usable, f"theirs raised {observed['error']}, ours went on"):
        verdict.on_purpose("B-W12", "a document given as text is read, as documented")
