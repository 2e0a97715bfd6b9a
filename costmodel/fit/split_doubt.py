"""How much faster a split count has to look before it is asked for: what the model errs between counts of one call."""

from collections import defaultdict
from collections.abc import Iterable
from math import ceil, log

from costmodel.fit.points import Point
from costmodel.splits import SPLIT_KNOB, own_choice

LEVEL = 0.9
NOISE = 0.01
"""What two runs of one call differ by."""
LEAST_COUNTS, LEAST_WORKLOADS = 3, 20
"""Counts that a workload needs, and such workloads that the figure needs."""


def split_doubt(estimates: Iterable[tuple[Point, float]]) -> float | None:
    """Give the share by which the best count must beat the library's own choice to be faster nine times of ten.

    Errors between counts of one call are far smaller than errors of the call itself: what the call costs anyway is in
    both. None where too few workloads were measured with several counts.

    Args:
        estimates: Measured calls of one backend, each with its estimate in seconds.
    """
    groups: dict[tuple[str, ...], list[tuple[Point, float]]] = defaultdict(list)
    for point, seconds in estimates:
        if point.emulator.name in SPLIT_KNOB:
            groups[_all_but_splits(point)].append((point, seconds))
    shortfalls = []
    for rows in groups.values():
        own = next((row for row in rows if _is_own_choice(row[0])), None)
        best = min(rows, key=lambda row: row[1])
        if own is not None and len(rows) >= LEAST_COUNTS and best is not own:
            shortfalls.append(log(best[0].seconds / own[0].seconds) - log(best[1] / own[1]))
    if len(shortfalls) < LEAST_WORKLOADS:
        return None
    rank = min(ceil((len(shortfalls) + 1) * LEVEL), len(shortfalls))
    return max(sorted(shortfalls)[rank - 1], 0.0) + NOISE


def _all_but_splits(point: Point) -> tuple[str, ...]:
    set_by = own_choice(point.emulator.name)
    others = (f"{knob}={value}" for knob, value in sorted(point.call.knobs.items()) if knob not in set_by)
    return (point.workload, *others)


def _is_own_choice(point: Point) -> bool:
    return all(point.call.knobs[knob] == value for knob, value in own_choice(point.emulator.name).items())
