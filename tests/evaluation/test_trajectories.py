"""The verdict on a whole run: which part failed first, and what was the model's fault."""

import pytest

import toolkit as tk
from toolkit.errors import ModelError
from toolkit.evaluation.cases import case_from_dict
from toolkit.evaluation.play import play, runnable
from toolkit.evaluation.trajectories import calls_made, score_run
from toolkit.models.base import Fault, Reply
from toolkit.traces import Trace
from toolkit.worlds import load_world

OFF = {"name": "switch_light", "arguments": {"room": "study", "on": False}}
MEASURE = {"name": "get_indoor_climate", "arguments": {"room": "study"}}
CASE = {
    "id": "dark",
    "messages": [{"role": "user", "content": "Dark, please."}],
    "world": "home",
    "tools": ["switch_light", "get_indoor_climate", "set_blinds"],
    "expect": {"calls": [OFF], "state": {"rooms": {"study": {"light": 0}}}, "answer": {"$contains": "dark"}},
}
QUIET = {**CASE, "expect": {"no_call": True, "answer": {"$contains": "?"}}}
LOOK = {**QUIET, "expect": {"no_call": True, "further": "reads", "state": {"rooms": {"study": {"light": 80}}}}}


def off(room="study", on=False):
    return tk.ToolCall("switch_light", {"room": room, "on": on})


LOOKS = tk.ToolCall("get_indoor_climate", {"room": "study"})
LOST = tk.ToolCall("get_indoor_climate", {"room": "attic"})
CUT = '<tool_call>{"name": "switch_light", "arguments": {"room": '
UNKNOWN = tk.ToolCall("explode", {})


def run(data, lines, world="home", start=None, **settings):
    case = case_from_dict(data)
    here = load_world(world, start)
    settings = {"arm": "native", **settings}
    trace = play(tk.Agent(tk.ScriptedModel(lines), runnable(case, here), **settings), case)
    return case, trace, here.state


def verdict(*args, **more):
    return score_run(*run(*args, **more))


@pytest.mark.parametrize(
    ("data", "lines", "outcome", "detail"),
    [
        (CASE, [off(), "It is dark."], "right_call", ""),
        (CASE, [LOOKS, off(), "It is dark."], "right_call", ""),
        (CASE, [LOST, UNKNOWN, off(), "It is dark."], "right_call", ""),
        (CASE, ["It is dark."], "wrong_abstention", "calls: missing call of switch_light"),
        (CASE, [off("kitchen"), "Dark."], "wrong_call", "calls: room: expected 'study', got 'kitchen'"),
        (CASE, [off(), off(), "Dark."], "wrong_call", "calls: extra call of switch_light"),
        (CASE, [off(), off("kitchen"), "Dark."], "wrong_call", "calls: extra call of switch_light"),
        (CASE, [off(), "Done."], "wrong_call", "answer: expected text with 'dark', got 'Done.'"),
        (QUIET, ["Which room?"], "right_abstention", ""),
        (QUIET, ["Fine."], "wrong_abstention", "answer: expected text with '?', got 'Fine.'"),
        (QUIET, [LOOKS, "Which room?"], "wrong_call", "calls: extra call of get_indoor_climate"),
        (LOOK, [LOOKS, "Fine."], "right_abstention", ""),
        (LOOK, [off(), "Fine."], "wrong_call", "calls: extra call of switch_light"),
        ({**CASE, "expect": {"answer": "Yes."}}, ["yes."], "right_call", ""),
        ({**CASE, "expect": {"state": {"rooms": {"study": {"light": 0}}}, "further": "any"}}, [off(), "x"],
         "right_call", ""),
        ({**CASE, "expect": {"state": {"rooms": {"study": {"light": 0}}}, "further": "any"}}, [off("kitchen"), "x"],
         "wrong_call", "state: rooms.study.light: expected 0, got 80"),
        ({**CASE, "expect": {"calls": [OFF], "further": "none"}}, [LOST, off(), "x"], "wrong_call",
         "calls: extra call of get_indoor_climate"),
        ({**CASE, "expect": {"calls": [OFF], "further": "any"}}, [off("kitchen"), off(), "x"], "right_call", ""),
    ],
    ids=[
        "right", "reads besides", "refused calls besides", "nothing done", "wrong room", "twice", "one too many",
        "wrong answer", "asked back", "no question", "looked", "may look", "changed", "answer only", "state only",
        "state wrong", "nothing besides", "anything besides",
    ],
)  # fmt: skip
def test_outcomes(data, lines, outcome, detail):
    found = verdict(data, lines)
    assert (found.outcome, found.detail) == (outcome, detail)
    assert found.right == outcome.startswith("right")


def test_parts_are_told_apart():
    found = verdict(CASE, [off(), "Done."])
    assert found.parts == {"calls_right": True, "state_right": True, "answer_right": False}
    assert verdict(LOOK, ["Fine."]).parts == {"calls_right": True, "state_right": True, "answer_right": None}
    free = {**CASE, "expect": {"answer": "Yes.", "further": "any"}}
    assert verdict(free, ["Yes."]).parts["calls_right"] is None


def test_a_limit_is_the_models_fault_and_a_server_that_fails_is_not():
    found = verdict(CASE, [LOOKS] * 3, max_model_calls=3)
    assert found.outcome == "wrong_call"
    assert found.detail.startswith("limit: LimitError: All 3 model calls")
    assert found.parts["calls_right"] is False
    idle = verdict(CASE, [CUT], max_model_calls=1, arm="prompted")
    assert idle.outcome == "wrong_abstention"
    assert idle.detail.startswith("limit: ")
    gone = verdict(CASE, [off(), ModelError("gone")])
    assert (gone.outcome, gone.detail) == ("server_fault", "ModelError: gone")
    assert set(gone.parts.values()) == {None}
    full = verdict(CASE, [off(), Reply("", fault=Fault("overflow", "9000 tokens"))])
    assert (full.outcome, full.detail) == ("overflow", "9000 tokens")
    late = verdict(CASE, [Reply("", fault=Fault("timeout", "60 s"))])
    assert (late.outcome, late.detail) == ("server_fault", "timeout: 60 s")


def test_unreadable_calls_and_empty_replies():
    found = verdict(CASE, [CUT] * 3, arm="prompted", protocol="hermes")
    assert found.outcome == "broken_call"
    assert found.detail.startswith("answer: a call that cannot be read")
    held = [Reply("no JSON", fault=Fault("schema_not_honoured", "no JSON"))] * 3
    assert verdict(CASE, held, arm="constrained").outcome == "server_fault"
    assert verdict(CASE, [""] * 3).outcome == "degenerate"
    assert verdict(CASE, [off(), "", "", ""]).outcome == "wrong_call"  # it acted, and then said nothing


def test_a_tool_that_ends_the_run_is_the_models_wrong_call():
    data = {**CASE, "tools": ["set_blinds"], "expect": {"no_call": True}}
    lines = [tk.ToolCall("set_blinds", {"room": "study", "position": 9})]
    found = verdict(data, lines, start={"wind_alarm": True}, on_tool_error="raise")
    assert found.outcome == "wrong_call"
    assert found.detail.startswith("calls: a tool's error ended the run: WorldError: The wind alarm")


def test_a_bug_in_a_middleware_is_nobodys_outcome():
    class Bug(tk.AgentMiddleware):
        def before_model(self, state, runtime):
            raise KeyError("oops")

    with pytest.raises(KeyError):
        run(CASE, ["x"], middleware=[Bug()])


def test_a_call_that_failed_first_does_not_take_the_place_of_one_that_worked():
    data = {
        **CASE,
        "results": [{"name": "ring", "arguments": {"times": 1}, "error": "busy"}],
        "tools": [{"name": "ring", "effect": "writes", "parameters": {"type": "object", "properties": {"times": {}}}}],
        "expect": {"calls": [{"name": "ring", "arguments": {"times": {"$any": True}}}]},
    }
    del data["world"]
    case = case_from_dict(data)
    assert case.tools[0].effect == "writes"
    state = {"busy": True}

    def ring(times: int) -> str:
        """Ring."""
        if state.pop("busy", False):
            raise RuntimeError("busy")
        return "rung"

    lines = [tk.ToolCall("ring", {"times": 1}), tk.ToolCall("ring", {"times": 1}), "Rung."]
    tools = runnable(case, None, [tk.tool(effect="writes")(ring)])
    trace = play(tk.Agent(tk.ScriptedModel(lines), tools, arm="native"), case)
    assert [result.error for result in calls_made(trace)] == [True, False]
    assert score_run(case, trace, {}).outcome == "right_call"


def test_turns_are_played_one_after_the_other_and_end_with_a_failure():
    data = {**CASE, "turns": ["And the kitchen.", "Thanks."], "expect": {"calls": [OFF, MEASURE]}}
    case, trace, state = run(data, [off(), "Off.", LOOKS, "18.5", "You are welcome."])
    assert [message.text for message in trace.messages if message.is_from("user")] == [
        "Dark, please.", "And the kitchen.", "Thanks.",
    ]  # fmt: skip
    assert [result.origin.tool_name for result in calls_made(trace)] == ["switch_light", "get_indoor_climate"]
    assert score_run(case, trace, state).outcome == "right_call"
    case, trace, state = run(data, [off(), "Off.", ModelError("gone")])
    assert len(trace.of_kind("tool_call")) == 1
    assert score_run(case, trace, state).outcome == "server_fault"


def test_a_trace_from_a_file_is_scored_alike():
    for lines in ([off(), "It is dark."], [LOST, off("kitchen"), "Dark."], [""]):
        case, trace, state = run(CASE, lines)
        loaded = Trace.from_json(trace.to_json())
        assert score_run(case, loaded, state) == score_run(case, trace, state)
        assert calls_made(loaded) == calls_made(trace)


def test_a_tool_that_returns_directly_gives_the_answer():
    data = {"id": "a", "messages": [{"role": "user", "content": "Time?"}], "tools": [{"name": "now"}],
            "expect": {"answer": {"$contains": "12:30"}}}  # fmt: skip
    case = case_from_dict(data)
    tools = runnable(case, None, [tk.Tool.from_function(lambda: "12:30", name="now", return_direct=True)])
    trace = play(tk.Agent(tk.ScriptedModel([tk.ToolCall("now")]), tools, arm="native"), case)
    assert score_run(case, trace, {}).outcome == "right_call"


def test_calls_of_one_turn_reach_the_world_in_their_order():
    data = {**CASE, "tools": ["create_scene"], "expect": {"state": {"scenes": {"$any": True}}, "further": "any"}}
    names = [str(n) for n in range(12)]
    lights = [{"room": "study", "brightness": 5}]
    calls = [tk.ToolCall("create_scene", {"name": name, "lights": lights}) for name in names]
    for _ in range(5):
        _, trace, state = run(data, [tk.ChatMessage.from_assistant(tool_calls=calls), "Done."])
        assert [scene["name"] for scene in state["scenes"]] == names
        assert [result.origin.arguments["name"] for result in calls_made(trace)] == names
