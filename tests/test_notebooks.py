"""Notebooks keep their manners: a question as title, one import line, short functions, outputs that read on GitHub."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
ALL = sorted(
    path.relative_to(NOTEBOOKS).as_posix() for path in NOTEBOOKS.rglob("*.ipynb") if ".ipynb_" not in str(path)
)
TUTORIALS = [name for name in ALL if name.startswith("tutorials/")]


def load(name):
    return json.loads((NOTEBOOKS / name).read_text("utf-8"))


def code_cells(name):
    return [cell for cell in load(name)["cells"] if cell["cell_type"] == "code"]


def source(cell):
    return "".join(cell["source"])


def parsed(cell):
    lines = [line for line in source(cell).splitlines() if not line.lstrip().startswith(("%", "!"))]
    return compile("\n".join(lines), "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("name", ALL)
def test_the_title_is_a_question_and_the_kernel_is_anyones(name):
    book = load(name)
    title = source(book["cells"][0]).splitlines()[0]
    assert title.startswith("# ")
    assert title.endswith("?")
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    assert any("import toolkit as tk" in source(cell) for cell in code_cells(name))


@pytest.mark.parametrize("name", ALL)
def test_functions_are_short(name):
    for cell in code_cells(name):
        for node in ast.walk(parsed(cell)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                assert sum(stmt.end_lineno - stmt.lineno + 1 for stmt in body) <= 10, node.name


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials_are_committed_with_outputs_and_without_errors(name):
    cells = code_cells(name)
    assert sum(bool(cell["outputs"]) for cell in cells) >= len(cells) / 2
    for cell in cells:
        wanted = "raises-exception" in cell["metadata"].get("tags", [])
        errors = [out for out in cell["outputs"] if out["output_type"] == "error"]
        assert bool(errors) == wanted
        assert "/home/" not in json.dumps(cell["outputs"])


def test_the_batch_notebook_has_one_annotated_parameters_cell():
    cells = [cell for cell in code_cells("batch/evaluate.ipynb") if "parameters" in cell["metadata"].get("tags", [])]
    assert len(cells) == 1
    for line in source(cells[0]).splitlines():
        assert ": " in line.split("=")[0], line
        assert "  # " in line, line
