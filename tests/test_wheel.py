"""A wheel carries prompts, cases and the batch notebook, and works outside a checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = """
import toolkit as tk
assert "site" in tk.__file__ or "unpacked" in tk.__file__, tk.__file__
print(len(tk.load_cases("all")), *tk.list_protocols())
assert len(tk.load_recipes(tk.resources.path("notebooks/batch/recipes"))) == 4
from toolkit.worlds.marketplace import Marketplace
print(len(Marketplace().actions()))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    return next(out.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_what_users_need_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("prompts/airgap/system.jinja", "data/cases/travel.jsonl", "notebooks/batch/evaluate.ipynb"):
        assert f"toolkit/bundled/{wanted}" in names
    assert not [name for name in names if name.startswith(("tests/", "runs/")) or name.endswith(".sqlite")]


@pytest.mark.slow
def test_the_unpacked_wheel_works_outside_the_checkout(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'unpacked')!r})\n{SCRIPT}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("204 action_json airgap hermes")
    assert second == "5"
