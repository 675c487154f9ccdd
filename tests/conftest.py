"""Fixtures that many tests share: a fake Ollama server over real HTTP, and the real embedded model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from toolkit.testing import FakeModel, FakeOllama

settings.register_profile("toolkit", deadline=None)  # tests assert no times
settings.load_profile("toolkit")

SAMPLE = 4  # one in so many cases of a test that is sampled runs by default


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave most cases of the tests with very many to the runs that take slow ones."""
    seen: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("sampled") and hasattr(item, "callspec"):
            seen[item.originalname] += 1
            if seen[item.originalname] % SAMPLE != 1:
                item.add_marker(pytest.mark.slow)


collect_ignore = ["execution/mcp_server.py"]  # a program that the tests start; to import it for doctests takes seconds


@pytest.fixture
def fake_ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOllama]:
    """Run a fake Ollama server and point OLLAMA_HOST at it."""
    with FakeOllama([FakeModel("qwen3:4b", thinking=True, family="qwen3", parameter_size="4.0B")]) as fake:
        fake.keeps_connections = False  # models loaded by name are not closed, and an open socket is an error here
        monkeypatch.setenv("OLLAMA_HOST", fake.host)
        yield fake


@pytest.fixture(scope="session")
def embedded_weights() -> str:
    """Return the name of the embedded default model, its weights fetched; skip by name where that cannot be."""
    from toolkit.errors import WeightsError
    from toolkit.models.weights import fetch_weights

    pytest.importorskip("xllamacpp", reason="the extra 'embedded' is not installed")
    try:
        fetch_weights("smollm2-135m")
    except WeightsError as error:
        pytest.skip(f"no embedded weights: {error}")
    return "smollm2-135m"


@pytest.fixture(autouse=True)
def _skip_without_weights(request: pytest.FixtureRequest) -> None:
    """Skip tests marked `embedded` where the weights cannot be had."""
    if request.node.get_closest_marker("embedded"):
        request.getfixturevalue("embedded_weights")
