"""Write results and recipes into a run folder: save_run, writable_folder.

Not here: what the tables say (`toolkit.evaluation.results`).
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolkit.errors import ConfigError
from toolkit.prompting.protocols import Protocol, is_bundled
from toolkit.recipes import Recipe


def save_run(folder: str | Path, table: Any, rows: Any, recipes: Iterable[Recipe]) -> Path:
    """Write table and rows (DataFrames, as CSV and Parquet) and one TOML a recipe into a folder, and return it.

    Raises:
        ConfigError: the folder cannot be written.
    """
    folder = writable_folder(folder)
    _warn_of_another(folder, rows)
    table.to_csv(folder / "table.csv", index=False, float_format="%.6g")
    table.to_parquet(folder / "table.parquet", index=False)
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "rows.parquet", index=False)
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


def _warn_of_another(folder: Path, rows: Any) -> None:
    """Say so where a folder holds rows that would be lost."""
    import pandas as pd

    with contextlib.suppress(OSError, ValueError, KeyError):  # there is none, or none of ours
        keys = ["recipe_hash", "case", "repeat"]
        before = pd.read_parquet(folder / "rows.parquet", columns=keys)
        lost = set(map(tuple, before.to_numpy())) - set(map(tuple, rows[keys].to_numpy()))
        if lost:
            warnings.warn(
                f"{str(folder)!r} held another result; {len(lost)} of its rows are not in this one and are replaced. "
                "Their replies stay in the store. Name another folder to keep both.",
                stacklevel=4,
            )


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
