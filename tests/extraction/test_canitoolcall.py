"""The fixtures of canitoolcall, nine model families, through its pytest plugin: calls, errors, streaming."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("canitoolcall", reason="pip install 'local-tool-calling[test]'")

from toolkit.extraction import StreamExtractor, extract

CHUNKS = (1, 7, 64)


def calls(extraction: Any) -> list[tuple[str, str]]:
    return [(call.tool_name, json.dumps(call.arguments, sort_keys=True)) for call in extraction.calls]


def finish_reason(fixture: Any) -> str:
    return "length" if fixture.truncated else "stop"


def test_calls(canitoolcall_fixture: Any) -> None:
    fixture = canitoolcall_fixture
    found = extract(fixture.raw_output, list(fixture.tools), finish_reason=finish_reason(fixture))
    if fixture.expected is None:
        assert not found.calls, "a fixture of an error holds no call"
        return
    expected = [(call.name, json.dumps(call.arguments, sort_keys=True)) for call in fixture.expected.tool_calls]
    assert calls(found) == expected


def test_streaming_equals_whole(canitoolcall_fixture: Any) -> None:
    fixture = canitoolcall_fixture
    text, tools = fixture.raw_output, list(fixture.tools)
    whole = extract(text, tools, finish_reason=finish_reason(fixture))
    for size in CHUNKS if len(text) < 1_500 else CHUNKS[-1:]:
        stream = StreamExtractor(tools)
        for start in range(0, len(text), size):
            stream.feed(text[start : start + size])
        assert stream.close(finish_reason(fixture)) == whole
