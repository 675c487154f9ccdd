"""The public names are pinned, the import is light, and modules import only from floors below."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import toolkit as tk

PACKAGE = Path(tk.__file__).parent
HEAVY = {
    "pydantic", "pandas", "numpy", "scipy", "httpx", "ollama", "jinja2", "jsonschema_rs", "xllamacpp", "matplotlib",
    "tenacity", "ipywidgets", "typer", "tqdm", "griffe",
}  # fmt: skip
FLOORS = [
    {"errors", "messages", "resources"},
    {"tools", "traces"},
    {"extraction", "models", "worlds"},
    {"prompting"},
    {"recipes", "asking", "execution"},
    {"agents"},
    {"evaluation"},
    {"integrations", "lab", "cli", "__main__"},
]
# a class method that makes tools of a service imports it when called: a door, not a floor
DOORS = {("tools", "toolkit.execution")}
FLOOR = {name: level for level, names in enumerate(FLOORS) for name in names}


@pytest.mark.parametrize("name", tk.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(tk, name).__doc__


def test_the_table_of_names_and_the_typed_imports_agree():
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(tk.__all__)


def test_the_import_is_light():
    code = "import sys, toolkit; print(' '.join(m.split('.')[0] for m in sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & HEAVY


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts != ("__init__",):
            yield pytest.param(path, parts, id="/".join(parts))


@pytest.mark.parametrize(("path", "parts"), list(modules()))
def test_modules_import_only_from_their_floor_or_below(path, parts):
    """Late imports inside functions count too; imports for types only do not."""
    mine = FLOOR[parts[0]]
    tree = ast.parse(path.read_text("utf-8"))
    typed = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    skipped = {id(inner) for node in typed for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        for name in [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]:
            if name and name.startswith("toolkit.") and (parts[0], ".".join(name.split(".")[:2])) not in DOORS:
                assert FLOOR[name.split(".")[1]] <= mine, f"{path.name} imports {name} from a floor above"


@pytest.mark.parametrize(("path", "parts"), list(modules()))
def test_files_and_functions_stay_small(path, parts):
    text = path.read_text("utf-8")
    assert text.count("\n") <= 400, "split the file"
    assert ast.get_docstring(ast.parse(text)), "say what the module is for"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = sum(stmt.end_lineno - stmt.lineno + 1 for stmt in body)
            assert lines <= 40, f"{node.name} has {lines} lines"
