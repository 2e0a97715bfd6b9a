"""Who runs what: list scheduling of jobs on SM slots, as the load each slot ends with."""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import accumulate

from costmodel.plan import Job

Loads = list[tuple[float, int]]
"""`(load, slots)`: that many slots end with that load, in tiles."""

EXACT_WAVES = 4
"""The last jobs that are scheduled one by one, per slot; what runs before them is taken as evenly spread."""
EXACT_JOBS = 1600
"""So many jobs are enough where there are many slots, but never fewer than two waves."""
FEW_RUNS = 8
"""Runs of equal jobs that are always scheduled exactly: their cost does not grow with the number of jobs."""
MANY = 16
"""A run of at least one job for so many slots is faster to place by sorting."""
LEVELS = 64
"""Different loads that are kept apart; of more, neighbours are joined."""


def slot_loads(jobs: Sequence[Job], slots: int, job_tiles: float) -> Loads:
    """List-schedule jobs in order, each to the slot that is free first.

    Args:
        jobs: `(count, tiles)` in launch order.
        slots: CTAs that run at once.
        job_tiles: Fixed cost of a job, in tiles.

    Returns:
        `(load, slots)` in tiles, lightest first, slots without work left out.
    """
    if len(jobs) == 1:
        count, tiles = jobs[0]
        waves, rest = divmod(count, slots)
        load = tiles + job_tiles
        if not waves:
            return [(load, rest)]
        return [(waves * load, slots - rest), ((waves + 1) * load, rest)] if rest else [(waves * load, slots)]
    total = sum(count for count, _ in jobs)
    if total <= slots:
        return _gathered([(tiles + job_tiles, count) for count, tiles in jobs])
    if len(jobs) <= FEW_RUNS:
        return _gathered(_few_runs(jobs, slots, job_tiles))
    exact = min(EXACT_WAVES * slots, max(EXACT_JOBS, 2 * slots))
    heap, tail = _spread_head(jobs, slots, job_tiles, total - exact)
    for count, tiles in tail:
        _run(heap, count, tiles + job_tiles)
    return _levels(heap)


def _few_runs(jobs: Sequence[Job], slots: int, job_tiles: float) -> Loads:
    """Schedule runs of equal jobs, slots of equal load kept together."""
    heap = [(0.0, slots)]
    for count, tiles in jobs:
        _run_together(heap, count, tiles + job_tiles)
    return [(load, width) for load, width in heap if load > 0]


def _run_together(heap: Loads, count: int, load: float) -> None:
    """Give `count` equal jobs to the slots that are free first."""
    if len(heap) == 1:
        busy, width = heap[0]
        waves, rest = divmod(count, width)
        heap[0] = (busy + waves * load, width - rest)
        if rest:
            heappush(heap, (busy + (waves + 1) * load, rest))
        return
    while count:
        busy, width = heappop(heap)
        used = width if width < count else count
        if used < width:
            heappush(heap, (busy, width - used))
        heappush(heap, (busy + load, used))
        count -= used


def _run(heap: list[float], count: int, load: float) -> None:
    """Give `count` equal jobs to the single slots that are free first: one by one, or all at once that come in turn."""
    if count * MANY < len(heap):
        for _ in range(count):
            heapreplace(heap, heap[0] + load)
        return
    heap.sort()
    while count:
        turn = min(count, bisect_right(heap, heap[0] + load))
        heap[:turn] = [busy + load for busy in heap[:turn]]
        heap.sort()
        count -= turn


def _gathered(loads: Loads) -> Loads:
    """Sort, join equal loads, and join neighbours while there are more than `LEVELS`."""
    merged: dict[float, int] = {}
    for load, width in loads:
        merged[load] = merged.get(load, 0) + width
    levels = sorted(merged.items())
    if len(levels) <= LEVELS:
        return levels
    return _levels([load for load, width in levels for _ in range(width)])


def _levels(loads: list[float]) -> Loads:
    """Give the load of single slots as levels of slots, neighbours joined; slots without work left out."""
    loads.sort()
    step = loads[-1] / LEVELS if len(set(loads)) > LEVELS else 0.0
    levels: Loads = []
    start = bisect_right(loads, 0.0)
    while start < len(loads):
        end = bisect_right(loads, loads[start] + step, start)
        load = sum(loads[start:end]) / (end - start) if step else loads[start]
        levels.append((load, end - start))
        start = end
    return levels


def _spread_head(
    jobs: Sequence[Job], slots: int, job_tiles: float, head_jobs: int
) -> tuple[list[float], Sequence[Job]]:
    """Spread the first `head_jobs` evenly (a staircase one job high); give the slots and the jobs that remain."""
    if head_jobs <= 0:
        return [0.0] * slots, jobs
    ends = list(accumulate([count for count, _ in jobs]))
    index = bisect_right(ends, head_jobs)
    left = ends[index] - head_jobs
    count, tiles = jobs[index]
    last = tiles + job_tiles
    done = sum([n * size for n, size in jobs[:index]]) + (count - left) * tiles + head_jobs * job_tiles
    tail = [(left, tiles), *jobs[index + 1 :]]
    level = done / slots
    step = min(last, 2 * level) / slots
    heap = [level + (k - (slots - 1) / 2) * step for k in range(slots)]
    heapify(heap)
    return heap, tail
