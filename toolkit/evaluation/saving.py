"""Write results and recipes into a run folder: save_run, writable_folder.

Not here: what the tables say (`toolkit.evaluation.results`).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolkit.errors import ConfigError
from toolkit.evaluation.probes import Probe
from toolkit.prompting.protocols import Protocol, is_bundled
from toolkit.recipes import Recipe

PROBES = "probes.json"
# what a result is made of; the store of replies is shared by all results of a folder
_FILES = ("table.csv", "table.parquet", "rows.csv", "rows.parquet", "recipes", "evaluate.ipynb", "report.html", PROBES)


def save_run(
    folder: str | Path, table: Any, rows: Any, recipes: Iterable[Recipe], probes: Iterable[Probe] = ()
) -> Path:
    """Write table and rows (DataFrames, as CSV and Parquet), probes and one TOML a recipe into a folder; return it.

    Another result that lies there, one with rows that this one lacks, is moved to `earlier/TIME` in the folder first,
    with all its files (Source: NeMo-Agent-Toolkit#325, metacoder#24).

    Raises:
        ConfigError: the folder cannot be written.
    """
    folder = writable_folder(folder)
    _set_aside(folder, rows)
    table.to_csv(folder / "table.csv", index=False, float_format="%.6g")
    table.to_parquet(folder / "table.parquet", index=False)
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "rows.parquet", index=False)
    if found := [probe.to_dict() for probe in probes]:
        (folder / PROBES).write_text(json.dumps(found, indent=2), "utf-8")
    taken: set[str] = set()
    for recipe in recipes:
        name, count = file_name(recipe.name), 1
        free = name
        while free.casefold() in taken:
            count += 1
            free = f"{name}_{count}"
        taken.add(free.casefold())
        save_recipe(recipe, folder / "recipes", free)
    return folder


def _set_aside(folder: Path, rows: Any) -> None:
    """Move the files of another result into a folder of their own, and say so."""
    if not (lost := _lost(folder, rows)):
        return
    made = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime((folder / "rows.parquet").stat().st_mtime))
    places = (folder / "earlier" / f"{made}{more}" for more in ("", *(f"_{n}" for n in range(2, 1000))))
    aside = next(place for place in places if not place.exists())
    try:
        aside.mkdir(parents=True)
        for path in [folder / name for name in _FILES if (folder / name).exists()]:
            path.rename(aside / path.name)
    except OSError as error:
        raise ConfigError(f"Cannot move what is in {str(folder)!r}: {error.strerror}. Choose another folder.") from None
    warnings.warn(
        f"{str(folder)!r} held another result; {lost} of its rows are not in this one, so it was moved to "
        f"{str(aside)!r}. Its replies stay in the store.",
        stacklevel=4,
    )


def _lost(folder: Path, rows: Any) -> int:
    """Return how many rows of the result in a folder are not among these."""
    import pandas as pd

    keys = ["recipe", "recipe_hash", "case", "repeat", "outcome", "text"]
    if not (folder / "rows.parquet").is_file():
        return 0
    try:
        before = pd.read_parquet(folder / "rows.parquet", columns=keys)
    except (OSError, ValueError, KeyError):  # damaged, or of another version
        return 1
    return len(set(map(tuple, before.to_numpy())) - set(map(tuple, rows.reindex(columns=keys).to_numpy())))


def save_recipe(recipe: Recipe, folder: Path, name: str) -> Path:
    """Write a recipe, with a copy of its protocol's folder where that is the user's own, or edited in memory."""
    if recipe.arm != "native" and not is_bundled(recipe.loaded_protocol):
        recipe = recipe.replace(protocol=str(_save_protocol(recipe.loaded_protocol, folder / f"{name}_protocol")))
    return recipe.save(folder / f"{name}.toml")


def _save_protocol(protocol: Protocol, folder: Path) -> Path:
    """Write a protocol's files into a folder that holds nothing else then, and return it."""
    partial = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, content in protocol.files.items():
            (partial / name).write_text(content, "utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise ConfigError(f"Cannot write {str(folder)!r}: {error.strerror}. Choose another folder.") from None
    return folder.resolve()


def writable_folder(folder: str | Path) -> Path:
    """Make a folder if need be; ConfigError if it cannot be written."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"Cannot write into {str(folder)!r}: {error.strerror}. Choose another run folder.") from None
    return folder


def file_name(name: str) -> str:
    """Return a name that any file system takes.

    >>> file_name("hermes prompted #2")
    'hermes_prompted_2'
    """
    return "_".join("".join(c if c.isalnum() else " " for c in name).split())[:80] or "recipe"
