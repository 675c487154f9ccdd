"""What a probe finds of servers that behave as the recorded ones do, and which recipes it warns of."""

from __future__ import annotations

import json
import warnings

import pytest

import toolkit as tk
from toolkit.evaluation.probes import CHECKS, Finding, Probe, leaned_on, probe
from toolkit.testing import FakeLlamaServer, FakeModel, FakeOllama, ScriptedReply

COLOURS = {"zebra": "red", "mango": "red", "apple": "blue"}


def call(name, xml):
    if xml:
        return f"<tool_call>\n<function={name}>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "Oslo"}}}}\n</tool_call>'


def good_model(xml=False, thinks=True):
    """Return a rule by which a fake model calls what it called before, thinks where it may, and is greedy."""

    def says(body):
        said = json.dumps(body.get("messages") or body["prompt"])
        if "format" in body:
            thought = "<think>\nhm\n</think>\n\n" if body.get("think") and thinks else ""
            return ScriptedReply(text=thought + "Red, I think.", held=COLOURS)
        if "Oslo?" in said:
            return call("forecast" if "forecast" in said else "weather", xml)
        if "Think first" in said and thinks:
            return ("<think>\nlet me\n</think>\n\n" if body.get("think") else "") + "42"
        seed = body["options"]["seed"] if body["options"]["temperature"] else ""
        return f"{seed}, {len(said)}: Harbour one."

    return says


def found(rule, *models, version="0.32.15", **settings):
    with FakeOllama(models, version=version, **settings) as server:
        server.follows(rule)
        with tk.load_model(f"ollama/{models[0].name}", host=server.host) as model:
            return probe(model)


def test_the_native_road():
    probed = found(good_model(), FakeModel("m", road="native", thinking=True))
    assert probed.fingerprint["road"] == "native"
    assert {one.check for one in probed.broken} >= {"think_apart", "key_order", "tools_shown"}
    assert "came apple, mango, zebra" in probed["key_order"].seen  # recorded: format.schema.order.native
    assert "default" in probed["tools_shown"].seen  # recorded: tools.native.schema_keys.render
    assert "enum" not in probed["tools_shown"].seen
    assert probed["tools_read"].holds


def test_the_go_road():
    probed = found(good_model(), FakeModel("m", road="go", thinking=True))
    assert [probed[check].holds for check in ("think_on", "think_off", "think_apart")] == [True] * 3
    assert [probed[check].holds for check in ("format", "format_and_think", "key_order")] == [True] * 3
    assert "written and nothing came" in probed["unknown_name"].seen  # recorded: tools.go.unknown_name


def test_a_schema_is_lost_on_a_thinking_model_that_does_not_think():  # recorded: think.go.format.no_tags
    probed = found(good_model(thinks=False), FakeModel("m", road="go", thinking=True))
    assert (probed["format"].holds, probed["format_and_think"].holds) == (True, False)
    assert probed["think_on"].holds is False


def test_the_builtin_road():  # recorded: tools.qwen3coder.unknown_name
    probed = found(good_model(xml=True), FakeModel("m", road="builtin"))
    assert probed["unknown_name"].seen == "handed over"
    assert probed["think_on"].holds is None
    assert probed["format_and_think"].holds is None


def test_a_call_that_the_server_cannot_read_is_not_handed_over():  # recorded: tools.brace.text_before
    def says(body):
        if "Oslo?" in json.dumps(body.get("messages") or body["prompt"]):
            return 'I call: {"name": "weather", "arguments": {"city": "Oslo"}}'
        return good_model()(body)

    probed = found(says, FakeModel("m", road="go"))
    assert probed["tools_read"].holds is False
    assert "left in the text" in probed["tools_read"].seen


def test_a_template_without_tools_shows_none_of_them():
    probed = found(good_model(), FakeModel("m", road="go", template="{{ range .Messages }}{{ .Content }}{{ end }}"))
    assert "do not reach" in probed["tools_shown"].seen


@pytest.mark.parametrize(
    ("road", "twin", "holds"), [("native", "go", False), ("native", "native", True), ("go", "native", True)]
)
def test_a_tag_of_the_same_file_brings_its_template_along(road, twin, holds):  # recorded: wrong_template.*
    blob = "ab" * 32
    models = FakeModel("m", road=road, blob=blob), FakeModel("twin", road=twin, blob=blob), FakeModel("other")
    with FakeOllama(models) as server:
        server.follows(good_model())
        with tk.load_model("ollama/m", host=server.host) as model:
            probed = probe(model)
        assert probed["template"].holds is holds
        assert not holds or "ollama/other" not in probed["template"].seen
        if not holds:
            assert "ollama/twin" in probed["template"].seen
            assert not server.runners.listed()  # the wrong one is not left behind


def test_words_that_depend_on_what_came_before_are_counted():
    asked = iter(range(1000))

    def says(body):
        said = good_model()(body)
        greedy = "harbours" in json.dumps(body) and not body["options"]["temperature"]
        return f"{said} {next(asked)}" if greedy else said

    probed = found(says, FakeModel("m", road="go"))
    assert probed["order"] == Finding("order", False, "4 of 4 replies differ")
    assert probed["parallel"].holds is False


def test_a_seed_that_is_ignored_is_found():
    asked = iter(range(1000))

    def says(body):
        return f"word {next(asked)}" if body["options"]["temperature"] else good_model()(body)

    assert found(says, FakeModel("m", road="go"))["seed"].holds is False


@pytest.mark.parametrize(
    ("on", "off", "holds"),
    [
        ("<think>\nhm\n</think>\n\n42", "42", [True, True, False]),
        ("hm\n</think>\n\n42", "42", [True, True, False]),  # ollama#8965: the prompt opened the thought
        ("[THINK]hm[/THINK]42", "[THINK]hm[/THINK]42", [True, False, False]),  # ollama#13493: not to be turned off
        ("42", "<think>\n\n</think>\n\n42", [False, True, None]),  # ollama#10914: an empty pair is no thought
        ("The token `</think>` ends it.", "42", [False, True, None]),
    ],
)
def test_thoughts_are_found_however_they_are_marked(on, off, holds):
    def says(body):
        return (on if body.get("think") else off) if "Think first" in json.dumps(body) else good_model()(body)

    probed = found(says, FakeModel("m", road="native", thinking=True))
    assert [probed[check].holds for check in ("think_on", "think_off", "think_apart")] == holds


def test_the_words_of_a_cold_cache_are_told_apart():  # ollama#4990, ollama#5321
    drawn = iter(range(1000))

    def says(body):
        if body["options"]["temperature"]:
            return "cold" if next(drawn) == 0 else f"warm {body['options']['seed']}"
        return good_model()(body)

    seed = found(says, FakeModel("m", road="go"))["seed"]
    assert seed.holds
    assert seed.seen == "another seed gives other words; the first reply, of a cold cache, was another"


def test_a_cache_shows_in_the_counts_of_newer_servers():  # ollama#17943
    def says(body):
        said = json.dumps(body)
        last = {"prompt_eval_cached_count": 120} if "Note " in said else {}
        return ScriptedReply("Salt.", last=last) if last else good_model()(body)

    assert found(says, FakeModel("m", road="go"))["prefix_cache"].seen.startswith("120 of ")


def test_it_is_kept_for_digest_and_version(tmp_path):
    store = tmp_path / "replies.sqlite"
    with FakeOllama([FakeModel("m")]) as server:
        server.follows(good_model())
        first = probe(tk.load_model("ollama/m", host=server.host), store)
        asked = len(server.requests)
        assert probe(tk.load_model("ollama/m", host=server.host), store) == first
        assert len(server.requests) == asked
        server.version = "0.33.0"
        assert probe(tk.load_model("ollama/m", host=server.host), store) != first
        assert len(server.requests) == 2 * asked


def test_what_the_server_left_open_is_asked_again(tmp_path):
    store = tmp_path / "replies.sqlite"
    with FakeOllama([FakeModel("m")]) as server:
        server.follows(good_model())
        server.fails(500, "model runner has unexpectedly stopped", at=2)
        first = probe(tk.load_model("ollama/m", host=server.host), store)
        assert any(one.seen.startswith("not known:") for one in first.findings)
        again = probe(tk.load_model("ollama/m", host=server.host), store)
    assert not any(one.seen.startswith("not known:") for one in again.findings)


def test_a_server_that_is_gone_is_said_and_nothing_is_kept():
    with FakeOllama([FakeModel("m")]) as server:
        model = tk.load_model("ollama/m", host=server.host)
    with pytest.raises(tk.ModelNotFoundError):
        probe(model)


def test_other_back_ends_are_asked_too():
    with FakeLlamaServer() as server:
        server.follows(lambda body: "Salt.")
        probed = probe(tk.load_model(f"openai/m@{server.host}/v1"))
    assert {one.check for one in probed.findings} == set(CHECKS)
    assert probed["order"].holds
    assert probed["template"].holds is None


def broken(*checks):
    return Probe("ollama/m", {}, tuple(Finding(check, check not in checks, "seen") for check in CHECKS))


NOISE = {"order", "parallel"}
LEANS = [
    ({"arm": "constrained"}, {"think_off", "format", "key_order"} | NOISE),
    ({"arm": "constrained", "options": {"think": True}}, {"think_on", "think_apart", "format_and_think"} | NOISE),
    (
        {"arm": "native", "options": {"think": False, "temperature": 1.0}},
        {"think_off", "tools_shown", "tools_read", "unknown_name", "template", "seed"},
    ),
    ({"arm": "prompted"}, {"think_apart"} | NOISE),
]


@pytest.mark.parametrize(("settings", "checks"), LEANS)
def test_a_recipe_is_warned_by_name_of_what_it_leans_on(settings, checks):
    recipe = tk.Recipe("ollama/m", name="mine", protocol="hermes", **settings)
    assert checks - {"key_order"} == set(leaned_on(recipe)) - {"key_order"}
    words = broken(*CHECKS).warnings(recipe)
    assert len(words) == len(leaned_on(recipe))
    assert all("'mine'" in line and "ollama/m" in line for line in words)
    assert broken().warnings(recipe) == []


def test_a_report_carries_the_probe_and_the_warning(tmp_path):
    store = tmp_path / "replies.sqlite"
    with FakeOllama([FakeModel("m", road="native", thinking=True)]) as server:
        server.follows(good_model())
        name = "ollama/m"
        model = tk.load_model(name, host=server.host)
        probed = probe(model, store)
        recipe = tk.Recipe(name, name="tools of the server", arm="native")
        cases = tk.load_cases("home")[:1]
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = tk.evaluate(recipe, cases, store=store, models={name: model}, progress=False)
    words = [str(one.message) for one in warned]
    assert any(f"'tools of the server' leans on {name}: {CHECKS['tools_shown']}" in line for line in words)
    assert result.probes == [probed]
    assert "the model is shown tools whole" in result.to_text()
    result.save(tmp_path / "run")
    assert tk.Result.load(tmp_path / "run").probes == [probed]


def test_a_probe_reads_well_and_survives_json():
    probed = broken("format")
    assert Probe.from_dict(json.loads(json.dumps(probed.to_dict()))) == probed
    assert "does not hold" in str(probed)
    assert len(probed.table()) == len(CHECKS)
    assert "a schema is kept" in probed._repr_html_()
