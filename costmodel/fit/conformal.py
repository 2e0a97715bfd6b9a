"""Split conformal prediction: 90 % intervals from errors on workloads that the fit has not seen, per group of calls."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp

from costmodel.regime import OTHER_KERNELS

COVERAGE = 0.9
"""Share of measurements that an interval is to hold."""
LEAST_WORKLOADS = 20
"""Workloads that a group needs for an interval of its own; smaller ones take the interval of all rows, if wider."""


@dataclass(frozen=True, slots=True)
class Miss:
    """How far one row that was not fitted is from its estimate."""

    workload: str
    """Key of the workload: its rows, which differ in knobs only, err together."""
    error: float
    """Log of measured over predicted."""
    groups: tuple[str, ...]
    """Groups that the row belongs to."""


def intervals(misses: Sequence[Miss]) -> dict[str, tuple[float, float]]:
    """Give each group's interval as factors on the estimate.

    A call takes the widest interval of its groups. Alone that would hold too much, so all are scaled by the quantile
    of error over widest interval, but those of few workloads.

    Returns:
        Group to `(low, high)`, and `all` for calls of groups that are not named. Kernels of few workloads are one.
    """
    sizes = _workloads(misses)
    misses = [replace(miss, groups=tuple(_joined(group, sizes) for group in miss.groups)) for miss in misses]
    groups: dict[str, list[Miss]] = defaultdict(list)
    for miss in misses:
        for group in miss.groups:
            groups[group].append(miss)
    common = half_width(misses)
    few = {group for group, size in _workloads(misses).items() if size < LEAST_WORKLOADS}
    widths = {group: max(half_width(own), common if group in few else 0.0) for group, own in groups.items()}
    scale = half_width([replace(m, error=m.error / max(widths[g] for g in m.groups)) for m in misses])
    scaled = {g: width if g in few else width * min(scale, 1.0) for g, width in widths.items()}
    scaled["all"] = common
    return {group: (exp(-width), exp(width)) for group, width in sorted(scaled.items())}


def half_width(misses: Sequence[Miss]) -> float:
    """Give the conformal quantile of absolute errors, each workload with weight 1; the largest where there are few."""
    if not misses:
        return 1.0
    rows = Counter(miss.workload for miss in misses)
    rank = ceil((len(rows) + 1) * COVERAGE)
    ordered = sorted((abs(miss.error), 1 / rows[miss.workload]) for miss in misses)
    passed = 0.0
    for width, weight in ordered:
        passed += weight
        if passed >= rank - 1e-9:
            return width
    return ordered[-1][0]


def _workloads(misses: Sequence[Miss]) -> dict[str, int]:
    """Count the workloads of each group."""
    seen: dict[str, set[str]] = defaultdict(set)
    for miss in misses:
        for group in miss.groups:
            seen[group].add(miss.workload)
    return {group: len(workloads) for group, workloads in seen.items()}


def _joined(group: str, sizes: dict[str, int]) -> str:
    return OTHER_KERNELS if group.startswith("kernel:") and sizes[group] < LEAST_WORKLOADS else group
