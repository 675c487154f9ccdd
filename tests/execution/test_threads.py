"""Threads and loops free their callers, and lose nothing."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading

import pytest

from toolkit.execution.threads import OutOfTime, in_order, run_coroutine, within


def failing():
    raise ValueError("boom")


def test_results_come_in_the_order_of_the_jobs():
    gates = [threading.Event() for _ in range(3)]

    def job(index):
        if index < 2:
            gates[index + 1].wait(5)
        gates[index].set()
        return index

    assert list(in_order([lambda i=i: job(i) for i in range(3)], 3)) == [0, 1, 2]


def test_a_job_that_raises_is_not_waited_for_for_ever():
    with pytest.raises(ValueError, match="boom"):
        list(in_order([failing, failing], 2))


def test_no_job_is_started_after_the_caller_stopped_listening():
    ran, gate = [], threading.Event()

    def job():
        ran.append(1)
        gate.wait(5)

    jobs = in_order([lambda: None, *[job] * 20], 1)
    next(jobs)
    jobs.close()
    gate.set()
    assert len(ran) <= 1


def test_own_timeouts_are_told_apart_from_ours():
    def own():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        within(own, 5)
    gate = threading.Event()
    with pytest.raises(OutOfTime):
        within(gate.wait, 0.01)
    gate.set()


async def answer():
    return 42


def test_coroutines_run_where_a_loop_runs_and_inside_each_other():
    async def outer():
        return run_coroutine(answer()) + 1

    assert run_coroutine(answer()) == 42
    assert run_coroutine(outer(), 5) == 43
    assert asyncio.run(outer()) == 43


def in_child(queue):
    queue.put(run_coroutine(answer(), 5))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_a_loop_of_its_own():
    run_coroutine(answer())
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=10) == 42
    child.join(10)
