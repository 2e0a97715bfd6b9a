"""Who runs what: list scheduling of jobs on SM slots, as the load each slot ends with."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from costmodel.plan import Job

EXACT_JOBS = 1024
"""Jobs that are scheduled one by one; of longer lists the head is taken as evenly spread, the tail stays exact."""


def slot_loads(jobs: Sequence[Job], slots: int, job_tiles: float) -> list[tuple[float, int]]:
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
        loads: dict[float, int] = {}
        for count, tiles in jobs:
            loads[tiles + job_tiles] = loads.get(tiles + job_tiles, 0) + count
        return sorted(loads.items())
    heap, tail = _spread_head(jobs, slots, job_tiles, total - EXACT_JOBS)
    for count, tiles in tail:
        load = tiles + job_tiles
        while count:
            busy, width = heappop(heap)
            used = width if width < count else count
            if used < width:
                heappush(heap, (busy, width - used))
            heappush(heap, (busy + load, used))
            count -= used
    loads = {}
    for load, width in heap:
        if load > 0:
            loads[load] = loads.get(load, 0) + width
    return sorted(loads.items())


def _spread_head(
    jobs: Sequence[Job], slots: int, job_tiles: float, head_jobs: int
) -> tuple[list[tuple[float, int]], list[Job]]:
    """Spread the first `head_jobs` evenly (a staircase one job high); give the slots and the jobs that remain."""
    if head_jobs <= 0:
        return [(0.0, slots)], list(jobs)
    done, index, last = 0.0, 0, 0.0
    remaining = head_jobs
    tail: list[Job] = []
    for count, tiles in jobs:
        index += 1
        last = tiles + job_tiles
        if count > remaining:
            done += remaining * last
            tail.append((count - remaining, tiles))
            break
        done += count * last
        remaining -= count
    tail.extend(jobs[index:])
    level = done / slots
    step = min(last, 2 * level) / slots
    heap = [(level + (k - (slots - 1) / 2) * step, 1) for k in range(slots)]
    heapify(heap)
    return heap, tail
