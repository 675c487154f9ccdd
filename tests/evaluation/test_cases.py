"""A case file is read whole or refused with file and line."""

import json

import pytest

import toolkit as tk
from toolkit.errors import ConfigError
from toolkit.evaluation.cases import case_from_dict, list_cases

TOOLS = [{"name": "plot", "description": "Draw.", "parameters": {"type": "object", "properties": {"kind": {}}}}]
GOOD = {
    "id": "a-1",
    "messages": [{"role": "user", "content": "Draw bars."}],
    "tools": ["plot"],
    "expect": {"calls": [{"name": "plot", "arguments": {"kind": "bar"}}]},
    "tags": ["plain"],
}


def write(folder, *rows):
    (folder / "mine.tools.json").write_text(json.dumps(TOOLS))
    path = folder / "mine.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_a_file_of_ones_own_is_read_with_its_tools(tmp_path):
    quiet = {**GOOD, "id": "a-2", "expect": {"no_call": True}, "tags": ["abstain"]}
    cases = tk.load_cases(write(tmp_path, GOOD, "", quiet))
    assert repr(cases) == "Cases(2, 1 of them no call)"
    assert cases["a-1"].calls == ({"name": "plot", "arguments": {"kind": "bar"}},)
    assert cases["a-1"].tools[0].name == "plot"
    assert cases["a-1"].domain == "mine"
    assert not cases["a-2"].expects_call
    assert len(tk.load_cases(tmp_path / "mine.jsonl", "abstain")) == 1
    assert case_from_dict(cases["a-1"].to_dict()) == cases["a-1"]
    assert list(cases.table()["right"]) == ["plot", "no call"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", r"mine.jsonl' line 2 is no JSON"),
        ([], "line 2: a case is an object with an id"),
        ({**GOOD, "expect": {}}, "line 2.*nothing to check"),
        ({k: v for k, v in GOOD.items() if k != "expect"}, "nothing to check"),
        ({**GOOD, "id": "b", "expect": {"calls": []}}, "at least one call"),
        ({**GOOD, "id": "b", "expect": {"no_call": False}}, "no_call must be true"),
        ({**GOOD, "id": "b", "expect": {"calls": [{"name": "draw"}]}}, "'draw', which is not offered"),
        ({**GOOD, "id": "b", "tools": ["plott"]}, "Did you mean 'plot'"),
        ({**GOOD, "id": "b", "messages": []}, "has no messages"),
        ({**GOOD, "id": "b", "messages": [{"role": "robot", "content": ""}]}, "Role 'robot'"),
        ({**GOOD, "id": "b", "expects": 1}, "unknown key 'expects'"),
        ({**GOOD, "id": "b", "tags": "plain"}, "tags must be a list, not 'plain'"),
        ({**GOOD, "id": "b", "tools": 5}, "tools must be a list, not 5"),
        ({**GOOD, "id": "b", "expect": {"calls": [{"name": "plot", "arguments": {"kind": {"$regx": "x"}}}]}}, "regex"),
        ({**GOOD, "id": "b", "expect": {"calls": [{"name": "plot", "arguments": {"knd": 1}}]}}, "Did you mean 'kind'"),
        (GOOD, "line 2: the id 'a-1' is taken by line 1"),
    ],
    ids=[
        "broken json", "list", "empty expectation", "no expectation", "no calls", "no_call false", "unknown call",
        "unknown tool", "no messages", "unknown role", "unknown key",
        "tags as text", "tools as number", "bad matcher", "unknown parameter", "twice",
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(tmp_path, row, message):
    with pytest.raises(ConfigError, match=message):
        tk.load_cases(write(tmp_path, GOOD, row))


def test_unknown_names_list_the_known():
    with pytest.raises(ConfigError, match="marketplace"):
        tk.load_cases("marketplaces")
    with pytest.raises(ConfigError, match="Tags are"):
        tk.load_cases("marketplace", "no such tag")


@pytest.mark.parametrize(("source", "runs"), [("all", False), ("runs", True)])
def test_all_and_runs_are_every_file_of_their_kind(source, runs):
    names = [name for name in list_cases() if name.startswith("runs/") == runs]
    assert len(names) == 4
    cases = tk.load_cases(source)
    assert len(cases) == sum(len(tk.load_cases(name)) for name in names)
    assert {case.scenario is not None for case in cases} == {runs}
    assert [case_from_dict(case.to_dict()) for case in cases] == list(cases)


RUN = {
    "id": "r-1",
    "messages": [{"role": "user", "content": "Dark, please."}],
    "world": "home",
    "start": {"rooms": {"study": {"light": 40}}},
    "tools": ["switch_light", "get_indoor_climate"],
    "turns": ["Thanks."],
    "expect": {"calls": [{"name": "switch_light"}], "state": {"rooms": {"study": {"light": 0}}}, "answer": "Dark."},
}


ALONE = {"world": None, "start": None, "tools": [{"name": "switch_light"}]}


def test_a_whole_run_is_read_with_the_tools_of_its_world():
    [case] = tk.load_cases([RUN])
    assert [(tool.name, tool.effect) for tool in case.tools] == [
        ("switch_light", "writes"),
        ("get_indoor_climate", "reads"),
    ]
    assert all(tool.function is None for tool in case.tools)
    assert case.scenario.turns == ("Thanks.",)
    assert case.scenario.further == "reads"
    assert repr(case) == "Case('r-1': 'Dark, please.' → switch_light)"
    quiet = case_from_dict({**RUN, "expect": {"no_call": True}})
    assert (quiet.expects_call, quiet.scenario.further, quiet.right) == (False, "none", "no call")
    only = case_from_dict({**RUN, "expect": {"state": {"scenes": []}, "answer": "x", "further": "any"}})
    assert (only.expects_call, only.right) == (True, "state and answer")
    assert len(case_from_dict({key: value for key, value in RUN.items() if key != "tools"}).tools) == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"world": "hotel"}, r"mine.jsonl' line 2 \(case 'r-1'\): There is no world 'hotel'"),
        ({"world": ["home"]}, r"no world \['home'\]"),
        ({"world": "os:system"}, "no world 'os:system'"),
        ({"start": {"room": {}}}, "line 2.*'home' has no 'room' to start with"),
        ({"tools": ["switch_lihgt"]}, "Did you mean 'switch_light'"),
        ({"turns": "Thanks."}, "line 2.*turns must be a list"),
        ({"turns": [""]}, "turns must be a list"),
        ({"expect": {}}, "nothing to check"),
        ({"expect": {"further": "reads"}}, "nothing to check"),
        ({"expect": {"no_call": True, "calls": [{"name": "switch_light"}]}}, "nothing to check"),
        ({"expect": {"calls": [{"name": "set_blinds"}]}}, "line 2.*'set_blinds', which is not offered"),
        ({"expect": {"no_call": True, "sate": {}}}, "unknown key 'sate' in expect"),
        ({"expect": {"no_call": True, "further": "some"}}, "line 2.*further='some'"),
        ({"expect": {"state": {"romms": {}}}}, "line 2.*state of world 'home' has no 'romms'. Did you mean 'rooms'"),
        ({"expect": {"state": {"rooms": {"attic": {"light": 0}}}}}, "state.rooms of world 'home' has no 'attic'"),
        ({"expect": {"state": {"rooms": {"study": {"light": {"on": 1}}}}}}, "it can never be"),
        ({"expect": {"state": {"scenes": {"name": "x"}}}}, "it can never be"),
        ({"expect": {"state": {"scenes": [{"name": {"$regexp": "x"}}]}}}, "Did you mean '\\$regex'"),
        ({"expect": {"answer": {"$contains": 5}}}, r"\$contains needs a string"),
        ({"results": [{"name": "switch_light", "result": 1}]}, 'has a "world" and "results"'),
        ({**ALONE, "results": [{"name": "switch_light"}]}, "no recorded result"),
        (
            {**ALONE, "results": [{"name": "switch_lihgt", "result": 1}]},
            "result of 'switch_lihgt', which is not offered",
        ),
        ({"world": None, "tools": [{"name": "switch_light"}]}, '"start" needs a "world"'),
        (ALONE, "expects a state, but has no"),
    ],
)
def test_a_run_that_could_never_come_out_right_is_named(tmp_path, changes, message):
    row = {key: value for key, value in {**RUN, **changes}.items() if value is not None}
    with pytest.raises(ConfigError, match=message):
        tk.load_cases(write(tmp_path, GOOD, row))


def test_a_part_of_the_state_that_starts_empty_may_get_any_key():
    class Box:
        tools, state = [tk.Tool("put", "Put.", {"type": "object"})], {"content": {}, "lid": None}

        def __init__(self, start):
            pass

    data = {**RUN, "world": "box", "start": {}, "tools": ["put"]}
    expect = {"state": {"content": {"apple": 1}, "lid": {"open": True}}}
    assert case_from_dict({**data, "expect": expect}, worlds={"box": Box}).scenario.state == expect["state"]
    with pytest.raises(ConfigError, match="has no 'contents'"):
        case_from_dict({**data, "expect": {"state": {"contents": 1}}}, worlds={"box": Box})


def test_line_separators_inside_strings_a_bom_and_crlf_are_fine(tmp_path):
    row = {**GOOD, "messages": [{"role": "user", "content": "one\u2028two\u0085three"}], "tags": None}
    path = write(tmp_path, GOOD)
    text = json.dumps({**row, "id": "b"}, ensure_ascii=False)
    path.write_bytes(("\ufeff" + path.read_text("utf-8") + "\r\n" + text + "\r\n").encode())
    assert tk.load_cases(path)["b"].question == "one\u2028two\u0085three"


def test_another_encoding_and_a_missing_sidecar_are_named(tmp_path):
    (tmp_path / "latin.jsonl").write_bytes('{"id": "ä"}'.encode("latin-1"))
    with pytest.raises(ConfigError, match="latin.jsonl' is not UTF-8"):
        tk.load_cases(tmp_path / "latin.jsonl")
    (tmp_path / "alone.jsonl").write_text(json.dumps(GOOD))
    with pytest.raises(ConfigError, match="tools.json"):
        tk.load_cases(tmp_path / "alone.jsonl")


ROOM = {"enum": ["kitchen", "bath"]}
DATE = {"type": "string", "pattern": "^[A-Z]{3}$", "maxLength": 3}
PLACE = {"type": "object", "properties": {"room": ROOM, "level": {"type": "integer"}}}
TREE = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Tree"}}]}
KNOT = {"anyOf": [{"$ref": "#/$defs/Knot"}] * 3}  # which holds for nothing and for everything
NEVER = [  # schema of the argument x, an expected value that no call can give, what is said
    (ROOM, "kitchn", "f.x: no call can give 'kitchn'. Did you mean 'kitchen'"),
    (ROOM, {"$any_of": ["bath", "attic"]}, "no call can give 'attic'"),
    (ROOM, {"$optional": "attic"}, "no call can give 'attic'"),
    (ROOM, {"$contains": "attic"}, "no call can give text with 'attic'"),
    (ROOM, {"$regex": "^b$"}, "no call can give text like"),
    ({"const": 3}, 4, "no call can give 4"),
    ({"type": "string"}, 52.5, 'no call can give 52.5: 52.5 is not of type "string"'),
    ({"type": "integer"}, "3", "no call can give '3'"),
    ({"type": "integer"}, 3.5, "no call can give 3.5"),
    ({"type": "boolean"}, 1, "no call can give 1"),
    ({"type": "integer"}, None, "no call can give None"),
    ({"type": "string"}, {"$approx": 3}, "no call can give about 3"),
    ({"type": "number", "maximum": 500}, {"$approx": 1000, "within": 10}, "no call can give about 1000"),
    ({"type": "integer"}, {"$contains": "3"}, "no call can give text with"),
    ({"type": "number", "maximum": 500}, 1000, "1000 is greater than the maximum of 500"),
    ({"type": "number", "multipleOf": 5}, 7, "no call can give 7"),
    (DATE, "euro", "no call can give 'euro'"),
    ({"type": "array", "items": ROOM}, ["bath", "attic"], r"f.x\[1\]: no call can give 'attic'"),
    ({"type": "array", "maxItems": 1}, [1, 2], "no call can give"),
    ({"type": "array", "uniqueItems": True}, [1, 1], "no call can give"),
    (PLACE, {"room": "attic"}, "f.x.room: no call can give 'attic'"),
    (PLACE, {"rom": "bath"}, "f.x: it has no 'rom' to expect. Did you mean 'room'"),
    ({"anyOf": [ROOM, {"type": "null"}]}, "attic", "no call can give 'attic'"),
    ({"allOf": [{"type": "integer"}, {"minimum": 5}]}, 3, "no call can give 3"),
    ({"$ref": "#/$defs/Room"}, "attic", "no call can give 'attic'"),
    ({"$ref": "#/$defs/Tree"}, [["x"], 5], "no call can give"),
    ({"type": "object", "additionalProperties": ROOM}, {"a": "attic"}, "f.x.a: no call can give 'attic'"),
]
MAY = [
    (ROOM, "Kitchen "),
    (ROOM, {"$any": True}),
    (ROOM, {"$contains": "kit"}),
    (DATE, "eur"),
    ({"type": "integer"}, 3.0),
    ({"type": "number"}, {"$approx": 3.2, "within": 0.1}),
    ({"type": "integer"}, {"$approx": 3.2, "within": 0.5}),
    ({"type": "number", "maximum": 500}, {"$approx": 505, "within": 10}),
    ({"$ref": "#/$defs/Tree"}, [["x"], "y"]),
    ({"$ref": "#/$defs/Knot"}, "x"),
    ({"type": "array", "items": ROOM, "uniqueItems": True}, [{"$any": True}, {"$any": True}]),
    ({"anyOf": [ROOM, {"type": "null"}]}, None),
    ({"type": ["string", "null"]}, None),
    ({"$ref": "#/$defs/Room"}, "bath"),
    ({"$ref": "#/$defs/Loop"}, "x"),
    ({"type": "object"}, {"anything": 1}),
    ({}, {"a": [1]}),
    (True, 1),
]


def expecting(schema, value):
    definitions = {"Room": ROOM, "Loop": {"$ref": "#/$defs/Loop"}, "Tree": TREE, "Knot": KNOT}
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}, "$defs": definitions}}
    return {**GOOD, "tools": [tool], "expect": {"calls": [{"name": "f", "arguments": {"x": value}}]}}


@pytest.mark.parametrize(("schema", "value", "message"), NEVER)
def test_an_expected_value_that_no_call_can_give_is_refused_with_its_line(tmp_path, schema, value, message):
    """gorilla#1133, gorilla#820: ground truth outside the function's own enum was scored for months."""
    row = {**expecting(schema, value), "id": "b"}
    with pytest.raises(ConfigError, match=rf"mine.jsonl' line 2 \(case 'b'\): .*{message}"):
        tk.load_cases(write(tmp_path, GOOD, row))


@pytest.mark.parametrize(("schema", "value"), MAY)
def test_an_expected_value_may_be_written_as_loosely_as_it_is_compared(schema, value):
    assert case_from_dict(expecting(schema, value)).calls


def test_a_recorded_result_for_a_call_that_cannot_be_is_refused():
    row = {**expecting(ROOM, "bath"), "results": [{"name": "f", "arguments": {"x": "attic"}, "result": 1}]}
    with pytest.raises(ConfigError, match="no call can give 'attic'"):
        case_from_dict(row)
