"""What choosing without measuring costs: the measured time of the model's choice over that of the best."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.accuracy import Row, grouped
from costmodel.splits import SPLIT_KNOB
from costmodel.workload import workload_key

LEAST_COUNTS = 3
"""Split counts that a workload needs for its choice to be judged."""


@dataclass(frozen=True, slots=True)
class Regret:
    """Loss of a choice over several workloads."""

    workloads: int
    mean: float
    """Geometric mean of chosen over best measured time."""
    worst: float
    top1: float
    """Share of workloads where the choice is within the noise of the best."""
    default: float | None = None
    """The same mean for the library's own choice, where it was measured."""
    worst_against_default: float | None = None
    """Largest chosen over default time."""


def choice_regret(rows: Iterable[Row]) -> Regret | None:
    """Judge the choice of backend and knobs over the workloads where several candidates were measured."""
    groups = grouped(rows, lambda r: (workload_key(r.attention, r.batch),))
    return _regret([g for g in groups.values() if len({r.backend for r in g}) > 1], lambda g: None)


def split_regret(rows: Iterable[Row]) -> Regret | None:
    """Judge the choice of a split count within each backend, against the best of the measured counts."""
    splittable = [r for r in rows if r.backend in SPLIT_KNOB]
    groups = grouped(splittable, lambda r: (r.backend, workload_key(r.attention, r.batch)))
    return _regret([g for g in groups.values() if len(g) >= LEAST_COUNTS], _default)


def _default(rows: Sequence[Row]) -> Row | None:
    knob = SPLIT_KNOB[rows[0].backend]
    own = 8 if rows[0].backend == "triton" else 0
    unset = {knob: own, "split_mode": "auto"}
    return next((r for r in rows if all(r.knobs.get(k, v) == v for k, v in unset.items())), None)


def _regret(groups: Sequence[Sequence[Row]], default: Callable[[Sequence[Row]], Row | None]) -> Regret | None:
    if not groups:
        return None
    losses, hits, defaults, against = [], [], [], []
    for rows in groups:
        best = min(rows, key=lambda r: r.measured)
        chosen = min(rows, key=lambda r: (r.prediction.seconds, r.prediction.num_splits))
        losses.append(chosen.measured / best.measured)
        hits.append(chosen.measured <= best.measured * (1 + max(best.noise, 0.01)))
        own = default(rows)
        if own is not None:
            defaults.append(own.measured / best.measured)
            against.append(chosen.measured / own.measured)
    return Regret(
        workloads=len(losses),
        mean=float(np.exp(np.mean(np.log(losses)))),
        worst=max(losses),
        top1=float(np.mean(hits)),
        default=float(np.exp(np.mean(np.log(defaults)))) if defaults else None,
        worst_against_default=max(against) if against else None,
    )
