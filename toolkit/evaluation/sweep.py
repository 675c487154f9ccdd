"""Run recipes over cases: evaluate.

One request at a time per model by default, model after model, so that no model is loaded twice. With a store,
every reply is kept at once: an interrupted run goes on where it stopped. Whatever happens to one request becomes an
outcome of its row, with the traceback in the column of that name, and never ends a sweep. What a model cannot do is
refused before the first request; a server that goes away, or is busy, is waited for; a recipe that is refused again
and again in the same words stops, and the others go on.
Not here: one request (`toolkit.asking`), one run (`toolkit.evaluation.play`), tables (`toolkit.evaluation.results`).
"""

from __future__ import annotations

import itertools
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from toolkit.agents.agent import Agent
from toolkit.agents.builtin import build
from toolkit.asking import ask, disarmed
from toolkit.errors import ConfigError, ToolkitError, check_number, check_word
from toolkit.evaluation import rows
from toolkit.evaluation.cases import Case, Cases, Worlds, case_from_dict, load_cases
from toolkit.evaluation.play import MISTAKES, play, runnable, told
from toolkit.evaluation.probes import probes_for
from toolkit.evaluation.refusals import Refusals, check_requests
from toolkit.evaluation.results import Result
from toolkit.evaluation.scoring import Verdict, score
from toolkit.evaluation.trajectories import score_run
from toolkit.models import load_model
from toolkit.models.base import ChatModel
from toolkit.models.connection import public_name
from toolkit.models.store import Store
from toolkit.models.waiting import Patience, patient
from toolkit.recipes import Recipe, load_recipes
from toolkit.secrets import scrub
from toolkit.tools import Tool, as_tools
from toolkit.traces import Trace
from toolkit.traces.json_text import as_text
from toolkit.worlds import World, load_world

Mode = Literal["record", "replay", "off"]
Run = Literal["ask", "agent"]
BLOCK = 8  # cases that one task of an executor runs
PATIENCE_S = 600.0  # for which a server that is gone or busy is waited for
_checked: set[tuple[str, str]] = set()  # (a sweep, a model that answered at its beginning)
_checking = threading.Lock()  # one of several blocks checks, the others wait for it
_tells: dict[str, Callable[[str], None]] = {}  # sweep -> what its bar is told by blocks that run in this process
_UNITS = {"ask": ("reply", "replies"), "agent": ("run", "runs")}


@dataclass(frozen=True)
class _Setting:
    """Hold what is the same for every case; can be pickled for a worker."""

    repeats: int
    store: Any
    mode: Mode
    run: Run
    worlds: Worlds = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


def evaluate(
    recipes: Any,
    cases: Any,
    repeats: int = 1,
    store: Store | str | Path | None = None,
    executor: Executor | None = None,
    *,
    run: Run = "ask",
    mode: Mode = "record",
    models: Mapping[str, ChatModel] | None = None,
    tools: Iterable[Any] = (),
    worlds: Worlds | None = None,
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
        run: "ask" puts one request a case and scores its calls; "agent" runs the whole loop with tools that really
            run, and scores the calls made, the final state and the final answer; one row a run.
        mode: "record" asks for what the store lacks, "replay" never asks, "off" ignores the store.
        models: loaded models by name, in place of `load_model`.
        tools: functions or tools that run for the cases' tools of the same names; all runs share them.
        worlds: worlds of your own that cases name, {"bank": Bank}; each run has a fresh one.
        progress: whether to show a bar.

    Raises:
        UserError: a recipe or case cannot be used, a model cannot be reached or cannot do what a recipe asks of it
            (tools, thinking, window, schema), or a replay lacks a reply.
    """
    found, asked = load_recipes(recipes), load_cases(cases, worlds=worlds)
    check_word("mode", mode, get_args(Mode))
    check_word("run", run, get_args(Run))
    if not len(asked):
        raise ConfigError("There is no case to run.")
    check_number("repeats", repeats, 1)
    for recipe in found:  # one whose middleware cannot be made is refused before anything is asked
        for entry in recipe.middleware:
            try:
                build(entry["name"], entry.get("arguments", {}))
            except ConfigError as error:
                raise ConfigError(f"Recipe {recipe.name!r}: {error}") from error
    if mode == "replay" and store is None:
        raise ConfigError("mode='replay' needs store=, the file that holds the replies.")
    setting = _Setting(repeats, store, mode, run, worlds or {}, tuple(as_tools(tools)))
    if setting.tools and run == "ask":
        raise ConfigError("A single request runs no tools. Give run='agent', or leave tools= out.")
    for case in asked:
        _check_case(case, setting)
    _warn_of_idle_repeats(found, repeats)
    probes = probes_for(found, store) if mode != "off" else []
    with progress_bar(len(found) * len(asked) * repeats, *_UNITS[run], hidden=not progress) as bar:
        if executor is not None:
            _tells[setting.id] = bar.set_postfix_str
            try:
                made = list(_counted(_spread(found, asked, setting, executor), bar))
            finally:
                del _tells[setting.id]
        else:
            made = list(_counted(_run(found, asked, setting, models or {}, bar.set_postfix_str), bar))
    # back in the order of recipes and cases, whatever order they were asked in
    recipe_at = {recipe.name: place for place, recipe in enumerate(found)}
    case_at = {case.id: place for place, case in enumerate(asked)}
    made.sort(key=lambda r: (recipe_at[r["recipe"]], r["repeat"], case_at[r["case"]]))
    return Result(made, found, probes)


def _check_case(case: Case, setting: _Setting) -> None:
    """Refuse a case that this kind of run cannot judge, before anything is asked."""
    if setting.run == "agent":
        _stage(case, setting)
    elif case.scenario is not None:
        raise ConfigError(
            f"Case {case.id!r} is a whole run: its state or later turns need one. "
            "Give run='agent' (--run-as agent on the command line)."
        )


def _stage(case: Case, setting: _Setting) -> tuple[World | None, list[Tool]]:
    """Return a fresh world, if the case has one, and tools that run."""
    scenario = case.scenario
    world = load_world(scenario.world, scenario.start, setting.worlds) if scenario and scenario.world else None
    return world, runnable(case, world, setting.tools)


def _warn_of_idle_repeats(recipes: list[Recipe], repeats: int) -> None:
    """Say so where repeats measure only the server's noise (Source: ollama#4660)."""
    cold = [recipe.name for recipe in recipes if recipe.settings.temperature == 0]
    if repeats > 1 and cold:
        warnings.warn(
            f"repeats={repeats} at temperature 0 measures only the server's own noise: {', '.join(cold)}.", stacklevel=3
        )


def _counted(made: Iterator[rows.Row], bar: Any) -> Iterator[rows.Row]:
    if bar.disable:
        yield from made
        return
    for row in made:
        bar.set_description(row["recipe"][:40], refresh=False)
        bar.set_postfix_str("", refresh=False)  # nothing is waited for any more
        bar.initial += bool(row["from_store"])  # says nothing of how long the others take
        bar.update()
        yield row


def progress_bar(total: int | None, unit: str, plural: str, hidden: bool = False) -> Any:
    """Return a bar whose time left is told by the mean over all that were asked, so that it does not swing."""
    from tqdm.auto import tqdm

    return tqdm(total=total, desc=plural, unit=unit, smoothing=0, disable=hidden)


def _run(
    recipes: list[Recipe],
    cases: Iterable[Case],
    setting: _Setting,
    models: Mapping[str, ChatModel],
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[rows.Row]:
    store, mode = setting.store, setting.mode
    models = {public_name(name): model for name, model in models.items()}
    names = list(dict.fromkeys(recipe.model for recipe in recipes))  # model-major: each is loaded once
    found: dict[str, ChatModel | None] = {name: models.get(name) for name in names}
    for name in names if mode != "replay" else ():
        found[name] = mine = models.get(name) or load_model(name)
        with _checking:
            if (setting.id, name) not in _checked:  # by another block of this process
                mine.check()
                _checked.add((setting.id, name))
        with patient(Patience(PATIENCE_S, tell)):
            check_requests([recipe for recipe in recipes if recipe.model == name], cases, mine)
    kept = Store(store, must_exist=mode == "replay") if isinstance(store, (str, Path)) and mode != "off" else store
    # cases with the same tools share the start of their prompt: asked in a row, a server's prefix cache is hit
    cases = sorted(cases, key=lambda case: [tool.name for tool in case.tools])
    for name, model in found.items():
        patience = Patience(PATIENCE_S, tell)
        with patient(patience):
            marks = _marks(model)
        try:
            for recipe in (recipe for recipe in recipes if recipe.model == name):
                refusals = Refusals()
                for repeat in range(setting.repeats):
                    answering, seeded = model, _seeded(recipe, repeat)
                    if kept is not None and mode != "off":
                        answering = kept.wrap(model or name, mode=mode, repeat=repeat)
                    for case in cases:
                        with patient(patience):
                            outcome = refusals.stopped or _outcome(seeded, case, answering, setting)
                        if not (refusals.add(outcome) or outcome["from_store"]):
                            patience.over = False  # it answers
                        yield rows.storable({**rows.head(recipe, case, repeat), **outcome, **marks})
        finally:
            if model is not None and name not in models:
                model.close()


def _marks(model: ChatModel | None) -> dict[str, str]:
    """Return what tells versions of model and server apart (Source: ollama-python#514); blank in a replay."""
    try:
        found = model.fingerprint() if model is not None else {}
    except ToolkitError:
        found = {}
    return {"digest": str(found.get("digest", ""))[:19], **{key: str(found.get(key, "")) for key in ("server", "road")}}


def _seeded(recipe: Recipe, repeat: int) -> Recipe:
    """Return the recipe of a repeat: with a seed of its own, unless nothing is drawn."""
    settings = recipe.settings
    if not repeat or settings.temperature == 0:
        return recipe
    return recipe.replace(options={**settings.to_dict(), "seed": settings.seed + repeat})


def _outcome(recipe: Recipe, case: Case, model: Any, setting: _Setting) -> rows.Row:
    """Ask or run one case and return what came of it; only the user's own mistakes raise."""
    facts, where = rows.NO_FACTS, ""
    try:
        if setting.run == "agent":
            world, tools = _stage(case, setting)
            trace = play(Agent(model, tools, recipe=recipe), case)
            facts, where = rows.facts_of_run(trace), trace.traceback
            facts["disarmed"] = rows.sent_as(disarmed(recipe, trace.messages, tools))
            case = replace(case, tools=tuple(tools))  # what really ran says which calls only read
            verdict = score_run(case, trace, world.state if world is not None else {})
        else:
            asked = ask(recipe, case, model=model)
            facts = rows.facts_of_reply(asked)
            verdict = score(case, asked.reply, asked.extraction)
    except MISTAKES:
        raise
    except (Exception, SystemExit) as error:  # whatever happened to one request, the others go on
        if isinstance(failed := getattr(error, "trace", None), Trace):
            facts = rows.facts_of_run(failed)
        said = scrub(f"{type(error).__name__}: {as_text(error)}"[:1000])
        verdict, where = Verdict("server_fault", said), told(error)
    seen = {"outcome": verdict.outcome, "right": verdict.right, "detail": verdict.detail, **verdict.parts}
    return {**seen, **facts, "traceback": where}


def _spread(recipes: list[Recipe], cases: Cases, setting: _Setting, executor: Executor) -> Iterator[rows.Row]:
    """Send blocks of cases to an executor's workers and yield their rows; of a recipe that stops none is sent on."""
    store = setting.store.path if isinstance(setting.store, Store) else setting.store
    setting = replace(setting, store=str(store) if store is not None else None)
    blocks = [(recipe, cases[start : start + BLOCK]) for recipe in recipes for start in range(0, len(cases), BLOCK)]
    futures = [
        executor.submit(_run_block, recipe, [case.to_dict() for case in block], setting) for recipe, block in blocks
    ]
    stopped: dict[str, rows.Row] = {}  # recipe -> what its other rows are
    for recipe in recipes:
        mine = [future for (one, _), future in zip(blocks, futures, strict=True) if one is recipe]
        for future in mine:  # looked at by the worker that is done, before it takes another block
            future.add_done_callback(partial(_stop, recipe.name, mine, stopped))
    for (recipe, block), future in zip(blocks, futures, strict=True):
        with suppress(CancelledError):
            yield from future.result()
            continue
        for repeat, case in itertools.product(range(setting.repeats), block):
            yield rows.storable({**rows.head(recipe, case, repeat), **stopped[recipe.name], **_marks(None)})


def _stop(name: str, others: list[Future[Any]], stopped: dict[str, rows.Row], done: Future[Any]) -> None:
    """Cancel the blocks of a recipe where one was refused again and again."""
    if done.cancelled() or done.exception() is not None or name in stopped:
        return
    refusals = Refusals()
    for row in done.result():
        refusals.add(row)
    if refusals.stopped:
        stopped[name] = refusals.stopped
        for other in others:
            other.cancel()


def _run_block(recipe: Recipe, cases: list[dict[str, Any]], setting: _Setting) -> list[Any]:
    """Run one block; a worker's entry point, so everything it takes can be pickled."""
    found = [case_from_dict(case, worlds=setting.worlds) for case in cases]
    return list(_run([recipe], found, setting, {}, _tells.get(setting.id, lambda _: None)))
