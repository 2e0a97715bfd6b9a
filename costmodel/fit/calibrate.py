"""From records of one device to calibration data: choose points, fit, and take intervals from the rest."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from costmodel.fit.choose import MAX_POINTS, choose_points
from costmodel.fit.conformal import Miss, intervals
from costmodel.fit.points import Point
from costmodel.fit.solve import FACTOR, Fit, fit_parameters
from costmodel.fit.split_doubt import split_doubt
from costmodel.fit.variants import fitted_names
from costmodel.machine import Machine
from costmodel.parameters import NUMBERS, Parameters
from costmodel.priors import prior
from costmodel.regime import regimes_of

LEAST_POINTS = 24
"""Rows below which a variant keeps its prior."""
FEW_WORKLOADS, HELD_OUT_EVERY = 32, 3
"""Of fewer workloads one in so many is kept out of the fit; of more, those that no point was chosen from are enough."""
LEAST_KERNEL_ROWS, LEAST_KERNEL_WORKLOADS = 4, 2
"""Rows and workloads that a compiled kernel needs for a factor of its own."""
SIGNIFICANT_DIGITS = 5


def calibrate(points: Iterable[Point], machine: Machine, most: int = MAX_POINTS) -> dict[str, dict[str, Any]]:
    """Fit every backend's variants.

    Args:
        points: Measured calls of one device.
        machine: That device.
        most: Points to fit per variant; all other workloads are held out.

    Returns:
        Backend to its calibration data, as the files under `calibrations/` hold it.
    """
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in points:
        groups[point.emulator.name, point.plan.variant].append(point)
    data: dict[str, dict[str, Any]] = {}
    estimates: dict[str, list[tuple[Point, float]]] = defaultdict(list)
    for (backend, variant), rows in sorted(groups.items()):
        if len(rows) >= LEAST_POINTS:
            emulator = rows[0].emulator
            entry = data.setdefault(
                backend,
                {
                    "schema": 1,
                    "backend": backend,
                    "device": machine.profile_id,
                    "family": machine.family,
                    "clock_hz": machine.clock_hz,
                    "implementation": emulator.implementation,
                    "implementation_version": emulator.implementation_version,
                    "variants": {},
                },
            )
            entry["variants"][variant] = fitted = fit_variant(
                rows, prior(backend, variant, machine), min(most, len(rows) // 2)
            )
            parameters = Parameters(**fitted["parameters"], factors=fitted["factors"])
            estimates[backend] += [(point, point.timing(parameters).seconds) for point in rows]
    for backend, pairs in estimates.items():
        found = split_doubt(pairs)
        if found is not None:
            data[backend]["split_doubt"] = _rounded(found)
    return data


def fit_variant(rows: Sequence[Point], start: Parameters, most: int = MAX_POINTS) -> dict[str, Any]:
    """Fit one variant on at most `most` rows; the workloads left out give the intervals and the error.

    Points are chosen twice: with the prior, then with the first fit, which knows better what each row depends on.
    """
    names = [*fitted_names(rows[0].emulator.name, rows[0].plan.variant), *kernel_factors(rows)]
    few = len({p.workload for p in rows}) < FEW_WORKLOADS
    pool = [p for p in rows if not (few and held_out(p))]
    chosen = choose_points(pool, start, names, most)
    first = fit_parameters([pool[i] for i in chosen], start, names)
    chosen = choose_points(pool, first.parameters, names, most)
    fit = fit_parameters([pool[i] for i in chosen], start, names)
    seen = {pool[i].workload for i in chosen}
    unseen = [p for p in rows if p.workload not in seen]
    return _entry(fit, unseen, sorted(seen))


def held_out(point: Point) -> bool:
    """Whether the point's workload is kept out where there are few: about a third of them, whatever was measured."""
    return int(point.workload, 16) % HELD_OUT_EVERY == 0


def kernel_factors(rows: Sequence[Point]) -> list[str]:
    """Name the factors to fit: one for every compiled kernel with enough rows, but the commonest, which is 1."""
    seen: dict[str, list[str]] = defaultdict(list)
    for p in rows:
        seen[p.plan.kernel].append(p.workload)
    common = max(sorted(seen), key=lambda kernel: len(seen[kernel]))
    enough = [k for k, w in seen.items() if len(w) >= LEAST_KERNEL_ROWS and len(set(w)) >= LEAST_KERNEL_WORKLOADS]
    return [f"{FACTOR}{k}" for k in sorted(enough) if k != common]


def _entry(fit: Fit, unseen: Sequence[Point], seen: Sequence[str]) -> dict[str, Any]:
    misses, shares = [], []
    for point in unseen:
        timing = point.timing(fit.parameters)
        groups = regimes_of(timing, point.plan, point.call.batch.phase)
        misses.append(Miss(point.workload, float(np.log(point.seconds / timing.seconds)), groups))
        shares.append(abs(timing.seconds / point.seconds - 1))
    p = fit.parameters
    return {
        "parameters": {name: _rounded(getattr(p, name)) for name in NUMBERS},
        "factors": {kernel: _rounded(value) for kernel, value in p.factors.items()},
        "fitted": list(fit.names),
        "uncertainty": {name: _rounded(value) for name, value in fit.uncertainty.items()},
        "condition": _rounded(fit.condition),
        "rows": len(fit.errors),
        "intervals": {k: [_rounded(low), _rounded(high)] for k, (low, high) in intervals(misses).items()},
        "held_out": {
            "rows": len(shares),
            "mean_error": _rounded(float(np.mean(shares))) if shares else None,
            "median_error": _rounded(float(np.median(shares))) if shares else None,
            "p95_error": _rounded(float(np.quantile(shares, 0.95))) if shares else None,
        },
        "workloads": list(seen),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
