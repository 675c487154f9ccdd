"""A protocol folder may be another one's: whatever is in it, it is read, or refused with an error of ours."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit import resources
from toolkit.errors import ConfigError
from toolkit.prompting.templates import fill

TOOL = {"name": "f", "parameters": {"type": "object", "properties": {"x": {}}}}


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(resources.path("prompts/hermes"), tmp_path / "mine")


@pytest.mark.parametrize("name", ["system.jinja", "protocol.toml", "examples.jsonl", "extra.jinja"])
def test_a_link_out_of_the_folder_is_not_read(folder, tmp_path, name):
    (tmp_path / "secret").write_text("the secret")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="leads elsewhere"):
        tk.load_protocol(folder)


def test_a_link_to_the_folder_itself_is_fine(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert tk.load_protocol(tmp_path / "link").syntax


def test_pipes_devices_and_folders_are_refused_at_once(folder):
    os.mkfifo(folder / "x.jinja")
    with pytest.raises(ConfigError, match="leads elsewhere"):
        tk.load_protocol(folder)
    (folder / "x.jinja").unlink()
    (folder / "x.jinja").mkdir()
    with pytest.raises(ConfigError, match="leads elsewhere"):
        tk.load_protocol(folder)


@pytest.mark.parametrize("name", ["system.jinja", "protocol.toml", "examples.jsonl"])
@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * 2_000_000], ids=["not UTF-8", "large"])
def test_what_is_no_text_is_named(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigError, match=name):
        tk.load_protocol(folder)


VALUES = ["5", "1.5", "true", "[]", "[1]", '[["a"]]', "[[1, 2]]", '"x"', '""', "{}", "{a = 1}", '["x"]', "[" * 3000,
          "1979-05-27"]  # fmt: skip
KEYS = ["title", "description", "syntax", "fallbacks", "markers", "schema", "schema.name", "schema.arguments",
        "schema.aliases", "other"]  # fmt: skip


def use(folder):
    with contextlib.suppress(ConfigError):
        protocol = tk.load_protocol(folder)
        assert isinstance(protocol.syntax + "".join(protocol.keys), str)
        assert all(isinstance(word, str) for word in (*protocol.fallbacks, *protocol.markers))
        protocol.render([TOOL], "Hi")
        protocol.response_schema([TOOL])
        protocol.extract("hello", [TOOL])
        tk.Recipe("m", protocol=str(folder)).hash  # noqa: B018


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:12])
def test_any_value_under_any_key(folder, key, value):
    kept = [] if key == "syntax" else ['syntax = "hermes"']
    (folder / "protocol.toml").write_text("\n".join([*kept, f"{key} = {value}"]))
    use(folder)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["system.jinja", "call.jinja", "protocol.toml", "examples.jsonl"]),
    content=st.binary(max_size=60),
)
def test_any_bytes_in_any_file(folder, name, content):
    before = (folder / name).read_bytes() if (folder / name).exists() else b""
    (folder / name).write_bytes(content)
    use(folder)
    (folder / name).write_bytes(before + content)
    use(folder)
    (folder / name).write_bytes(before)


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "{{ " + "[" * 500 + "]" * 500 + " }}",
        "{{ " + "not " * 50_000 + "1 }}",
        "{{ 1" + " + 1" * 50_000 + " }}",
        "{{ x" + ".a" * 20_000 + " }}",
        "{{ 1" + "|abs" * 20_000 + " }}",
        "{% for a in [1] %}" * 60 + "{% endfor %}" * 60,
        "{{ 9" + "9" * 5000 + " }}",
    ],
    ids=lambda source: source[:14],
)
def test_a_template_nested_too_deep_is_refused(source):
    with contextlib.suppress(ConfigError):
        fill(source, {"x": 1})


GROWS = {
    "ljust": "{{ 'a'.ljust(10**10) }}", "rjust": "{{ 'a'.rjust(10**10) }}", "center": "{{ 'a'.center(10**10) }}",
    "zfill": "{{ '1'.zfill(10**10) }}", "tabs": "{{ '\t'.expandtabs(10**10) }}", "bytes": "{{ (1).to_bytes(10**10) }}",
    "format": "{{ '{:10000000000}'.format(1) }}", "map": "{{ '{x:10000000000}'.format_map({'x': 1}) }}",
    "percent": "{{ '%10000000000d' % 1 }}", "star": "{{ '%*d' % (10**10, 1) }}",
    "filter": "{{ '%10000000000d'|format(1) }}", "center filter": "{{ 'a'|center(10**10) }}",
    "indent": "{{ 'a\nb'|indent(10**10) }}", "wrap": "{{ 'a b'|wordwrap(1, wrapstring='x' * 10**6 * 10**6) }}",
    "replace": "{{ ('a' * 10**6).replace('a', 'b' * 10**6) }}", "join": "{{ (['a' * 10**6] * 10**5)|join }}",
    "join method": "{{ ('a' * 10**6).join(['b'] * 10**5) }}",
    "translate": "{{ ('a' * 10**6).translate({97: 'b' * 10**6}) }}",
    "product": "{{ [['a' * 1000] * 1000] * 10**6 }}", "tojson": "{{ [1]|tojson(indent=10**10) }}",
    "json": "{{ [1]|json(10**10) }}",
    "doubling": "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
    "tilde": "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
    "block": "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}"
             "{% endfor %}{{ n.x }}",
    "macro": "{% macro m(x, k) %}{% if k %}{{ m(x ~ x, k - 1) }}{% else %}{{ x }}{% endif %}{% endmacro %}"
             "{{ m('a', 60) }}",
    "list": "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
    "batch": "{{ [1]|batch(10**10, 0)|list }}", "slice": "{{ [1]|slice(10**10)|list }}",
    "generator": "{{ (['a' * 10**6] * 1)|map('center', 10**10)|list }}", "lorem": "{{ lipsum(10**9) }}",
    "output": "{% set x = 'a' * 10**6 %}{% for i in range(99999) %}{{ x }}{% endfor %}",
}  # fmt: skip


@pytest.fixture
def little_memory():
    """Let this process take a gigabyte more than it has, so that what takes all memory fails and does not kill."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("source", GROWS.values(), ids=GROWS)
def test_no_template_takes_all_memory(source, little_memory):
    with pytest.raises(ConfigError, match=r"failed|cannot be read") as caught:
        fill(source, {})
    assert "fits into memory" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ 'a'.ljust(5) }}|{{ 'a'|center(5) }}|{{ '%5d' % 3 }}", "a    |  a  |    3"),
        ("{{ 'a' ~ 1 ~ none ~ [1] }}", "a1None[1]"),
        ("{{ 'a,b'.replace(',', ';') }} {{ ['x', 1] | join(', ') }} {{ 'x\ny' | indent(2) }}", "a;b x, 1 x\n  y"),
        ("{% set x %}a{% endset %}{{ x + 'b' }} {{ 7 % 3 }} {{ 2 + 3.5 }} {{ [1] + [2] }}", "ab 1 5.5 [1, 2]"),
        ("{{ [3, 1] | sort | map('string') | list }} {{ {'a': 1} | tojson }}", "['1', '3'] {\"a\": 1}"),
        ("{{ ('word ' * 5000) | length }} {{ ('word ' * 5000).replace('word', 'words') | length }}", "25000 30000"),
    ],
    ids=["widths", "tilde", "texts", "operators", "filters", "long"],
)
def test_what_prompts_need_is_not_in_the_way(source, text):
    assert fill(source, {}) == text
