"""Beyond one machine: dask's executor runs the same sweep, replies in the one store."""

import pytest

import toolkit as tk
from toolkit import resources

distributed = pytest.importorskip("distributed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning")
def test_dask_gives_the_same_rows_as_one_process():
    recording = resources.root() / "data" / "recordings" / "evaluate.jsonl"
    recipes = tk.load_recipes(resources.path("notebooks/batch/recipes"))[:2]
    cases = tk.load_cases("all", "demo")
    alone = tk.evaluate(recipes, cases, store=recording, mode="replay", progress=False)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        spread = tk.evaluate(
            recipes, cases, store=recording, mode="replay", progress=False, executor=client.get_executor()
        )
    assert list(spread.rows["case"]) == list(alone.rows["case"])
    assert list(spread.rows["outcome"]) == list(alone.rows["outcome"])
