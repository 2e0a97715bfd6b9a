"""List scheduling against a schedule made job by job, and its approximation of long lists."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.schedule import EXACT_JOBS, EXACT_WAVES, FEW_RUNS, LEVELS, slot_loads


def one_by_one(jobs, slots, job_tiles):
    heap = [0.0] * slots
    for count, tiles in jobs:
        for _ in range(count):
            heapq.heapreplace(heap, heap[0] + tiles + job_tiles)
    return sorted(load for load in heap if load > 0)


def flat(loads):
    return sorted(load for load, width in loads for _ in range(width))


def runs(most):
    return st.lists(st.tuples(st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=most)


@given(jobs=runs(FEW_RUNS), slots=st.integers(1, LEVELS), job_tiles=st.sampled_from([0.0, 0.5, 2.0]))
def test_few_runs_equal_scheduling_one_by_one(jobs, slots, job_tiles):
    assert flat(slot_loads(jobs, slots, job_tiles)) == pytest.approx(one_by_one(jobs, slots, job_tiles))


@given(jobs=st.lists(st.tuples(st.just(1), st.integers(1, 30)), min_size=1, max_size=40), slots=st.integers(10, LEVELS))
def test_few_waves_equal_scheduling_one_by_one(jobs, slots):
    assert len(jobs) <= EXACT_WAVES * slots
    assert flat(slot_loads(jobs, slots, 1.0)) == pytest.approx(one_by_one(jobs, slots, 1.0))


@given(jobs=runs(40), slots=st.integers(1, 300))
def test_all_tiles_are_run_and_bounds_hold(jobs, slots):
    loads = slot_loads(jobs, slots, 0.0)
    total = sum(count * tiles for count, tiles in jobs)
    longest = max(tiles for _, tiles in jobs)
    assert sum(load * width for load, width in loads) == pytest.approx(total)
    assert total / slots <= loads[-1][0] * (1 + 1e-9)
    assert loads[-1][0] <= total / slots + longest + 1e-9
    assert len(loads) <= LEVELS + 1


@given(jobs=runs(60), slots=st.integers(1, 40))
def test_long_lists_end_within_one_job_of_exact_ones(jobs, slots):
    exact = one_by_one(jobs, slots, 1.0)
    longest = max(tiles for _, tiles in jobs) + 1.0
    assert abs(slot_loads(jobs, slots, 1.0)[-1][0] - exact[-1]) <= longest * (1 + 1e-9)


@pytest.mark.parametrize("slots", [100, 800])
def test_no_jump_where_exact_scheduling_ends(slots):
    head = [(1, n) for n in range(1, FEW_RUNS + 1)]
    rest = min(EXACT_WAVES * slots, EXACT_JOBS) - len(head)
    below = slot_loads([*head, (rest, 9)], slots, 1.0)
    above = slot_loads([*head, (rest + 1, 9)], slots, 1.0)
    assert abs(above[-1][0] - below[-1][0]) <= 10  # one more job of that size
