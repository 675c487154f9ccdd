from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import WeightsError
from toolkit.models.gguf import read_head, template_takes_tools, trained_context


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key: str, kind: int, data: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + data


HEAD = [
    entry("general.architecture", 8, text("llama")),
    entry("llama.context_length", 4, struct.pack("<I", 8192)),
    entry("llama.rope", 6, struct.pack("<f", 0.5)),
    entry("tokens", 9, struct.pack("<IQ", 8, 2) + text("a") + text("bc")),
    entry("scores", 9, struct.pack("<IQ", 6, 3) + bytes(12)),
    entry("tokenizer.chat_template", 8, text("{{ messages }}")),
]


def gguf(entries=HEAD, version=3, magic=b"GGUF", count=None) -> bytes:
    return magic + struct.pack("<IQQ", version, 0, len(entries) if count is None else count) + b"".join(entries)


def test_head(tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf())
    head = read_head(path)
    assert head["general.architecture"] == "llama"
    assert head["llama.rope"] == 0.5
    assert head["file_size"] == path.stat().st_size
    assert "tokens" not in head
    assert trained_context(head) == 8192
    assert not template_takes_tools(head)
    assert template_takes_tools({"tokenizer.chat_template": "{% if tools %}"})
    assert trained_context({}) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no sound GGUF"),
        (b"PK\x03\x04 a zip", "does not begin with the letters GGUF"),
        (gguf(version=9), "version 9"),
        (gguf(count=50), "no sound GGUF"),
        (gguf()[:60], "no sound GGUF"),
        (gguf([entry("x", 77, b"")]), "value type 77"),
        (gguf([struct.pack("<Q", 1 << 60)]), "too long"),
    ],
    ids=["empty", "zip", "version", "count", "cut", "type", "endless text"],
)
def test_bad_file_is_named(tmp_path, content, message):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=message) as error:
        read_head(path)
    assert "bad.gguf" in str(error.value)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(WeightsError, match="There is no model file"):
        read_head(tmp_path / "no.gguf")
    with pytest.raises(WeightsError, match="cannot be read"):
        read_head(tmp_path)


@given(st.binary(max_size=200))
def test_no_content_escapes_the_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("gguf") / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 3) + data)
    with pytest.raises(WeightsError):
        read_head(path)
