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
from toolkit.errors import UserError
from toolkit.evaluation import load_cases, load_recipes
from toolkit.evaluation.results import Result
from toolkit.evaluation.saving import writable_folder
from toolkit.models import load_model
from toolkit.models.connection import public_name
from toolkit.models.store import Store
from toolkit.traces.json_text import writable, write_text


def run_demo(folder: str | Path, parameters: dict[str, Any]) -> str:
    """Run `batch/evaluate.ipynb` with parameters into a folder; return the table and where everything lies, as text.

    Raises:
        UserError: the folder cannot be written, or a cell met a mistake of the user's.
    """
    if public_name(parameters.get("model", "")) != parameters.get("model", ""):
        raise UserError("A notebook shows its parameters. Put the model's credentials into TOOLKIT_OPENAI_API_KEY.")
    total = expected_replies(parameters)
    if parameters.get("model") and not parameters.get("recording"):
        load_model(parameters["model"]).check()  # before any notebook starts
    where = writable_folder(folder).resolve()
    given = {**parameters, "run": str(where)}
    with replies_bar(where / "replies.sqlite", total):
        executed = run_notebook("notebooks/batch/evaluate.ipynb", where / "evaluate.ipynb", given)
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


def expected_replies(parameters: dict[str, Any]) -> int | None:
    """Return how many replies the batch notebook will ask for with these parameters; None where runs decide that."""
    recipes = load_recipes(parameters.get("recipes") or resources.path("notebooks/batch/recipes"))
    tag = parameters.get("tag", "demo")
    cases = load_cases(parameters.get("cases", "all"), *([tag] if tag else []))
    if parameters.get("run_as", "ask") != "ask":
        return None
    limit = parameters.get("limit") or len(cases)
    return len(recipes) * min(limit, len(cases)) * int(parameters.get("repeats", 1))


@contextmanager
def replies_bar(path: Path, total: int | None) -> Iterator[None]:
    """Show a bar of the replies that a store holds while a notebook fills it from another process."""
    from tqdm import tqdm

    done = threading.Event()
    with Store(path) as store, tqdm(total=total, desc="replies", unit="reply") as bar:

        def watch() -> None:
            while not done.wait(0.5):
                bar.update(min(len(store), total or sys.maxsize) - bar.n)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            bar.update(min(len(store), total or sys.maxsize) - bar.n)


def run_notebook(name: str, out: str | Path, parameters: dict[str, Any]) -> Path:
    """Execute one of the toolkit's notebooks with parameters into `out`, cell by cell, and return that path.

    Raises:
        UserError: papermill is missing, or a cell raised; a mistake of the user's comes without a traceback.
    """
    try:
        import papermill
        from papermill.exceptions import PapermillExecutionError
    except ImportError:
        raise UserError("Batch runs need papermill: pip install 'local-tool-calling[notebook]'.") from None
    try:
        papermill.execute_notebook(
            str(resources.path(name)),
            str(out),
            parameters,
            kernel_name="python3",
            progress_bar=False,
            cwd=Path.cwd(),
            extra_arguments=["--log-level=50"],  # the kernel's own log would stand between the bars
        )
    except PapermillExecutionError as error:
        kind = getattr(errors, error.ename, None)
        if isinstance(kind, type) and issubclass(kind, UserError):
            raise UserError(error.evalue) from None
        raise UserError(
            f"{error.ename} in a cell: {error.evalue}. The executed notebook {str(out)!r} shows where."
        ) from None
    return Path(out)


def write_report(notebook: Path, out: Path) -> None:
    """Turn an executed notebook into one HTML page without its code cells."""
    from nbconvert import HTMLExporter

    exporter: Any = cast("Any", HTMLExporter)(exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True)
    page, _ = exporter.from_filename(str(notebook))
    write_text(out, writable(page))
