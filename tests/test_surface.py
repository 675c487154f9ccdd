"""The public names are pinned, the import is light, modules import from floors below only and in no circle."""

import ast
import graphlib
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
    {"errors", "messages", "resources", "secrets"},
    {"tools", "traces"},
    {"extraction", "models", "worlds"},
    {"prompting"},
    {"recipes", "asking", "execution"},
    {"agents"},
    {"evaluation"},
    {"integrations", "lab", "cli", "testing", "__main__"},
]
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


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path):
    """Return the modules of the package that a file imports: late ones and those for types only too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in PATHS else node.module for name in inner}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return sorted(name for name in found - {name_of(path)} if name in PATHS)


GRAPH = {name: imports(path) for name, path in PATHS.items()}


def modules():
    for name, path in PATHS.items():
        if name != "toolkit":
            yield pytest.param(name, id=str(path.relative_to(PACKAGE)))


@pytest.mark.parametrize("name", list(modules()))
def test_modules_import_only_from_their_floor_or_below(name):
    room = name.split(".")[1]
    for other in GRAPH[name]:
        assert FLOOR[other.split(".")[1]] <= FLOOR[room], f"{name} imports {other} from a floor above"


def circle(graph):
    """Return the names along one way that leads back to its start, or None."""
    sorter = graphlib.TopologicalSorter(graph)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_imports_run_in_no_circle():
    assert circle(GRAPH) is None


def test_rooms_import_each_other_in_no_circle():
    rooms = {}
    for name, others in GRAPH.items():
        if name != "toolkit":
            mine = rooms.setdefault(name.split(".")[1], set())
            mine |= {other.split(".")[1] for other in others} - {name.split(".")[1]}
    assert circle(rooms) is None


def test_a_circle_is_found():
    assert circle({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) is not None


@pytest.mark.parametrize("name", list(modules()))
def test_files_and_functions_stay_small(name):
    text = PATHS[name].read_text("utf-8")
    assert text.count("\n") <= 400, "split the file"
    assert ast.get_docstring(ast.parse(text)), "say what the module is for"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = sum(stmt.end_lineno - stmt.lineno + 1 for stmt in body)
            assert lines <= 40, f"{node.name} has {lines} lines"


def test_a_mistyped_name_has_a_suggestion():
    with pytest.raises(AttributeError, match=r"no attribute 'evalute'. Did you mean 'evaluate'\?"):
        tk.evalute  # noqa: B018
