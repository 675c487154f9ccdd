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


def test_all_is_every_file_and_ids_are_unique():
    assert len(tk.load_cases("all")) == sum(len(tk.load_cases(name)) for name in list_cases())


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
