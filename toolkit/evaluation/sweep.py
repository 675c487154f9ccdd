"""Run recipes over cases: evaluate.

One request at a time per model by default, model after model, so that no model is loaded twice. With a store,
every reply is kept at once: an interrupted run goes on where it stopped. Faults of model and server become
outcomes and never end a sweep.
Not here: one request (`toolkit.asking`), tables (`toolkit.evaluation.results`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from toolkit.asking import Asked, ask
from toolkit.errors import ConfigError, ReplayMissError, StoreError, ToolkitError, did_you_mean
from toolkit.evaluation.cases import Case, Cases, case_from_dict, load_cases
from toolkit.evaluation.results import Result
from toolkit.evaluation.scoring import Verdict, score
from toolkit.models.base import ChatModel
from toolkit.models.store import Store
from toolkit.recipes import Recipe, load_recipes

Mode = Literal["record", "replay", "off"]
BLOCK = 8  # cases that one task of an executor runs


@dataclass(frozen=True)
class _Job:
    recipe: Recipe
    case: Case
    repeat: int


def evaluate(
    recipes: Any,
    cases: Any,
    repeats: int = 1,
    store: Store | str | Path | None = None,
    executor: Executor | None = None,
    *,
    mode: Mode = "record",
    models: Mapping[str, ChatModel] | None = None,
    progress: bool = True,
) -> Result:
    """Run every recipe on every case and return what came of it.

    Args:
        recipes: a Recipe, a TOML file, a folder of them, or a list of these.
        cases: a name that `load_cases` knows, or cases.
        repeats: times each case is asked; repeat r is stored apart and, above temperature 0, has its own seed.
        store: where replies are kept and looked up; a path makes one.
        executor: any `concurrent.futures.Executor`, such as dask's `Client.get_executor()`; blocks of cases
            are sent to it. It needs `store` as a path that its workers can reach, or None.
        mode: "record" asks for what the store lacks, "replay" never asks, "off" ignores the store.
        models: loaded models by name, in place of `load_model`.
        progress: whether to show a bar.

    Raises:
        UserError: a recipe or case cannot be used, a model cannot be reached, or a replay lacks a reply.
    """
    found, asked = load_recipes(recipes), load_cases(cases)
    if mode not in get_args(Mode):
        raise ConfigError(f"Unknown mode {mode!r}. {did_you_mean(mode, get_args(Mode))}")
    if not len(asked):
        raise ConfigError("There is no case to run.")
    if repeats < 1:
        raise ConfigError(f"repeats must be at least 1, not {repeats!r}.")
    if mode == "replay" and store is None:
        raise ConfigError("mode='replay' needs store=, the file that holds the replies.")
    _warn_of_idle_repeats(found, repeats)
    if executor is not None:
        rows = _spread(found, asked, repeats, store, executor, mode, progress)
    else:
        rows = list(_bar(_run(found, asked, repeats, store, mode, models or {}), found, asked, repeats, progress))
    return Result(_in_order(rows, found, asked), found)


def _in_order(rows: list[dict[str, Any]], recipes: list[Recipe], cases: Cases) -> list[dict[str, Any]]:
    """Put rows back in the order of recipes and cases, whatever order they were asked in."""
    recipe_at = {recipe.name: place for place, recipe in enumerate(recipes)}
    case_at = {case.id: place for place, case in enumerate(cases)}
    return sorted(rows, key=lambda row: (recipe_at[row["recipe"]], row["repeat"], case_at[row["case"]]))


def _warn_of_idle_repeats(recipes: list[Recipe], repeats: int) -> None:
    """Say so where repeats measure only the server's noise (Source: ollama#4660)."""
    cold = [recipe.name for recipe in recipes if recipe.settings.temperature == 0]
    if repeats > 1 and cold:
        warnings.warn(
            f"repeats={repeats} at temperature 0 measures only the server's own noise: {', '.join(cold)}.", stacklevel=3
        )


def _bar(rows: Iterator[dict[str, Any]], recipes: list[Recipe], cases: Cases, repeats: int, show: bool) -> Any:
    if not show:
        return rows
    from tqdm.auto import tqdm

    return tqdm(rows, total=len(recipes) * len(cases) * repeats, desc="replies", unit="reply")


def _run(
    recipes: list[Recipe],
    cases: Iterable[Case],
    repeats: int,
    store: Store | str | Path | None,
    mode: Mode,
    models: Mapping[str, ChatModel],
) -> Iterator[dict[str, Any]]:
    names = list(dict.fromkeys(recipe.model for recipe in recipes))  # model-major: each is loaded once
    # whether each can answer is checked before a store is made or a request sent
    found = {name: models.get(name) or (None if mode == "replay" else _load(name)) for name in names}
    kept = Store(store, must_exist=mode == "replay") if isinstance(store, (str, Path)) and mode != "off" else store
    # cases with the same tools share the start of their prompt: asked in a row, a server's prefix cache is hit
    cases = sorted(cases, key=lambda case: [tool.name for tool in case.tools])
    for name, model in found.items():
        mine = [recipe for recipe in recipes if recipe.model == name]
        marks = _marks(model)
        try:
            for recipe in mine:
                for repeat in range(repeats):
                    answering = _wrapped(model, name, kept, mode, repeat)
                    for case in cases:
                        yield {**_row(_Job(recipe, case, repeat), answering), **marks}
        finally:
            if model is not None and name not in models:
                model.close()


def _marks(model: ChatModel | None) -> dict[str, str]:
    """Return what tells versions of model and server apart (Source: ollama-python#514); blank in a replay."""
    try:
        found = model.fingerprint() if model is not None else {}
    except ToolkitError:
        found = {}
    return {"digest": str(found.get("digest", ""))[:19], "server": str(found.get("server", ""))}


def _load(name: str) -> ChatModel:
    from toolkit.models import load_model

    model = load_model(name)
    model.check()
    return model


def _wrapped(model: ChatModel | None, name: str, store: Any, mode: Mode, repeat: int) -> ChatModel:
    if store is None or mode == "off":
        assert model is not None
        return model
    wrapped: ChatModel = store.wrap(model if model is not None else name, mode=mode, repeat=repeat)
    return wrapped


def _row(job: _Job, model: ChatModel) -> dict[str, Any]:
    """Ask one case and return its row; only the user's own mistakes raise."""
    try:
        asked = ask(job.recipe, job.case, model=model, seed_shift=job.repeat)
        verdict = score(job.case, asked.reply, asked.extraction)
    except (ConfigError, ReplayMissError, StoreError):
        raise  # the user's own mistake, or a store that keeps nothing any more
    except (ToolkitError, OSError, RuntimeError, ValueError) as error:
        fault = Verdict("server_fault", f"{type(error).__name__}: {error}")
        return _storable({**_head(job), **_verdict(fault), **_NO_FACTS})
    return _storable({**_head(job), **_verdict(verdict), **_facts(asked)})


def _storable(row: dict[str, Any]) -> dict[str, Any]:
    """Replace lone surrogates, which a model can write and no table can hold."""
    return {k: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for k, v in row.items()}


def _head(job: _Job) -> dict[str, Any]:
    recipe, case = job.recipe, job.case
    return {
        "recipe": recipe.name,
        "recipe_hash": recipe.hash,
        "model": recipe.model,
        "arm": recipe.arm,
        "protocol": "" if recipe.arm == "native" else recipe.loaded_protocol.name,
        "case": case.id,
        "domain": case.domain,
        "tags": " ".join(case.tags),
        "repeat": job.repeat,
        "expects_call": case.expects_call,
        "question": case.question,
        "expected": _as_text([dict(call) for call in case.calls]) if case.calls else "no call",
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"outcome": verdict.outcome, "right": verdict.right, "detail": verdict.detail}


def _facts(asked: Asked) -> dict[str, Any]:
    reply, found = asked.reply, asked.extraction
    return {
        "calls": _as_text([{"name": c.tool_name, "arguments": c.arguments} for c in found.calls])
        if found.calls
        else "",
        "status": found.status,
        "syntax": " ".join(dict.fromkeys(call.syntax for call in found.calls)),
        "repairs": " ".join(found.repairs),
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.completion_tokens,
        "seconds": reply.seconds,
        "load_seconds": reply.load_seconds,
        "from_store": reply.from_store,
    }


_NO_FACTS: dict[str, Any] = {
    **dict.fromkeys(("calls", "status", "syntax", "repairs", "text", "finish_reason"), ""),
    **dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), None),
    **dict.fromkeys(("seconds", "load_seconds"), 0.0),
    "from_store": False,
}


def _as_text(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _spread(
    recipes: list[Recipe], cases: Cases, repeats: int, store: Any, executor: Executor, mode: Mode, progress: bool
) -> list[dict[str, Any]]:
    """Send blocks of cases to an executor's workers and put their rows in order."""
    if isinstance(store, Store):
        store = store.path
    where = str(store) if store is not None else None
    blocks = [(recipe, cases[start : start + BLOCK]) for recipe in recipes for start in range(0, len(cases), BLOCK)]
    futures = [
        executor.submit(_run_block, recipe, [case.to_dict() for case in block], repeats, where, mode)
        for recipe, block in blocks
    ]
    rows = (row for future in futures for row in future.result())
    return list(_bar(rows, recipes, cases, repeats, progress))


def _run_block(recipe: Recipe, cases: list[dict[str, Any]], repeats: int, store: str | None, mode: Mode) -> list[Any]:
    """Run one block; a worker's entry point, so everything it takes can be pickled."""
    return list(_run([recipe], [case_from_dict(case) for case in cases], repeats, store, mode, {}))
