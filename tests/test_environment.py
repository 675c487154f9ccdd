"""The conda environment is the same as the Python packages."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from toolkit.errors import install_hint

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent
EXTRAS = ("embedded", "notebook", "openapi", "mcp")
CONDA_NAMES = {"ollama-python": "ollama"}  # conda-forge calls the server `ollama`
CONDA_ONLY = {"python", "pip", "make", "ollama", "nbval"}  # nbval: to run the tutorials as tests


def split(requirement):
    name, bound = re.match(r"([A-Za-z0-9_.\-]+)(?:\[[^\]]*\])?(.*)", requirement).groups()
    return name.lower().replace("_", "-"), bound.replace(" ", "")


def wanted():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [item for name in EXTRAS for item in project["optional-dependencies"][name]]
    return dict(map(split, project["dependencies"] + extras))


def conda():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    pip = next(item["pip"] for item in listed if isinstance(item, dict))
    plain = [split(item) for item in listed if isinstance(item, str)]
    mine = {CONDA_NAMES.get(name, name): bound for name, bound in plain if name not in CONDA_ONLY}
    return mine | dict(split(item) for item in pip if not item.startswith("-e"))


def test_environment_yml_equals_pyproject():
    assert conda() == wanted()


def test_the_ollama_server_comes_with_conda():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    assert "ollama" in listed


@pytest.mark.parametrize("extra", [*EXTRAS, "langchain", "cluster"])
def test_the_hint_for_a_missing_extra_names_what_pip_can_find(extra):
    """A user of a local wheel has no package of the toolkit's name to ask an index for."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"][extra]
    named = re.findall(r"'([^']+)'", install_hint(extra))
    assert {split(name)[0] for name in named} == {split(name)[0] for name in listed}


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("target", "held", "missing"),
    [
        ([], "pip install", "toolkit demo"),
        (["lab"], "jupyter lab", "toolkit demo"),
        (["demo"], "toolkit demo", "jupyter lab"),
    ],
    ids=["install only", "lab", "demo"],
)
def test_make_does_what_its_head_says(target, held, missing):
    """jupyter refuses to run as root, which is who runs in a container."""
    done = subprocess.run(["make", "-n", "-B", *target], cwd=ROOT, capture_output=True, text=True, check=True)
    assert held in done.stdout
    assert missing not in done.stdout
    assert ("--allow-root" in done.stdout) == (target == ["lab"] and os.getuid() == 0)
