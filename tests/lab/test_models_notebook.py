"""The notebook about models runs from top to bottom against a server."""

from __future__ import annotations

import json

import pytest

from toolkit import resources
from toolkit.testing import FakeModel, FakeOllama, ScriptedReply


@pytest.mark.notebook
@pytest.mark.slow
def test_every_cell_says_something(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    book = nbformat.read(resources.root() / "notebooks" / "lab" / "models.ipynb", as_version=4)
    with FakeOllama([FakeModel("smollm2:135m", road="native"), FakeModel("coder", road="builtin")]) as server:
        server.follows(lambda body: ScriptedReply("Salt.", held={"zebra": "red", "mango": "red", "apple": "red"}))
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        nbclient.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells)
    shown = json.dumps([cell.outputs for cell in cells])
    for words in ("ollama/coder:latest", "built-in renderer and parser", "keys come in the schema", "8,192 tokens"):
        assert words in shown
    assert (tmp_path / "runs" / "lab" / "replies.sqlite").is_file()
