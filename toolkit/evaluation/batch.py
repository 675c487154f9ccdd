"""Run the batch notebook through papermill and make its report: run_demo, run_notebook.

Not here: the notebook itself (`notebooks/batch/evaluate.ipynb`) and what it calls (`toolkit.evaluation`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from toolkit import errors, resources
from toolkit.errors import ConfigError, UserError, check_word, install_hint
from toolkit.evaluation import load_cases, load_recipes
from toolkit.evaluation.results import Result
from toolkit.evaluation.saving import writable_folder
from toolkit.evaluation.sweep import progress_bar
from toolkit.models import load_model
from toolkit.models.connection import public_name
from toolkit.models.store import Store
from toolkit.traces.json_text import writable, write_text

NOTEBOOK = "notebooks/batch/evaluate.ipynb"
_TYPES: dict[str, Any] = {"str": (str, Path), "int": int, "list": (list, tuple)}  # of parameters


def run_demo(folder: str | Path, parameters: dict[str, Any]) -> str:
    """Run `batch/evaluate.ipynb` with parameters into a folder; return the table and where everything lies, as text.

    Raises:
        UserError: the folder cannot be written, or a cell met a mistake of the user's.
    """
    if public_name(parameters.get("model", "")) != parameters.get("model", ""):
        raise UserError("A notebook shows its parameters. Put the model's credentials into TOOLKIT_OPENAI_API_KEY.")
    check_parameters(NOTEBOOK, parameters)
    plan = planned(parameters)
    if parameters.get("model") and not parameters.get("recording"):
        load_model(parameters["model"]).check()  # before any notebook starts
    where = writable_folder(folder).resolve()
    given = {**parameters, "run": str(where)}
    with replies_bar(where / "replies.sqlite", plan):
        executed = run_notebook(NOTEBOOK, where / "evaluate.ipynb", given)
    write_report(executed, where / "report.html")
    result = Result.load(where)
    counts = result.rows["from_store"].fillna(False).astype(bool)
    lines = [
        "",
        f"{parameters.get('model', '')} on {result.rows['case'].nunique()} cases",
        "",
        result.to_text(),
        "",
        *map(repr, result.best_against_rest()),
        "",
        f"{int(counts.sum())} of {len(counts)} replies came from the store.",
        f"Everything lies in {os.path.relpath(where)}: the executed notebook, report.html, table.csv and .parquet, "
        "every reply in rows.csv, the recipes, and the store of replies.",
    ]
    return "\n".join(lines)


def planned(parameters: dict[str, Any]) -> list[str] | None:
    """Return the recipe of each reply that the batch notebook will ask for, in order; None where runs decide that."""
    recipes = load_recipes(parameters.get("recipes") or resources.path("notebooks/batch/recipes"))
    tag = parameters.get("tag", "")
    cases = load_cases(parameters.get("cases", "demo"), *([tag] if tag else []))
    if parameters.get("run_as", "ask") != "ask":
        return None
    each = min(parameters.get("limit") or len(cases), len(cases)) * parameters.get("repeats", 1)
    if not parameters.get("model"):  # a sweep goes model by model
        models = [recipe.model for recipe in recipes]
        recipes.sort(key=lambda recipe: models.index(recipe.model))
    return [recipe.name for recipe in recipes for _ in range(each)]


@contextmanager
def replies_bar(path: Path, plan: list[str] | None) -> Iterator[None]:
    """Show a bar of the replies that a store holds while a notebook fills it from another process."""
    done = threading.Event()
    with Store(path) as store, progress_bar(len(plan) if plan else None, "reply", "replies") as bar:
        # what was there is no measure of how long the rest takes
        bar.n = bar.initial = min(len(store), bar.total or 0)

        def watch() -> None:
            ended = False
            while not ended:
                ended = done.wait(0.5)
                if plan and bar.n < len(plan):
                    bar.set_description(plan[bar.n], refresh=False)
                bar.update(min(len(store), bar.total or sys.maxsize) - bar.n)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def check_parameters(name: str, parameters: dict[str, Any]) -> None:
    """Refuse a parameter that one of the toolkit's notebooks does not have, or of another type than its default.

    Raises:
        UserError: papermill is missing.
        ConfigError: an unknown parameter (Source: papermill#818), or a wrong value.
    """
    known = _papermill().inspect_notebook(str(resources.path(name)))
    for key, value in parameters.items():
        check_word(f"parameter of {name}", key, known)
        wanted = known[key]["inferred_type_name"]
        if wanted in _TYPES and not (isinstance(value, _TYPES[wanted]) and not isinstance(value, bool)):
            raise ConfigError(f"Parameter {key!r} of {name} must be of type {wanted}, not {value!r:.100}.")


def _papermill() -> Any:
    try:
        import papermill
    except ImportError:
        raise UserError(f"Batch runs need papermill. {install_hint('notebook')}") from None
    return papermill


def run_notebook(name: str, out: str | Path, parameters: dict[str, Any]) -> Path:
    """Execute one of the toolkit's notebooks with parameters, cell by cell, into `out`, and return that path.

    Nothing takes the place of an earlier `out` before the last cell is done.

    Raises:
        ConfigError: the notebook has no such parameter.
        UserError: papermill is missing, or a cell raised; a mistake of the user's comes without a traceback.
    """
    check_parameters(name, parameters)
    papermill, out = _papermill(), Path(out)
    partial = out.with_name(f"{out.stem}.failed.ipynb")  # the name that it keeps unless all goes well
    try:
        papermill.execute_notebook(
            str(resources.path(name)),
            str(partial),
            parameters,
            kernel_name="python3",
            progress_bar=False,
            cwd=Path.cwd(),
            extra_arguments=["--log-level=50"],  # the kernel's own log would stand between the bars
        )
    except papermill.PapermillExecutionError as error:
        kind = getattr(errors, error.ename, None)
        if isinstance(kind, type) and issubclass(kind, UserError):
            raise UserError(error.evalue) from None
        raise UserError(
            f"{error.ename} in a cell: {error.evalue}. The executed notebook {str(partial)!r} shows where."
        ) from None
    return partial.replace(out)


def write_report(notebook: Path, out: Path) -> None:
    """Turn an executed notebook into one HTML page without its code cells."""
    from nbconvert import HTMLExporter

    exporter: Any = cast("Any", HTMLExporter)(exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True)
    page, _ = exporter.from_filename(str(notebook))
    write_text(out, writable(page))
