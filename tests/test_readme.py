"""What the README shows is what the code gives."""

import importlib.util
import re
from pathlib import Path

import pytest

import toolkit as tk

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def picture():
    spec = importlib.util.spec_from_file_location("make_picture", ROOT / "notebooks" / "batch" / "make_picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_table_is_what_the_recording_gives(picture):
    shown = README.split(picture.START)[1].split(picture.END)[0].strip()
    assert shown == picture.table(picture.demo_result())


def test_the_first_lines_of_code_give_a_call():
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "tk.extract(" in block)
    lines = code.strip().splitlines()
    scope = {}
    exec("\n".join(lines[:-1]), scope)
    extraction = eval(lines[-1], scope)
    [call] = extraction.calls
    assert (call.tool_name, call.arguments) == ("weather", {"city": "Oslo"})
    for repair in re.findall(r"`([a-z]+_[a-z]+)`, `([a-z]+_[a-z]+)`\)", README)[0]:
        assert repair in call.repairs


def test_every_linked_file_is_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_models_named_in_the_readme_are_known():
    assert tk.load_model("embedded/smollm2-135m").name == "embedded/smollm2-135m"
